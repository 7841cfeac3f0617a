/**
 * `perigee plan`: which lanes a file would go to, when and why, as text or as JSON. Sends nothing.
 */
import type {
  Plan,
  PlannedFinish,
  PlannedLane,
  PlannedModel,
  PlannedShare,
} from "../../engine/plans/plan.ts";
import { usdText } from "../../price/money.ts";
import type { PlanReason } from "../../queue/plan/group_plan.ts";
import { parseSlaMinutes } from "../../work/sla.ts";
import { errorJson } from "../exit.ts";
import { count, duration } from "../numbers.ts";
import type { ConfigArguments } from "../prices.ts";
import type { TableArguments } from "../tables/table_arguments.ts";
import { type LaneArguments, laneOptions } from "./lane_options.ts";
import { inOptions } from "./library_words.ts";
import { faultText } from "./quote.ts";
import { schemaOptions } from "./schema_options.ts";
import type { StateArguments } from "./state_folder.ts";
import { withInput } from "./unsent.ts";

/** As for any input that has to be corrected first. */
const EXIT_FAULTS = 2;

/** Options as commander parses them. */
interface PlanArguments extends StateArguments, ConfigArguments, LaneArguments, TableArguments {
  readonly sla?: number;
  readonly model?: string;
  readonly maxCost?: number;
  readonly explain?: boolean;
  readonly json?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function plan(input: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as PlanArguments; // commander's own shape, declared in forecast_commands.ts
  try {
    const found = await planFile(input, given);
    process.stdout.write(
      given.json === true ? `${JSON.stringify(found)}\n` : planText(found, given.explain === true),
    );
    if (found.first_fault === undefined) return 0;
    process.stderr.write(faultText(input, given, { ...found, verb: "planned" }, found.first_fault));
    return EXIT_FAULTS;
  } catch (thrown) {
    const error = inOptions(thrown);
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function planFile(input: string, given: PlanArguments): Promise<Plan> {
  const { model, maxCost } = given;
  const sla = parseSlaMinutes(given.sla, "--sla");
  const schema = await schemaOptions(given);
  return withInput(input, given, (engine, source) =>
    engine.plan(source, {
      ...laneOptions(given),
      ...schema,
      ...(sla === undefined ? {} : { sla }),
      ...(model === undefined ? {} : { model }),
      ...(maxCost === undefined ? {} : { maxCostUsd: maxCost }),
    }),
  );
}

/** Why a share is where it is, in words. */
const WHY: Readonly<Record<PlanReason, string>> = {
  no_deadline: "without an sla everything goes in realtime",
  cheapest: "the cheapest lane that leaves realtime enough time for the rest",
  earliest_finish: "the lane that is expected to finish first",
  no_cheaper_lane: "no lane that it may use is expected to cost less",
  deadline_too_near: "the deadline leaves no time to wait for a cheaper lane",
  realtime_reserved: "if all waited, realtime could not finish the rest in time",
  beyond_realtime: "realtime cannot do all of it in time under its limits",
  no_lane: "no lane sells this model",
  no_money: "the amount does not pay for it",
};

/** One block for each model, and the sum. */
export function planText(found: Plan, isExplained: boolean): string {
  const blocks = found.models.map((model) => modelText(model, isExplained));
  const rows: [string, string][] = [
    ["cost", `${costText(found)}; ${usdText(found.realtime_usd)} in realtime (${found.basis})`],
    ["on time", chance(found.on_time)],
    ["finish", finishText(found.finish)],
  ];
  if (found.next_switch_seconds !== null)
    rows.push(["switch", `in ${seconds(found.next_switch_seconds)} realtime takes over what is not done`]);
  if (found.unpriced_models.length > 0)
    rows.push(["unpriced", `${found.unpriced_models.join(", ")}: not in the cost`]);
  for (const { model, at, input_usd_per_million, output_usd_per_million } of found.price_changes)
    rows.push([
      "price",
      `${model}: ${input_usd_per_million} in, ${output_usd_per_million} out USD per million from ${at}`,
    ]);
  return [...blocks, block("all", rows)].join("\n");
}

function modelText(model: PlannedModel, isExplained: boolean): string {
  const rows: [string, string][] = [["items", count(model.items)]];
  for (const share of model.shares) {
    rows.push([share.lane ?? "waits", shareText(share)]);
    if (isExplained) rows.push(["  why", WHY[share.why]]);
  }
  if (isExplained) for (const lane of model.lanes) rows.push([`all in ${lane.lane}`, laneText(lane)]);
  return block(model.model, rows);
}

function shareText({ items, start_seconds, switch_seconds, done_share, ...share }: PlannedShare): string {
  const start = start_seconds > 0 ? `from ${seconds(start_seconds)} on` : "now";
  const until =
    switch_seconds === null
      ? ""
      : `, until ${seconds(switch_seconds)}: ${percentOf(done_share)} done by then`;
  const parts = [costText(share), `on time ${chance(share.on_time)}`, `done ${finishText(share.finish)}`];
  return `${count(items)} ${items === 1 ? "item" : "items"} ${start}${until}; ${share.lane === null ? "not sent" : parts.join("; ")}`;
}

function laneText(lane: PlannedLane): string {
  return `${costText(lane)}; on time ${chance(lane.on_time)}; done ${finishText(lane.finish)}`;
}

function costText({
  expected_usd,
  usd_90,
}: {
  readonly expected_usd: number | null;
  readonly usd_90: number | null;
}): string {
  if (expected_usd === null || usd_90 === null) return "unknown cost";
  return `about ${usdText(expected_usd)}, 90 % within ${usdText(usd_90)}`;
}

function finishText({ expected_seconds, early_seconds, late_seconds }: PlannedFinish): string {
  if (expected_seconds === null) return "never in the present state";
  const band = [early_seconds, late_seconds].map((at) => (at === null ? "never" : seconds(at)));
  return `in about ${seconds(expected_seconds)}, ${band.join(" to ")}`;
}

function seconds(value: number): string {
  return duration(value * 1_000);
}

function percentOf(share: number): string {
  return `${Math.floor(share * 1_000) / 10} %`;
}

/** Never rounded up to certainty. */
function chance(share: number): string {
  return share >= 0.9999 && share < 1 ? "above 99.99 %" : `${Math.floor(share * 10_000) / 100} %`;
}

function block(title: string, rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return `${title}\n${rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}\n`).join("")}`;
}
