/**
 * What lanes have that is cheaper than realtime, as their providers sell it: a tier or hours, batches, and requests
 * that are deferred.
 */
import type { Clock } from "../../clock.ts";
import type { PriceBook } from "../../price/price_book.ts";
import type { RemoteKind } from "../../providers/batches/batch_wire.ts";
import type { DueLoad, SharedLoad } from "../../queue/due_work.ts";
import type { LaneTerms } from "../../queue/lanes.ts";
import type { Offer } from "../../queue/offers.ts";
import type { EngineConfig } from "../config/config.ts";
import type { ItemMoney } from "../items/item_money.ts";
import type { ItemPatience } from "../items/patience.ts";
import type { LaneOffers, LaneOfOffers } from "../offers/lane_offers.ts";
import { OffPeakHours } from "../offers/off_peak.ts";
import { TierLoad } from "../offers/tier_load.ts";
import { TierOffers } from "../offers/tier_offers.ts";
import { BatchOffers } from "./batch_offers.ts";
import type { Batches } from "./batches.ts";

/** Each of these is compared with what the lane has besides and with those before it. */
const REMOTE_KINDS: readonly RemoteKind[] = ["batch", "deferred"];

/** What is asked of a lane. */
export interface CheaperLaneTerms {
  readonly terms: LaneTerms;
  readonly clock: Clock;
  places(): number;
  /** Milliseconds that realtime needs for what waits in it and is due by a deadline, and for what is under way beside it or elsewhere. */
  drainMs(deadlineMs: number, load: { readonly beside: DueLoad; readonly elsewhere: SharedLoad }): number;
}

/** One for an engine. */
export class CheaperLanes {
  readonly batches: Batches;
  readonly #config: EngineConfig;
  readonly #patience: ItemPatience;
  readonly #prices: PriceBook;
  readonly #money: ItemMoney;
  /** What is in tiers of each provider. */
  readonly #inTiers = new Map<string, TierLoad>();

  constructor(
    batches: Batches,
    config: EngineConfig,
    patience: ItemPatience,
    prices: PriceBook,
    money: ItemMoney,
  ) {
    this.batches = batches;
    this.#config = config;
    this.#patience = patience;
    this.#prices = prices;
    this.#money = money;
  }

  /** Undefined for a lane whose provider sells nothing for less, or may not be used so. */
  of(lane: CheaperLaneTerms): LaneOffers | undefined {
    const { provider, key } = lane.terms;
    const { batches } = this;
    const asked: LaneOfOffers = {
      clock: lane.clock,
      patience: this.#patience,
      inFlightMax: this.#config.maxInFlight,
      places: () => lane.places(),
      inTiers: this.#inTiersOf(provider),
      drainMs: (deadlineMs, beside) =>
        lane.drainMs(deadlineMs, { beside, elsewhere: batches.outlooks.loadBeside(key, deadlineMs) }),
    };
    const [offer] = this.#config.offers.get(provider) ?? [];
    const tierFactor = offer === undefined || offer.kind === "offpeak" ? undefined : offer.priceFactor;
    const factorOf = (kind: RemoteKind): number => this.#prices.laneFactorOf(provider, kind).factor;
    const terms = { lane: key, batches, money: this.#money, factorOf, tierFactor };
    return REMOTE_KINDS.reduce(
      (other, kind) =>
        batches.hasWires(provider, kind) ? new BatchOffers({ ...terms, kind }, asked, other) : other,
      this.#other(offer, asked),
    );
  }

  #other(offer: Offer | undefined, lane: LaneOfOffers): LaneOffers | undefined {
    if (offer === undefined) return undefined;
    return offer.kind === "offpeak" ? new OffPeakHours(this.#prices, lane) : new TierOffers(offer, lane);
  }

  #inTiersOf(provider: string): TierLoad {
    const load = this.#inTiers.get(provider) ?? new TierLoad();
    this.#inTiers.set(provider, load);
    return load;
  }
}
