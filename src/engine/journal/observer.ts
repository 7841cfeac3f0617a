/**
 * Reports to one listener what an engine does, item by item: for counters and traces, never for decisions.
 *
 *   attempt at a provider ends -> attempted        item's outcome is durable -> settled        group commit -> committed
 *
 * Hot path: once or twice an item, so reports are read at once and not kept.
 */
import type { FailureCode } from "../../errors.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import type { Usage } from "../../work/outcome.ts";
import type { OutcomeRecord } from "./journal.ts";

/** One request to a provider. */
export interface AttemptReport {
  /** The project of the run; empty for all runs without one. */
  readonly project: string;
  readonly lane: LaneKey;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** Absent on success. */
  readonly code: FailureCode | undefined;
  /** What the provider billed, where it said so or it was estimated. */
  readonly usage: Usage | undefined;
  /** From the send to the decoded answer or failure. */
  readonly latencyMs: number;
}

/** One item that became final in this process. */
export interface SettledReport
  extends Pick<
    OutcomeRecord,
    "status" | "code" | "inputTokens" | "outputTokens" | "listUsd" | "usd" | "billedUsd" | "ambiguousUsd"
  > {
  /** The project of the run; empty for all runs without one. */
  readonly project: string;
  /** As of its last attempt; absent where it ended without one or after the last one, and for posted items. */
  readonly model?: string | undefined;
  /** It was answered from a cache of answers, without a request. */
  readonly isCached?: true;
}

/** Each method is called synchronously; it must be quick and must not throw. */
export interface EngineObserver {
  attempted(report: AttemptReport): void;
  settled(report: SettledReport): void;
  /** What was staged is durable, `durationMs` after it was passed to the store. */
  committed(durationMs: number): void;
}
