/**
 * The money of one run: what providers have billed, what is in doubt, what is held for requests under way, and the caps
 * that bound their sum.
 *
 *   reserve -> held -> settle -> billed + ambiguous        billed + ambiguous + held <= cap, always
 *
 * As long as every reservation is an upper bound of what it is settled with, no cap is ever overshot. Spending stops
 * when the next request's upper bound no longer fits, so what is left over is less than one such bound. A reservation
 * that was too small is still counted in full (`overrunUsd` says by how much).
 *
 * A cap may be shared: each budget under it takes from the same amount. It may be shared with other processes, too: then it reserves only what
 * it was granted (`shared/drawn_money.ts`), and what others have spent counts as spent.
 *
 * Caps count whole nano-USD, each amount rounded up once, in safe integers: a million of them add up exactly. What is
 * reported (`billedUsd`, `ambiguousUsd`) is the plain sum of the amounts.
 * Limits: a cap of at most 9,000,000 USD. Hot path: a reserve and settle take under 0.5 us (`bench/parts/admit.ts`).
 */
import assert from "node:assert/strict";
import { PerigeeError } from "../errors.ts";
import type { DrawnMoney } from "./shared/drawn_money.ts";
import type { MoneyAsk, MoneyGrant } from "./shared/shared_money.ts";

/** The highest cap: its nano-USD are safe integers. */
const CAP_USD_MAX = 9_000_000;

const NANO = 1e9;

/** What providers took, in USD. */
export interface Taken {
  /** What is known to be billed. */
  readonly billedUsd: number;
  /** The most that attempts of unknown end may have cost. */
  readonly ambiguousUsd: number;
}

/** Money held for one request. Pass it to `settle` once; a second time changes nothing. */
export interface MoneyReservation {
  /** The held amount, in USD. */
  readonly usd: number;
  /** The same as its budget counts it. */
  readonly nanos: number;
  /** How often its budget had been closed when it was made. */
  readonly closes: number;
  isSettled: boolean;
}

export type ReserveAnswer =
  | { readonly ok: true; readonly reservation: MoneyReservation }
  /**
   * `wait`: requests in flight or other processes hold the money, some may be released; `exhausted`: it does not fit into `cap` even then,
   * until the cap is raised or dropped.
   */
  | { readonly ok: false; readonly reason: "wait" | "exhausted"; readonly cap: Cap };

/** An amount that may be spent: by one run, or by all that share it. */
export class Cap {
  /** Undefined for one run's own. */
  readonly name: string | undefined;
  #capNanos: number;
  #spentNanos = 0;
  #heldNanos = 0;
  #wantedUsd = 0;
  /** What it may reserve of a cap that other processes share. */
  readonly #drawn: DrawnMoney | undefined;

  /** Throws `usage` for an impossible amount. */
  constructor(capUsd: number, name?: string, drawn?: DrawnMoney) {
    this.name = name;
    this.#capNanos = capNanosOf(capUsd);
    this.#drawn = drawn;
  }

  /** Has this amount from now on, and returns whether that is another one. Throws `usage` for an impossible one. */
  limit(capUsd: number): boolean {
    const before = this.#capNanos;
    this.#capNanos = capNanosOf(capUsd);
    const isOther = this.#capNanos !== before;
    if (isOther) this.#drawn?.capChanged();
    return isOther;
  }

  /** Counts what was spent under it by what has no budget here. */
  count(spentUsd: number): void {
    this.move(0, nanosOf(spentUsd, Math.ceil));
  }

  /** Reverts a `count`. */
  forget(spentUsd: number): void {
    this.move(0, -nanosOf(spentUsd, Math.ceil));
  }

  /** The lowest of those that share it with others. */
  get capUsd(): number {
    return this.#inForceNanos / NANO;
  }

