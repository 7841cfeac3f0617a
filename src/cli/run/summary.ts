/**
 * The summary table at the end of a run.
 */
import type { Summary } from "../../engine/items/progress.ts";
import type { RunWarning } from "../../engine/runs/warning_feed.ts";
import { usdText } from "../../price/money.ts";
import { billedText, doubtText, savedText } from "../display/amounts.ts";
import { count, duration } from "../numbers.ts";

/** What an item of a run is in its input. */
export type Noun = "line" | "row";

/** Models without a price that are named. */
const UNPRICED_SHOWN_MAX = 5;

/** Aligned rows of label and value, with a line end. `dataDir`: where the state of the run is. */
export function summaryTable(summary: Summary, dataDir?: string): string {
  const { counts, usage, cost } = summary;
  const unpriced = cost.prices.filter(({ source }) => source === null).map(({ model }) => model);
  const isUnpriced = unpriced.length > 0;
  const isTaken = summary.items > counts.submitted || usage.ambiguous_attempts > 0; // refusals cost nothing
  const seconds = Math.max(0.001, summary.elapsed_ms / 1_000);
  const rate =
    summary.requests_sent === 0
      ? "nothing was sent in realtime"
      : `${summary.requests_sent === 1 ? "1 request" : `${count(summary.requests_sent)} requests`}, ${count(summary.requests_sent / seconds)}/s`;
  const rows: [string, string][] = [
    [
      "items",
      `${count(summary.items)} (${count(counts.completed)} answered, ${count(summary.items - counts.completed - counts.submitted)} with an error)`,
    ],
    ...(summary.cached === undefined
      ? []
      : [["  cached", `${count(summary.cached)} answered from the cache, at no cost`] as [string, string]]),
    ...(summary.cut === undefined
      ? []
      : [
          [
            "  cut",
            `${count(summary.cut)} ended at ${summary.cut === 1 ? "its" : "their"} limit of tokens: raise max_output_tokens`,
          ] as [string, string],
        ]),
    ...Object.entries(summary.errors).map(([code, lines]): [string, string] => [`  ${code}`, count(lines)]),
    ...Object.entries(summary.warnings).map(([name, lines]): [string, string] => [
      "warning",
      `${count(lines)} ${lines === 1 ? "item" : "items"} with ${countedText(name)}`,
    ]),
    ["tokens", `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`],
    [
      "billed",
      `${billedText(cost.billed_usd, isUnpriced && isTaken)} (${cost.price_source}${cost.is_estimated ? ", partly estimated" : ""})`,
    ],
    ["time", `${elapsed(summary.elapsed_ms)} (${rate})`],
    ["answers", `${summary.output}${summary.items === counts.submitted ? " (none yet)" : ""}`],
  ];
  if (cost.ambiguous_usd > 0 || usage.ambiguous_attempts > 0)
    rows.splice(-2, 0, [
      "in doubt",
      `${doubtText(cost.ambiguous_usd, isUnpriced)} (${doubtReason(usage.ambiguous_attempts)})`,
    ]);
  const saved = isUnpriced ? undefined : savedText(cost);
  if (saved !== undefined) rows.splice(-2, 0, ["saved", saved]);
  if (isUnpriced) rows.splice(-2, 0, ["no price", unpricedText(unpriced)]);
  const { receipts, quoted } = summary;
  if (quoted !== undefined) rows.splice(-2, 0, ["quoted", quotedText(quoted)]);
  if (dataDir !== undefined) rows.push(["state", dataDir]);
  if (receipts !== undefined) rows.push(["receipts", `${receipts.file} (last hash ${receipts.hash})`]);
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${rows.map(([label, value]) => `${label.padEnd(width)}  ${value}`).join("\n")}\n`;
}

/** What the rest after a pilot was to cost, and cost. */
function quotedText(quoted: NonNullable<Summary["quoted"]>): string {
  const { billed_usd, billed_usd_low, billed_usd_high, actual_usd, basis } = quoted;
  const band = `about ${usdText(billed_usd)}, ${usdText(billed_usd_low)} to ${usdText(billed_usd_high)}`;
  return `the rest at ${band} (${basis}); it took ${usdText(actual_usd)}`;
}

/** Why money is in doubt: attempts without an answer, or else answers of which only an estimate is known. */
export function doubtReason(attempts: number): string {
  if (attempts === 0) return "answers without a usable token count, billed as estimated";
  return `${count(attempts)} ${attempts === 1 ? "attempt" : "attempts"} may have been billed without an answer`;
}

/** What a run says once of each setting that it leaves out for a model; `noun` is what an item is in its input. */
export function warningText({ warning, model, line }: RunWarning, noun: Noun = "line"): string {
  if (warning.code === "text_replaced")
    return `warning: half surrogate pairs in a text are replaced by U+FFFD (first in ${noun} ${line})`;
  return `warning: ${warning.setting} is left out for ${model}, which does not take it (first in ${noun} ${line})`;
}

function countedText(name: string): string {
  const setting = name.startsWith("dropped:") ? name.slice("dropped:".length) : undefined;
  return setting === undefined ? "replaced half surrogate pairs" : `${setting} left out`;
}

/** Tenths of a second where minutes would hide them. */
function elapsed(ms: number): string {
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : duration(ms);
}

function unpricedText(models: readonly string[]): string {
  const shown = models.slice(0, UNPRICED_SHOWN_MAX).join(", ");
  const more =
    models.length > UNPRICED_SHOWN_MAX ? ` and ${count(models.length - UNPRICED_SHOWN_MAX)} more` : "";
  return `${shown}${more}: counted as $0, which no --max-cost can bound`;
}

/** A key that is not set, or was never accepted, is a mistake of the call, as a wrong option is: whichever provider it is of. */
function isKeyWrong({ held }: Summary): boolean {
  const isWrong = held.every(
    ({ reason, was_accepted }) =>
      reason === "key_missing" || (reason === "authentication" && was_accepted === false),
  );
  return held.length > 0 && isWrong;
}

/** 0 when every line was answered, 3 when some were not, 2 for a wrong key, 130 when it was stopped. */
export function exitCodeOfSummary(summary: Summary): number {
  if (summary.status === "detached") return 0;
  if (summary.status === "stopped") return 130;
  if (summary.status === "paused") return isKeyWrong(summary) ? 2 : 3;
  return summary.counts.completed === summary.items ? 0 : 3;
}
