/**
 * Settling: an outcome becomes a price, a journal record and an output line.
 */
import type { FailureCode } from "../errors.ts";
import { completedLine, failedLine } from "../jsonl/write.ts";
import { costOf, type ItemCost } from "../price/cost.ts";
import { laneFactor, laneTierOf } from "../price/lane_factors.ts";
import type { PriceBook } from "../price/price_book.ts";
import type { Cost, Failure, Outcome, Usage } from "../work/outcome.ts";
import { NO_USAGE } from "../work/outcome.ts";
import { parseModelId } from "../work/request.ts";
import type { ItemCall } from "./item_call.ts";
import type { OutcomeRecord } from "./journal.ts";
import type { RunState } from "./run_state.ts";

type StagedOutcome = Omit<OutcomeRecord, "lineBytes">;

/** What an answer cost: its real usage at list price, that times the run's price factor, and what the provider bills. */
export function costOfUsage(
  prices: PriceBook,
  call: ItemCall,
  usage: Usage,
  wallMs: number,
  servedTier?: string,
): ItemCost {
  const id = parseModelId(call.model);
  const price = id === undefined ? undefined : prices.price(id, wallMs);
  const lane = laneFactor(id?.provider ?? "", laneTierOf(servedTier));
  return costOf(usage, price, {
    factor: call.run.settings.factorOf(call.model),
    laneFactor: lane?.factor ?? 1,
    laneCachedFactor: lane?.cachedFactor ?? 1,
  });
}

/** Records how a sent item ended and calls back when that is durable. */
export function settleOutcome(call: ItemCall, outcome: Outcome, cost: Cost, whenDurable: () => void): void {
  const { run } = call;
  const record = recordOf(call.line, outcome, cost);
  const line =
    outcome.status === "completed"
      ? completedLine(call.keyJson, outcome.output.text, outcome.output.finish_reason ?? "stop")
      : failedLine(call.keyJson, call.line, { ...outcome.failure, line: call.line });
  stage(run, record, line, whenDurable);
}

/** Records an item or line that ends without a request. `keyJson` is null when the key could not be read. */
export function settleUnsent(
  run: RunState,
  line: number,
  keyJson: string | null,
  end: {
    readonly status: "failed" | "expired" | "cancelled";
    readonly code: FailureCode;
    readonly message: string;
  },
  whenDurable?: () => void,
): void {
  const made = run.made.get(line);
  const failure: Failure = {
    code: end.code,
    message: end.message,
    retryable: end.code === "expired" || end.code === "cancelled" || end.code === "budget_exceeded",
    attempts: made?.attempts ?? 0,
    ambiguous_attempts: made?.ambiguousAttempts ?? 0,
    line,
  };
  const record: StagedOutcome = {
    line,
    status: end.status,
    code: end.code,
    attempts: failure.attempts,
    ambiguousAttempts: failure.ambiguous_attempts,
    isEstimated: false,
    ...tokensOf(NO_USAGE),
    listUsd: 0,
    usd: 0,
  };
  stage(run, record, failedLine(keyJson, line, failure), whenDurable);
}

function stage(run: RunState, record: StagedOutcome, line: string, whenDurable?: () => void): void {
  run.settings.totals.add({ ...record, lineBytes: 0 });
  run.settings.log.outcome(record, line, () => {
    run.finished(record.line);
    whenDurable?.();
  });
}

function recordOf(line: number, outcome: Outcome, cost: Cost): StagedOutcome {
  return {
    line,
    status: outcome.status,
    code: outcome.status === "completed" ? undefined : outcome.failure.code,
    attempts: outcome.attempts,
    ambiguousAttempts: outcome.ambiguousAttempts,
    isEstimated: outcome.usage.isEstimated || cost.isEstimated,
    ...tokensOf(outcome.usage),
    listUsd: cost.listUsd,
    usd: cost.usd,
  };
}

function tokensOf(
  usage: Usage,
): Pick<OutcomeRecord, "inputTokens" | "cachedTokens" | "outputTokens" | "reasoningTokens"> {
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = usage;
  return { inputTokens, cachedTokens, outputTokens, reasoningTokens };
}
