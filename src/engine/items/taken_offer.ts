/**
 * What an offer cheaper than realtime changes of one attempt.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { OfferKind } from "../../queue/offers.ts";

/** An offer as one attempt takes it. */
export interface TakenOffer {
  readonly kind: Exclude<OfferKind, "realtime">;
  /** Milliseconds that the attempt may take. */
  readonly attemptMsMax: number;
  /** The request as the offer wants it. */
  body(body: Uint8Array): Uint8Array;
  /** What the attempt ended with, by whether the offer or the item is to blame for it. */
  judged(result: AttemptResult): AttemptResult;
  /** The attempt has ended, or was not sent, after so many milliseconds. */
  freed(heldMs: number): void;
}
