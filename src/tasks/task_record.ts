/**
 * What is stored of a task: which lines of which lots are its objects. JSON in `StoredRecord.body`.
 *
 * A task's own texts are the record's payload only while it shares its lot with others: JSON lines, one an item.
 */
import type { StoredRecord } from "../store/records.ts";
import { stemOf } from "../work/object_id.ts";

export const TASKS = "task";
/** Of tasks in shared lots that were cancelled, by lot. */
export const CANCELS = "cancel";

/** Objects of a task that stand in one lot, in the order of its lines. */
export interface TaskPart {
  readonly lotId: string;
  /** Of the first of them; lines count from 1. */
  readonly firstLine: number;
  /** Lines that they span, blank ones included. */
  readonly lines: number;
  readonly items: number;
  readonly slaMinutes: number | null;
}

/** What a task is made of; how its objects stand is in its lots. */
export interface TaskRecord {
  readonly id: string;
  readonly project: string;
  readonly createdWallMs: number;
  readonly totalItems: number;
  readonly volumeTokens: number;
  readonly hasOutputFile: boolean;
  readonly note?: string;
  readonly parts: readonly TaskPart[];
  /** The order of the objects: a part's index and how many of its items follow, again and again. */
  readonly spans: readonly number[];
  /** Of each object, where they were counted at submission. */
  readonly inputTokens?: readonly number[];
  /** Of each object, or of all when it is one number. */
  readonly factors?: number | readonly number[];
  /** What it was estimated to cost when it was admitted, in USD. */
  readonly estimatedUsd?: number;
  /** In a shared lot, where nothing else says so: what is not sent will not be. */
  readonly isCancelled?: true;
  /** Since when. */
  readonly cancelledWallMs?: number;
}

/** As stored. `payload` as above. */
export function taskToRecord(task: TaskRecord, payload?: Uint8Array): StoredRecord {
  const { project, createdWallMs, ...body } = task;
  return {
    collection: TASKS,
    id: stemOf(task.id),
    project,
    parent: payload === undefined ? "" : (task.parts[0]?.lotId ?? ""),
    createdWallMs,
    body: JSON.stringify(body),
    ...(payload === undefined ? {} : { payload }),
  };
}

/** What `taskToRecord` made. */
export function recordToTask({ project, createdWallMs, body }: StoredRecord): TaskRecord {
  const own = JSON.parse(body) as Omit<TaskRecord, "project" | "createdWallMs">; // written by this file
  return { ...own, project, createdWallMs };
}

/** Beside the record of a task that shares a lot. */
export function cancelToRecord({ id, project, createdWallMs }: TaskRecord, lotId: string): StoredRecord {
  return { collection: CANCELS, id: stemOf(id), project, parent: lotId, createdWallMs, body: "{}" };
}
