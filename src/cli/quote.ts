/**
 * `perigee quote`: what a file would take, as a table or as JSON. Sends nothing.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readConfigFile } from "../engine/config.ts";
import { createEngine } from "../engine/engine.ts";
import { PerigeeError } from "../errors.ts";
import type { Quote } from "../price/quote.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import { errorJson } from "./exit.ts";
import { requireFile } from "./input.ts";
import { count, duration, usd } from "./numbers.ts";

/** Options as commander gives them. */
interface QuoteArguments {
  readonly sla?: readonly number[];
  readonly config?: string;
  readonly model?: string;
  readonly json?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function quote(input: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as QuoteArguments; // commander's own shape, declared in main.ts
  try {
    const found = await quoteFile(input, given);
    process.stdout.write(given.json === true ? `${JSON.stringify(found)}\n` : quoteTable(found));
    return 0;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function quoteFile(input: string, given: QuoteArguments): Promise<Quote> {
  const slas = given.sla?.map((sla) => parseSlaMinutes(sla, "--sla"));
  if (slas?.length === 0) throw new PerigeeError("usage", "--sla needs at least one number of minutes");
  const file = given.config === undefined ? {} : await readConfigFile(given.config);
  await requireFile(input);
  const dataDir = await mkdtemp(join(tmpdir(), "perigee-quote-"));
  try {
    const engine = await createEngine({ ...file, dataDir });
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

/** One block for each model, and the sum. */
function quoteTable(found: Quote): string {
  const blocks = found.models.map((model) => {
    const price =
      model.price === null
        ? "no known price"
        : `${model.price.input_usd_per_million} in, ${model.price.output_usd_per_million} out USD per million (${model.price.source}, ${model.price.as_of})`;
    return block(model.model, [
      ["items", count(model.items)],
      ["input tokens", `${count(model.input_tokens)}${model.input_tokens_estimated ? " (estimated)" : ""}`],
      [
        "output tokens",
        `${count(model.expected_output_tokens)} expected (${model.expected_output_basis.join(", ")})`,
      ],
      ["price", price],
      ["list", model.list_usd === null ? "unknown" : usd(model.list_usd)],
      ...model.slas.map(slaRow),
      ["time", `${duration(model.time.seconds * 1_000)} (bound by ${model.time.bound_by})`],
    ]);
  });
  if (found.models.length > 1) {
    blocks.push(
      block("all models", [
        ["items", count(found.items)],
        ["list", usd(found.list_usd)],
        ...found.slas.map(slaRow),
        ["time", duration(found.time.seconds * 1_000)],
      ]),
    );
  }
  if (found.rejected_lines > 0)
    blocks.push(`${count(found.rejected_lines)} lines hold no item and would fail; they are not quoted\n`);
  return blocks.join("\n");
}

function slaRow(sla: Quote["slas"][number]): [string, string] {
  const price =
    sla.usd === null
      ? "unknown"
      : `${usd(sla.usd)} (factor ${sla.price_factor}, ${usd(sla.saved_usd ?? 0)} below list)`;
  return [
    `sla ${sla.sla_minutes} min`,
    `${price}${sla.is_feasible ? "" : ", not feasible under the limits"}`,
  ];
}

function block(title: string, rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${title}\n${rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}\n`).join("")}`;
}
