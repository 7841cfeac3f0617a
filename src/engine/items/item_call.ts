/**
 * One item on its way through a lane, or several that share a request: what the dispatcher sends, and what the engine must release
 * afterwards. Several are places of a shard that follow each other, with the same past (joined_items.ts).
 */
import type { AnswerTap } from "../../dispatch/answer_tap.ts";
import { withCount } from "../../dispatch/attempt.ts";
import type { AttemptResult, Call, Made } from "../../dispatch/dispatcher.ts";
import type { AnswerCheck } from "../../json_schema.ts";
import type { Permit } from "../../limits/limits.ts";
import type { RefusedRow } from "../../limits/own_refusals.ts";
import type { MoneyReservation } from "../../price/budget.ts";
import { answersIn } from "../../providers/endpoints/joins.ts";
import { keepingBody } from "../../providers/kept_body.ts";
import type { Provider, WireHead } from "../../providers/provider.ts";
import type { ItemFailures, Refusals } from "../../queue/failures/blame.ts";
import { JoinedFailures } from "../../queue/failures/joined_failures.ts";
import type { LaneTerms } from "../../queue/lanes.ts";
import { joinedBody } from "../../shard/joined_body.ts";
import { mostOf, type Shard } from "../../shard/shard.ts";
import type { TokenLoad } from "../../work/limits.ts";
import { type AttemptFailure, NOTHING_SPENT, type Spent } from "../journal/journal.ts";
import { plus, SpentShares } from "../journal/shared_spent.ts";
import { checkFor, fitted, UnfitAnswer } from "../schemas/answer_fit.ts";
import type { CacheUse } from "./cache_use.ts";
import type { BoundedRequest } from "./cost_bounds.ts";
import type { ItemOwner } from "./item_owner.ts";
import type { SentBy } from "./sent_as.ts";
import type { TakenOffer } from "./taken_offer.ts";

/** Ends every wait at once. */
const LEFT: AbortSignal = AbortSignal.abort();

