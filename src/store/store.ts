/**
 * The port for durable state: tasks, one append-only journal per task, records (`records.ts`), and the rows of the work log
 * (`log_rows.ts`).
 *
 * The journal holds what the write protocol needs (docs/decisions/0004-journal.md): which requests were about to be
 * sent, how items ended, how far the output file was written. Its `records` are opaque here; `engine/journal/journal.ts`
 * reads and writes them.
 */
import type { PerigeeError } from "../errors.ts";
import type { LogStore, OutputWrite } from "./log_rows.ts";
import type { RecordStore } from "./records.ts";

export type { OutputWrite };

/** A task as stored. `body` is the engine's JSON; the store never looks inside. */
export interface StoredTask {
  /** UUID. */
  readonly id: string;
  /** The caller's name for the work: asking again with the same name continues it. Unique. */
  readonly name: string;
  readonly createdWallMs: number;
  readonly body: string;
}

/** One durable step of one task. */
export interface JournalEntry {
  readonly taskId: string;
  /** Unix time of the step. */
  readonly wallMs: number;
  readonly records: Uint8Array;
  /** Bytes of a file of the caller's that the records speak of. */
  readonly output?: OutputWrite | undefined;
}

/** A journal entry as read back; `sequence` rises within a task, without gaps or repeats. */
export interface StoredEntry extends Omit<JournalEntry, "output"> {
  readonly sequence: number;
}

/**
 * Port. One owner at a time: opening a store that another process (or another engine of this one) holds throws
 * `data_dir_in_use`. Calls may overlap and take effect in the order of the calls. A write has survived a power cut
 * when its promise resolves, and is whole or absent after a crash. When a write rejects with `disk_full`, nothing of
 * it happened and it may be called again; when it rejects with `store_failed`, the store is unusable and every later
 * call rejects likewise (an fsync that failed is not repeated). After `close` every call rejects with `closed`.
 */
export interface Store extends RecordStore, LogStore {
  /**
   * Whether no other process can have this store by now, as far as this one's own monotonic clock knows: false once its lease may have
   * ended, until it was renewed. Absent for stores that nobody takes over.
   */
  isHeld?(): boolean;
  /** Inserts or replaces by id; throws `conflict` when another task has the name. */
  putTask(task: StoredTask): Promise<void>;
  task(id: string): Promise<StoredTask | undefined>;
  taskByName(name: string): Promise<StoredTask | undefined>;
  /** Tasks in order of creation, at most `limit` after the given id. */
  tasks(options: { readonly after?: string; readonly limit: number }): Promise<readonly StoredTask[]>;
  /**
   * Appends all entries in one transaction, in their order. Outputs are written before it and synced beside it: when
   * the promise resolves, both have survived a power cut; after a crash before that, any of them may exist.
   * An output that cannot be written or synced rejects with `output_unwritable` (`outputs.ts` says whose and why); after
   * a failed write nothing of the call is in the journal, and it may be called again. After a failed sync its entries may be
   * in the journal, and are never added later.
   */
  append(entries: readonly JournalEntry[]): Promise<void>;
  /** Resolves with what a call was refused with as the store became unusable; never rejects. Absent: it never fails. */
  readonly failed?: Promise<PerigeeError>;
  /** Takes in answers that have arrived, for a caller whose turn of the event loop is long. Cheap without any. */
  poll?(): void;
  /** Entries of a task in order, read in pages of bounded size. */
  journal(taskId: string): AsyncIterable<StoredEntry>;
  /**
   * Entries of all tasks, the last appended first, read in pages of bounded size: what the limiter counts after a
   * restart. A reader that has enough stops.
   */
  latestEntries(): AsyncIterable<StoredEntry>;
  /** Removes a task and its journal. No error if it does not exist. */
  deleteTask(id: string): Promise<void>;
  /**
   * When it resolves, no file of the store holds what was deleted before. For now and then: nothing else is done meanwhile,
   * for some tens of milliseconds.
   */
  scrub(): Promise<void>;
  close(): Promise<void>;
}
