/**
 * Batches as what a lane has cheaper than realtime, beside a tier or hours that it may have, too.
 *
 *   item --a batch probably ends in time for realtime to follow (queue/batch_choice.ts)--> batch
 *        --realtime cannot do all that is due, and a batch probably can-------------------> batch
 *        --at the same price another offer is done earlier, its refusals counted------------> that one
 *        --otherwise-----------------------------------------------------------------------> that one, or realtime
 *
 * Never for an item that a batch did not finish twice, that has failed in this call (but for what a tier had no room for), whose request
 * names a tier itself, or holds what the provider's batches do not take. Under a cap, a model's first answers are in realtime: they show whether it keeps the
 * output limits by which money is reserved.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { BatchWire } from "../../providers/batches/batch_wire.ts";
import { namesTier } from "../../providers/tier.ts";
import { type BatchOutlook, mayBatch } from "../../queue/batch_choice.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemMoney } from "../items/item_money.ts";
import type { OfferStatus } from "../items/taken_offer.ts";
import type { TierFailure } from "../offers/judgement.ts";
import type { ComingItems, LaneOffers, LaneOfOffers, OfferPlace } from "../offers/lane_offers.ts";
import { isTooLarge } from "./batch_spool.ts";
import type { Batches } from "./batches.ts";

/** How long a lane waits for the disk to take what it has for batches. */
const BEHIND_MS = 100;
/** Below it, a tier grows by what it answers. */
const MOST_REFUSED = 3 / 4;
/** What shows that a request holds tools, images or a schema of its answer, in any protocol. */
const MARKS = {
  tools: [Buffer.from('"tools"'), Buffer.from('"functionDeclarations"')],
  images: [Buffer.from('"image_url"'), Buffer.from('"inlineData"'), Buffer.from('"image"')],
  schemas: [Buffer.from('"json_schema"'), Buffer.from('"responseSchema"'), Buffer.from('"output_config"')],
} as const;

/** What the lane's batches are decided with. */
export interface BatchOfferTerms {
  readonly lane: LaneKey;
  readonly batches: Batches;
  readonly money: Pick<ItemMoney, "isProven">;
}

/** One for a lane whose provider has batches. */
export class BatchOffers implements LaneOffers {
  readonly #terms: BatchOfferTerms;
  readonly #lane: LaneOfOffers;
  readonly #other: LaneOffers | undefined;

  /** `other`: what the lane has besides. */
  constructor(terms: BatchOfferTerms, lane: LaneOfOffers, other: LaneOffers | undefined) {
    this.#terms = terms;
    this.#lane = lane;
    this.#other = other;
  }

  get status(): OfferStatus {
    const { batches, lane } = this.#terms;
    const { items } = batches.loadOf(lane, Number.POSITIVE_INFINITY).own;
    const other = this.#other?.status;
    if (items === 0 && other !== undefined) return other;
    let open = 0;
    for (const { kept } of batches.open) if (kept.record.lane === lane) open += 1;
    return { tier: "batch", items, open };
  }

  place(call: ItemCall): OfferPlace | undefined {
    const other = this.#other?.place(call);
    const { batches, lane } = this.#terms;
    const { deadlineMs } = call;
    if (deadlineMs === Number.POSITIVE_INFINITY) return other;
    const outlook = batches.outlooks.of(call.model, lane, deadlineMs, 1);
    const wasLeft = (call.owner.items.requeues.get(call.line) ?? 0) > 0;
    const hasOther = other !== undefined;
    if (!this.#isBest(outlook, hasOther, wasLeft) || !this.#isFor(call, hasOther)) return other;
    return batches.canTake(call) === "wait" ? { is: "wait", waitMs: BEHIND_MS } : { is: "batch" };
  }

  foresee(coming: ComingItems): "offer" | "batch" | undefined {
    const other = this.#other?.foresee(coming);
    const { batches, lane } = this.#terms;
    const { model, deadlineMs, items, owner } = coming;
    const isFor = deadlineMs !== Number.POSITIVE_INFINITY && !owner.settings.isHedged;
    if (!isFor || batches.wireOf(model, owner) === undefined) return other;
    const outlook = batches.outlooks.of(model, lane, deadlineMs, items, { coming });
    return this.#isBest(outlook, other !== undefined) ? "batch" : other;
  }

  sent(call: ItemCall): void {
    this.#other?.sent(call);
  }

  answered(call: ItemCall, result: AttemptResult): void {
    this.#other?.answered(call, result);
  }

  failed(call: ItemCall, failure: TierFailure): void {
    this.#other?.failed(call, failure);
  }

  refused(call: ItemCall): void {
    this.#other?.refused(call);
  }

  /** Whether a batch has time, and no other offer is done earlier at the same price. `wasLeft`: by a batch that did not finish it. */
  #isBest(outlook: BatchOutlook, hasOther: boolean, wasLeft = false): boolean {
    if (!mayBatch(outlook, this.#lane.clock.nowMs(), wasLeft)) return false;
    return !hasOther || outlook.drainMs * this.#slowness >= outlook.latency.p50;
  }

  /** How many times longer than realtime the other offer takes while it refuses most requests for want of room. */
  get #slowness(): number {
    const status = this.#other?.status;
    if (status === undefined || !("refusedShare" in status) || status.refusedShare < MOST_REFUSED) return 1;
    return this.#lane.places() / Math.max(1, status.inFlightMax) / (1 - status.refusedShare);
  }

  /** `hasOther`: what failed could go to the other offer again. */
  #isFor(call: ItemCall, hasOther: boolean): boolean {
    const { owner, provider } = call;
    if (owner.measureAgain === undefined || owner.settings.isHedged) return false;
    if (call.failed !== undefined && !hasOther) return false;
    if (call.isSecond || owner.items.notBatched.has(call.line)) return false;
    const wire = this.#terms.batches.wireOf(call.model, owner);
    if (wire === undefined || isTooLarge(wire.limits, call.bodyBytes)) return false;
    if (owner.settings.budget.isCapped && !this.#terms.money.isProven(call.model)) return false;
    return !namesTier(provider.settings.protocol, call.plainBody) && takes(wire, call.plainBody);
  }
}

function takes({ traits }: BatchWire, body: Uint8Array): boolean {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return (["tools", "images", "schemas"] as const).every(
    (kind) => traits.takes[kind] || !MARKS[kind].some((mark) => bytes.includes(mark)),
  );
}
