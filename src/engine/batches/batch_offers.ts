/**
 * Batches of a kind as what a lane has cheaper than realtime, beside a tier, hours or batches of another kind that it may have, too.
 *
 *   item --a batch probably ends in time for realtime to follow (queue/batch_choice.ts)--> batch
 *        --realtime cannot do all that is due, and a batch probably can-------------------> batch
 *        --another offer costs less, or as much and is done earlier, its refusals counted-> that one
 *        --otherwise-----------------------------------------------------------------------> that one, or realtime
 *
 * Never for an item that a batch did not finish twice, or that was tried before where it would be deferred, that has failed in this call
 * (but for what a tier had no capacity for), whose request names a tier or files, is for an endpoint that the provider's batches do not have, or holds
 * what they do not take. Under a cap, a model's first answer is in realtime: it shows whether it keeps the output limits by which money is
 * reserved. Others wait for it, while realtime could still do all of them. Embeddings have no output.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import { batchEndpointOf } from "../../providers/batches/batch_endpoints.ts";
import type { RemoteKind, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { namesTier } from "../../providers/tier.ts";
import { type BatchOutlook, isFeasible, mayBatch, type WaitingItem } from "../../queue/batch_choice.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import { hasNoOutput } from "../../work/request.ts";
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
/** How long between two looks whether another deferred request may be open. */
const ROOM_MS = 1_000;
/** What shows that a request holds tools, images or a schema of its answer, in any protocol. */
const MARKS = {
  tools: [Buffer.from('"tools"'), Buffer.from('"functionDeclarations"')],
  images: [Buffer.from('"image_url"'), Buffer.from('"inlineData"'), Buffer.from('"image"')],
  schemas: [Buffer.from('"json_schema"'), Buffer.from('"responseSchema"'), Buffer.from('"output_config"')],
} as const;

/** What the lane's batches are decided with. */
export interface BatchOfferTerms {
  readonly kind: RemoteKind;
  readonly lane: LaneKey;
  readonly batches: Batches;
  readonly money: Pick<ItemMoney, "isProven" | "isOnTrial" | "isFree">;
  /** Share of the list price that batches of a kind cost. */
  factorOf(kind: RemoteKind): number;
  /** The same for the tier that the lane has, too; undefined without one. */
  readonly tierFactor: number | undefined;
}

