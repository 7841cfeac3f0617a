/**
 * The options of a run.
 */
import type { Moment } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { RateCard } from "../../price/factor.ts";
import type { LineField, LineFormat } from "../../work/line_layout.ts";
import { type CacheOptions, checkCache } from "../config/cache_terms.ts";
import type { LaneOptions } from "../config/lane_rules.ts";
import type { Hold, HoldReason } from "../items/holds.ts";
import type { TakenEarlier } from "../journal/item_cost.ts";
import type { StepListener } from "../journal/task_log.ts";
import type { RetryFailed } from "../reopening/reopen.ts";
import type { SchemaOptions } from "../schemas/run_schema.ts";
import type { PilotOptions } from "./pilot_options.ts";
import type { ProgressOptions } from "./progress_feed.ts";
import type { CostOptions, EngineCostOptions } from "./run_budget.ts";
import type { MissingListener, WarningListener } from "./warning_feed.ts";

/** Options of `engine.run`. What its listeners (`on...`, but `onPilot`) throw changes nothing; the process is warned once. */
export interface RunOptions
  extends ProgressOptions,
    CostOptions,
    PilotOptions,
    LaneOptions,
    SchemaOptions,
    CacheOptions {
  /** Minutes, 1 to 43,200; absent: at once. */
  readonly sla?: number;
  /** Where the answers go; default: a file in the data folder. */
  readonly out?: string;
  /** Names the work, so that the same name continues it; default: the output's path, or fresh for iterables. */
  readonly id?: string;
  /** As the engine's option of that name, for this run; default: the engine's. Throws `usage` with `at_most_once`. */
  readonly hedge?: boolean;
  /** Answers in the order of the input. */
  readonly ordered?: boolean;
  /**
   * Of the output lines: `perigee` (default); `openai`: the layout of OpenAI's batch output, `raw`: `{"key","body"}`, both with
   * the provider's own body. `lines()` then yields lines of that form. A run keeps the format that it began with.
   */
  readonly format?: LineFormat;
  /** Members beside `key` and `output`, for lines written from this call on; default: all. Only with `perigee`. */
  readonly fields?: readonly LineField[];
  /**
   * A file to which a receipt for each line is written when the run ends: what was sent how, and what it cost in nano-USD, chained by
   * hashes (`docs/guide/receipts.md`). Of a run that is over, it is written if it is missing. Throws `output_unwritable` for a file
   * that is not the receipts of this run.
   */
  readonly receipts?: string;
  /**
   * Runs lines again that ended in an error; their new answers replace the errors. True: those whose error is marked
   * `retryable`, and those that expired; not those that were cancelled. Codes: those that ended with one of them.
   */
  readonly retryFailed?: RetryFailed;
  /**
   * The input may have changed since the last call: lines that are as they were keep their answers, new and changed ones
   * run. A file only.
   */
  readonly update?: boolean;
  /** With `update`: lines of the output whose keys are no longer in the input are removed. */
  readonly prune?: boolean;
  /** Runs every line on this model instead of its own. */
  readonly model?: string;
  /** Aborting stops the run as `stop()` does. */
  readonly signal?: AbortSignal;
  /**
   * How long what passes by itself is waited for (an outage, limits, an account stop) while nothing else is left, in
   * milliseconds from the last answer; 0: not at all. The run then ends as `paused`, and the same call continues it. What
   * only the caller can change is not waited for. Default: the engine's `waitMs`.
   */
  readonly waitMs?: number;
  /** Ends what is held in an error with its true reason, where the run would end as `paused`. Default false. */
  readonly finish?: boolean;
  /**
   * Ends as `detached` as soon as all that is left is with batches that exist at their providers; the same call, with it or
   * without, collects them. What no batch can take is answered before. Not with `finish`. Default false.
   */
  readonly detach?: boolean;
  /** Called, once for each hold, where the run would end as `paused`; with it the run continues instead, until its sla. */
  readonly onHeld?: (reason: HoldReason) => void;
  /** Called once for each setting that is left out for a model, when the first line with it is read. */
  readonly onWarning?: WarningListener;
  /**
   * Called once for each provider that is not configured or has no key, when the first line for it is read, and before anything
   * of the same block is sent: its lines are held, those of others go on.
   */
  readonly onMissing?: MissingListener;
  /** Whose work it is: projects share what a lane can do by their weights. Absent: that of all runs without a project. */
  readonly project?: string;
  /** Share of the project against others that wait, above 0; 1. Of its runs at work, the one opened last decides. */
  readonly weight?: number;
  /**
   * Asked of each line at the last moment before its request is recorded, and before a retry waits for its turn: when
   * true, the line ends as `cancelled` instead. Must be cheap; what is in flight is answered all the same. If it throws, or
   * returns a promise, the run fails with `usage` and sends nothing more.
   */
  readonly skip?: (line: number) => boolean;
}

/** With those that only the engine's own work sets; programs cannot (library.ts). */
export interface EngineRunOptions extends RunOptions, EngineCostOptions {
  /** From when the sla counts, as it was read then, perhaps in another process; default: when the run is first opened. */
  readonly accepted?: Moment;
  /** Tokens that the price factor counts as the volume; default: a quarter of the input's bytes. */
  readonly volumeTokens?: number;
  /** What the price factors follow from; default: the engine's. */
  readonly rateCard?: RateCard;
  /**
   * The source replaces one that is lost, and need not be the same. What is left of the run ends with the sla, held by this,
   * and without one as `skip` says; nothing is sent before.
   */
  readonly standIn?: Hold;
  /**
   * An output that was cut or changed is continued where it ends by the journal, instead of `output_changed`: its reader finds the
   * damaged lines by their checksums, and none of them is sent again.
   */
  readonly keepsDamage?: boolean;
  /** What a line took in earlier runs of its item: its output line counts that too, this run does not. The same at every call. */
  readonly takenEarlier?: (line: number) => TakenEarlier | undefined;
  /** Called with every step that is durable, those of earlier calls first, with its number in the journal or 0. */
  readonly onStep?: StepListener;
}

/** Throws `usage` for an invalid weight; `where` names the call. */
export function checkWeight({ weight }: Pick<EngineRunOptions, "weight">, where: string): void {
  if (weight === undefined || (Number.isFinite(weight) && weight > 0)) return;
  throw new PerigeeError("usage", `${where}: weight must be a number above 0, got ${weight}`);
}

/** Throws `usage` for a cache that cannot be, and where another option would end what is to be left. */
export function checkDetach(
  { detach, finish, ...others }: Pick<RunOptions, "detach" | "finish" | "cache" | "coalesce">,
  where: string,
): void {
  checkCache(others, where);
  if (detach !== true || finish !== true) return;
  throw new PerigeeError(
    "usage",
    `${where}: detach leaves items to a later call, and finish ends them in this one: remove one of them`,
  );
}
