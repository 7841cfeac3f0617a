/**
 * One quota of a lane: a window bucket whose limit is the smaller of the configured one and the one in responses.
 *
 * The limit in force follows `min(configured, learnt)`. It falls at once. It rises by at most 10 % per 10 s (1.1^(t/10 s), or 1 unit
 * per 10 s where that is more), never above the configured limit. If no response repeats a learnt limit for 60 s and a limit is
 * configured, the limit in force returns to the configured one at the same pace.
 *
 * The learnt limit is the one that responses state (stated_limit.ts), less what others use of it (other_use.ts). So several lanes under
 * one limit share it: each takes what the others leave.
 *
 * `remaining = 0` stops takes until the reset that the response states, at most 10 s. At OpenAI the reset is the time until the bucket
 * is *full*, up to a minute, while the next unit is available within milliseconds. Where the window is a fixed one, a 429 with its own
 * wait follows (docs/reference/providers.md).
 *
 * A ramp (ramp.ts) lowers the limit further while more than its threshold is used:
 *
 *   free --the next take would pass the threshold--> governed --use below 4/5 of the threshold--> free
 *
 * While free, it costs one comparison, and neither limits nor paces.
 */
import { WindowBucket } from "./bucket.ts";
import { OtherUse, SHARE_MIN } from "./other_use.ts";
import type { Ramp } from "./ramp.ts";
import { StatedLimit } from "./stated_limit.ts";

/** Use of one quota. */
export interface QuotaUse {
  /** Units in the last window. */
  readonly used: number;
  /** Units per window in force. */
  readonly limit: number;
}

/** The response whose headers stated what remains. */
export interface LearntFrom {
  /** Whether it was a refusal. */
  readonly isRefused: boolean;
  /** Units that this lane used in the last minute, where they count when the answer arrives; default 0. */
  readonly used?: number;
}

const WINDOW_MS = 60_000;
const RAISE_PER_STEP = 1.1;
const STEP_MS = 10_000;
const RAISE_EVERY_MS = 1_000;
const HOLD_MS_MAX = 10_000;
/** Share of this lane's use at a refusal by the provider that the lane keeps of the limit. */
const BELOW = 0.97;
const FREE_SHARE = 0.8;

/** One per lane and unit (requests, tokens, ...). Times are monotonic. */
export class Quota {
  readonly #configured: number;
  readonly #bucket: WindowBucket;
  readonly #ramp: Ramp | undefined;
  /** Use up to which the ramp does not govern; Infinity while it governs, or when it is not in use. */
  #freeUnits = Number.POSITIVE_INFINITY;
  /** Units per window that the ramp allows; Infinity while it does not govern. */
  #rampLimit = Number.POSITIVE_INFINITY;
  readonly #stated = new StatedLimit();
  readonly #others = new OtherUse();
  /** The limit in force, with its fraction. */
  #effective: number;
  #raisedAtMs: number;
  #heldUntilMs = Number.NEGATIVE_INFINITY;

  /** `configured`: units a minute; absent: nothing is limited until a limit is learnt. */
  constructor(configured: number | undefined, nowMs: number, ramp?: Ramp) {
    this.#configured = configured === undefined ? Number.POSITIVE_INFINITY : Math.max(1, configured);
    this.#effective = this.#configured;
    this.#bucket = new WindowBucket({ limit: this.#configured });
    this.#raisedAtMs = nowMs;
    this.#ramp = ramp;
    if (ramp?.isAsked === true) this.#freeUnits = ramp.threshold;
  }

  /** Units per window in force; Infinity for none. */
  get limit(): number {
    return this.#bucket.limit;
  }

  /** The limit in the last response that stated one; undefined if none did. */
  get told(): number | undefined {
    return this.#stated.units === Number.POSITIVE_INFINITY ? undefined : this.#stated.units;
  }

  get isLimited(): boolean {
    return this.#bucket.limit !== Number.POSITIVE_INFINITY;
  }

  /** Milliseconds in which the limit in force earns `amount`; 0 without a limit. */
  costMs(amount: number): number {
    return (amount * WINDOW_MS) / this.#bucket.limit;
  }

