/**
 * One quota per sliding window: at most `limit` units in any 60 seconds, spread evenly by pacing.
 *
 * Two accounts track every take, and both must agree:
 * - The window log guarantees the limit. Time is cut into slots of `(windowMs + guardMs) / slots` (about 60 ms). A take counts in its
 *   slot until the whole slot is older than the window. With `N` slots to the window, slots `current - N .. current` count, so one sum
 *   always includes two takes less than a window apart. The cost is one slot and the guard per window: 0.5 % of the limit. The guard
 *   covers jitter on the way to the provider.
 * - Pacing spreads takes, by GCRA (ITU-T I.371; brandur.org/rate-limiting): `next` is the time at which all units taken would have
 *   been earned at `limit / windowMs`. A take is early while `next - (burst - min(amount, burst)) * msPerUnit > now`, and sets
 *   `next = max(next, now) + amount * msPerUnit`.
 * Providers that enforce per second (60 a minute as 1 a second) thus never see a minute's burst.
 * Why both: a token bucket with capacity B and rate r allows B + 60 r in one minute, more than its limit.
 *
 * An amount above the limit waits for an empty window, is then taken completely, and blocks until it has aged out.
 * Amounts are whole numbers. A raise by `adjust` may exceed the limit; later takes wait out the excess.
 *
 * Limits: 8 bytes a slot, 8 KB a bucket for any limit. Hot path: `take` 0.2 us (bench/parts/admit.ts).
 */
import { ringPosition } from "./ring.ts";

export type Take =
  | { readonly ok: true; readonly slot: number }
  | { readonly ok: false; readonly waitMs: number };

export interface WindowBucketOptions {
  /** Units per window, at least 1; Infinity counts without limiting. */
  readonly limit: number;
  /** Length of the provider's window; 60,000. */
  readonly windowMs?: number;
  /** How much later than its neighbours a request may arrive; extends the window; 250. */
  readonly guardMs?: number;
  /** Slots per window; 1,000. More slots are more exact and take 8 bytes each. */
  readonly slots?: number;
  /** Units that may be taken at once; 1 % of the limit, at least 1. */
  readonly burst?: number;
}

/** Longer than the rounding error of a double's milliseconds, so a caller who waits `waitMs` does not have to wait again. */
const ROUNDING_MS = 0.001;
const BURST_SHARE = 0.01;

export class WindowBucket {
  readonly #windowMs: number;
  readonly #slotMs: number;
  readonly #slots: number;
  readonly #fixedBurst: number | undefined;
  /** Units per slot, a ring of `slots + 1`. */
  readonly #taken: Float64Array<ArrayBuffer>;
  /** Number of the newest slot since time 0. */
  #newest = Number.NEGATIVE_INFINITY;
  /** Its position in the ring, kept because most units count in the newest slot. */
  #newestPosition = 0;
  /** Sum of the ring. */
  #total = 0;
  #limit = Number.POSITIVE_INFINITY;
  #burst = Number.POSITIVE_INFINITY;
  /** Share of the limit's rate that pacing allows. */
  #pace = 1;
  #msPerUnit = 0;
  /** GCRA's theoretical arrival time. */
  #nextMs = Number.NEGATIVE_INFINITY;

  constructor(options: WindowBucketOptions) {
    this.#windowMs = options.windowMs ?? 60_000;
    this.#slots = options.slots ?? 1_000;
    this.#slotMs = (this.#windowMs + (options.guardMs ?? 250)) / this.#slots;
    this.#taken = new Float64Array(this.#slots + 1);
    this.#fixedBurst = options.burst;
    this.#rate(0, options.limit, 1);
  }

  get limit(): number {
    return this.#limit;
  }

