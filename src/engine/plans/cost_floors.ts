/**
 * The lowest price factors at which a service sells: no price below what its work is expected to cost, and the margin of its project.
 *
 *   floor(model, sla)  = min(1, (1 + margin) x share(w))      w: the longest of WINDOWS that is not longer than the sla
 *   share(w)           = the most of the windows from w on: expected cost over list price of the plan of a reference work
 *   reference work     = what realtime has done in half of the window, beside what waits; mean items of the model
 *   of larger work     = the share of its own plan, if that is more
 *
 * Why a reference work and not each work's own plan: work that is larger costs more of its list price, because less of it can wait, and
 * a factor may not rise with the volume. All works up to the reference have the same floor, which is the highest of theirs; only work
 * that realtime alone could not do in half of its window has a higher one. And because a floor is the highest of all longer windows,
 * it never rises with the sla.
 *
 * Posted items that make no batch of their own are planned without batches: they may share one with other posts, but whether enough of
 * these come is not known when they are sold.
 *
 * What is sold is a model, not an endpoint: a model whose output costs nothing is taken to be of embeddings.
 *
 * Floors are kept for a minute, and looked up in 5 us: a POST is accepted in 60 us. Limits: 4,096 models and projects.
 */
import { type CostFloors, costFloor } from "../../price/factor.ts";
import type { ModelTotals } from "../../price/quote.ts";
import { drainMs } from "../../queue/feasibility.ts";
import type { LaneChoices } from "../../queue/lane_choice.ts";
import { planWork } from "../../queue/plan/plan.ts";
import type { PlanOffer } from "../../queue/plan/plan_input.ts";
import { type LaneRules, laneRules } from "../config/lane_rules.ts";
import type { SaleTerms } from "../config/sale_terms.ts";
import type { EngineCore } from "../core.ts";
import { TurnShare } from "../lanes/turn_share.ts";
import { ASSUMED_SPEED, type ModelWork } from "../learnt/expected_usage.ts";
import { lanePlanOf } from "./lane_plan.ts";
import { planOffers } from "./plan_offers.ts";

const MINUTE_MS = 60_000;
/** In minutes. Each is planned, and slas between two have the floor of the shorter. */
const WINDOWS = [1, 15, 60, 240, 1_440, 10_080] as const;
/** Of a window, what realtime needs for the reference work. */
const REFERENCE_SHARE = 1 / 2;
const REFERENCE_ITEMS_MAX = 1e7;
const HALVINGS = 24;
const KEPT_MS = 60_000;
const KEPT_MAX = 4_096;
/** The plans of a new model take some 5 ms. */
const MODELS_PER_TURN = 4;
/** Of posted items that make no batch of their own, as far as they are planned. */
export const WITHOUT_BATCHES: LaneChoices = { deny: ["batch", "deferred"] };
/** Of items that were never answered (engine/learnt/expected_usage.ts). */
const TOKENS = 512;

/** Items of one model and one window; null: at once. */
interface SoldWork {
  readonly model: string;
  readonly slaMinutes: number | null;
  readonly items: number;
}

/** Whose work it is, and whether it is sent from the work log: then it is planned without batches. */
interface Seller {
  readonly project: string;
  readonly isPosted: boolean;
}

/** Whose items, and in what window. */
interface Sold extends SoldWork, Seller {
  readonly slaMinutes: number;
}

/** Of one window: the largest work that it is planned for, and what that costs of its list price. */
interface WindowShare {
  readonly items: number;
  readonly costShare: number;
}

interface Kept {
  readonly untilMs: number;
  readonly windows: readonly WindowShare[];
}

/** The items of a plan, all alike. */
interface LikeItems {
  readonly project: string;
  readonly model: string;
  readonly windowMs: number;
  readonly rules: LaneRules;
}

/** One for an owner of projects. */
export class CostFloorBook {
  readonly #core: EngineCore;
  readonly #kept = new Map<string, Kept>();
  readonly #turns: TurnShare;

