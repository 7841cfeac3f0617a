/**
 * Hours that cost less: work waits for them as far as its deadline allows.
 *
 *   item --the price falls later, and realtime can do all that is due between then and the deadline--> waits
 *        --otherwise---------------------------------------------------------------------------------> realtime, now
 *
 * An item that is sent lowers what must be done after the price falls, so exactly as much is sent before as has to be.
 * Prices by the clock are those of the price list (price/base.ts); they are looked up once for each model and change.
 */

import type { PriceBook } from "../../price/price_book.ts";
import type { BasePrice } from "../../price/rates.ts";
import { NO_LOAD } from "../../queue/due_work.ts";
import { rescueMs } from "../../queue/offer_choice.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { OfferStatus } from "../items/taken_offer.ts";
import type { LaneOffers, LaneOfOffers, OfferedItem, OfferPlace } from "./lane_offers.ts";

/** Of a lane that many models share; beyond, all are looked up again. */
const MODELS_MAX = 1_000;
/** What the policy `balanced` keeps of the time after the price falls, in times of what realtime needs. */
const BALANCED_TIMES = 2;
/** After so long it is asked again: of a long file little was read at first, other work arrives, and a calendar may be set. */
const WAIT_MS_MAX = 5_000;

/** When the price of a model falls, as it was looked up. */
interface Fall {
  /** The look-up holds in this span of Unix time. */
  readonly fromWallMs: number;
  readonly untilWallMs: number;
  /** Whether the price is lower at its end. */
  readonly isFall: boolean;
}

/** One for a lane. */
export class OffPeakHours implements LaneOffers {
  readonly #lane: LaneOfOffers;
  readonly #prices: PriceBook;
  readonly #falls = new Map<string, Fall>();
  /** Monotonic: when the hours begin that something waits for. */
  #beginsMs = Number.NEGATIVE_INFINITY;

  constructor(prices: PriceBook, lane: LaneOfOffers) {
    this.#prices = prices;
    this.#lane = lane;
  }

  get status(): OfferStatus {
    const beginsInMs = this.#beginsMs - this.#lane.clock.nowMs();
    return beginsInMs > 0 ? { tier: "offpeak", beginsInMs } : { tier: "offpeak" };
  }

  foresee(items: OfferedItem): "offer" | undefined {
    return this.#waitMs(items) === undefined ? undefined : "offer";
  }

  place(call: ItemCall): OfferPlace | undefined {
    const fallsInMs = this.#waitMs(call);
    if (fallsInMs === undefined) return undefined;
    this.#beginsMs = this.#lane.clock.nowMs() + fallsInMs;
    return { is: "wait", waitMs: Math.min(WAIT_MS_MAX, fallsInMs) };
  }

  sent(): void {}

  answered(): void {}

  failed(): void {}

  refused(): void {}

  /** Until the hours that an item waits for; undefined for one that does not wait. */
  #waitMs(item: OfferedItem): number | undefined {
    const { model, deadlineMs } = item;
    const { lanes, policy, minOnTime } = item.owner.settings;
    if (deadlineMs === Number.POSITIVE_INFINITY || !lanes.allows("offpeak", model)) return undefined;
    const fallsInMs = this.#fallsInMs(model);
    if (fallsInMs === undefined) return undefined;
    const realtimeMs = this.#lane.patience.quantileMs(item, minOnTime);
    const neededMs = this.#lane.drainMs(deadlineMs, NO_LOAD) + rescueMs(realtimeMs);
    const keptMs = policy === "balanced" ? BALANCED_TIMES * neededMs : neededMs;
    return this.#lane.clock.nowMs() + fallsInMs + keptMs > deadlineMs ? undefined : fallsInMs;
  }

  /** Undefined where it does not, as far as is known. */
  #fallsInMs(model: string): number | undefined {
    const wallMs = this.#lane.clock.wallMs();
    const known = this.#falls.get(model);
    const fall =
      known !== undefined && wallMs >= known.fromWallMs && wallMs < known.untilWallMs
        ? known
        : this.#lookUp(model, wallMs);
    return fall.isFall ? fall.untilWallMs - wallMs : undefined;
  }

  #lookUp(model: string, wallMs: number): Fall {
    const { price } = this.#prices.priceOf(model, wallMs);
    const untilWallMs = price?.validUntilWallMs ?? Number.POSITIVE_INFINITY;
    const later =
      untilWallMs === Number.POSITIVE_INFINITY ? undefined : this.#prices.priceOf(model, untilWallMs).price;
    const isFall = price !== undefined && later !== undefined && isCheaper(later, price);
    if (this.#falls.size >= MODELS_MAX) this.#falls.clear();
    const fall = { fromWallMs: price?.validFromWallMs ?? Number.NEGATIVE_INFINITY, untilWallMs, isFall };
    this.#falls.set(model, fall);
    return fall;
  }
}

/** In both directions: what requests consist of is not known. */
function isCheaper(later: BasePrice, now: BasePrice): boolean {
  const [inputs, outputs] = [
    later.inputUsdPerMillion - now.inputUsdPerMillion,
    later.outputUsdPerMillion - now.outputUsdPerMillion,
  ];
  return inputs <= 0 && outputs <= 0 && inputs + outputs < 0;
}
