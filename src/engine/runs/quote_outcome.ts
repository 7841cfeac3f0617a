/**
 * What the rest of a run was quoted after its pilot, beside what it took: for its summary, and for the bands of later quotes.
 */
import { minusUsd } from "../../price/nano.ts";
import type { EngineCore } from "../core.ts";
import type { Summary } from "../items/progress.ts";
import type { RunState } from "../items/run_state.ts";

/** Of a run whose every line is settled; empty without a pilot. */
export function quoteOutcome({ quoted, settings }: RunState, nowMs: number): Pick<Summary, "quoted"> {
  if (quoted === undefined) return {};
  const { basis, billedUsd, lowUsd, highUsd, beforeUsd, finish, atMs } = quoted;
  return {
    quoted: {
      basis,
      ...{ billed_usd: billedUsd, billed_usd_low: lowUsd, billed_usd_high: highUsd },
      actual_usd: minusUsd(settings.totals.billedUsd, beforeUsd),
      seconds: finish.expected_seconds,
      actual_seconds: atMs === undefined ? null : (nowMs - atMs) / 1_000,
    },
  };
}

/** Lets later quotes follow what this one missed: only runs whose items were all answered, and of which nothing is in doubt. */
export function learnOfQuote(
  { figures }: Pick<EngineCore, "figures">,
  state: RunState,
  summary: Summary,
): void {
  const { quoted, counts, items, cost } = summary;
  if (state.quoted === undefined || quoted === undefined) return;
  if (counts.completed !== items || cost.is_estimated) return;
  figures.quotes.ended(state.quoted, quoted.actual_usd, quoted.actual_seconds ?? undefined);
}
