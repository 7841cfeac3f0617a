/**
 * Says how many more requests may be sent so that no later minute holds more tokens than the limit, where answers take long
 * and differ in length. Input counts when a request is sent, output when its answer arrives.
 *
 *   rate = min over the ends h of minutes, from now to a minute from now (steps of 2 s), of
 *     (limit + over - used in (h - 60 s, now] - expected by h of what is in flight - 2 standard deviations of that)
 *       / what one request a slot from now on uses by h
 *   over = max(0.8 %, 0.9 of the largest answer so far)
 *
 * Requests are sent evenly at this rate, at most at 1.2 times the even rate. So a later minute that would be too full slows
 * requests now instead of stopping them then. To send as fast as the present minute allows would make every later minute
 * as uneven as this one.
 *
 * If the provider still refuses, no minute may exceed the limit (over = 0), and up to a tenth of the limit stays free for as
 * long as it refuses.
 *
 * The expectation is the product-limit estimate (Kaplan and Meier 1958) of when answers arrive and with how many tokens: a
 * histogram of latencies (half seconds) with their tokens, in which requests in flight count by their age. The first
 * answers are short ones and do not predict the others. So a request older than any answer so far counts with the largest
 * answer so far, or with what was reserved for it if that is more.
 *
 * Providers count tokens when they are sent (bucket.ts) or when they are used. Both laws hold here, the first to the nearest
 * whole answer. One law is not enough: with answers that take a minute, a minute of answers may hold twice the tokens of what
 * was sent in any minute.
 *
 * Limits: 42 KB per lane with a token limit. Hot path: a comparison; every 250 ms some 20 us.
 */
import type { TokenLoad } from "../work/limits.ts";
import { ringPosition } from "./ring.ts";
import { MINUTE_SLOTS, SLOT_MS, UsedTokens, type UsedUnits } from "./used_tokens.ts";

/** Slots of ages and latencies: 512 s. What is older counts in the last slot. */
const AGES = 1_024;
const EVALUATE_EVERY_MS = 250;
const ROUNDING_MS = 0.001;
const HORIZON_STEP = 4;
const DEVIATIONS = 2;
/** For a limit that was found: an occasional refusal does no harm. */
const DEVIATIONS_FOUND = 1;
const OVER_SHARE = 0.008;
/** Share of the largest answer so far: a minute may exceed the limit by so much. */
const ANSWER_SHARE = 0.9;
/** Share of the limit that each refusal leaves free in addition; it returns at the same step per minute. */
const BELOW_STEP = 0.01;
const BELOW_STEP_MS = 60_000;
/** The largest share of the limit that stays free after refusals. */
const BELOW_MAX = 0.1;
const REFUSALS_MS = 2_000;
const HALVE_AT = 2_000;
/** Share of a request's tokens. A minute that ends before so much has arrived depends only on earlier requests. */
const EARLY_SHARE = 0.35;
/** Smaller shares of the answers count as 0. */
const SHARE_MIN = 1e-9;
/** Multiple of the even rate at which tokens are used up that stayed free while few answers arrived. */
const PACE_MAX = 1.2;
const SINCE_MS_MAX = 1_000;
/** After so many answers within 3 s each, counting when sent is enough. */
const QUICK_ANSWERS = 20;
const QUICK_SLOTS = 6;
const MEAN_ANSWERS = 32;

/** Tokens a minute; Infinity for no limit. */
export interface FlowLimits extends UsedUnits {
  /** Whether it was found by refusals (hidden/hidden_tokens.ts): no minute may exceed it, and occasional refusals show when it changes. */
  readonly isFound?: boolean;
}

/** One per lane. Times are monotonic. */
export class TokenFlow {
  /** Requests in flight and what was reserved for their outputs, by the slot in which they were sent. */
  readonly #requests = new Float64Array(AGES);
  readonly #reserved = new Float64Array(AGES);
  #oldest = Number.POSITIVE_INFINITY;
  #inFlight = 0;
  readonly #used = new UsedTokens();
  /** Answers by latency in slots: their number, their tokens, and the squares of their tokens. */
  readonly #answers = new Float64Array(AGES);
  readonly #tokens = new Float64Array(AGES);
  readonly #squares = new Float64Array(AGES);
  #total = 0;
  #answered = 0;
  #longest = 0;
  /** Moving mean of the latency, in slots. */
  #mean = 0;
  /** Tokens of the largest answer. */
  #largest = 0;
  /** Share of the limit that stayed free after the last refusal; it decays (`#belowAt`). */
  #below = 0;
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #budget = 0;
  #evaluatedAtMs = Number.NEGATIVE_INFINITY;