/** Hot path: one object per item. What few items have (failures, refusals, a reservation) are objects of their own. */
export class ItemCall implements Call {
  readonly owner: ItemOwner;
  readonly shard: Shard;
  readonly index: number;
  /** Items that share the request; `index` is the first. */
  readonly count: number;
  readonly provider: Provider;
  readonly #head: WireHead;
  readonly attempts: number;
  readonly uncounted: number;
  readonly ambiguousAttempts: number;
  readonly uncountedAmbiguous: number;
  readonly unusableAnswers: number;
  /** It was sent in an earlier call, and each of its attempts is known to have failed. */
  readonly isTried: boolean;
  /** By those attempts, and by those of this call that have ended; of several items see `spentOf`. */
  spent: Spent;
  /** The same of each of several items. */
  readonly #shares: SpentShares | undefined;
  /** Tokens reserved for it, but for an answer that did not fit. */
  readonly plainLoad: TokenLoad;
  /** Tokens reserved for it. */
  load: TokenLoad;
  /** Whether its answers that did not fit were lost with their process. */
  readonly #isAnew: boolean;
  /** Its last answer, if that did not fit: the next request has it. */
  #unfit: UnfitAnswer | undefined;
  /** How the last of those failed that have ended; undefined where it is not known. */
  lastFailure: AttemptFailure | undefined;
  /** Attempts up to the last failed one of this call; undefined before the first. */
  failed: Made | undefined;
  /** The lane that has it. */
  lane: LaneTerms;
  /** Since when its attempts fail on its lane; undefined before the first. */
  series: ItemFailures | undefined;
  /** The same for refusals of its key or its model: other failures say nothing about them. */
  refusals: Refusals | undefined;
  /** Whether another item was accepted after its first refusal and before its last attempt was sent. */
  isRefusalProven = false;
  /** Its 429s in a row. */
  refusedRow: RefusedRow | undefined;
  /** Failed attempts since its last answer, whether they are its own or not. */
  failuresInRow = 0;
  /** Monotonic: when its next attempt is due; of a failed one that is to be repeated. */
  retryAtMs = 0;
  /** Bytes of its line while a lane has it; see `claimed_bytes.ts`. */
  claimedBytes = 0;
  /** Failures of the series count against it: they were compared, with answers since the first one ended. */
  isProven = false;
  /** The last failure of the series that was proven by answers since the proven one before it, and how many were. */
  proven: ItemFailures | undefined;
  proofs = 0;
  /** Its last intent became durable, and it will not be sent. */
  isUnsent = false;
  /** For a second attempt (`dispatch/hedge.ts`): the call of the first one. Otherwise this call. */
  item: ItemCall = this;
  /** The second attempt beside this call, from its request to its end. */
  second: ItemCall | undefined;
  /** Whether its dispatcher has finished: no more of its usage will be recorded. */
  isOver = false;
  /** For a second attempt: whether it is requested, and neither sent nor refused yet. */
  isRequested = false;
  /** Whether its items are sent in halves from now on. */
  isHalved = false;
  /** Of several items: whether one of them may be why their requests failed. */
  joinedFailures: JoinedFailures | undefined;
  /** Whether it does not wait for its next attempt here, but leaves for another model. */
  isLeaving = false;
  /** For a second attempt: whether it may not be sent any more. */
  isWithdrawn = false;
  /** What its attempt takes that is cheaper than realtime. */
  offer: TakenOffer | undefined;
  /** How its last request was sent; undefined: in realtime. */
  sentAs: SentBy | undefined;
  /** When its first request left, Unix time. */
  startedWallMs: number | undefined;
  /** What its attempt has to do with the provider's prompt cache. */
  cacheUse: CacheUse | undefined;
  /** Whether no such offer is for it: it failed there, asks for a tier itself, or is for another endpoint than a chat's. Batches decide themselves. */
  isRealtimeOnly = false;
  /** Whether its last attempt was sent there and failed for other reasons than the offer's or a rate limit: the next one is in realtime. */
  failedInOffer = false;
  /** Whether it was refused as if its model did not have a tier. */
  wasTierUnknown = false;
  permit: Permit | undefined;
  reservation: MoneyReservation | undefined;
  /** By how much its bound was raised when its money was reserved; from 1. */
  boundFactor = 1;
  /** While its money is held under a cap. */
  bounded: BoundedRequest | undefined;

  constructor(
    owner: ItemOwner,
    shard: Shard,
    index: number,
    wire: { readonly provider: Provider; readonly head: WireHead },
    expected: TokenLoad,
    lane: LaneTerms,
    count = 1,
  ) {
    this.count = count;
    this.owner = owner;
    this.lane = lane;
    this.shard = shard;
    this.index = index;
    this.provider = owner.settings.keepsBody ? keepingBody(wire.provider) : wire.provider;
    this.#head = wire.head;
    this.plainLoad = expected;
    this.load = expected;
    const made = owner.items.made.size === 0 ? undefined : owner.items.made.get(this.line);
    this.attempts = made?.attempts ?? 0;
    this.uncounted = made?.uncounted ?? 0;
    this.ambiguousAttempts = made?.ambiguousAttempts ?? 0;
    this.uncountedAmbiguous = made?.uncountedAmbiguous ?? 0;
    this.unusableAnswers = made?.unusableAnswers ?? 0;
    this.isTried = made !== undefined && (made.attempts > 0 || made.failure !== undefined) && !made.isInDoubt;
    this.spent = made?.spent ?? NOTHING_SPENT;
    this.lastFailure = made?.failure;
    this.startedWallMs = made?.startedWallMs;
    if (count > 1)
      this.#shares = new SpentShares(shard.inputTokens.subarray(index, index + count), this.#spentBefore());
    this.isRealtimeOnly = shard.group.endpoint !== undefined; // cheaper tiers are for chats
    const unfit = owner.settings.fit.kept.get(this.line);
    if (unfit !== undefined) this.#with(unfit);
    this.#isAnew = this.unusableAnswers > 0 && unfit === undefined;
  }

