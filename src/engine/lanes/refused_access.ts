/**
 * What a refusal stops that does not concern an item: a key, an account without money, a model.
 *
 *   key      never accepted: the first refusal stops the provider's lanes, until a request is answered, also one that was sent
 *            before; accepted before: three in a row
 *   account  the first refusal stops its lane
 *   model    the first refusal holds the model, in a lane of its own (model_lanes.ts)
 *
 * A refused model is compared with answers for that model (queue/failures/blame.ts), a refused key with those of its lane. One
 * proof ends an item here, so a second condition holds: nobody else was refused since the last request that was answered. Else the
 * key is what is refused, and the answers were on their way. Once several were refused together, an item needs two proofs
 * in a row: what is answered between two times when all are refused proves nothing at the second one. An item that is refused
 * beside requests that are answered needs one proof (refused_rows.ts).
 */
import type { Clock } from "../../clock.ts";
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { EarlyProbes } from "../../limits/pause.ts";
import { Blame } from "../../queue/failures/blame.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { KeyTrials } from "./key_trials.ts";
import type { Lane } from "./lane.ts";
import type { ModelLanes } from "./model_lanes.ts";
import { RefusedRows } from "./refused_rows.ts";

/** Refusals in a row that stop the lane of a key that had worked. */
const REFUSALS_MAX = 3;
/** Of an account without money: it may be one item that costs more than is left. */
const QUOTA_PROBES: EarlyProbes = { afterMs: 1_000, count: 1 };
/** Of a key or a model that was accepted: those that were refused may be items that are refused for their own sake. */
const ACCESS_PROBES: EarlyProbes = { afterMs: 500, count: 3 };
/** Models whose refusals are compared at a time. */
const MODELS_COMPARED_MAX = 1_000;

export interface RefusedAccessOptions {
  readonly clock: Clock;
  readonly models: ModelLanes;
  /** What earlier processes were refused and accepted with. */
  readonly trials: Pick<KeyTrials, "known" | "answered" | "refused">;
  readonly laneOf: (key: LaneKey) => Lane;
  readonly lanesOf: (provider: string) => readonly Lane[];
  /** Called when a lane is held, or may go on. */
  readonly onChange: (lane: Lane) => void;
}

/** One for an engine. */
export class RefusedAccess {
  readonly #options: RefusedAccessOptions;
  /** Providers that have answered, here or before. */
  readonly #answered: Set<string>;
  /** Refusals of a key in a row, by lane. */
  readonly #refusals = new Map<LaneKey, number>();
  /** By lane or model. */
  readonly #refused = new Map<string, RefusedTogether>();
  /** Of models that some request was refused for. */
  readonly #blames = new Map<string, Blame>();
  readonly #rows = new RefusedRows();

  constructor(options: RefusedAccessOptions) {
    this.#options = options;
    this.#answered = new Set(options.trials.known);
  }

  /** Whether a provider has ever answered with success. */
  hasAnswered(provider: string): boolean {
    return this.#answered.has(provider);
  }

