/**
 * The summary table at the end of a run.
 */
import type { Summary } from "../engine/progress.ts";
import { count, duration, usd } from "./numbers.ts";

/** Models without a price that are named. */
const UNPRICED_SHOWN_MAX = 5;

/** Aligned rows of label and value, with a line end. */
export function summaryTable(summary: Summary): string {
  const { counts, usage, cost } = summary;
  const seconds = Math.max(0.001, summary.elapsed_ms / 1_000);
  const rate =
    summary.requests_sent === 0
      ? "nothing was sent"
      : `${count(summary.requests_sent)} requests, ${count(summary.requests_sent / seconds)}/s`;
  const rows: [string, string][] = [
    [
      "items",
      `${count(summary.items)} (${count(counts.completed)} answered, ${count(summary.items - counts.completed - counts.submitted)} with an error)`,
    ],
    ...Object.entries(summary.errors).map(([code, lines]): [string, string] => [`  ${code}`, count(lines)]),
    ["tokens", `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`],
    ["cost", costText(cost)],
    ["time", `${elapsed(summary.elapsed_ms)} (${rate})`],
    ["answers", summary.output],
  ];
  if (usage.ambiguous_attempts > 0)
    rows.splice(-3, 0, [
      "ambiguous",
      `${count(usage.ambiguous_attempts)} attempts may have been billed without an answer`,
    ]);
  const unpriced = cost.prices.filter(({ source }) => source === null).map(({ model }) => model);
  if (unpriced.length > 0) rows.splice(-2, 0, ["no price", unpricedText(unpriced)]);
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${rows.map(([label, value]) => `${label.padEnd(width)}  ${value}`).join("\n")}\n`;
}

/** Tenths of a second where minutes would hide them. */
function elapsed(ms: number): string {
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : duration(ms);
}

function unpricedText(models: readonly string[]): string {
  const shown = models.slice(0, UNPRICED_SHOWN_MAX).join(", ");
  const more =
    models.length > UNPRICED_SHOWN_MAX ? ` and ${count(models.length - UNPRICED_SHOWN_MAX)} more` : "";
  return `${shown}${more}: counted as $0, and no --max-cost bounds it`;
}

function costText(cost: Summary["cost"]): string {
  const estimated = cost.is_estimated ? ", partly estimated" : "";
  const list = cost.saved_usd > 0 ? ` after the price factor, ${usd(cost.list_usd)} at list price` : "";
  return `${usd(cost.usd)}${list} (${cost.price_source}${estimated})`;
}