  /** Its next request has this answer, and what does not fit. */
  askAgain(result: AttemptResult): void {
    const unfit = new UnfitAnswer(result);
    this.owner.settings.fit.kept.keep(this.line, unfit);
    this.#with(unfit);
  }

  #with(unfit: UnfitAnswer): void {
    const { inputTokens, outputTokens } = this.plainLoad;
    this.load = { inputTokens: inputTokens + unfit.tokens, outputTokens };
    this.#unfit = unfit;
  }

  /** For its answer. None for other endpoints than a chat's, nor for an answer that is read while it arrives. */
  get #check(): AnswerCheck | undefined {
    if (this.shard.group.endpoint !== undefined) return undefined;
    const check = checkFor(this.owner.settings.fit, this.schema, this.line);
    return check === undefined || this.tap !== undefined ? undefined : check;
  }

  /** See `Call`. An item that begins anew may be corrected once all the same. */
  get answersMax(): number | undefined {
    if (this.#check === undefined) return undefined;
    const { answersMax } = this.owner.settings.fit;
    if (!this.#isAnew || answersMax === 1) return answersMax;
    return Math.min(answersMax + 2, Math.max(answersMax, this.unusableAnswers + 2));
  }

  /** See `Call`. */
  get unfitAnswer(): string | undefined {
    return this.#unfit?.text;
  }

  /** Whether it is a second attempt beside another. */
  get isSecond(): boolean {
    return this.item !== this;
  }

  get line(): number {
    return this.shard.lines[this.index] as number;
  }

  get inputTokens(): number {
    return this.#sum(this.shard.inputTokens) + (this.#unfit?.tokens ?? 0);
  }

  get lineBytes(): number {
    return this.#sum(this.shard.lengths);
  }

  /** The part of an item in what the call has, by its input tokens; 1 of a single one. `index` is its place in the shard. */
  shareOf(index: number): number {
    return this.#shares?.shareOf(index - this.index) ?? 1;
  }

  /** What the attempts of an item took. */
  spentOf(index: number): Spent {
    return this.#shares?.of(index - this.index) ?? this.spent;
  }

  #spentBefore(): readonly Spent[] | undefined {
    const { made } = this.owner.items;
    if (made.size === 0) return undefined;
    return this.lines.map((line) => made.get(line)?.spent ?? NOTHING_SPENT);
  }

  /** An attempt took so much. */
  took(last: Spent): void {
    this.spent = plus(this.spent, last);
    this.#shares?.took(last);
  }

  /** A lane takes its items. */
  claim(): void {
    for (let item = 0; item < this.count; item += 1) this.owner.items.claim(this.#lineAt(item));
  }

  /** Of its items, from 1. */
  get lines(): readonly number[] {
    const lines: number[] = [];
    for (let item = 0; item < this.count; item += 1) lines.push(this.#lineAt(item));
    return lines;
  }

  #lineAt(item: number): number {
    return this.shard.lines[this.index + item] as number;
  }

  #sum(column: ArrayLike<number>): number {
    let sum = 0;
    for (let item = this.index; item < this.index + this.count; item += 1) sum += column[item] as number;
    return sum;
  }

  /** Hash of its system instruction; 0 without one. */
  get prefixHash(): number {
    return this.shard.prefixHash(this.index);
  }

  /** Output tokens reserved for it. */
  get expectedOutputTokens(): number {
    return this.load.outputTokens;
  }

  get maxOutputTokens(): number {
    return this.shard.maxOutputTokens[this.index] as number;
  }

  /** The most that one attempt can take. */
  get most(): { readonly inputTokens: number; readonly maxOutputTokens: number } {
    const most = mostOf(this.shard.most, this.index, this.count);
    return this.#unfit === undefined
      ? most
      : { ...most, inputTokens: most.inputTokens + this.#unfit.bytesMost };
  }

  /** Where its next attempt goes. */
  get head(): WireHead {
    return this.offer?.head ?? this.#head;
  }

  get body(): Uint8Array {
    const body = this.offer === undefined ? this.plainBody : this.offer.body(this.plainBody);
    return this.cacheUse === undefined ? body : this.cacheUse.body(body);
  }

  /** The same for realtime. */
  get plainBody(): Uint8Array {
    if (this.count > 1) return joinedBody(this.shard, this.index, this.index + this.count);
    const body = this.shard.body(this.index);
    return this.#unfit === undefined ? body : this.#unfit.body(body, this.provider);
  }

  /** Of its body, at most. */
  get bodyBytes(): number {
    let bytes = this.#unfit?.bytesMost ?? 0;
    for (let item = this.index; item < this.index + this.count; item += 1)
      bytes += this.shard.bodyBytes(item);
    return bytes;
  }

  get keyJson(): string {
    return this.shard.keyJson(this.index);
  }

  /** In JSON; empty text without any. */
  get metadata(): string {
    return this.shard.metadata(this.index);
  }

  /** What it says of its answer's schema, in JSON; empty text where it says nothing. */
  get schema(): string {
    return this.shard.schema(this.index);
  }

  /** What was left out of it, as JSON; empty text for nothing. */
  get warnings(): string {
    return this.shard.warnings(this.index);
  }

  get model(): string {
    return this.shard.model;
  }

  get items(): number {
    return this.count;
  }

  /** Its line was cancelled by itself, or one of its lines. */
  get isSkipped(): boolean {
    for (let item = 0; item < this.count; item += 1) if (this.owner.skips(this.#lineAt(item))) return true;
    return false;
  }

  /**
   * Whether its items are not repeated together but sent in halves. The first halves that are answered prove that the server works. To
   * be asked once after each failed request.
   */
  leavesInHalves(): boolean {
    this.isHalved = this.joinedFailures?.breaks(this.lastFailure ?? {}) === true;
    return this.isHalved;
  }

  /** True if its run cannot go on: then it no longer counts as waiting, and stays open for the next call. */
  leavesFailed(): boolean {
    if (this.owner.failure === undefined) return false;
    this.owner.items.waitingItems -= this.count;
    return true;
  }

  get tap(): AnswerTap | undefined {
    return this.owner.tapOf?.(this.line);
  }

  get waitSignal(): AbortSignal {
    return this.isLeaving ? LEFT : this.owner.left;
  }

  get cutSignal(): AbortSignal {
    return this.owner.over;
  }

  get deadlineMs(): number {
    return this.owner.settings.deadlineMs;
  }

  get attemptMsMax(): number {
    return this.offer?.attemptMsMax ?? this.lane.attemptMsMax;
  }

  /** See `Call`. */
  judged(result: AttemptResult): AttemptResult {
    const several = this.#judgedTogether(result);
    if (several !== result) return several;
    const judged = this.offer === undefined ? result : this.offer.judged(result);
    if (judged.class !== "success") return judged;
    const check = this.#check;
    return check === undefined ? judged : fitted(judged, check, this.provider);
  }

  #judgedTogether(result: AttemptResult): AttemptResult {
    const { joins } = this.shard.group;
    if (this.count === 1 && result.output === undefined) return result;
    const isOfOne = this.count === 1 && joins === undefined;
    const counted = withCount(result, isOfOne ? answersIn(result.output?.type, this.body) : this.count);
    if (this.count > 1 && counted.class !== "success") {
      this.joinedFailures ??= new JoinedFailures();
      this.joinedFailures.answered(counted === result ? result.member : "input", joins?.close ?? "");
    }
    return counted;
  }
}

/** The attempt of a call has ended, or is not sent: it has nothing to do with a cache any more. */
export function freeCache(call: ItemCall): void {
  call.cacheUse?.freed();
  call.cacheUse = undefined;
}