  /** With whose answers a failure is compared: those for its model, or, when undefined, of its lane. */
  blameFor(call: ItemCall, result: AttemptResult): Blame | undefined {
    if (result.class !== "permanent" || result.scope !== "model") return undefined;
    const blame = this.#blames.get(call.model) ?? new Blame();
    if (this.#blames.size >= MODELS_COMPARED_MAX) this.#blames.clear();
    this.#blames.set(call.model, blame);
    return blame;
  }

  /** The item is sent. */
  sending(call: ItemCall): void {
    if (call.refusals !== undefined) this.#rows.sending(itemOf(call));
  }

  /**
   * Whether a failure is its item's own that was `isBlamed` on it by comparison: of a key or a model, if nobody else is
   * refused, and that twice where several were refused together before.
   */
  isOwn(call: ItemCall, result: AttemptResult, isBlamed: boolean): boolean {
    if (call.refusals !== undefined) this.#rows.returned(itemOf(call));
    if (result.class !== "permanent" || result.scope === "item") return isBlamed;
    const nowMs = this.#options.clock.nowMs();
    const sentMs = nowMs - result.latencyMs;
    const together = this.#togetherOf(result.scope === "model" ? call.model : call.lane.key);
    const item = itemOf(call);
    const isAlone = together.isAlone(item, sentMs);
    const row = this.#rows.refused(nowMs, item, call.model, sentMs);
    if (!isBlamed || call.refusals === undefined) return false;
    const { blame, proofs } = call.refusals;
    if (row === "own" || (row !== "chance" && isAlone && (proofs > 0 || !together.wereSeveral))) {
      together.ended(item);
      this.#rows.ended(item);
      return true;
    }
    call.refusals = { sentMs, endedMs: nowMs, blame, proofs: isAlone ? proofs + 1 : 0 };
    call.isRefusalProven = false;
    return false;
  }

  #togetherOf(place: string): RefusedTogether {
    const together = this.#refused.get(place) ?? new RefusedTogether();
    if (this.#refused.size >= MODELS_COMPARED_MAX) this.#refused.clear();
    this.#refused.set(place, together);
    return together;
  }

  /** A request was answered with success. */
  answered(call: ItemCall, { latencyMs }: AttemptResult): void {
    const { clock, models, laneOf, lanesOf } = this.#options;
    const { name } = call.provider.settings;
    if (!this.#answered.has(name)) {
      this.#answered.add(name);
      for (const lane of lanesOf(name)) if (lane.limits.paused.reason === "authentication") this.#goOn(lane);
    }
    this.#refusals.delete(call.lane.key);
    this.#options.trials.answered(call.model);
    const nowMs = clock.nowMs();
    const sentMs = nowMs - latencyMs;
    this.#rows.answered(nowMs, () => itemOf(call), call.model, sentMs);
    if (this.#refused.size > 0) {
      this.#refused.get(call.lane.key)?.answered(sentMs);
      this.#refused.get(call.model)?.answered(sentMs);
    }
    if (this.#blames.size > 0) this.#blames.get(call.model)?.answered(sentMs, nowMs);
    const held = models.answered(call.model); // also one that an earlier process has held
    if (held !== undefined) this.#goOn(laneOf(held)); // its items move to their family's lane
  }

  #goOn(lane: Lane): void {
    lane.limits.resume();
    lane.health.healed();
    this.#options.onChange(lane);
  }

  /** A failure that does not concern an item. */
  refused(call: ItemCall, result: AttemptResult): void {
    if (result.class !== "permanent" || result.scope === "item") return;
    const { clock, models, trials, laneOf, onChange } = this.#options;
    const nowMs = clock.nowMs();
    trials.refused(call.model, result.scope === "model" ? "model" : "account");
    if (result.scope === "model") {
      const held = laneOf(models.hold(call.model));
      const early = this.#rows.hasAnswered(call.model) ? ACCESS_PROBES : undefined;
      held.limits.pause(nowMs, "model_unavailable", early);
      held.health.troubled(call, result);
      onChange(held);
      return;
    }
    if (result.code !== "authentication_failed") {
      laneOf(call.lane.key).limits.pause(nowMs, "quota", QUOTA_PROBES);
      return;
    }
    const refusals = (this.#refusals.get(call.lane.key) ?? 0) + 1;
    this.#refusals.set(call.lane.key, refusals);
    const { provider } = call.lane;
    if (this.#answered.has(provider)) {
      if (refusals >= REFUSALS_MAX)
        laneOf(call.lane.key).limits.pause(nowMs, "authentication", ACCESS_PROBES);
      return;
    }
    for (const lane of this.#options.lanesOf(provider)) {
      lane.limits.pause(nowMs, "authentication");
      lane.health.troubled(call, result);
      if (lane.terms.key !== call.lane.key) onChange(lane);
    }
  }
}

function itemOf({ owner, line }: ItemCall): string {
  return `${owner.id} ${line}`;
}

/** Which items a key or a model is refused to at this moment: two at most, the newest. */
class RefusedTogether {
  readonly #sentMs = new Map<string, number>();
  /** Whether several ever were. */
  wereSeveral = false;

  /** The request of an item that was sent at `sentMs` is refused. Returns whether no other item is. */
  isAlone(item: string, sentMs: number): boolean {
    this.#sentMs.delete(item);
    if (this.#sentMs.size >= 2) this.#sentMs.delete([...this.#sentMs.keys()][0] as string);
    this.#sentMs.set(item, sentMs);
    if (this.#sentMs.size === 1) return true;
    this.wereSeveral = true;
    return false;
  }

  /** An item was refused for its own sake, which says nothing of the others. */
  ended(item: string): void {
    this.#sentMs.delete(item);
  }

  /** A request that was sent at `sentMs` was accepted: refusals of those before it are over. */
  answered(sentMs: number): void {
    for (const [item, refusedMs] of this.#sentMs) if (refusedMs < sentMs) this.#sentMs.delete(item);
  }
}
