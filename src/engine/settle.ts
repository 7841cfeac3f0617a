/**
 * Settling: an outcome becomes a price, a journal record and an output line.
 */
import type { FailureCode } from "../errors.ts";
import { completedLine, failedLine } from "../jsonl/write.ts";
import type { PriceBook } from "../price/price_book.ts";
import type { Failure, Outcome, Usage } from "../work/outcome.ts";
import { NO_USAGE } from "../work/outcome.ts";
import type { ItemCall } from "./item_call.ts";
import { type PricedCost, priced } from "./item_cost.ts";
import { NOTHING_SPENT, type OutcomeRecord, type Spent } from "./journal.ts";
import type { RunState } from "./run_state.ts";

type StagedOutcome = Omit<OutcomeRecord, "lineBytes">;

/** What an answer to a call cost. */
export function costOfUsage(
  prices: PriceBook,
  call: ItemCall,
  usage: Usage,
  wallMs: number,
  servedTier?: string,
): PricedCost {
  return priced(prices, call.run.settings, call.model, usage, { wallMs, servedTier });
}

/** Records how a sent item ended and calls back when that is durable. */
export function settleOutcome(
  call: ItemCall,
  outcome: Outcome,
  cost: PricedCost,
  whenDurable: () => void,
): void {
  const { run } = call;
  const record = recordOf(call, outcome, cost);
  const line =
    outcome.status === "completed"
      ? completedLine(call.keyJson, outcome.output.text, outcome.output.finish_reason ?? "stop")
      : failedLine(call.keyJson, call.line, {
          ...outcome.failure,
          attempts: outcome.failure.attempts + call.accountRefusals,
          line: call.line,
        });
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
    ...spentOf(made?.spent ?? NOTHING_SPENT),
  };
  stage(run, record, failedLine(keyJson, line, failure), whenDurable);
}

function stage(run: RunState, record: StagedOutcome, line: string, whenDurable?: () => void): void {
  run.settings.totals.add(record);
  const { log, observer, project } = run.settings;
  log.outcome(record, line, () => {
    run.finished(record.line);
    if (observer !== undefined) {
      const { status, code, inputTokens, outputTokens, listUsd, usd } = record;
      observer.settled({ project, status, code, inputTokens, outputTokens, listUsd, usd });
    }
    whenDurable?.();
  });
}

/** What an item took before this call, and this usage and cost. */
export function spentWith(call: ItemCall, usage: Usage, cost: PricedCost): Spent {
  const before = call.spent;
  return {
    isEstimated: before.isEstimated || usage.isEstimated || (cost.isEstimated && usage !== NO_USAGE),
    inputTokens: before.inputTokens + usage.inputTokens,
    cachedTokens: before.cachedTokens + usage.cachedTokens,
    outputTokens: before.outputTokens + usage.outputTokens,
    reasoningTokens: before.reasoningTokens + usage.reasoningTokens,
    listUsd: before.listUsd + cost.listUsd,
    usd: before.usd + cost.usd,
    priceNumber: cost.priceNumber,
  };
}

/** Hot: its parts are named, because V8 takes 0.6 us to spread an object with fractions in it. */
function recordOf(call: ItemCall, outcome: Outcome, cost: PricedCost): StagedOutcome {
  const spent = spentWith(call, outcome.usage, cost);
  return {
    line: call.line,
    status: outcome.status,
    code: outcome.status === "completed" ? undefined : outcome.failure.code,
    attempts: outcome.attempts + call.accountRefusals,
    ambiguousAttempts: outcome.ambiguousAttempts,
    isEstimated: spent.isEstimated,
    inputTokens: spent.inputTokens,
    cachedTokens: spent.cachedTokens,
    outputTokens: spent.outputTokens,
    reasoningTokens: spent.reasoningTokens,
    listUsd: spent.listUsd,
    usd: spent.usd,
    priceNumber: spent.priceNumber,
  };
}

/** Without what else the record holds. */
function spentOf(spent: Spent): Spent {
  const { isEstimated, inputTokens, cachedTokens, outputTokens, reasoningTokens } = spent;
  const { listUsd, usd, priceNumber } = spent;
  return {
    isEstimated,
    inputTokens,
    cachedTokens,
    outputTokens,
    reasoningTokens,
    listUsd,
    usd,
    priceNumber,
  };
}
