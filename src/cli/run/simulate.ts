/**
 * `perigee simulate`: what a run of a file would take, as a table or as JSON. Sends nothing.
 */
import { checkLaneOptions } from "../../engine/config/lane_rules.ts";
import { PerigeeError } from "../../errors.ts";
import { usdText } from "../../price/money.ts";
import { howToPrice } from "../../price/price_sheet.ts";
import { LANE_POLICIES, type LanePolicy } from "../../queue/lane_choice.ts";
import type { FileSimulation, SimulatedModel, SimulatedRange } from "../../simulation/file_simulation.ts";
import { type SimulateOptions, simulateFile } from "../../simulation/simulate_file.ts";
import { errorJson } from "../exit.ts";
import { count, duration } from "../numbers.ts";
import type { ConfigArguments } from "../prices.ts";
import type { TableArguments } from "../tables/table_arguments.ts";
import { type LaneArguments, laneOptions } from "./lane_options.ts";
import { inOptions } from "./library_words.ts";
import { schemaOptions } from "./schema_options.ts";
import type { StateArguments } from "./state_folder.ts";
import { withInput } from "./unsent.ts";

const EXIT_FAULTS = 2;

/** Options as commander parses them. */
interface SimulateArguments
  extends StateArguments,
    ConfigArguments,
    TableArguments,
    Omit<LaneArguments, "policy"> {
  readonly sla?: number;
  readonly model?: string;
  readonly maxCost?: number;
  readonly policy?: string;
  /** p50, p90, p99 in seconds. */
  readonly latency?: readonly number[];
  readonly outputTokens?: number;
  /** Of the first simulation, and of a sample of rows. */
  readonly seed?: number;
  readonly seeds?: number;
  readonly json?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function simulate(input: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SimulateArguments; // commander's own shape, declared in simulate_command.ts
  try {
    const found = await simulated(input, given);
    process.stdout.write(given.json === true ? `${JSON.stringify(found)}\n` : simulationTable(found));
    if (found.rejected_lines === 0) return 0;
    const noun = given.prompt === undefined ? "line" : "row";
    const lines = found.rejected_lines === 1 ? `1 ${noun}` : `${count(found.rejected_lines)} ${noun}s`;
    process.stderr.write(
      `perigee: ${lines} of ${input === "-" ? "the input" : input} would fail before anything is sent; not simulated; perigee quote names the first\n`,
    );
    return EXIT_FAULTS;
  } catch (thrown) {
    const error = inOptions(thrown);
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function simulated(input: string, given: SimulateArguments): Promise<FileSimulation> {
  const options = { ...optionsOf(given), ...(await schemaOptions(given)) };
  const { seed, ...table } = given;
  return withInput(
    input,
    { ...table, ...(given.sample === undefined || seed === undefined ? {} : { seed }) },
    (_engine, source, core) => {
      checkLaneOptions(options, core.config.providerNames, "simulate");
      return simulateFile(core, source, options);
    },
  );
}

function optionsOf(given: SimulateArguments): SimulateOptions {
  const { sla, model, maxCost, latency, outputTokens, seed, seeds } = given;
  const [p50 = 0, p90 = p50, p99 = p90] = (latency ?? []).map((seconds) => seconds * 1_000);
  const { policy: name, ...lanes } = given;
  const policy = policyOf(name);
  return {
    ...{ sla, model, maxCostUsd: maxCost, outputTokens, seed, seeds },
    latency: latency === undefined ? undefined : { p50, p90, p99 },
    ...laneOptions({ ...lanes, ...(policy === undefined ? {} : { policy }) }),
  };
}

function policyOf(text: string | undefined): LanePolicy | undefined {
  const policy = LANE_POLICIES.find((name) => name === text);
  if (text === undefined || policy !== undefined) return policy;
  throw new PerigeeError("usage", `--policy must be one of ${LANE_POLICIES.join(", ")}, got "${text}"`);
}

/** One block for the whole, one for each model of several. */
export function simulationTable(found: FileSimulation): string {
  const rows: [string, string][] = [
    ["items", `${count(found.items)}${sampledText(found)}`],
    ["time", secondsText(found.seconds)],
    ["billed", billedText(found)],
    ["at list price", usdText(found.list_usd)],
    ...found.lanes.map(({ provider, lane, items, share, billed_usd }): [string, string] => [
      `${provider}:${lane}`,
      `${count(items)} items (${shareText(share)}), ${usdText(billed_usd)}`,
    ]),
    ...riskRows(found),
    ["simulations", `${found.seeds.length} (seeds from ${found.seeds[0]})`],
  ];
  const models = found.models.map((model) => modelBlock(model, found));
  return [block("simulated", rows), ...(models.length > 1 ? models : [])].join("\n") + latencyNote(found);
}

function modelBlock(model: SimulatedModel, { sla_minutes }: FileSimulation): string {
  const { at_risk, missed_items, items, seconds } = model;
  const risk: [string, string][] =
    sla_minutes === null ? [] : [["missed", missedText(at_risk, missed_items)]];
  return block(model.model, [["items", count(items)], ["time", secondsText(seconds)], ...risk]);
}

function riskRows({
  sla_minutes,
  at_risk,
  missed_items,
  left_items,
  unpriced_models,
}: FileSimulation): [string, string][] {
  const rows: [string, string][] = [];
  if (sla_minutes !== null) rows.push([`deadline of ${sla_minutes} min`, missedText(at_risk, missed_items)]);
  if (left_items.high > 0)
    rows.push(["not sent", `${countText(left_items)} items, because --max-cost was reached`]);
  for (const model of unpriced_models) rows.push(["price not known", howToPrice(model)]);
  return rows;
}

function missedText(risk: number, missed: SimulatedRange): string {
  if (risk === 0) return "met for all items in all simulations";
  return `at risk: missed in ${shareText(risk)} of simulations, by ${countText(missed)} items`;
}

function billedText({ billed_usd: { median, low, high } }: FileSimulation): string {
  return low === high ? usdText(median) : `${usdText(median)} (${usdText(low)} to ${usdText(high)})`;
}

function secondsText({ median, low, high }: SimulatedRange): string {
  const text = (seconds: number): string => duration(seconds * 1_000);
  return text(low) === text(high) ? text(median) : `${text(median)} (${text(low)} to ${text(high)})`;
}

function countText({ median, low, high }: SimulatedRange): string {
  return low === high ? count(median) : `${count(median)} (${count(low)} to ${count(high)})`;
}

function sampledText({ sampled_share, sampling_error }: FileSimulation): string {
  if (sampled_share >= 1) return "";
  return `, tokens of ${shareText(sampled_share)} of them counted (± ${(sampling_error * 100).toFixed(1)}%)`;
}

/** Where a model's answers were never measured, the time rests on a guess. */
function latencyNote({ models }: FileSimulation): string {
  const assumed = models.filter(({ latency }) => latency === "assumed").map(({ model }) => model);
  if (assumed.length === 0) return "";
  return `\nHow long answers take is assumed for ${assumed.slice(0, 5).join(", ")}${assumed.length > 5 ? ", ..." : ""}: 1 s to the first token, 50 tokens a second.\nA pilot measures it (perigee run --pilot 50), or say it with --latency.\n`;
}

function shareText(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
}

function block(title: string, rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${title}\n${rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}\n`).join("")}`;
}
