/**
 * What is stored of a task: which lines of which lots are its objects. JSON in `StoredRecord.body`.
 *
 * A task's own texts are the record's payload only while it shares its lot with others: JSON lines, one an item.
 */
import type { StoredRecord } from "../../store/records.ts";
import { stemOf } from "../../work/object_id.ts";

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
  /** Of a part that runs lines of another part again; its lines have their numbers there. */
  readonly again?: PartAgain;
}

/** Lines that had ended in an error, run again. */
export interface PartAgain {
  /** Whose lines they are: one that is no retry itself. */
  readonly part: number;
  readonly sinceWallMs: number;
  /** How they had ended before, which counts no more. */
  readonly replaced: { readonly failed: number; readonly expired: number; readonly cancelled: number };
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
  /** It is older than tasks of the work log from this number on. Absent: than all. */
  readonly beforeTask?: number;
  /** What it was estimated to cost when it was admitted, in USD. */
  readonly estimatedUsd?: number;
  /** In a shared lot, where nothing else says so: what is not sent will not be. */
  readonly isCancelled?: true;
  /** The number of parts at that time: later parts are not cancelled. Absent: all. */
  readonly cancelledParts?: number;
  /** Since when. */
  readonly cancelledWallMs?: number;
}

/** Whether what is not sent of a part, or of the last one, will not be. */
export function isPartCancelled(
  { isCancelled, cancelledParts, parts }: Pick<TaskRecord, "isCancelled" | "cancelledParts" | "parts">,
  part: number = parts.length - 1,
): boolean {
  return isCancelled === true && part < (cancelledParts ?? parts.length);
}

/** How often failed lines of it were run again, counted for each part. */
export function retriesOf({ parts }: Pick<TaskRecord, "parts">): number {
  return parts.reduce((count, { again }) => count + (again === undefined ? 0 : 1), 0);
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
