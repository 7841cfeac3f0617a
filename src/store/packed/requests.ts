/**
 * What the main thread and the store's thread say to each other: plain data, with all bytes in buffers that move.
 *
 * The thread answers in the order of the requests, and answers all calls of one group commit in one message. Request
 * 0 is the opening itself, which the thread begins on its own.
 */
import type { MessagePort } from "node:worker_threads";
import type { ErrorCode } from "../../errors.ts";
import type { FileChange, WantedBytes } from "../file_rows.ts";
import type { LogCommit, LoggedTaskQuery } from "../log_rows.ts";
import { EVERY_PROJECT, type ProjectScope, type RecordQuery } from "../records.ts";
import type { StoredEntry, StoredTask } from "../store.ts";
import type { PackedChanges } from "./pack_changes.ts";

/** Where the thread of SQLite keeps its store. */
export interface SqliteFolder {
  readonly dataDir: string;
  readonly reserveBytes: number;
}

/** What every thread of a store is started with, beside where its store is. */
export interface StoreThreadData {
  /** Requests arrive and answers are sent here. */
  readonly port: MessagePort;
  /** One number: messages of answers sent so far. */
  readonly answered: Int32Array;
  /** One number: until when the store's lease lasts, in milliseconds of the machine's monotonic clock. Without a lease it stays as it is. */
  readonly leased: BigInt64Array;
}

/** Entries as columns; `bytes` holds all records end to end. */
export interface PackedEntries {
  readonly taskIds: readonly string[];
  readonly wallMs: readonly number[];
  readonly sizes: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** What is written and synced with them. */
  readonly outputs?: PackedOutputs | undefined;
}

/** Outputs as columns, of open files that this process has under these numbers. */
export interface PackedOutputs {
  readonly taskIds: readonly string[];
  readonly descriptors: readonly number[];
  readonly positions: readonly number[];
  readonly sizes: readonly number[];
  /** Moved to the store's thread, or shared with it. */
  readonly bytes: Uint8Array;
}

/** A commit of the work log; its outputs as columns. */
export interface PackedLog extends Omit<LogCommit, "outputs"> {
  readonly outputs?: PackedOutputs | undefined;
}

/** Where a page begins: of a task's entries after a sequence, or of all entries, newest first, before a row. */
export type PageStart =
  | { readonly taskId: string; readonly afterSequence: number }
  | { readonly taskId: undefined; readonly beforeRow: number };

/** Entries in order, and where the next page begins; undefined when this was the last. */
export interface EntryPage {
  readonly entries: readonly StoredEntry[];
  readonly next: PageStart | undefined;
}

export type WriteRequest =
  | { readonly kind: "append"; readonly id: number; readonly packed: PackedEntries }
  | { readonly kind: "putTask"; readonly id: number; readonly task: StoredTask }
  | { readonly kind: "deleteTask"; readonly id: number; readonly taskId: string }
  | { readonly kind: "change"; readonly id: number; readonly packed: PackedChanges }
  | { readonly kind: "commitLog"; readonly id: number; readonly packed: PackedLog }
  | { readonly kind: "changeFiles"; readonly id: number; readonly changes: readonly FileChange[] };

export type ReadRequest =
  | { readonly kind: "task"; readonly id: number; readonly taskId: string }
  | { readonly kind: "taskByName"; readonly id: number; readonly name: string }
  | {
      readonly kind: "tasks";
      readonly id: number;
      readonly after: string | undefined;
      readonly limit: number;
    }
  | { readonly kind: "page"; readonly id: number; readonly start: PageStart }
  | {
      readonly kind: "record";
      readonly id: number;
      readonly project: PackedScope;
      readonly collection: string;
      readonly recordId: string;
    }
  | {
      readonly kind: "records";
      readonly id: number;
      readonly project: PackedScope;
      readonly query: RecordQuery;
    }
  | { readonly kind: "logEntries"; readonly id: number; readonly after: number }
  | { readonly kind: "loggedTask"; readonly id: number; readonly key: string | number }
  | { readonly kind: "loggedTasks"; readonly id: number; readonly query: LoggedTaskQuery }
  | {
      readonly kind: "loggedAnswers";
      readonly id: number;
      readonly task: number;
      readonly from: number;
      readonly limit: number;
    }
  | { readonly kind: "files"; readonly id: number; readonly asked: FilesAsked }
  | LoneRequest;

/** A read of `FileRows`. */
export type FilesAsked =
  | { readonly what: "owner" }
  | { readonly what: "file"; readonly path: string }
  | { readonly what: "segments"; readonly file: number; readonly after: number }
  | { readonly what: "bytes"; readonly file: number; readonly wanted: readonly WantedBytes[] }
  | { readonly what: "names"; readonly folder: string }
  | { readonly what: "named"; readonly objects: readonly string[] };

/** Done between two groups. */
export interface LoneRequest {
  readonly kind: "takeReserve" | "scrub" | "openLog";
  readonly id: number;
}

/** A scope as data, for a symbol cannot be sent: undefined means every project. */
export type PackedScope = string | undefined;

export function packScope(project: ProjectScope): PackedScope {
  return project === EVERY_PROJECT ? undefined : project;
}

export type StoreRequest = WriteRequest | ReadRequest | { readonly kind: "close"; readonly id: number };

/** What a request ends with; which value belongs to which request is kept by `threaded_store.ts`. */
export type StoreReply =
  | { readonly id: number; readonly ok: true; readonly value: unknown }
  | {
      readonly id: number;
      readonly ok: false;
      readonly code: ErrorCode;
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };

/** One message of the thread. */
export interface StoreReplies {
  readonly replies: readonly StoreReply[];
  /** True while the reserve is released. */
  readonly isSpaceLow: boolean;
}
