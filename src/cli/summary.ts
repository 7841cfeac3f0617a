/**
 * The summary table at the end of a run.
 */
import type { Summary } from "../engine/progress.ts";
import { count, duration, usd } from "./numbers.ts";

/** Aligned rows of label and value, with a line end. */
export function summaryTable(summary: Summary): string {
  const { counts, usage, cost } = summary;
  const seconds = Math.max(0.001, summary.elapsed_ms / 1_000);
  const rows: [string, string][] = [
    [
      "items",
      `${count(summary.items)} (${count(counts.completed)} answered, ${count(summary.items - counts.completed - counts.submitted)} with an error)`,
    ],
    ...Object.entries(summary.errors).map(([code, lines]): [string, string] => [`  ${code}`, count(lines)]),
    ["tokens", `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`],
    ["cost", costText(cost)],
    ["time", `${duration(summary.elapsed_ms)} (${count(summary.requests_sent / seconds)} requests/s)`],
    ["answers", summary.output],
  ];
  if (usage.ambiguous_attempts > 0)
    rows.splice(-3, 0, [
      "ambiguous",
      `${count(usage.ambiguous_attempts)} attempts may have been billed without an answer`,
    ]);
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${rows.map(([label, value]) => `${label.padEnd(width)}  ${value}`).join("\n")}\n`;
}

function costText(cost: Summary["cost"]): string {
  const estimated = cost.is_estimated ? ", partly estimated" : "";
  const saved = cost.saved_usd > 0 ? `, ${usd(cost.saved_usd)} below list` : "";
  return `${usd(cost.usd)}${saved} (${cost.price_source}${estimated})`;
}