  /**
   * Milliseconds until `amount` can be taken; 0 for now. With `over`, the caller paces, and the amount may exceed the limit by
   * `over` units.
   */
  waitMs(nowMs: number, amount: number, over?: number): number {
    this.#raise(nowMs);
    const heldMs = this.#heldUntilMs - nowMs;
    if (this.#freeUnits !== Number.POSITIVE_INFINITY && this.#bucket.used(nowMs) + amount > this.#freeUnits)
      this.#govern(nowMs);
    const waitMs =
      over === undefined ? this.#bucket.waitMs(nowMs, amount) : this.#bucket.roomWaitMs(nowMs, amount, over);
    return amount > 0 && heldMs > waitMs ? heldMs : waitMs;
  }

  /** Counts `amount`, after `waitMs` returned 0; returns its slot. */
  add(nowMs: number, amount: number): number {
    return this.#bucket.add(nowMs, amount);
  }

  /** See WindowBucket. */
  adjust(nowMs: number, slot: number, delta: number): void {
    this.#bucket.adjust(nowMs, slot, delta);
  }

  /** See WindowBucket. */
  restore(nowMs: number, atMs: number, amount: number): void {
    this.#bucket.restore(nowMs, atMs, amount);
  }

  /** See WindowBucket. */
  setPace(nowMs: number, share: number): void {
    this.#bucket.setPace(nowMs, share);
  }

  /** The provider refused the growth of use. Does nothing without a ramp. */
  rampRefused(nowMs: number): void {
    if (this.#ramp === undefined) return;
    const used = this.#bucket.used(nowMs);
    this.#ramp.refused(nowMs, used);
    if (used > this.#ramp.threshold) this.#govern(nowMs);
    else if (this.#rampLimit === Number.POSITIVE_INFINITY) this.#freeUnits = this.#ramp.threshold;
  }

  /** See Ramp; undefined without one. */
  rampLevel(nowMs: number): number | undefined {
    return this.#ramp?.level(nowMs);
  }

  /** See Ramp. Does nothing without one. */
  restoreRamp(nowMs: number, ageMs: number, level: number): void {
    this.#ramp?.restore(nowMs, ageMs, level);
    this.#freeUnits = this.#ramp?.threshold ?? Number.POSITIVE_INFINITY;
  }

  /** A response stated a limit of `limit` units a minute. NaN is ignored. */
  learn(nowMs: number, limit: number): void {
    if (Number.isNaN(limit) || !this.#stated.believes(limit, this.#effective)) return;
    this.#raise(nowMs);
    this.#stated.learn(nowMs, limit);
    if (this.#stated.units < this.#effective)
      this.#enforce(nowMs, Math.min(this.#stated.units, this.#target(nowMs)));
  }

  /** A response stated how many units remain, and in how many milliseconds the bucket is full again. */
  learnRemaining(
    nowMs: number,
    remaining: number,
    resetMs: number | undefined,
    { isRefused, used = 0 }: LearntFrom = { isRefused: false },
  ): void {
    const isSpent = remaining === 0 && resetMs !== undefined && resetMs > 0;
    this.#heldUntilMs = isSpent ? nowMs + Math.min(resetMs, HOLD_MS_MAX) : Number.NEGATIVE_INFINITY;
    const limit = this.#stated.units;
    if (limit === Number.POSITIVE_INFINITY) return;
    const own = Math.max(used, this.#bucket.used(nowMs));
    const isUsedUp = isRefused && remaining < limit * SHARE_MIN;
    const others = isUsedUp ? limit - own * BELOW : limit - remaining - own;
    if (!this.#others.learn(nowMs, others, limit, isUsedUp)) return;
    this.#raise(nowMs);
    const target = this.#target(nowMs);
    if (target < this.#effective * (1 - SHARE_MIN)) this.#enforce(nowMs, target);
  }

  /** The limit to which the one in force rises slowly. */
  #target(nowMs: number): number {
    if (this.#configured !== Number.POSITIVE_INFINITY && this.#stated.isOld(nowMs)) return this.#configured;
    return Math.min(this.#configured, Math.max(1, this.#others.leftOf(this.#stated.units)));
  }

  /** Use and limit of the last window; undefined while nothing is limited. */
  use(nowMs: number): QuotaUse | undefined {
    if (!this.isLimited) return undefined;
    this.#raise(nowMs);
    return { used: this.#bucket.used(nowMs), limit: this.#bucket.limit };
  }

  #raise(nowMs: number): void {
    const elapsedMs = nowMs - this.#raisedAtMs;
    if (elapsedMs < RAISE_EVERY_MS) return;
    const target = this.#target(nowMs);
    if (this.#effective < target) {
      const steps = elapsedMs / STEP_MS;
      const raised = Math.max(this.#effective * RAISE_PER_STEP ** steps, this.#effective + steps);
      this.#enforce(nowMs, Math.min(target, raised));
    }
    this.#raisedAtMs = nowMs;
    if (this.#ramp?.isAsked === true) this.#noteUse(nowMs, this.#ramp);
  }

  #enforce(nowMs: number, limit: number): void {
    this.#effective = limit;
    this.#raisedAtMs = nowMs;
    this.#applyLimit(nowMs);
  }

  #applyLimit(nowMs: number): void {
    this.#bucket.setLimit(nowMs, Math.min(Math.floor(this.#effective), this.#rampLimit));
  }

  #noteUse(nowMs: number, ramp: Ramp): void {
    const used = this.#bucket.used(nowMs);
    ramp.note(nowMs, used);
    if (this.#rampLimit === Number.POSITIVE_INFINITY) return;
    if (used >= ramp.threshold * FREE_SHARE) {
      this.#govern(nowMs);
      return;
    }
    this.#freeUnits = ramp.threshold;
    this.#rampLimit = Number.POSITIVE_INFINITY;
    this.#applyLimit(nowMs);
  }

  #govern(nowMs: number): void {
    if (this.#ramp === undefined) return;
    this.#freeUnits = Number.POSITIVE_INFINITY;
    this.#rampLimit = this.#ramp.allowed(nowMs);
    this.#applyLimit(nowMs);
  }
}

/** Returns the quota that is closer to its limit: the lane's own or the shared one. */
export function fuller(own: QuotaUse | undefined, shared: QuotaUse | undefined): QuotaUse | undefined {
  if (own === undefined || shared === undefined) return own ?? shared;
  return shared.used / shared.limit > own.used / own.limit ? shared : own;
}
