/**
 * What callers see of an engine.
 */
import type { PlannedQuote } from "../price/planned_quote.ts";
import type { Item } from "../work/item.ts";
import type { Task, TaskObject } from "../work/task.ts";
import type { Source } from "./files/input.ts";
import type { Hold } from "./items/holds.ts";
import type { LaneStatus } from "./lanes/lane_status.ts";
import type { Plan } from "./plans/plan.ts";
import type { PlanOptions } from "./plans/plan_source.ts";
import type { QuoteOptions } from "./runs/quote.ts";
import type { Run } from "./runs/run.ts";
import type { EngineRunOptions } from "./runs/run_open.ts";
import type { CountedBatches } from "./shown/batch_status.ts";
import type { RetryOptions, RetryTaskOptions } from "./submissions/retry.ts";
import type { SubmitOptions } from "./submissions/submissions.ts";
import type { SubmittedTask } from "./submissions/submitted_task.ts";
import type { ItemTrace } from "./trace.ts";

/** Runs work; every method may be called at any time until `close`. Programs get it with names in camelCase (library.ts). */
export interface Engine {
  /**
   * Answers every item of a source. A list is copied, its items are read while the run goes on. Iterate it for the output lines, or wait for `finished`. The same source, output
   * or id again continues where it was.
   */
  run(source: Source, options?: EngineRunOptions): Run;
  /**
   * Takes a list (interface 2.1), and reads it before it returns. Resolves when all items are stored durably and those without sla are final: the
   * task then holds their outcome. When the provider's account stops them, it resolves where a run would end as
   * `paused`, and they go on in the background. Throws `usage` for an empty list, an invalid item, or more than 64 different
   * slas. Aborting rejects with the signal's reason; a task that is stored by then continues all the same.
   * With an `id` the same items are the same task, in whichever process; other items under it are `conflict`.
   * What it returns also has `finished`, and is iterated for its objects as they become final.
   */
  submit(items: readonly Item[], options?: SubmitOptions): SubmittedTask;
  /** A task by its id; throws `not_found`. */
  task(id: string): Promise<Task>;
  /** An object by its id; throws `not_found`. */
  object(id: string): Promise<TaskObject>;
  /**
   * Removes what the data folder holds of a task: of a run (`summary.task_id`), which starts from the beginning when it is called
   * again, or of a submitted list. An output that the caller named stays. Throws `not_found`, and `conflict` while the
   * task is at work.
   */
  forget(taskId: string): Promise<void>;
  /**
   * Ends what was not sent of a submitted list as `cancelled`, and resolves with the task when that is durable. What is in flight is still
   * answered; what is answered stays. Changes nothing of a list that is final. Throws `not_found`.
   */
  cancel(taskId: string): Promise<Task>;
  /** Runs failed lines of a run again, on the terms of its last call but its listeners, signal and `skip`. Throws `not_found`, and `usage` for a stream. */
  retry(taskId: string, options?: RetryOptions): Promise<Run>;
  /**
   * Runs items of a submitted list again that ended in an error; resolves as `submit` does. From then on they are open, also
   * after a crash. Throws `not_found`, `conflict` while the list is at work, `usage` for a code that no item ends with.
   */
  retryTask(taskId: string, options?: RetryTaskOptions): Promise<Task>;
  /**
   * The life of one item: when it was accepted, held, sent, answered and written, and why. `id` is that of an object, or with `key` the
   * `task_id`, the output or the `id` of a run. Reads the journal of its run once. Throws `not_found`.
   */
  trace(id: string, key?: string): Promise<ItemTrace>;
  /** Counts and prices a source without sending anything. */
  quote(source: Source, options?: QuoteOptions): Promise<PlannedQuote>;
  /** Says which lanes the items of a source would go to, when and why, without sending anything. */
  plan(source: Source, options?: PlanOptions): Promise<Plan>;
  /** Items of all runs at work that wait, by what holds them; empty while nothing does. */
  holds(): readonly Hold[];
  /** The state of each lane that was ever used; cheap enough for once a second. */
  lanes(): readonly LaneStatus[];
  /** Batches at providers: what they do, and hints to look. */
  readonly batches: CountedBatches;
  /** Stops runs as `stop()` does, waits for what is in flight (at most 30 s), and frees everything. */
  close(): Promise<void>;
}
