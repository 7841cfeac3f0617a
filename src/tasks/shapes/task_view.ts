/**
 * Tasks as projects see them.
 *
 *   submitted -> completed     every object is final, in whatever way
 *   completed -> submitted     lines that ended in an error run again
 *   submitted -> failed        no object could be made: its file had no line that could be read
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
  /** Cancelled: what is not yet sent will not be. */
  readonly isCancelled: boolean;
  /** Rises with every retry of lines that had ended in an error. */
  readonly retries: number;
  readonly totalItems: number;
  /** They always sum to `totalItems`. */
  readonly counts: TaskCounts;
  readonly createdWallMs: number;
  /** Latest deadline of its items; absent when it has none. */
  readonly deadlineWallMs?: number;
  /** Once it is final. */
  readonly finishedWallMs?: number;
  /** Estimated end while it is open; absent where its models are not known, and while the accounts that it waits for are stopped. */
  readonly expectedEndWallMs?: number;
  /** While it is open: whether items with an sla are expected to end behind their deadline, or wait for a stopped account. */
  readonly isSlaAtRisk?: boolean;
  /** What holds items of the task; empty while nothing does. */
  readonly held: readonly Hold[];
  readonly hasOutputFile: boolean;
  /** Of what is final by now; of a task with a run of its own, money of all its attempts. */
  readonly usage: Money & { readonly inputTokens: number; readonly outputTokens: number };
  readonly note?: string;
  /** Differs whenever anything shown of the task or its objects differs; short, safe in an ETag. */
  readonly version: string;
}

/** The result of a retry request. */
export interface RetriedTask {
  readonly task: TaskView;
  /** Lines that run again by this call. */
  readonly items: number;
}

/** Part of a list in its order. */
export interface Page<T> {
  readonly items: readonly T[];
  /** Whether there are more behind the last. */
  readonly hasMore: boolean;
}

export interface PageQuery {
  /** Id of the last item that the caller has. Throws `not_found` when there is none. */
  readonly after?: string;
  /** 1 to 1,000. */
  readonly limit: number;
}

/** One answered line, for those who write other layouts. */
export interface AnsweredLine {
  readonly objectId: string;
  /** Null when the line had none that could be read. */
  readonly key: string | null;
  readonly status: Exclude<ObjectStatus, "submitted">;
  readonly output: Output | null;
  readonly error: Failure | null;
  /** As the provider counted; 0 when it did not answer. */
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
  /** What its line says besides. */
  readonly facts: ItemFacts;
  /** The provider's body of an answer, where it is kept: its JSON without line ends, and parsed. */
  readonly body?: { readonly json: string; readonly value: Json };
}

/** Which lines of a task's answers. */
export type OutputView = "all" | "answers" | "errors";

/** The answers of a task as a file of lines (interface 2.6), as they are durable now. */
export interface TaskOutput {
  /** False while lines are missing. Once true the bytes do not change, unless lines run again. */
  readonly isComplete: boolean;
  /** Undefined for a view that must be read to be known. */
  readonly bytes: number | undefined;
  /** Of the complete file; undefined before. */
  readonly etag: string | undefined;
  /** Whole lines; `start` and `end` (exclusive) in bytes only where `bytes` is known. */
  read(range?: { readonly start: number; readonly end: number }): AsyncIterable<Uint8Array>;
}
