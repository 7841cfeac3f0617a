/**
 * The tasks of projects: accepts them durably, gathers them into runs, finds, cancels and erases them.
 */
import type { FailureCode } from "../../errors.ts";
import type { Receipt } from "../../jsonl/receipts.ts";
import type { TaskObject } from "../../work/task.ts";
import type { TaskRequest } from "./requests.ts";
import type {
  AnsweredLine,
  OutputView,
  Page,
  PageQuery,
  RetriedTask,
  TaskOutput,
  TaskView,
} from "./task_view.ts";

/** The end of a task. */
export interface TaskEvent {
  readonly kind: "completed" | "failed";
  readonly project: string;
  readonly taskId: string;
}

/**
 * Every method may be called at any time and concurrently. A project sees only its own tasks: those of others, and unknown ids, throw
 * `not_found` alike.
 */
export interface Tasks {
  /**
   * Resolves when the task is durable and its items without sla are final. Throws `usage` for an invalid request (`details.param` names
   * the item and field, such as `0.sla`), `not_found` for a file of another project or an unknown one, `too_many` above 1,000 items
   * without sla, `sla_infeasible` (`details.earliestSlaMinutes`), `budget_exceeded`.
   */
  submit(project: string, request: TaskRequest): Promise<TaskView>;
  task(project: string, id: string): Promise<TaskView>;
  /** Newest first. */
  list(project: string, query: PageQuery): Promise<Page<TaskView>>;
  /** In the order of submission. With a view that `submit` or `task` returned, objects are as they were at its moment, and no look-up is needed. */
  objects(project: string, task: string | TaskView, query: PageQuery): Promise<Page<TaskObject>>;
  object(project: string, objectId: string): Promise<TaskObject>;
  /** How an object was sent and what it took. Throws `conflict` until it has ended. */
  receipt(project: string, objectId: string): Promise<Receipt>;
  /** Sends nothing more; requests in flight and answers stay. Idempotent, also once it is final. */
  cancel(project: string, id: string): Promise<TaskView>;
  /**
   * Runs lines again that ended in an error: those whose error is marked retryable and those that expired, or those with one of the
   * codes. Their new outcomes replace the errors, and their window starts over. Durable when it resolves; with 0 items nothing has
   * changed. Throws `usage` for a code that no line ends with (`details.param`), `conflict` if its file was removed, `file_damaged`,
   * `too_many` after 64 retries, and what `submit` throws for lack of time, space or money.
   */
  retry(project: string, id: string, codes?: readonly FailureCode[]): Promise<RetriedTask>;
  /** Erases its texts and answers; throws `conflict` while objects are not final. */
  remove(project: string, id: string): Promise<void>;
  output(project: string, id: string, view?: OutputView): Promise<TaskOutput>;
  /** Final lines, with what they used. */
  answers(project: string, id: string, view?: OutputView): AsyncIterable<AnsweredLine>;
  /**
   * Calls back when a task is final: at least once for each, and again after a retry, also after a restart. A restart repeats a call
   * whose promise had not resolved. Returns a function that stops it.
   */
  onFinished(listener: (event: TaskEvent) => void | Promise<void>): () => void;
}
