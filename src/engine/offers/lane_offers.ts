/**
 * What a lane has that is cheaper than realtime, as the lane asks it: a tier that is asked for in the request (tier_offers.ts), hours
 * that cost less (off_peak.ts), and batches and deferred requests (engine/batches/batch_offers.ts).
 */
import type { Clock } from "../../clock.ts";
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { BatchEndpoint, RemoteKind } from "../../providers/batches/batch_wire.ts";
import type { DueLoad } from "../../queue/due_work.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { OwnerTerms } from "../items/item_owner.ts";
import type { ItemPatience } from "../items/patience.ts";
import type { OfferStatus, TakenOffer } from "../items/taken_offer.ts";
import type { TierFailure } from "./judgement.ts";
import type { TierLoad } from "./tier_load.ts";

/** What offers need of their lane. */
export interface LaneOfOffers {
  readonly clock: Clock;
  readonly patience: Pick<ItemPatience, "quantileMs">;
  /** Requests in flight that the lane may ever have. */
  readonly inFlightMax: number;
  /** Requests in flight that it may have now. */
  places(): number;
  /** What the lanes of its provider have in cheaper tiers together. */
  readonly inTiers: TierLoad;
  /** Milliseconds that realtime needs for all that waits and is due by a deadline, and for what is under way `beside` it. */
  drainMs(deadlineMs: number, beside: DueLoad): number;
}

/** What is to become of an item: an offer to take, or how long to wait for one. */
export type OfferPlace =
  | { readonly is: "taken"; readonly taken: TakenOffer }
  | { readonly is: "wait"; readonly waitMs: number }
  /** It goes with a batch or is deferred, and leaves the lane. */
  | { readonly is: "batch"; readonly kind: RemoteKind };

/** What decides of an item where it goes, besides its request. */
export interface OfferedItem {
  /** `<provider>:<name>`. */
  readonly model: string;
  /** 0 where it is not known. */
  readonly maxOutputTokens: number;
  /** Monotonic. */
  readonly deadlineMs: number;
  readonly owner: { readonly settings: Pick<OwnerTerms, "isHedged" | "lanes" | "policy" | "minOnTime"> };
}

/** Items that are alike and not in a lane yet. */
export interface ComingItems extends OfferedItem, DueLoad {
  /** What they ask for. */
  readonly endpoints: readonly BatchEndpoint[];
}

/** One for a lane. */
export interface LaneOffers {
  readonly status: OfferStatus;
  /** Where such items would go now, unless their requests say otherwise; undefined for realtime. */
  foresee(items: ComingItems): "offer" | RemoteKind | undefined;
  /** Where an item of the lane goes now; undefined for realtime. */
  place(call: ItemCall): OfferPlace | undefined;
  /** A call that took the offer was admitted. */
  sent(call: ItemCall): void;
  /** A call was answered with success, in realtime or here. */
  answered(call: ItemCall, result: AttemptResult): void;
  /** An attempt here failed for the tier's reasons. */
  failed(call: ItemCall, failure: TierFailure): void;
  /** An item was refused in realtime for its own sake. */
  refused(call: ItemCall): void;
}