  /** Whether answers arrive so soon that tokens count as used when sent. Then nothing here needs to be called. */
  get isQuick(): boolean {
    return this.#answered >= QUICK_ANSWERS && this.#longest < QUICK_SLOTS;
  }

  /** Mean latency of recent answers, in milliseconds; 0 before the first. */
  get latencyMs(): number {
    return this.#mean * SLOT_MS;
  }

  /** Milliseconds until one more request may be sent, at most at `share` (above 0, at most 1) of the limit's rate; 0 for now. */
  waitMs(nowMs: number, load: TokenLoad, limits: FlowLimits, share: number): number {
    const ageMs = nowMs - this.#evaluatedAtMs;
    if (this.#budget >= 1 && ageMs < EVALUATE_EVERY_MS) return 0;
    if (this.#budget < 1 && ageMs < EVALUATE_EVERY_MS / 2)
      return Math.max(ROUNDING_MS, EVALUATE_EVERY_MS / 2 - ageMs); // 0 would let any number go
    this.#evaluate(nowMs, load, limits, share);
    return this.#budget >= 1 ? 0 : EVALUATE_EVERY_MS / 2;
  }

  /** The provider refused: it allows no minute above the limit, or counts more tokens. Sends less for some minutes. */
  refused(nowMs: number): void {
    if (nowMs - this.#refusedAtMs < REFUSALS_MS) return;
    this.#below = Math.min(BELOW_MAX, this.#belowAt(nowMs) + BELOW_STEP);
    this.#refusedAtMs = nowMs;
  }

  /** Tokens used in the last minute. */
  used(nowMs: number): UsedUnits {
    const [input, output] = this.#used.since(this.#used.advance(nowMs), 0);
    return { tokens: input + output, outputTokens: output };
  }

  /** All tokens that were used so far. */
  get total(): UsedUnits {
    return this.#used.total;
  }

  /** See `UsedTokens.fallsToMs`. */
  fallsToMs(nowMs: number, unit: keyof UsedUnits, most: number): number {
    return this.#used.fallsToMs(nowMs, unit, most);
  }

  #belowAt(nowMs: number): number {
    return Math.max(0, this.#below - ((nowMs - this.#refusedAtMs) * BELOW_STEP) / BELOW_STEP_MS);
  }

  /** Counts a request that is sent: its input as used, its output as reserved. */
  sent(nowMs: number, load: TokenLoad): void {
    const slot = this.#used.advance(nowMs);
    this.#add(slot, 1, load.outputTokens);
    this.#used.addInput(slot, load.inputTokens);
    this.#budget -= 1;
  }

  /**
   * Counts the end of a request that was sent at `sentAtMs` with `load`, and used `used`. With `isAnswer`, its latency and
   * length are learnt.
   */
  ended(nowMs: number, sentAtMs: number, load: TokenLoad, used: TokenLoad, isAnswer: boolean): void {
    const slot = this.#used.advance(nowMs);
    const sent = Math.floor(sentAtMs / SLOT_MS);
    this.#add(sent, -1, -load.outputTokens);
    this.#used.addInput(sent, used.inputTokens - load.inputTokens);
    this.#used.addOutput(slot, used.outputTokens);
    if (isAnswer) this.#learn(Math.min(AGES - 1, slot - sent), used.outputTokens);
  }

  /** Learns from the answer to a request that was not counted, because answers were quick (`isQuick`). A slow one ends that. */
  answered(latencyMs: number, tokens: number): void {
    const latency = Math.floor(latencyMs / SLOT_MS);
    if (latency >= QUICK_SLOTS) this.#learn(Math.min(AGES - 1, latency), tokens);
  }

  /** Counts what an earlier process sent at `atMs` as used at that time. */
  restore(nowMs: number, atMs: number, load: TokenLoad): void {
    this.#used.advance(nowMs);
    const sent = Math.floor(atMs / SLOT_MS);
    this.#used.addInput(sent, load.inputTokens);
    this.#used.addOutput(sent, load.outputTokens);
  }

  #add(slot: number, requests: number, reserved: number): void {
    const position = ringPosition(slot, AGES);
    this.#requests[position] = (this.#requests[position] ?? 0) + requests;
    this.#reserved[position] = (this.#reserved[position] ?? 0) + reserved;
    this.#inFlight += requests;
    this.#oldest = Math.min(this.#oldest, slot);
  }

  #learn(latency: number, tokens: number): void {
    this.#answers[latency] = (this.#answers[latency] ?? 0) + 1;
    this.#tokens[latency] = (this.#tokens[latency] ?? 0) + tokens;
    this.#squares[latency] = (this.#squares[latency] ?? 0) + tokens * tokens;
    this.#largest = Math.max(this.#largest, tokens);
    this.#total += 1;
    this.#answered += 1;
    this.#longest = Math.max(this.#longest, latency);
    this.#mean += (latency - this.#mean) / Math.min(this.#answered, MEAN_ANSWERS);
    if (this.#total < HALVE_AT) return;
    this.#total /= 2;
    for (let each = 0; each <= this.#longest; each += 1) {
      this.#answers[each] = (this.#answers[each] ?? 0) / 2;
      this.#tokens[each] = (this.#tokens[each] ?? 0) / 2;
      this.#squares[each] = (this.#squares[each] ?? 0) / 2;
    }
  }

  #evaluate(nowMs: number, load: TokenLoad, limits: FlowLimits, share: number): void {
    const slot = this.#used.advance(nowMs);
    const sinceMs = Math.min(SINCE_MS_MAX, nowMs - this.#evaluatedAtMs);
    this.#evaluatedAtMs = nowMs;
    while (this.#oldest < slot && (this.#requests[ringPosition(this.#oldest, AGES)] ?? 0) <= 0)
      this.#oldest += 1;
    const below = this.#belowAt(nowMs);
    const kept = { tokens: limits.tokens * (1 - below), outputTokens: limits.outputTokens * (1 - below) };
    const one = this.#largest > 0 ? ANSWER_SHARE * this.#largest : load.outputTokens / 2;
    const plan = {
      slot,
      load,
      limits: kept,
      overOf: (limit: number) =>
        below > 0 || limits.isFound === true ? 0 : Math.max(OVER_SHARE * limit, Math.min(one, limit)),
      outlook: this.#outlook(
        slot,
        load.outputTokens,
        limits.isFound === true ? DEVIATIONS_FOUND : DEVIATIONS,
      ),
    };
    const evenRate = Math.min(
      limits.outputTokens / Math.max(1, load.outputTokens),
      limits.tokens / Math.max(1, load.outputTokens + load.inputTokens),
    );
    let rate = (evenRate * PACE_MAX * share) / MINUTE_SLOTS;
    for (let horizon = 0; horizon <= MINUTE_SLOTS; horizon += HORIZON_STEP)
      rate = Math.min(rate, this.#rateAt(horizon, plan));
    const earned = Math.max(0, rate) * (sinceMs / SLOT_MS);
    this.#budget = Math.min(1 + 2 * earned, Math.max(0, this.#budget) + earned);
    if (rate <= 0) this.#budget = 0;
    if (this.#isIdle(slot)) this.#budget = Math.max(1, this.#budget);
  }

  /** Estimates when an answer arrives and with how many tokens (product-limit; requests in flight count by their age). */
  #outlook(slot: number, reserved: number, deviations: number): Outlook {
    const oldest = this.#inFlight > 0 ? Math.min(AGES - 1, Math.max(0, slot - this.#oldest)) : 0;
    const end = Math.min(AGES - 1, Math.max(this.#longest, oldest) + 1);
    const [left, tokens, squares, sums] = [0, 1, 2, 3].map(() => new Float64Array(end + 2)) as [
      Float64Array,
      Float64Array,
      Float64Array,
      Float64Array,
    ];
    let known = this.#total + this.#inFlight;
    let [survival, sum, sumOfSquares] = [1, 0, 0];
    for (let age = 0; age < end; age += 1) {
      left[age] = survival;
      tokens[age] = sum;
      squares[age] = sumOfSquares;
      const answers = this.#answers[age] ?? 0;
      if (answers > 0) {
        const part = survival / Math.max(known, answers);
        survival -= part * answers;
        sum += part * (this.#tokens[age] ?? 0);
        sumOfSquares += part * (this.#squares[age] ?? 0);
      }
      known -= answers;
      if (slot - age >= this.#oldest) known -= this.#requests[ringPosition(slot - age, AGES)] ?? 0;
    }
    const most = Math.max(reserved, this.#largest); // for a request that takes longer than any answer so far
    tokens[end] = sum + survival * most;
    squares[end] = sumOfSquares + survival * most * most;
    for (let age = 0; age <= end; age += 1) sums[age + 1] = (sums[age] ?? 0) + (tokens[age] ?? 0);
    return {
      end,
      left,
      tokens,
      squares,
      sums,
      spare: deviations * this.#deviation(slot, { end, left, tokens, squares }),
      spareOfOne: Math.sqrt(Math.max(0, (squares[end] ?? 0) - (tokens[end] ?? 0) ** 2)),
    };
  }

  /** Standard deviation of the tokens of everything in flight. */
  #deviation(
    slot: number,
    { end, left, tokens, squares }: Pick<Outlook, "end" | "left" | "tokens" | "squares">,
  ): number {
    let variance = 0;
    for (let sent = this.#oldest; sent <= slot; sent += 1) {
      const requests = this.#requests[ringPosition(sent, AGES)] ?? 0;
      const age = Math.min(end, slot - sent);
      const share = left[age] ?? 0;
      if (requests <= 0 || share <= SHARE_MIN) continue;
      const mean = ((tokens[end] ?? 0) - (tokens[age] ?? 0)) / share;
      variance += requests * (((squares[end] ?? 0) - (squares[age] ?? 0)) / share - mean * mean);
    }
    return Math.sqrt(Math.max(0, variance));
  }

  /** Requests per slot, evenly from now on, that fit into the minute that ends `horizon` slots from now. */
  #rateAt(horizon: number, { slot, load, limits, overOf, outlook }: Plan): number {
    const { end, tokens, sums, spare, spareOfOne } = outlook;
    const isEarly = (tokens[Math.min(end, horizon + 1)] ?? 0) < EARLY_SHARE * (tokens[end] ?? 0);
    if (isEarly && limits.tokens === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    const coming = this.#comingBy(slot, horizon, outlook);
    const [usedInput, usedOutput] = this.#used.since(slot, horizon);
    const own =
      horizon + 1 <= end
        ? (sums[horizon + 1] ?? 0)
        : (sums[end + 1] ?? 0) + (horizon - end) * (tokens[end] ?? 0);
    const taken = usedOutput + coming + (isEarly ? 0 : spare);
    const one = (tokens[Math.min(end, horizon + 1)] ?? 0) + spareOfOne;
    return Math.min(
      isEarly ? Number.POSITIVE_INFINITY : rateOf(limits.outputTokens, overOf, taken, own, one),
      rateOf(limits.tokens, overOf, usedInput + taken, own + (horizon + 1) * load.inputTokens, one),
    );
  }

  /** Tokens of requests in flight that are expected to arrive in the next `horizon` slots. */
  #comingBy(slot: number, horizon: number, { end, left, tokens }: Outlook): number {
    let coming = 0;
    for (let sent = this.#oldest; sent <= slot; sent += 1) {
      const requests = this.#requests[ringPosition(sent, AGES)] ?? 0;
      if (requests <= 0) continue;
      const age = Math.min(end, slot - sent);
      const share = left[age] ?? 0;
      coming +=
        share <= SHARE_MIN
          ? Math.max(this.#reserved[ringPosition(sent, AGES)] ?? 0, requests * this.#largest)
          : (requests * ((tokens[Math.min(end, age + horizon + 1)] ?? 0) - (tokens[age] ?? 0))) / share;
    }
    return coming;
  }

  /** Whether nothing is in flight and nothing was used in the last minute. Then any single request may be sent. */
  #isIdle(slot: number): boolean {
    if (this.#inFlight > 0) return false;
    const [input, output] = this.#used.since(slot, 0);
    return input + output === 0;
  }
}

/** The data from which a rate is computed. */
interface Plan {
  readonly slot: number;
  readonly load: TokenLoad;
  readonly limits: FlowLimits;
  /** Tokens by which a minute may exceed `limit`. */
  readonly overOf: (limit: number) => number;
  readonly outlook: Outlook;
}

/** What is expected of a request, by its age in slots. */
interface Outlook {
  /** The age by which its answer has arrived. */
  readonly end: number;
  /** Probability that it is not answered before an age. */
  readonly left: Float64Array;
  /** Expected tokens that arrive before an age. */
  readonly tokens: Float64Array;
  /** Expected squares of them. */
  readonly squares: Float64Array;
  /** Sums of `tokens` over all lower ages. */
  readonly sums: Float64Array;
  /** Tokens that stay free because answers in flight may be longer than expected. */
  readonly spare: number;
  /** Standard deviation of a single answer, in tokens. */
  readonly spareOfOne: number;
}

/**
 * Requests per slot that fit under `limit` plus `overOf(limit)` tokens beside `taken`, if one request in each slot uses `own`
 * tokens; 0 if a single request, which uses `one` tokens, does not fit.
 */
function rateOf(limit: number, overOf: Plan["overOf"], taken: number, own: number, one: number): number {
  if (limit === Number.POSITIVE_INFINITY || own <= 0) return Number.POSITIVE_INFINITY;
  const free = limit + overOf(limit) - taken;
  return free < one ? 0 : free / own;
}