  constructor(core: EngineCore) {
    this.#core = core;
    this.#turns = new TurnShare(core.storage.clock, MODELS_PER_TURN);
  }

  /**
   * Of works that are accepted together (`isPosted`: sent from the work log); undefined where none has a floor: without an sla, a known
   * price, or with `sellBelowCost`.
   */
  async of(project: string, works: readonly SoldWork[], isPosted: boolean): Promise<CostFloors | undefined> {
    const seller = { project, isPosted };
    const models: Record<string, number> = {};
    for (const { model, slaMinutes, items } of works) {
      if (slaMinutes === null) continue;
      if (this.#keptOf(seller, model) === undefined) await this.#turns.take();
      const floor = this.floorOf({ ...seller, model, slaMinutes, items });
      models[model] = Math.max(models[model] ?? 0, floor);
    }
    const floors = Object.values(models);
    if (floors.every((floor) => floor === 0)) return undefined;
    return { models, others: Math.max(...floors) };
  }

  /** Of items of one model; 0 without one. */
  floorOf({ project, isPosted, model, slaMinutes, items }: Sold): number {
    const seller = { project, isPosted };
    const terms = this.#core.config.saleTermsOf(project);
    if (terms.sellsBelowCost || !this.#isPriced(model)) return 0;
    const reference = this.#windowsOf(seller, model)[windowAt(slaMinutes)] ?? { items: 0, costShare: 1 };
    if (items <= reference.items) return costFloor(reference.costShare, terms.margin);
    const like = { project, model, windowMs: slaMinutes * MINUTE_MS, rules: this.#rulesOf(seller) };
    return costFloor(Math.max(reference.costShare, shareOf(this.#core, like, items)), terms.margin);
  }

  #isPriced(model: string): boolean {
    const { figures, storage } = this.#core;
    const { price } = figures.prices.priceOf(model, storage.clock.wallMs());
    return price !== undefined && price.inputUsdPerMillion + price.outputUsdPerMillion > 0;
  }

  #rulesOf({ project, isPosted }: Seller): LaneRules {
    return laneRules(this.#core.config.lanes, { project, ...(isPosted ? { lanes: WITHOUT_BATCHES } : {}) });
  }

  #windowsOf(seller: Seller, model: string): readonly WindowShare[] {
    const { project } = seller;
    const known = this.#keptOf(seller, model);
    if (known !== undefined) return known;
    const nowMs = this.#core.storage.clock.nowMs();
    if (this.#kept.size >= KEPT_MAX) this.#kept.clear();
    const rules = this.#rulesOf(seller);
    const windows: WindowShare[] = [];
    let most = 0;
    for (const minutes of WINDOWS.toReversed()) {
      const like = { project, model, windowMs: minutes * MINUTE_MS, rules };
      const items = referenceItems(this.#core, like);
      most = Math.max(most, shareOf(this.#core, like, items));
      windows.unshift({ items, costShare: most });
    }
    this.#kept.set(this.#keyOf(seller, model), { untilMs: nowMs + KEPT_MS, windows });
    return windows;
  }

  #keptOf(seller: Seller, model: string): readonly WindowShare[] | undefined {
    const known = this.#kept.get(this.#keyOf(seller, model));
    return known !== undefined && this.#core.storage.clock.nowMs() < known.untilMs
      ? known.windows
      : undefined;
  }

  /** Projects that may use the same lanes share what is planned. */
  #keyOf({ project, isPosted }: Seller, model: string): string {
    const owner = Object.hasOwn(this.#core.config.lanes.projects, project) ? project : "";
    return `${owner}\n${isPosted ? "posted" : ""}\n${model}`;
  }
}

/** What a project's floor adds to the share of a plan that is known already. */
export function floorOfPlan(costShare: number, { sellsBelowCost, margin }: SaleTerms): number {
  return sellsBelowCost ? 0 : costFloor(costShare, margin);
}

/** The index of the longest window that is not longer than an sla. */
function windowAt(slaMinutes: number): number {
  return WINDOWS.findLastIndex((minutes) => minutes <= slaMinutes);
}

/** As many as realtime has done in its part of the window, 1 at least. */
function referenceItems(core: EngineCore, like: LikeItems): number {
  const [realtime] = offersFor(core, like, 1);
  if (realtime === undefined) return 1;
  const one = workOf(core, like.model, 1);
  const leftMs = like.windowMs * REFERENCE_SHARE - (realtime.capacity.waitingMs ?? 0);
  const isDone = (items: number): boolean => drainMs(times(one, items), realtime.capacity) <= leftMs;
  let [low, high] = [1, REFERENCE_ITEMS_MAX];
  if (isDone(high)) return high;
  for (let halving = 0; halving < HALVINGS && high - low > 1; halving += 1) {
    const middle = Math.floor((low + high) / 2);
    if (isDone(middle)) low = middle;
    else high = middle;
  }
  return low;
}

/** Expected cost over list price of so many items. */
function shareOf(core: EngineCore, like: LikeItems, items: number): number {
  const { project, model, rules, windowMs } = like;
  const nowMs = core.storage.clock.nowMs();
  const { inputTokens, outputTokens } = workOf(core, model, items);
  const group = { id: model, model, project, deadlineMs: nowMs + windowMs, items, inputTokens, outputTokens };
  const plan = planWork({
    nowMs,
    groups: [group],
    offers: new Map([[model, offersFor(core, like, items)]]),
    policy: rules.policy,
    minOnTime: rules.minOnTime,
  });
  return lanePlanOf(plan, model)?.expectedShare ?? 1;
}

function offersFor(
  core: EngineCore,
  { model, rules, windowMs }: LikeItems,
  items: number,
): readonly PlanOffer[] {
  const work = workOf(core, model, items);
  const shares = { items: 1, inputTokens: 1, outputTokens: 1 };
  const deadlineMs = core.storage.clock.nowMs() + windowMs;
  return planOffers(core, { work, rows: [rowOf(work)], shares, rules, deadlineMs });
}

/** So many mean items. */
function workOf({ figures, storage }: EngineCore, model: string, items: number): ModelWork {
  const { price } = figures.prices.priceOf(model, storage.clock.wallMs());
  const known = figures.answers.of(model, 0);
  const { first_token_ms: firstMs, output_tokens_per_second: perSecond } = ASSUMED_SPEED;
  const { meanInput = TOKENS, inputRatio = 1, meanOutput = TOKENS } = known ?? {};
  const itemMs = known?.meanMs ?? firstMs + (meanOutput / perSecond) * 1_000;
  const { meanLn = Math.log(itemMs), varianceLn = 0 } = known ?? {};
  return {
    model,
    items,
    requests: items,
    inputTokens: items * meanInput * inputRatio,
    outputTokens: items * meanOutput,
    busyMs: items * itemMs,
    latencies: [{ items, meanLn, varianceLn }],
    isMeasured: known !== undefined,
    endpoints: [price?.outputUsdPerMillion === 0 ? "embeddings" : "chat"],
  };
}

function times({ inputTokens, outputTokens }: ModelWork, items: number) {
  return { items, inputTokens: items * inputTokens, outputTokens: items * outputTokens };
}

/** Nothing of it in a cache: the list price of an item has the cache of its provider in it already. */
function rowOf({ model, items, inputTokens, outputTokens }: ModelWork): ModelTotals {
  return {
    ...{ model, items, inputTokens, inputTokensLow: inputTokens, inputTokensHigh: inputTokens },
    ...{ cachedTokens: 0, cacheWriteTokens: 0, isEstimated: true },
    ...{ expectedOutputTokens: outputTokens, outputTokensLow: outputTokens, outputTokensHigh: outputTokens },
    ...{ basis: "default", learntAnswers: 0 },
  };
}
