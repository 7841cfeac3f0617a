/**
 * `perigee quote`: what a file would take, as a table or as JSON. Sends nothing.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createEngine } from "../engine/engine.ts";
import { PerigeeError } from "../errors.ts";
import { howToPrice } from "../price/price_sheet.ts";
import type { Quote, QuoteFault } from "../price/quote.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import { errorJson } from "./exit.ts";
import { requireFile } from "./input.ts";
import { count, duration, usd } from "./numbers.ts";
import { type ConfigArguments, configOf } from "./prices.ts";
import { type StateArguments, stateFolder } from "./state_folder.ts";

/** As for any input that has to be mended first. */
const EXIT_FAULTS = 2;

/** Options as commander gives them. */
interface QuoteArguments extends StateArguments, ConfigArguments {
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
    process.stderr.write(faultText(input, found, found.first_fault));
    return EXIT_FAULTS;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function quoteFile(input: string, given: QuoteArguments): Promise<Quote> {
  const slas = given.sla?.map((sla) => parseSlaMinutes(sla, "--sla"));
  if (slas?.length === 0) throw new PerigeeError("usage", "--sla needs at least one number of minutes");
  const file = await configOf(given);
  await requireFile(input);
  const dataDir = await mkdtemp(join(tmpdir(), "perigee-quote-"));
  try {
    const engine = await createEngine({ ...file, dataDir, stateDir: stateFolder(given) });
    try {
      return await engine.quote(input === "-" ? process.stdin : input, {
        ...(slas === undefined ? {} : { slas: slas.map((sla) => sla ?? 0) }),
        ...(given.model === undefined ? {} : { model: given.model }),
      });
    } finally {
      await engine.close();
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** Of the quote for the other lines. */
function faultText(input: string, { rejected_lines }: Quote, { line, code, message }: QuoteFault): string {
  const lines = rejected_lines === 1 ? "1 line that fails" : `${count(rejected_lines)} lines that fail`;
  return `perigee: ${input === "-" ? "the input" : input} has ${lines} before anything is sent, and that ${rejected_lines === 1 ? "is" : "are"} not quoted; the first is line ${line}: ${code}: ${message}\n`;
}

/** One block for each model, and the sum. */
function quoteTable(found: Quote): string {
  const blocks = found.models.map((model) => {
    const price =
      model.price === null
        ? `not known: ${howToPrice(model.model)}`
        : `${model.price.input_usd_per_million} in, ${model.price.output_usd_per_million} out USD per million (${model.price.source}, ${model.price.as_of})`;
    return block(model.model, [
      ["items", count(model.items)],
      ["input tokens", `${count(model.input_tokens)}${model.input_tokens_estimated ? " (estimated)" : ""}`],
      [
        "output tokens",
        `${count(model.expected_output_tokens)} expected (${model.expected_output_basis.join(", ")})`,
      ],
      ["price", price],
      ["billed", model.billed_usd === null ? "unknown" : `about ${usd(model.billed_usd)}`],
      ...model.slas.map(slaRow),
      ["time", `${duration(model.time.seconds * 1_000)} (bound by ${model.time.bound_by})`],
    ]);
  });
  if (found.models.length > 1) {
    blocks.push(
      block("all models", [
        ["items", count(found.items)],
        ["billed", `about ${usd(found.billed_usd)}`],
        ...found.slas.map(slaRow),
        ["time", duration(found.time.seconds * 1_000)],
      ]),
    );
  }
  return blocks.join("\n");
}

function slaRow(sla: Quote["slas"][number]): [string, string] {
  return [
    `sla ${sla.sla_minutes} min`,
    sla.is_feasible ? "feasible under the limits" : "not feasible under the limits",
  ];
}

function block(title: string, rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${title}\n${rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}\n`).join("")}`;
}
