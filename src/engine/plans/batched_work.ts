/**
 * Which posted work makes batches of its own: that of few items is sent from the work log, where small posts may share batches
 * (posted/batched_groups.ts), unless enough of them are for one model and would go with a batch now. Then it becomes a run.
 *
 *   without an sla, or fewer than `lanes.minItems` of each model -> the work log
 *   a batch has no time before the deadline, or is not allowed   -> the work log
 *   another offer costs as little and is done earlier            -> the work log
 *   many runs are at work                                        -> the work log
 *   otherwise                                                    -> a run
 *
 * Hot: asked for each post, and the first line answers nearly all of them.
 */
import { servesAll } from "../../providers/batches/batch_endpoints.ts";
import { cancelMsOf, collectMsOf } from "../../queue/batch_choice.ts";
import { parseModelId } from "../../work/request.ts";
import { laneRules } from "../config/lane_rules.ts";
import type { EngineCore } from "../core.ts";
import type { ComingItems } from "../offers/lane_offers.ts";
import type { CountedWork } from "./counted_work.ts";
import { batchCurve } from "./plan_offers.ts";

/**
 * Runs at work, beside which few items make no further one: a run whose batch takes hours keeps files open and is polled. Then posted
 * work shares batches as small posts do.
 */
const AT_WORK_MAX = 256;
/** Each has its name and its output in `EngineCore.atWork`. */
const NAMES_OF_RUN = 2;

/** Items of one model and one window that are posted together. */
interface PostedWork extends CountedWork {
  readonly slaMinutes: number | null;
}

/** Whether posted work of one project and one sla, that is counted and not accepted yet, becomes a run because it goes with batches. */
export function goesWithBatches(
  { config, sending, storage, atWork }: Pick<EngineCore, "config" | "sending" | "storage" | "atWork">,
  project: string,
  works: Iterable<PostedWork>,
): boolean {
  for (const work of works) {
    const { model, endpoints, slaMinutes, items, inputTokens, outputTokens } = work;
    if (slaMinutes === null || items < config.lanes.minItems) continue;
    if (atWork.size >= AT_WORK_MAX * NAMES_OF_RUN) return false;
    const deadlineMs = storage.clock.nowMs() + slaMinutes * 60_000;
    const coming = { model, endpoints, items, inputTokens, outputTokens, deadlineMs };
    if (foreseesBatch({ config, sending }, project, coming)) return true;
  }
  return false;
}

/** Whether so many items of a project that come now would go with a batch. */
export function foreseesBatch(
  { config, sending: { lanes, sender } }: Pick<EngineCore, "config" | "sending">,
  project: string,
  coming: Omit<ComingItems, "owner" | "maxOutputTokens">,
): boolean {
  const { offers } = lanes.of(sender.models.of(coming.model).key);
  const settings = { ...laneRules(config.lanes, { project }), isHedged: config.isHedged };
  const foreseen = offers?.foresee({ ...coming, maxOutputTokens: 0, owner: { settings } });
  return foreseen === "batch" || foreseen === "deferred";
}

/**
 * The earliest deadline that batches alone are expected to keep for so many items that come now, with the chance `minOnTime` of the
 * project; monotonic. Infinity where no batch takes them: too few, more tokens than the provider takes at once, not allowed, or of batches so
 * many never end that nothing is that likely.
 */
export function batchedByMs(
  core: Pick<EngineCore, "config" | "sending" | "storage">,
  project: string,
  coming: Omit<ComingItems, "owner" | "maxOutputTokens" | "deadlineMs">,
): number {
  const { config, sending, storage } = core;
  const { model, endpoints, items, inputTokens } = coming;
  const provider = parseModelId(model)?.provider ?? "";
  const wire = sending.remoteWires.batch.get(provider);
  if (wire === undefined || !servesAll(wire, endpoints) || items < config.lanes.minItems)
    return Number.POSITIVE_INFINITY;
  const lane = sending.sender.models.of(model).key;
  const held = sending.batches.loadOf(lane, Number.POSITIVE_INFINITY).own.inputTokens;
  if (held + inputTokens > (wire.limits.enqueuedTokensMax ?? Number.POSITIVE_INFINITY))
    return Number.POSITIVE_INFINITY;
  const { latency } = sending.batches.outlooks.of(model, lane, Number.POSITIVE_INFINITY, items);
  const { minOnTime } = laneRules(config.lanes, { project });
  const takesMs = batchCurve(provider, latency, config.lanes.priors).quantileMs(minOnTime);
  const deadlineMs = storage.clock.nowMs() + takesMs + cancelMsOf(latency) + collectMsOf(items);
  const isTaken = Number.isFinite(deadlineMs) && foreseesBatch(core, project, { ...coming, deadlineMs });
  return isTaken ? deadlineMs : Number.POSITIVE_INFINITY;
}
