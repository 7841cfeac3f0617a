/**
 * A cheaper tier of a lane: which of its items go there, and what the tier is known to bear.
 *
 *   item --time for it (queue/offer_choice.ts), tier has a place--> taken --answered------------------> its end
 *        --no place--> waits                                          |---shed-------> waits: it costs nothing
 *        --no time---> realtime                                       |---slow-------> realtime from now on
 *                                                                     |---5xx, lost--> realtime once, then here again
 *                                                                     |---unknown----> realtime, which may answer it
 *   model --realtime answers what the tier refused, and the tier never answered the model--> off
 *         --three in a row: such items, or answers of another tier than the one asked for--> off: it would cost as much
 *
 * Off is for six hours: providers add models.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import { SpareCapacity } from "../../limits/spare_capacity.ts";
import { laneTierOf } from "../../price/lane_factors.ts";
import type { ProviderSettings, WireHead } from "../../providers/provider.ts";
import { createProvider } from "../../providers/registry.ts";
import { namesTier, withTier } from "../../providers/tier.ts";
import { type Chosen, chooseOffer, offerShareOf } from "../../queue/offer_choice.ts";
import type { TierOffer } from "../../queue/offers.ts";
import type { ItemCall } from "../items/item_call.ts";
import { offerLatencies } from "../items/patience.ts";
import type { OfferStatus, TakenOffer } from "../items/taken_offer.ts";
import { blamedOnTier, type TierFailure, tierFailureOf } from "./judgement.ts";
import type { LaneOffers, LaneOfOffers, OfferedItem, OfferPlace } from "./lane_offers.ts";
import { TierLoad } from "./tier_load.ts";

const OFF_MS = 6 * 3_600_000;
const OTHERS_MAX = 3;
/** Of a lane that many models share; beyond, all are forgotten and asked again. */
const MODELS_MAX = 1_000;
/** For how long others wait for what realtime says to an item that was refused in a tier. */
const DOUBT_MS = 60_000;
/** Of the places in flight: the rest is for what must be sent in realtime. Of a single place, it is all. */
export const PLACES_SHARE: number = 3 / 4;
/** How soon places are looked for again that other lanes have taken. */
const OTHERS_MS = 1_000;
/** A timer may fire early by a rounding of its milliseconds. */
const WAIT_MS_MIN = 1;

/** What is known of a model in a tier. */
interface TierOfModel {
  isKnown: boolean;
  /** Answers in a row that another tier gave, those of realtime to what this one refused included. */
  others: number;
  /** Until then it is not asked for; monotonic. */
  offUntilMs: number;
  /** Until then it is not known whether the model has the tier at all, and items wait; monotonic. */
  doubtUntilMs: number;
}

/** One for a lane and an offer. */
export class TierOffers implements LaneOffers {
  readonly #offer: TierOffer;
  readonly #lane: LaneOfOffers;
  readonly #models = new Map<string, TierOfModel>();
  readonly #heads = new Map<string, WireHead>();
  readonly #capacity: SpareCapacity;
  readonly #load = new TierLoad();

