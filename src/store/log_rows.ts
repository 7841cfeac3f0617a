/**
 * Part of the port `Store`: what the work log (`src/log`) keeps. Entries of opaque records, one a commit for all tasks; rows of
 * tasks with their requests; answers by task and item; and names, so that records need no texts.
 *
 *   entry    appended -> deleted (`cutTo`, once what it says has been said again)
 *   task     accepted -> its request erased -> removed
 *   answer   stored -> its text erased -> removed (with its task, or because its item is open again)
 */
import type { DiskFile } from "../disk.ts";

/** Rows of tasks as columns: column `i` of each belongs to task `numbers[i]`. */
export interface AcceptedRows {
  /** Of the log, whole, rising. */
  readonly numbers: readonly number[];
  /** Unique among all rows. */
  readonly ids: readonly string[];
  /** Number of a name. */
  readonly projects: readonly number[];
  readonly kinds: readonly number[];
  /** What each belongs to, to find it by; empty when it belongs to nothing. */
  readonly parents: readonly string[];
  readonly createdWallMs: readonly number[];
  /** JSON of its owner, without texts of users: it stays when the request is erased. */
  readonly bodies: readonly string[];
  readonly requestSizes: readonly number[];
  /** All requests, end to end. */
  readonly requests: Uint8Array<ArrayBuffer>;
}

/** Answers as columns; `records` and `texts` hold those of all, end to end. */
export interface AnswerRows {
  readonly tasks: readonly number[];
  readonly items: readonly number[];
  readonly recordSizes: readonly number[];
  readonly textSizes: readonly number[];
  readonly records: Uint8Array<ArrayBuffer>;
  readonly texts: Uint8Array<ArrayBuffer>;
}

/** Items as columns. */
export interface ItemRows {
  readonly tasks: readonly number[];
  readonly items: readonly number[];
}

/** Bytes that become durable together with an entry. The file stays the caller's, who keeps it open meanwhile. */
export interface OutputWrite {
  readonly file: DiskFile;
  readonly position: number;
  readonly bytes: Uint8Array;
}

/** Bytes of a task's file that become durable together with a commit. */
export interface LogOutput extends OutputWrite {
  readonly task: number;
}

/**
 * One commit: all of it happens, or nothing. Takes effect in the order of its members. Its buffers belong to the store from
 * the call on.
 */
export interface LogCommit {
  readonly outputs: readonly LogOutput[];
  /** Each a number, from 1 without gaps, and its text. */
  readonly names: readonly (readonly [number: number, text: string])[];
  readonly accepted: AcceptedRows;
  /** Removes answers, text and record. No error if nothing is stored. */
  readonly dropped: ItemRows;
  /** Replaces an existing row. */
  readonly answers: AnswerRows;
  /** Bodies that replace those that tasks have; the request of a spent task is deleted. */
  readonly bodies: readonly (readonly [task: number, body: string, isSpent: boolean])[];
  /** Tasks whose request and texts of answers go; records of answers stay. */
  readonly erased: readonly number[];
  /** Tasks whose rows go. */
  readonly removed: readonly number[];
  /** Follows that of the last entry. */
  readonly sequence: number;
  readonly records: Uint8Array<ArrayBuffer>;
  /** Entries up to this one are deleted; 0: none. */
  readonly cutTo: number;
}

export interface StoredLogEntry {
  readonly sequence: number;
  readonly records: Uint8Array;
}

/** A task's row. */
export interface LoggedTask {
  readonly number: number;
  readonly id: string;
  /** Number of a name. */
  readonly project: number;
  readonly kind: number;
  readonly parent: string;
  readonly createdWallMs: number;
  readonly body: string;
  /** Undefined once it is erased, and in lists. */
  readonly request?: Uint8Array | undefined;
  /** The answer of item 0, so that a task of one item is read at once. Undefined without one, and in lists. */
  readonly first?: LoggedAnswer | undefined;
}

export interface LoggedAnswer {
  readonly item: number;
  readonly record: Uint8Array;
  /** Undefined once it is erased. */
  readonly text?: Uint8Array | undefined;
}

/** Which tasks to list, in the order of their numbers: those that are all that is said. */
export interface LoggedTaskQuery {
  readonly project?: number | undefined;
  readonly kind?: number | undefined;
  /** Not empty. */
  readonly parent?: string | undefined;
  /** Some of these. */
  readonly numbers?: readonly number[] | undefined;
  /** Begins after this number. */
  readonly after?: number | undefined;
  readonly limit: number;
  /** The newest first. */
  readonly isNewestFirst?: boolean | undefined;
}

/** What is known of a log when it is opened. */
export interface OpenedLog {
  /** In the order of their numbers, from 1. */
  readonly names: readonly string[];
  /** The highest number among the rows of tasks; 0 without any. */
  readonly lastTask: number;
  /** What the operator should know of how it was opened, such as that the folder was migrated. */
  readonly notes: readonly string[];
}

/** Part of the port `Store`; its promises are those of `store.ts`. Except for `openLog`, nothing is called before `openLog` has resolved. */
export interface LogStore {
  /** Makes the tables where they are missing. */
  openLog(): Promise<OpenedLog>;
  /**
   * Outputs are written first and synced beside the rest, with the errors of `append`. Throws `conflict`, with nothing done,
   * when an id is in use; `usage` above 512 MiB.
   */
  commitLog(commit: LogCommit): Promise<void>;
  /** In order. Throws `store_damaged` when one is not as it was written, or missing between two others. */
  logEntries(): AsyncIterable<StoredLogEntry>;
  /** By id or number; undefined without one. */
  loggedTask(key: string | number): Promise<LoggedTask | undefined>;
  /** Without requests. */
  loggedTasks(query: LoggedTaskQuery): Promise<readonly LoggedTask[]>;
  /** From item `from` on, as many as a page has: at least one while there are any, at most `limit`. */
  loggedAnswers(task: number, from: number, limit: number): Promise<readonly LoggedAnswer[]>;
}
