/**
 * What an offer cheaper than realtime changes of one attempt, and what is shown of it.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { WireHead } from "../../providers/provider.ts";
import type { TierOffer } from "../../queue/offers.ts";

/** An offer as one attempt takes it. */
export interface TakenOffer {
  readonly kind: TierOffer["kind"];
  /** Milliseconds that the attempt may take. */
  readonly attemptMsMax: number;
  /** Where the request goes; absent: where it would in realtime. */
  readonly head?: WireHead;
  /** The request as the offer wants it. */
  body(body: Uint8Array): Uint8Array;
  /** What the attempt ended with, by whether the offer or the item is to blame for it. */
  judged(result: AttemptResult): AttemptResult;
  /** The attempt has ended, or was not sent, after so many milliseconds. */
  freed(heldMs: number): void;
}

/** What is cheaper at one moment, for people and metrics. */
export type OfferStatus =
  | {
      readonly tier: "flex" | "slow";
      readonly inFlight: number;
      /** Requests that may be in flight in it now. */
      readonly inFlightMax: number;
      /** Moving share of requests that it refused for want of capacity, 0 to 1. */
      readonly refusedShare: number;
    }
  | {
      readonly tier: "offpeak";
      /** Milliseconds until the price falls for which work waits; absent while nothing does. */
      readonly beginsInMs?: number;
    }
  | {
      readonly tier: "batch";
      /** Items with batches. */
      readonly items: number;
      /** Batches that have not ended. */
      readonly open: number;
    };
