/**
 * Tasks as projects see them.
 *
 *   submitted -> completed     every object is final, in whatever way
 *   completed -> submitted     lines that ended in an error run again
 *   submitted -> failed        no object could be made: its file has no readable line
 */
import type { Hold } from "../../engine/items/holds.ts";
import type { Money } from "../../price/money.ts";
import type { ItemFacts } from "../../work/item.ts";
import type { Json } from "../../work/json.ts";
import type { Failure, Output } from "../../work/outcome.ts";
import type { ObjectStatus, TaskCounts } from "../../work/task.ts";

/** A task without its objects. */
export interface TaskView {
  /** UUID. */
  readonly id: string;
  readonly project: string;
  readonly status: "submitted" | "completed" | "failed";
  /** Cancelled: unsent objects will not be sent. */
  readonly isCancelled: boolean;
  /** Rises with every retry of lines that had ended in an error. */
  readonly retries: number;
  readonly totalItems: number;
  /** Of its items, `<provider>:<name>`; empty where they are not known, as for small tasks that share a file. */
  readonly models: readonly string[];
  /** Uploaded files that it reads. */
  readonly fileIds: readonly string[];
  /** They always sum to `totalItems`. */
  readonly counts: TaskCounts;
  readonly createdWallMs: number;
  /** Latest deadline of its items; absent without one. */
  readonly deadlineWallMs?: number;
  /** Set once it is final. */
  readonly finishedWallMs?: number;
  /** Estimated end while it is open; absent if its models are not known, and while the accounts that it waits for are stopped. */
  readonly expectedEndWallMs?: number;
  /** While it is open: whether items with an sla are expected to end after their deadline, or wait for a stopped account. */
  readonly isSlaAtRisk?: boolean;
  /** What holds items of the task; empty if nothing does. */
  readonly held: readonly Hold[];
  readonly hasOutputFile: boolean;
  /** Use of objects that are final; for a task with its own run, money of all its attempts. */
  readonly usage: Money & { readonly inputTokens: number; readonly outputTokens: number };
  readonly note?: string;
  /** Differs whenever any shown part of the task or its objects differs; short, safe in an ETag. */
  readonly version: string;
}

/** The result of a retry request. */
export interface RetriedTask {
  readonly task: TaskView;
  /** Lines that this call runs again. */
  readonly items: number;
}

/** Part of a list in its order. */
export interface Page<T> {
  readonly items: readonly T[];
  /** Whether more items follow the last. */
  readonly hasMore: boolean;
}

export interface PageQuery {
  /** Id of the last item that the caller has. Throws `not_found` if it does not exist. */
  readonly after?: string;
  /** 1 to 1,000. */
  readonly limit: number;
}

/** An answered line, for writers of other layouts. */
export interface AnsweredLine {
  readonly objectId: string;
  /** Null if the line had no readable key. */
  readonly key: string | null;
  readonly status: Exclude<ObjectStatus, "submitted">;
  readonly output: Output | null;
  readonly error: Failure | null;
  /** As the provider counted; 0 if it did not answer. */
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
  /** Further facts of its line. */
  readonly facts: ItemFacts;
  /** The provider's body of an answer, if it is kept: its JSON without line ends, and parsed. */
  readonly body?: { readonly json: string; readonly value: Json };
}

/** Which lines of a task's answers. */
export type OutputView = "all" | "answers" | "errors";

/** The answers of a task as a file of lines (interface 2.6), as they are durable now. */
export interface TaskOutput {
  /** False while lines are missing. Once true the bytes do not change, unless lines run again. */
  readonly isComplete: boolean;
  /** Undefined for a view whose size is known only by reading it. */
  readonly bytes: number | undefined;
  /** ETag of the complete file; undefined before. */
  readonly etag: string | undefined;
  /** Complete lines; `start` and `end` (exclusive) in bytes only if `bytes` is known. */
  read(range?: { readonly start: number; readonly end: number }): AsyncIterable<Uint8Array>;
}
