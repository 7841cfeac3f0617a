/**
 * `perigee quote`: what a file would take, as a table or as JSON. Sends nothing.
 */
import { PerigeeError } from "../../errors.ts";
import { usdText } from "../../price/money.ts";
import { howToPrice } from "../../price/price_sheet.ts";
import type { Quote, QuoteAssumptions, QuoteFault, QuoteModel } from "../../price/quote.ts";
import type { QuoteTime } from "../../price/quote_requests.ts";
import { parseSlaMinutes } from "../../work/sla.ts";
import { errorJson } from "../exit.ts";
import { count, duration } from "../numbers.ts";
import type { ConfigArguments } from "../prices.ts";
import type { TableArguments } from "../tables/table_arguments.ts";
import { type LaneArguments, laneOptions } from "./lane_options.ts";
import { inOptions } from "./library_words.ts";
import { schemaOptions } from "./schema_options.ts";
import type { StateArguments } from "./state_folder.ts";
import { withInput } from "./unsent.ts";

/** As for any input that has to be corrected first. */
const EXIT_FAULTS = 2;

/** Options as commander parses them. */
interface QuoteArguments extends StateArguments, ConfigArguments, LaneArguments, TableArguments {
  readonly sla?: readonly number[];
  readonly model?: string;
  readonly json?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function quote(input: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as QuoteArguments; // commander's own shape, declared in main.ts
  try {
    const found = await quoteFile(input, given);
    process.stdout.write(given.json === true ? `${JSON.stringify(found)}\n` : quoteTable(found));
    if (found.first_fault === undefined) return 0;
    process.stderr.write(faultText(input, given, { ...found, verb: "quoted" }, found.first_fault));
    return EXIT_FAULTS;
  } catch (thrown) {
    const error = inOptions(thrown);
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function quoteFile(input: string, given: QuoteArguments): Promise<Quote> {
  const slas = given.sla?.map((sla) => parseSlaMinutes(sla, "--sla"));
  if (slas?.length === 0) throw new PerigeeError("usage", "--sla needs at least one number of minutes");
  const schema = await schemaOptions(given);
  return withInput(input, given, (engine, source) =>
    engine.quote(source, {
      ...laneOptions(given),
      ...schema,
      ...(slas === undefined ? {} : { slas: slas.map((sla) => sla ?? 0) }),
      ...(given.model === undefined ? {} : { model: given.model }),
      onMissing: ({ reason, line, message }) => {
        const noun = given.prompt === undefined ? "line" : "row";
        if (reason === "key_missing") process.stderr.write(missingText(noun, line, message)); // the other is a fault of the line
      },
    }),
  );
}

/** Lines of a provider without a key are held until it has one. */
export function missingText(noun: "line" | "row", line: number, message: string): string {
  return `warning: ${noun} ${line} and others would be held: ${message}\n`;
}

/** Of a forecast for the other lines, or rows of a table; `verb`: what is done with those. */
export function faultText(
  input: string,
  { prompt, sample }: Pick<TableArguments, "prompt" | "sample">,
  { rejected_lines, verb }: { readonly rejected_lines: number; readonly verb: "quoted" | "planned" },
  { line, code, message }: QuoteFault,
): string {
  const noun = prompt === undefined ? "line" : "row";
  const name = input === "-" ? "the input" : input;
  const [lines, are] =
    rejected_lines === 1
      ? [`1 ${noun} that fails`, "is"]
      : [`${count(rejected_lines)} ${noun}s that fail`, "are"];
  return `perigee: ${name} has ${lines} before anything is sent, and that ${are} not ${verb}; the first is ${noun} ${line}${sample === undefined ? "" : " of those drawn"}: ${code}: ${message}\n`;
}

/** One block for each model, and the sum. */
export function quoteTable(found: Quote): string {
  const blocks = found.models.map((model) => {
    const price =
      model.price === null
        ? `not known: ${howToPrice(model.model)}`
        : `${model.price.input_usd_per_million} in, ${model.price.output_usd_per_million} out USD per million (${model.price.source}, ${model.price.as_of})`;
    return block(model.model, [
      ["items", count(model.items)],
      ["input tokens", inputText(model)],
      ["output tokens", outputText(model)],
      ...furtherRow(model),
      ["price", price],
      ["billed", billedText(model)],
      ...model.slas.map(slaRow),
      ["time", timeText(model.time, found.assumptions)],
    ]);
  });
  if (found.models.length > 1) {
    blocks.push(
      block("all models", [
        ["items", count(found.items)],
        ["billed", allBilledText(found)],
        ...found.slas.map(slaRow),
        ["time", timeText(found.time, found.assumptions)],
      ]),
    );
  }
  return blocks.join("\n");
}

function inputText({ input_tokens, input_tokens_estimated, items_uncounted = 0 }: QuoteModel): string {
  const estimated = input_tokens_estimated ? " (estimated)" : "";
  const without =
    items_uncounted === 0 ? "" : `, without audio, files or images of ${count(items_uncounted)} items`;
  return `${count(input_tokens)}${estimated}${without}`;
}

function outputText(model: QuoteModel): string {
  const { expected_output_tokens_low: low, expected_output_tokens_high: high, learnt_answers } = model;
  const basis = model.expected_output_basis.join(", ");
  const answers = learnt_answers === 0 ? "" : ` from ${count(learnt_answers)} answers`;
  return `${count(model.expected_output_tokens)} expected, ${count(low)} to ${count(high)} (${basis}${answers})`;
}

/** Of items that are checked. */
function furtherRow({ further_requests }: QuoteModel): [string, string][] {
  if (further_requests === undefined) return [];
  const { expected, most, basis } = further_requests;
  return [["asked again", `${count(expected)} expected, ${count(most)} at most (${basis})`]];
}

function billedText(found: Pick<QuoteModel, "billed_usd" | "billed_usd_low" | "billed_usd_high">): string {
  const { billed_usd, billed_usd_low, billed_usd_high } = found;
  if (billed_usd === null || billed_usd_low === null || billed_usd_high === null) return "unknown";
  return `about ${usdText(billed_usd)}, ${usdText(billed_usd_low)} to ${usdText(billed_usd_high)}`;
}

/** The sums are without the items of models that have no known price. */
function allBilledText(found: Quote): string {
  const { unpriced_items: items } = found;
  if (items === 0) return billedText(found);
  if (items === found.items) return "unknown";
  return `${billedText(found)}, plus ${count(items)} ${items === 1 ? "item" : "items"} of unknown price`;
}

function timeText({ seconds, bound_by, basis }: QuoteTime, assumed: QuoteAssumptions): string {
  const speed =
    basis === "learnt"
      ? ""
      : `; assumes ${assumed.first_token_ms / 1_000} s to the first token, ${assumed.output_tokens_per_second} tokens a second`;
  return `${duration(seconds * 1_000)} (bound by ${bound_by}${speed})`;
}

function slaRow(sla: Quote["slas"][number]): [string, string] {
  const feasible = sla.is_feasible ? "feasible under the limits" : "not feasible under the limits";
  const cheaper = sla.lanes.filter(({ lane }) => !lane.endsWith(":realtime"));
  if (cheaper.length === 0) return [`sla ${sla.sla_minutes} min`, feasible];
  const lanes = sla.lanes.map(({ lane, items }) => `${count(items)} in ${lane}`).join(", ");
  return [
    `sla ${sla.sla_minutes} min`,
    `${feasible}; ${billedText(sla)}; ${lanes}; done ${doneText(sla.finish)}`,
  ];
}

function doneText({
  expected_seconds,
  early_seconds,
  late_seconds,
}: Quote["slas"][number]["finish"]): string {
  const at = (seconds: number | null): string => (seconds === null ? "never" : duration(seconds * 1_000));
  return `in about ${at(expected_seconds)}, ${at(early_seconds)} to ${at(late_seconds)}`;
}

function block(title: string, rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${title}\n${rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}\n`).join("")}`;
}