  /** Billed or in doubt; what other processes spent under it, included. */
  get spentUsd(): number {
    return (this.#spentNanos + (this.#drawn?.othersNano ?? 0)) / NANO;
  }

  /** Whether other processes share it. */
  get isDrawn(): boolean {
    return this.#drawn !== undefined;
  }

  /** Held for requests in flight. */
  get heldUsd(): number {
    return this.#heldNanos / NANO;
  }

  /** What the next requests of held items may cost together, of all that share this one. */
  get wantedUsd(): number {
    return this.#wantedUsd;
  }

  /** So much more is wanted; less when it is negative. */
  want(usd: number): void {
    this.#wantedUsd = Math.max(0, this.#wantedUsd + usd);
  }

  /** What a reservation can take now, of the amount and what was granted of it; 0 when spending ran over. */
  get availableUsd(): number {
    return Math.max(0, this.#inForceNanos - this.#spentNanos - this.#heldNanos) / NANO;
  }

  /** Whether so much fits: now, after reservations are returned, or never. */
  fits(nanos: number): "ok" | "wait" | "exhausted" {
    const leftNanos = this.#inForceNanos - this.#spentNanos - (this.#drawn?.othersNano ?? 0);
    if (nanos === 0) return "ok"; // free requests pass even if spending is above the cap
    if (nanos > leftNanos) return "exhausted";
    if (nanos > leftNanos - this.#heldNanos) return "wait";
    return this.#drawn?.has(nanos, this.#counted) === false ? "wait" : "ok";
  }

  /** Whether an item waits for money that other processes may return. */
  get isLacking(): boolean {
    return this.#drawn?.isLacking === true;
  }

  /** An item that may cost so much waits for money. */
  lacks(nanos: number): void {
    this.#drawn?.lacks(nanos);
  }

  /** For budgets: more is held, and more is spent; either may be negative. */
  move(heldNanos: number, spentNanos: number): void {
    this.#heldNanos += heldNanos;
    this.#spentNanos += spentNanos;
    this.#drawn?.moved(heldNanos + spentNanos);
  }

  /** What to ask for now, of a cap that other processes share; undefined of another. */
  ask(): MoneyAsk | undefined {
    return this.#drawn?.ask(this.#capNanos, this.#counted);
  }

  /** Takes the answer to what was asked for. */
  answered(grant: MoneyGrant): void {
    this.#drawn?.answered(grant);
  }

  /** Whether it has something to ask for, return or report. */
  get isBusy(): boolean {
    return this.#drawn?.isBusy(this.#counted) === true;
  }

  get #inForceNanos(): number {
    return Math.min(this.#capNanos, this.#drawn?.capNano ?? Number.POSITIVE_INFINITY);
  }

  get #counted(): { readonly spentNano: number; readonly heldNano: number } {
    return { spentNano: this.#spentNanos, heldNano: this.#heldNanos };
  }
}

export class Budget implements Taken {
  readonly #caps: readonly Cap[];
  #billedUsd: number;
  #ambiguousUsd: number;
  /** As its caps count it. */
  #spentNanos = 0;
  #heldNanos = 0;
  #overrunNanos = 0;
  /** The plain sum of what is held; exactly 0 when nothing is. */
  #heldUsd = 0;
  #heldCount = 0;
  /** Held by what goes on after this process. */
  #leftUsd = 0;
  #wantedUsd = 0;
  #wantedItems = 0;
  /** What items are expected to take that have arrived, and what was taken in this process. */
  readonly #expected = { items: 0, usd: 0, mostUsd: 0 };
  readonly #settled = { items: 0, usd: 0 };
  #closes = 0;

  /** Without `cap` there is no limit. `taken`: by earlier calls of the same run, requests in doubt included. */
  constructor(caps: readonly Cap[] = [], taken: Taken = { billedUsd: 0, ambiguousUsd: 0 }) {
    this.#caps = caps;
    this.#billedUsd = taken.billedUsd;
    this.#ambiguousUsd = taken.ambiguousUsd;
    this.#spentNanos = nanosOf(taken.billedUsd + taken.ambiguousUsd, Math.ceil);
    for (const cap of caps) cap.move(0, this.#spentNanos);
  }

  /** Whether anything bounds what is spent. */
  get isCapped(): boolean {
    return this.#caps.length > 0;
  }

  get billedUsd(): number {
    return this.#billedUsd;
  }

  get ambiguousUsd(): number {
    return this.#ambiguousUsd;
  }

  /** For requests under way: what an end of the process would leave in doubt. */
  get heldUsd(): number {
    return this.#heldNanos / NANO;
  }

  /** What the next requests of its held items may cost together, as far as that is known. */
  get wantedUsd(): number {
    return this.#wantedUsd;
  }

  /** Held items of which it is known. */
  get wantedItems(): number {
    return this.#wantedItems;
  }

  /** Items are held, by a cap or else, whose next requests may cost so much together. */
  want(usd: number, items: number): void {
    this.#wantedUsd += usd;
    this.#wantedItems += items;
    for (const cap of this.#caps) cap.want(usd);
  }

  /** An item has arrived that is expected to take `usd`, and for which `mostUsd` is reserved. */
  expect(usd: number, mostUsd: number): void {
    this.#expected.items += 1;
    this.#expected.usd += usd;
    this.#expected.mostUsd += mostUsd;
  }

  /** What so many of its items are expected to take: as others did in this process, or else as was expected of those that arrived. */
  expectedUsd(items: number): number {
    const { items: count, usd } = this.#settled.items > 0 ? this.#settled : this.#expected;
    return count === 0 ? 0 : (items * usd) / count;
  }

  /** Whether its caps leave enough for so many of its items, once others have taken `aheadUsd`. */
  suffices(items: number, aheadUsd: number): boolean {
    if (items <= 0) return true;
    const lastUsd = Math.max(this.expectedUsd(1), this.#expected.mostUsd / Math.max(1, this.#expected.items));
    const needUsd = aheadUsd + this.expectedUsd(items - 1) + lastUsd;
    return this.#caps.every((cap) => needUsd <= cap.capUsd - cap.spentUsd + 1e-9);
  }

  /** Whether an item under one of its caps waits for money that other processes may return. */
  get isLacking(): boolean {
    return this.#caps.some((cap) => cap.isLacking);
  }

  /** Whether one of its caps is one of the other's. */
  sharesCap(other: Budget): boolean {
    return this.#caps.some((cap) => other.#caps.includes(cap));
  }

  /** Nothing is held any more. */
  wantNothing(): void {
    this.want(-this.#wantedUsd, -this.#wantedItems);
  }

  /** Billed, in doubt, held, or left to others. */
  get committedUsd(): number {
    return this.#billedUsd + this.#ambiguousUsd + this.heldUsd + this.#leftUsd;
  }

  /** By how much settled amounts were above their reservations, in sum. */
  get overrunUsd(): number {
    return this.#overrunNanos / NANO;
  }

  /** Holds `usd` (finite, not negative), or says why it cannot. */
  reserve(usd: number): ReserveAnswer {
    const nanos = nanosOf(usd, Math.ceil);
    let waitsFor: Cap | undefined;
    for (const cap of this.#caps) {
      const fits = cap.fits(nanos);
      if (fits === "exhausted") return { ok: false, reason: "exhausted", cap };
      if (fits === "ok") continue;
      cap.lacks(nanos);
      waitsFor = cap;
    }
    if (waitsFor !== undefined) return { ok: false, reason: "wait", cap: waitsFor };
    return { ok: true, reservation: this.hold(usd) };
  }

  /** Holds `usd` that was committed before, by this process or an earlier one, also where no cap has so much left. */
  hold(usd: number): MoneyReservation {
    const nanos = nanosOf(usd, Math.ceil);
    this.#heldUsd += usd;
    this.#heldCount += 1;
    this.#heldNanos += nanos;
    for (const cap of this.#caps) cap.move(nanos, 0);
    return { usd, nanos, closes: this.#closes, isSettled: false };
  }

  /**
   * Ends a reservation for what others go on with after this process: it is still committed, and caps count it until their next
   * owner holds it again.
   */
  leave(reservation: MoneyReservation): void {
    const { usd, nanos } = reservation;
    if (reservation.isSettled || reservation.closes !== this.#closes) return;
    this.settle(reservation, { billedUsd: 0, ambiguousUsd: 0 });
    this.#leftUsd += usd;
    this.#spentNanos += nanos;
    for (const cap of this.#caps) cap.move(0, nanos);
  }

  /** The cap that leaves too little for so much, also when all that is held is released; undefined when no cap does. */
  exhausted(usd: number): Cap | undefined {
    const nanos = nanosOf(usd, Math.ceil);
    return this.#caps.find((cap) => cap.fits(nanos) === "exhausted");
  }

  /**
   * Ends a reservation with what was taken (finite, not negative; nothing when nothing was sent). For an attempt that may
   * have been billed without an answer, `ambiguousUsd` is `reservation.usd`.
   */
  settle(reservation: MoneyReservation, { billedUsd, ambiguousUsd }: Taken): void {
    if (reservation.isSettled || reservation.closes !== this.#closes) return;
    const nanos = nanosOf(billedUsd + ambiguousUsd, Math.ceil);
    const heldNanos = reservation.nanos;
    reservation.isSettled = true;
    this.#heldCount -= 1;
    this.#heldUsd = this.#heldCount === 0 ? 0 : this.#heldUsd - reservation.usd;
    this.#heldNanos -= heldNanos;
    this.#billedUsd += billedUsd;
    this.#ambiguousUsd += ambiguousUsd;
    this.#spentNanos += nanos;
    if (billedUsd > 0) {
      this.#settled.items += 1;
      this.#settled.usd += billedUsd;
    }
    for (const cap of this.#caps) cap.move(-heldNanos, nanos);
    if (nanos > heldNanos) this.#overrunNanos += nanos - heldNanos;
  }

  /**
   * The run is over in this process: what is held for requests under way is in doubt from now on, and nothing is settled
   * any more. Its caps count the same amount as `committedUsd`.
   */
  close(): void {
    this.#closes += 1;
    this.#ambiguousUsd += Math.max(0, this.#heldUsd);
    const heldNanos = this.#heldNanos;
    this.#heldUsd = this.#heldCount = this.#heldNanos = 0;
    const nanos = nanosOf(this.committedUsd, Math.ceil);
    for (const cap of this.#caps) cap.move(-heldNanos, nanos - this.#spentNanos);
    this.#spentNanos = nanos;
  }
}

function capNanosOf(capUsd: number): number {
  if (!(capUsd >= 0 && capUsd <= CAP_USD_MAX))
    throw new PerigeeError("usage", `the cost cap must be USD from 0 to ${CAP_USD_MAX}, got ${capUsd}`);
  return nanosOf(capUsd, Math.floor);
}

/** Nano-USD; what is a whole number but for the error of one multiplication is taken as whole. */
function nanosOf(usd: number, round: (x: number) => number): number {
  if (!(usd >= 0 && usd < Number.POSITIVE_INFINITY))
    assert.fail(`an amount of money must be finite and not negative: ${usd}`); // put together only then: 0.5 us
  const nanos = usd * NANO;
  const whole = Math.round(nanos);
  return Math.abs(nanos - whole) <= nanos * 4 * Number.EPSILON ? whole : round(nanos);
}
