/**
 * What is stored of a batch of OpenAI's interface, beside the task that does its work and has the same id.
 *
 *   open -> ended     `parent` is `open` until then, so that a start finds what is left to do
 *
 * Once it has ended, only the record describes it: the task may be erased.
 */
import type { RecordStore, StoredRecord } from "../../store/records.ts";
import type { KeptRecords } from "../../tasks/retention.ts";

export const BATCHES = "openai_batch";
export const OPEN = "open";

/** A line of the input that could not be read as a request. */
export interface ServedBatchFault {
  readonly code: string;
  readonly message: string;
  /** From 1. */
  readonly line: number;
}

/** How a batch ended. */
export interface ServedBatchEnd {
  readonly kind: "completed" | "failed" | "expired" | "cancelled";
  /** When its last request was final, and when its files were ready. */
  readonly finalWallMs: number;
  readonly endedWallMs: number;
  readonly total: number;
  readonly completed: number;
  readonly hasOutput: boolean;
  readonly hasErrors: boolean;
  /** The first of them. */
  readonly faults?: readonly ServedBatchFault[];
}

/** What OpenAI's interface shows of a batch and its task does not have. */
export interface ServedBatchRecord {
  /** UUID, its task's too. */
  readonly id: string;
  readonly project: string;
  readonly createdWallMs: number;
  readonly endpoint: string;
  /** As requested, and what it means. */
  readonly completionWindow: string;
  readonly windowMs: number;
  readonly inputFileId: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Chosen before the files are made, so that they are made once. */
  readonly outputFileId: string;
  readonly errorFileId: string;
  readonly cancellingWallMs?: number;
  readonly end?: ServedBatchEnd;
}

/** Open ones are found by their parent, `OPEN`. */
export function batchToRecord(batch: ServedBatchRecord): StoredRecord {
  const { id, project, createdWallMs, ...body } = batch;
  const parent = batch.end === undefined ? OPEN : "";
  return { collection: BATCHES, id, project, parent, createdWallMs, body: JSON.stringify(body) };
}

/** What `batchToRecord` made. */
export function recordToBatch({ id, project, createdWallMs, body }: StoredRecord): ServedBatchRecord {
  const own = JSON.parse(body) as Omit<ServedBatchRecord, "id" | "project" | "createdWallMs">; // written by this file
  return { ...own, id, project, createdWallMs };
}

/** ServedBatches go so long after they have ended. */
export function keptBatches(store: RecordStore, keepMs: number): KeptRecords {
  return {
    collection: BATCHES,
    keepMs,
    remove: async (record, oldestWallMs) => {
      const { id, end } = recordToBatch(record);
      if (end === undefined || end.endedWallMs > oldestWallMs) return false;
      await store.change([{ kind: "delete", collection: BATCHES, id }]);
      return true;
    },
  };
}