/** What else would be done with an item. */
type Rival = { readonly is: "offer" } | { readonly is: "batch"; readonly kind: RemoteKind };

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
    const { batches, lane, kind } = this.#terms;
    const { model, deadlineMs } = call;
    if (deadlineMs === Number.POSITIVE_INFINITY) return other;
    const outlook = batches.outlooks.of(model, lane, deadlineMs, 1, { kind });
    const { items, settings } = call.owner;
    const isAgain = (items.requeues.get(call.line) ?? 0) > 0;
    const waiting = { policy: settings.policy, isAgain, isFree: this.#terms.money.isFree(model) };
    const rival = other === undefined || other.is === "batch" ? other : OFFER;
    const wire = this.#isBest(model, outlook, rival, waiting)
      ? this.#wireFor(call, other !== undefined)
      : undefined;
    if (wire === undefined) return other;
    if (this.#isUnbounded(call)) return this.#awaitProof(call, outlook, rival) ?? other;
    const taken = batches.canTake(call, wire);
    if (taken === "yes") return { is: "batch", kind };
    if (taken === "wait") return { is: "wait", waitMs: BEHIND_MS };
    return this.#isCheaperThan(rival) ? (this.#waitForRoom(outlook) ?? other) : other;
  }

  foresee(coming: ComingItems): "offer" | RemoteKind | undefined {
    const other = this.#other?.foresee(coming);
    const { batches, lane, kind } = this.#terms;
    const { model, deadlineMs, items, owner } = coming;
    const isFor = deadlineMs !== Number.POSITIVE_INFINITY && !owner.settings.isHedged;
    if (!isFor || batches.wireOf(model, owner, kind, coming.endpoints) === undefined) return other;
    const outlook = batches.outlooks.of(model, lane, deadlineMs, items, { kind, coming });
    const rival: Rival | undefined =
      other === undefined ? undefined : other === "offer" ? OFFER : { is: "batch", kind: other };
    const { policy } = owner.settings;
    const isFree = this.#terms.money.isFree(model);
    return this.#isBest(model, outlook, rival, { policy, isFree }) ? kind : other;
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

  /** Whether a batch has time, and nothing else costs less, or as much and is done earlier. */
  #isBest(model: string, outlook: BatchOutlook, rival: Rival | undefined, item: WaitingItem): boolean {
    if (!mayBatch(outlook, this.#lane.clock.nowMs(), item)) return false;
    if (rival === undefined || this.#isCheaperThan(rival)) return true;
    const { batches, lane, kind, factorOf } = this.#terms;
    if (factorOf(kind) > this.#factorOf(rival)) return false;
    if (rival.is === "offer") return outlook.drainMs * this.#slowness >= outlook.latency.p50;
    const { latency } = batches.outlooks.of(model, lane, outlook.deadlineMs, 1, { kind: rival.kind });
    return outlook.latency.p50 < latency.p50;
  }

  /** How many times longer than realtime the other offer takes while it refuses most requests for want of room. */
  get #slowness(): number {
    const status = this.#other?.status;
    if (status === undefined || !("refusedShare" in status) || status.refusedShare < MOST_REFUSED) return 1;
    return this.#lane.places() / Math.max(1, status.inFlightMax) / (1 - status.refusedShare);
  }

  #isCheaperThan(rival: Rival | undefined): boolean {
    const { kind, factorOf } = this.#terms;
    return factorOf(kind) < this.#factorOf(rival);
  }

  /** Of the list price; hours that cost less are taken to cost as much as this. */
  #factorOf(rival: Rival | undefined): number {
    const { kind, factorOf, tierFactor = factorOf(kind) } = this.#terms;
    if (rival === undefined) return 1;
    return rival.is === "batch" ? factorOf(rival.kind) : tierFactor;
  }

  /** Whether batches may not be sent under a cap, because nothing has shown yet that the bounds of what they may cost hold. */
  #isUnbounded({ owner, shard, model }: ItemCall): boolean {
    const hasOutput = !hasNoOutput(shard.group.endpoint);
    return hasOutput && owner.settings.budget.isCapped && !this.#terms.money.isProven(model);
  }

  #awaitProof({ model, maxOutputTokens }: ItemCall, outlook: BatchOutlook, rival: Rival | undefined) {
    const isSoonKnown = maxOutputTokens > 0 && this.#terms.money.isOnTrial(model);
    return isSoonKnown && this.#isCheaperThan(rival) ? this.#waitForRoom(outlook) : undefined;
  }

  /** While realtime can do all of it after that. */
  #waitForRoom(outlook: BatchOutlook): OfferPlace | undefined {
    const laterMs = this.#lane.clock.nowMs() + ROOM_MS + outlook.latency.p50;
    return isFeasible(outlook, laterMs) ? { is: "wait", waitMs: ROOM_MS } : undefined;
  }

  /** The wire, for an item that may go with a batch. `hasOther`: what failed could go to the other offer again. */
  #wireFor(call: ItemCall, hasOther: boolean): RemoteWire | undefined {
    const { owner, provider, model, plainBody } = call;
    const { batches, kind } = this.#terms;
    if (owner.measureAgain === undefined || owner.settings.isHedged) return undefined;
    if (call.shard.group.hasInserts === true) return undefined; // files are read when a request is sent
    // Nothing lists what was submitted: an item is deferred once, and nobody knows how often it was if it was tried before.
    if (kind === "deferred" && call.attempts > 0) return undefined;
    if (call.failed !== undefined && !hasOther) return undefined;
    if (call.isSecond || owner.items.notBatched.has(call.line)) return undefined;
    const { endpoint } = call.shard.group;
    const wire = batches.wireOf(model, owner, kind, [batchEndpointOf(endpoint)]);
    if (wire === undefined || isTooLarge(wire.limits, call.bodyBytes)) return undefined;
    const isFor = !namesTier(provider.settings.protocol, plainBody) && takes(wire, plainBody);
    return isFor ? wire : undefined;
  }
}

const OFFER: Rival = { is: "offer" };

function takes(wire: RemoteWire, body: Uint8Array): boolean {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const isTaken = (["tools", "images", "schemas"] as const).every(
    (kind) => wire.traits.takes[kind] || !MARKS[kind].some((mark) => bytes.includes(mark)),
  );
  return isTaken && wire.takesBody?.(body) !== false;
}