  /** Milliseconds until `amount` can be taken, 0 for now, if nothing else is taken before. Finite for any amount. */
  waitMs(nowMs: number, amount: number): number {
    if (amount <= 0 || this.#limit === Number.POSITIVE_INFINITY) return 0;
    this.#advance(nowMs);
    const earlyMs = this.#nextMs - (this.#burst - Math.min(amount, this.#burst)) * this.#msPerUnit - nowMs;
    const paceMs = earlyMs > ROUNDING_MS ? earlyMs : 0;
    if (this.#total + amount <= this.#limit || this.#total === 0) return paceMs;
    return Math.max(paceMs, this.#roomMs(nowMs, amount));
  }

  /** The same when the caller paces: until the window has space for `amount`, which may exceed the limit by `over`. */
  roomWaitMs(nowMs: number, amount: number, over: number): number {
    if (amount <= 0 || this.#limit === Number.POSITIVE_INFINITY) return 0;
    this.#advance(nowMs);
    if (this.#total + amount <= this.#limit + over || this.#total === 0) return 0;
    return this.#roomMs(nowMs, amount - over);
  }

  /** Takes `amount` or returns how long to wait. Pass `slot` to `adjust` later. */
  take(nowMs: number, amount: number): Take {
    const waitMs = this.waitMs(nowMs, amount);
    return waitMs > 0 ? { ok: false, waitMs } : { ok: true, slot: this.add(nowMs, amount) };
  }

  /** Counts `amount` without a check, e.g. after `waitMs` returned 0; returns its slot. */
  add(nowMs: number, amount: number): number {
    this.#advance(nowMs);
    if (amount > 0) {
      this.#count(this.#newest, amount);
      this.#charge(nowMs, amount);
    }
    return this.#newest;
  }

  /**
   * Corrects what was taken in `slot`. A reduction takes effect at once, but never below 0 in that slot; units that have aged out are
   * unaffected. A raise counts in its slot, or now if that has aged out, and may exceed the limit (debt).
   */
  adjust(nowMs: number, slot: number, delta: number): void {
    if (delta === 0) return;
    this.#advance(nowMs);
    const isLive = slot >= this.#newest - this.#slots && slot <= this.#newest;
    if (delta > 0) {
      this.#count(isLive ? slot : this.#newest, delta);
      this.#charge(nowMs, delta);
    } else if (isLive) {
      const position = slot === this.#newest ? this.#newestPosition : this.#position(slot);
      const freed = Math.min(-delta, this.#taken[position] ?? 0);
      this.#count(slot, -freed);
      this.#nextMs -= freed * this.#msPerUnit;
    }
  }

  /** Sets the limit (at least 1). Units already taken still count, even above the new limit. */
  setLimit(nowMs: number, limit: number): void {
    if (limit !== this.#limit) this.#rate(nowMs, limit, this.#pace);
  }

  /** Paces at `share` (above 0, at most 1) of the limit's rate; the window's limit does not change. */
  setPace(nowMs: number, share: number): void {
    if (share !== this.#pace) this.#rate(nowMs, this.#limit, share);
  }

  /** Units counted in the window that ends now. */
  used(nowMs: number): number {
    this.#advance(nowMs);
    return this.#total;
  }

  /** Counts what an earlier process sent at `atMs` (the past); call in the order of time. */
  restore(nowMs: number, atMs: number, amount: number): void {
    this.#advance(nowMs);
    const slot = Math.floor(Math.min(atMs, nowMs) / this.#slotMs);
    if (amount <= 0 || slot < this.#newest - this.#slots) return;
    this.#count(slot, amount);
    this.#charge(Math.min(atMs, nowMs), amount);
  }

  #count(slot: number, delta: number): void {
    const position = slot === this.#newest ? this.#newestPosition : this.#position(slot);
    this.#taken[position] = (this.#taken[position] ?? 0) + delta;
    this.#total += delta;
  }

  #charge(atMs: number, amount: number): void {
    if (this.#msPerUnit === 0) return; // nothing is limited
    const nextMs = Math.max(this.#nextMs, atMs) + amount * this.#msPerUnit;
    // Pacing debt never outlives the window: after that the log decides.
    this.#nextMs = Math.min(nextMs, atMs + this.#windowMs / this.#pace);
  }

  #rate(nowMs: number, limit: number, pace: number): void {
    const before = this.#msPerUnit;
    this.#limit = Math.max(1, limit);
    this.#pace = pace;
    this.#burst = this.#fixedBurst ?? Math.max(1, this.#limit * BURST_SHARE);
    this.#msPerUnit = this.#windowMs / (this.#limit * pace);
    if (this.#nextMs > nowMs && before > 0)
      this.#nextMs = nowMs + ((this.#nextMs - nowMs) * this.#msPerUnit) / before;
  }

  /** Milliseconds until enough has aged out for `amount`, starting from the oldest slot. */
  #roomMs(nowMs: number, amount: number): number {
    let excess = amount > this.#limit ? this.#total : this.#total + amount - this.#limit;
    const oldest = this.#newest - this.#slots;
    let position = this.#position(oldest);
    for (let age = 0; age <= this.#slots; age++) {
      excess -= this.#taken[position] ?? 0;
      if (excess <= 0) return (oldest + age + this.#slots + 1) * this.#slotMs - nowMs + ROUNDING_MS;
      position = position === this.#slots ? 0 : position + 1;
    }
    return this.#windowMs;
  }

  /** Clears slots that have aged out. Ignores a clock that goes back. */
  #advance(nowMs: number): void {
    const slot = Math.floor(nowMs / this.#slotMs);
    if (slot <= this.#newest) return;
    if (slot - this.#newest > this.#slots) {
      this.#taken.fill(0);
      this.#total = 0;
    } else {
      for (let fresh = this.#newest + 1; fresh <= slot; fresh++) {
        const position = this.#position(fresh);
        this.#total -= this.#taken[position] ?? 0;
        this.#taken[position] = 0;
      }
    }
    this.#newest = slot;
    this.#newestPosition = this.#position(slot);
  }

  #position(slot: number): number {
    return ringPosition(slot, this.#slots + 1);
  }
}
