/**
 * `engine.plan`: which lanes the items of a source would go to. Nothing is sent.
 */
import { parseSlaMinutes } from "../../work/sla.ts";
import { unlessAborted } from "../abort.ts";
import { type LaneOptions, laneRules } from "../config/lane_rules.ts";
import type { EngineCore } from "../core.ts";
import type { Source } from "../files/input.ts";
import type { ExpectedUsage } from "../learnt/expected_usage.ts";
import type { SchemaOptions } from "../schemas/run_schema.ts";
import { countSource } from "./counted_input.ts";
import { type Plan, shownPlan } from "./plan.ts";
import { planUsage } from "./planned_work.ts";
import { priceChanges } from "./price_changes.ts";

const MINUTE_MS = 60_000;

/** Options of `engine.plan`. */
export interface PlanOptions extends LaneOptions, SchemaOptions {
  /** Minutes in which the work has to be done, 1 to 43,200; absent: at once, in realtime. */
  readonly sla?: number;
  readonly model?: string;
  /** Whose work it is: its rules of lanes hold. */
  readonly project?: string;
  /** What may be spent, in USD; what it does not reach waits. Default: no bound. */
  readonly maxCostUsd?: number;
  /** Aborting stops the reading and rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Lines that would fail are counted by themselves. Throws as `run` does for an input that cannot be read. */
export async function planSource(core: EngineCore, source: Source, options: PlanOptions): Promise<Plan> {
  const { sla, project, maxCostUsd, signal } = options;
  const slaMinutes = parseSlaMinutes(sla, "plan");
  signal?.throwIfAborted();
  const { usage, rejectedLines, firstFault } = await unlessAborted(
    countSource(core, source, options),
    signal,
  );
  const rules = laneRules(core.config.lanes, options);
  const plan = planUsage(core, usage, {
    ...{ slaMinutes, rules },
    ...(project === undefined ? {} : { project }),
    ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
  });
  const fromWallMs = core.storage.clock.wallMs();
  const { prices } = core.figures;
  const models = plan.groups.map(({ group }) => group.model);
  const untilWallMs = fromWallMs + (slaMinutes ?? 0) * MINUTE_MS;
  return shownPlan(plan, {
    planned_at: new Date(fromWallMs).toISOString(),
    sla_minutes: slaMinutes ?? null,
    policy: rules.policy,
    min_on_time: rules.minOnTime,
    rejected_lines: rejectedLines,
    ...(firstFault === undefined ? {} : { first_fault: firstFault }),
    basis: basisOf(usage),
    price_changes: priceChanges(prices, models, { fromWallMs, untilWallMs }),
    unpriced: new Set(models.filter((model) => prices.priceOf(model, fromWallMs).price === undefined)),
  });
}

/** `learnt n=<answers>`, or `ceiling` where something was never answered: then the limits bound it. */
export function basisOf(usage: ExpectedUsage): string {
  const rows = usage.totals();
  if (rows.length === 0 || rows.some(({ basis }) => basis === "default")) return "ceiling";
  return `learnt n=${rows.reduce((sum, { learntAnswers }) => sum + learntAnswers, 0)}`;
}