  constructor(offer: TierOffer, lane: LaneOfOffers) {
    this.#offer = offer;
    this.#lane = lane;
    this.#capacity = new SpareCapacity(Math.max(1, Math.floor(lane.inFlightMax * PLACES_SHARE)), () =>
      lane.clock.random(),
    );
  }

  get status(): OfferStatus {
    const { inFlight, places, refusedShare } = this.#capacity;
    return { tier: this.#offer.kind, inFlight, inFlightMax: places, refusedShare };
  }

  foresee(items: OfferedItem): "offer" | undefined {
    return this.#chosenFor(items) === undefined ? undefined : "offer";
  }

  place(call: ItemCall): OfferPlace | undefined {
    if (call.isRealtimeOnly || call.failedInOffer) return undefined;
    if (call.isTried && call.failed === undefined) return undefined; // it failed in an earlier process, perhaps here
    const chosen = this.#chosenFor(call);
    if (chosen === undefined) return undefined;
    if (namesTier(call.provider.settings.protocol, call.plainBody)) {
      call.isRealtimeOnly = true; // its caller has chosen
      return undefined;
    }
    const nowMs = this.#lane.clock.nowMs();
    const doubtMs = (this.#models.get(call.model)?.doubtUntilMs ?? 0) - nowMs;
    const crowdedMs = this.#lane.inTiers.items < this.#placesMax ? 0 : this.#crowdedMs;
    const waitMs = Math.max(crowdedMs, doubtMs, this.#capacity.waitMs(nowMs));
    if (waitMs > 0)
      return {
        is: "wait",
        waitMs: Math.min(waitMs, Math.max(WAIT_MS_MIN, chosen.switchMs - nowMs + WAIT_MS_MIN)),
      };
    return { is: "taken", taken: this.#taken(call, chosen.attemptMsMax) };
  }

  get #placesMax(): number {
    return Math.floor(this.#lane.places() * PLACES_SHARE);
  }

  /** Undefined for an item that does not go to the tier. */
  #chosenFor(item: OfferedItem): Chosen | undefined {
    const { model, deadlineMs } = item;
    const { isHedged, lanes, policy, minOnTime } = item.owner.settings;
    if (deadlineMs === Number.POSITIVE_INFINITY || isHedged) return undefined;
    if (!lanes.allows(this.#offer.kind, model)) return undefined;
    const nowMs = this.#lane.clock.nowMs();
    if (this.#isOff(model, nowMs) || this.#placesMax === 0) return undefined;
    const { patience } = this.#lane;
    return chooseOffer(this.#offer, {
      nowMs,
      deadlineMs,
      drainMs: this.#lane.drainMs(deadlineMs, this.#load),
      ownDrainMs: this.#lane.drainMs(Number.NEGATIVE_INFINITY, this.#load),
      realtimeMs: patience.quantileMs(item, minOnTime),
      offerMs: patience.quantileMs(offerLatencies(item, this.#offer.kind), offerShareOf(policy)),
      policy,
    });
  }

  /** The lane is called when a place of its own is free, but not when another lane's is. */
  get #crowdedMs(): number {
    return this.#load.items === this.#lane.inTiers.items ? Number.POSITIVE_INFINITY : OTHERS_MS;
  }

  sent({ load }: ItemCall): void {
    this.#capacity.take();
    this.#load.add(load);
    this.#lane.inTiers.add(load);
  }

  answered(call: ItemCall, { servedTier }: AttemptResult): void {
    if (call.offer === undefined) {
      if (call.wasTierUnknown) this.#answeredByOther(call.model);
      return;
    }
    this.#capacity.answered();
    const model = this.#of(call.model);
    model.isKnown = true;
    model.doubtUntilMs = 0;
    if (laneTierOf(servedTier) === this.#offer.kind) model.others = 0;
    else this.#answeredByOther(call.model);
  }

  failed(call: ItemCall, failure: TierFailure): void {
    if (failure === "unknown") {
      call.wasTierUnknown = true;
      const model = this.#of(call.model);
      if (!model.isKnown) model.doubtUntilMs = this.#lane.clock.nowMs() + DOUBT_MS;
    }
    if (failure !== "shed") call.isRealtimeOnly = true;
    if (failure !== "unknown") this.#capacity.refused(this.#lane.clock.nowMs());
  }

  refused({ model, wasTierUnknown }: ItemCall): void {
    if (wasTierUnknown) this.#of(model).doubtUntilMs = 0;
  }

  #taken(call: ItemCall, attemptMsMax: number): TakenOffer {
    const { kind } = this.#offer;
    const { settings } = call.provider;
    return {
      kind,
      attemptMsMax,
      ...(kind === "slow" ? { head: this.#slowHead(settings, call.model) } : {}),
      body: (body) => (kind === "slow" ? body : withTier(settings.protocol, body, kind)),
      judged: (result) => {
        if (result.class === "success") return kind === "slow" ? { ...result, servedTier: kind } : result;
        const failure = tierFailureOf(result);
        return failure === undefined ? result : blamedOnTier(result, failure, kind);
      },
      freed: (heldMs) => {
        this.#capacity.free(heldMs);
        this.#load.remove(call.load);
        this.#lane.inTiers.remove(call.load);
      },
    };
  }

  /** Where the provider is slow and costs less; one object for a model, as in realtime. */
  #slowHead(settings: ProviderSettings, model: string): WireHead {
    const { batchChatUrl = settings.baseUrl } = settings;
    const known = this.#heads.get(model);
    if (known !== undefined) return known;
    const name = model.slice(model.indexOf(":") + 1);
    const head = createProvider({ ...settings, baseUrl: batchChatUrl }).head(name);
    if (this.#heads.size >= MODELS_MAX) this.#heads.clear();
    this.#heads.set(model, head);
    return head;
  }

  #isOff(model: string, nowMs: number): boolean {
    return (this.#models.get(model)?.offUntilMs ?? 0) > nowMs;
  }

  /** Whose answers cost as much as those of realtime. */
  #answeredByOther(name: string): void {
    const model = this.#of(name);
    model.others += 1;
    if (model.isKnown && model.others < OTHERS_MAX) return;
    model.offUntilMs = this.#lane.clock.nowMs() + OFF_MS;
    model.others = model.doubtUntilMs = 0;
    model.isKnown = false;
  }

  #of(model: string): TierOfModel {
    if (this.#models.size >= MODELS_MAX && !this.#models.has(model)) this.#models.clear();
    const known = this.#models.get(model) ?? { isKnown: false, others: 0, offUntilMs: 0, doubtUntilMs: 0 };
    this.#models.set(model, known);
    return known;
  }
}
