/**
 * The stored form of a task: which lines of which lots are its objects. JSON in `StoredRecord.body`.
 *
 * The record has the task's texts as its payload only while the task shares its lot with others: JSON lines, one per item.
 */
import type { StoredRecord } from "../../store/records.ts";
import { stemOf } from "../../work/object_id.ts";

export const TASKS = "task";
/** Records of cancelled tasks in shared lots, by lot. */
export const CANCELS = "cancel";

/** Objects of a task in one lot, in the order of its lines. */
export interface TaskPart {
  readonly lotId: string;
  /** Line of the first of them; lines count from 1. */
  readonly firstLine: number;
  /** Lines that they span, including blank ones. */
  readonly lines: number;
  readonly items: number;
  readonly slaMinutes: number | null;
  /** For a part that runs lines of another part again; its lines keep their numbers. */
  readonly again?: PartAgain;
}

/** Lines that had ended in an error and run again. */
export interface PartAgain {
  /** Index of their part, which is not a retry itself. */
  readonly part: number;
  readonly sinceWallMs: number;
  /** Their earlier ends, which do not count any more. */
  readonly replaced: {
    /** Their answers are damaged; absent in records of older versions. */
    readonly completed?: number;
    readonly failed: number;
    readonly expired: number;
    readonly cancelled: number;
  };
}

/** What a task consists of; the state of its objects is in its lots. */
export interface TaskRecord {
  readonly id: string;
  readonly project: string;
  readonly createdWallMs: number;
  readonly totalItems: number;
  readonly volumeTokens: number;
  readonly hasOutputFile: boolean;
  readonly note?: string;
  /** As of posted tasks. */
  readonly endsWithCaller?: true;
  readonly parts: readonly TaskPart[];
  /** The order of the objects: alternately a part's index and how many of its items follow. */
  readonly spans: readonly number[];
  /** For each object, if counted at submission. */
  readonly inputTokens?: readonly number[];
  /** For each object, or one number for all. */
  readonly factors?: number | readonly number[];
  /** It is older than tasks of the work log from this number on; if absent, than all. */
  readonly beforeTask?: number;
  /** Its estimated cost at admission, in USD. */
  readonly estimatedUsd?: number;
  /** Only for a shared lot: unsent objects will not be sent. */
  readonly isCancelled?: true;
  /** The number of parts at that time: later parts are not cancelled. If absent, all are. */
  readonly cancelledParts?: number;
  /** When it was cancelled. */
  readonly cancelledWallMs?: number;
}

/** Whether unsent objects of a part, by default the last one, will not be sent. */
export function isPartCancelled(
  { isCancelled, cancelledParts, parts }: Pick<TaskRecord, "isCancelled" | "cancelledParts" | "parts">,
  part: number = parts.length - 1,
): boolean {
  return isCancelled === true && part < (cancelledParts ?? parts.length);
}

/** How often its failed lines ran again, summed over all parts. */
export function retriesOf({ parts }: Pick<TaskRecord, "parts">): number {
  return parts.reduce((count, { again }) => count + (again === undefined ? 0 : 1), 0);
}

/** The stored record. `payload` as above. */
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

/** Reads the result of `taskToRecord`. */
export function recordToTask({ project, createdWallMs, body }: StoredRecord): TaskRecord {
  const own = JSON.parse(body) as Omit<TaskRecord, "project" | "createdWallMs">; // written by this file
  return { ...own, project, createdWallMs };
}

/** Stored beside the record of a task that shares a lot. */
export function cancelToRecord({ id, project, createdWallMs }: TaskRecord, lotId: string): StoredRecord {
  return { collection: CANCELS, id: stemOf(id), project, parent: lotId, createdWallMs, body: "{}" };
}
