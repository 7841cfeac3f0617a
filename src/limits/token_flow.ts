/**
 * Computes how many more requests may be sent so that no later minute contains more tokens than the limit, where answers take long and
 * differ in length. Input counts when a request is sent, output when its answer arrives.
 *
 *   rate = min over the ends h of minutes, from now to a minute from now (steps of 2 s), of
 *     (limit + over - used in (h - 60 s, now] - expected by h of what is in flight - 2 standard deviations of that)
 *       / what one request a slot from now on uses by h
 *   over = max(0.8 %, 0.9 of the largest answer so far)
 *
 * Requests are sent evenly at this rate, at most at 1.2 times the even rate. So a later minute that would be too full slows requests
 * now instead of stopping them then. Sending as fast as the present minute allows would make every later minute as uneven as this one.
 *
 * If the provider still refuses, no minute may exceed the limit (over = 0), and up to a tenth of the limit stays free for as long as it
 * refuses.
 *
 * The expectation is the product-limit estimate (Kaplan and Meier 1958) of when answers arrive and with how many tokens: a histogram of
 * latencies (half seconds) with their tokens, in which requests in flight count by their age. The first answers are short ones and do
 * not predict the others. So a request older than any answer so far counts with the largest answer so far, or with what was reserved
 * for it if that is more.
 *
 * Providers count tokens when they are sent (bucket.ts) or when they are used. Both limits hold here, the first to the nearest whole
 * answer. One is not enough: with answers that take a minute, a minute of answers may contain twice the tokens of what was sent in any
 * minute.
 *
 * Limits: 44 KB per lane with a token limit. Hot path: a comparison; every 250 ms some 10 us.
 */
import type { TokenLoad } from "../work/limits.ts";
import { AGES, AnswerTimes, QUICK_SLOTS } from "./answer_times.ts";
import { OpenRequests } from "./open_requests.ts";
import { MINUTE_SLOTS, SLOT_MS, type UsedByHorizon, UsedTokens, type UsedUnits } from "./used_tokens.ts";

const EVALUATE_EVERY_MS = 250;
const ROUNDING_MS = 0.001;
const HORIZON_STEP = 4;
const DEVIATIONS = 2;
/** For a limit that was found: an occasional refusal does no harm. */
const DEVIATIONS_FOUND = 1;
const OVER_SHARE = 0.008;
/** Share of the largest answer so far by which a minute may exceed the limit. */
const ANSWER_SHARE = 0.9;
/** Share of the limit that each refusal keeps free in addition; the same share returns per minute. */
const BELOW_STEP = 0.01;
const BELOW_STEP_MS = 60_000;
/** The largest share of the limit that stays free after refusals. */
const BELOW_MAX = 0.1;
const REFUSALS_MS = 2_000;
/** A minute that ends before this share of a request's tokens has arrived depends only on earlier requests. */
const EARLY_SHARE = 0.35;
/** Smaller shares of the answers count as 0. */
const SHARE_MIN = 1e-9;
/** Multiple of the even rate, to use tokens that stayed free while few answers arrived. */
const PACE_MAX = 1.2;
const SINCE_MS_MAX = 1_000;
/** An evaluation's own, by age; the next one writes over them. New ones took half of its time. */
const SCRATCH = {
  left: new Float64Array(AGES + 2),
  tokens: new Float64Array(AGES + 2),
  squares: new Float64Array(AGES + 2),
  sums: new Float64Array(AGES + 2),
  weights: new Float64Array(AGES + 2),
} as const;

/** Tokens a minute; Infinity for no limit. */
export interface FlowLimits extends UsedUnits {
  /** Whether it was found by refusals (hidden/hidden_tokens.ts): no minute may exceed it, and occasional refusals show when it changes. */
  readonly isFound?: boolean;
}

/** One per lane. Times are monotonic. */
export class TokenFlow {
  readonly #open = new OpenRequests();
  readonly #used = new UsedTokens();
  readonly #answers = new AnswerTimes();
  /** Share of the limit that stayed free after the last refusal; it decays (`#belowAt`). */
  #below = 0;
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #budget = 0;
  #evaluatedAtMs = Number.NEGATIVE_INFINITY;

  /** Whether answers arrive so soon that tokens count as used when sent. Then nothing here needs to be called. */
  get isQuick(): boolean {
    return this.#answers.isQuick;
  }

  /** Mean latency of recent answers, in milliseconds; 0 before the first. */
  get latencyMs(): number {
    return this.#answers.mean * SLOT_MS;
  }

  /** Milliseconds until one more request may be sent, at most at `share` (above 0, at most 1) of the limit's rate; 0 for now. */
  waitMs(nowMs: number, load: TokenLoad, limits: FlowLimits, share: number): number {
    const ageMs = nowMs - this.#evaluatedAtMs;
    if (this.#budget >= 1 && ageMs < EVALUATE_EVERY_MS) return 0;
    if (this.#budget < 1 && ageMs < EVALUATE_EVERY_MS / 2)
      return Math.max(ROUNDING_MS, EVALUATE_EVERY_MS / 2 - ageMs); // 0 would allow any number of requests
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
    const [input, output] = this.#used.since(this.#used.advance(nowMs));
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
    this.#open.add(slot, 1, load.outputTokens);
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
    this.#open.add(sent, -1, -load.outputTokens);
    this.#used.addInput(sent, used.inputTokens - load.inputTokens);
    this.#used.addOutput(slot, used.outputTokens);
    if (isAnswer) this.#answers.learn(slot - sent, used.outputTokens);
  }

  /** Learns from the answer to a request that was not counted, because answers were quick (`isQuick`). A slow one ends that. */
  answered(latencyMs: number, tokens: number): void {
    const latency = Math.floor(latencyMs / SLOT_MS);
    if (latency >= QUICK_SLOTS) this.#answers.learn(latency, tokens);
  }

  /** Counts what an earlier process sent at `atMs` as used at that time. */
  restore(nowMs: number, atMs: number, load: TokenLoad): void {
    this.#used.advance(nowMs);
    const sent = Math.floor(atMs / SLOT_MS);
    this.#used.addInput(sent, load.inputTokens);
    this.#used.addOutput(sent, load.outputTokens);
  }

  #evaluate(nowMs: number, load: TokenLoad, limits: FlowLimits, share: number): void {
    const slot = this.#used.advance(nowMs);
    const sinceMs = Math.min(SINCE_MS_MAX, nowMs - this.#evaluatedAtMs);
    this.#evaluatedAtMs = nowMs;
    this.#open.advance(slot);
    const below = this.#belowAt(nowMs);
    const kept = { tokens: limits.tokens * (1 - below), outputTokens: limits.outputTokens * (1 - below) };
    const one = this.#answers.largest > 0 ? ANSWER_SHARE * this.#answers.largest : load.outputTokens / 2;
    const plan = {
      used: this.#used.byHorizon(slot),
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
    for (let horizon = 0; rate > 0 && horizon <= MINUTE_SLOTS; horizon += HORIZON_STEP)
      rate = Math.min(rate, this.#rateAt(horizon, plan));
    const earned = Math.max(0, rate) * (sinceMs / SLOT_MS);
    this.#budget = Math.min(1 + 2 * earned, Math.max(0, this.#budget) + earned);
    if (rate <= 0) this.#budget = 0;
    if (this.#isIdle(slot)) this.#budget = Math.max(1, this.#budget);
  }

  /** Estimates when an answer arrives and with how many tokens (product-limit; requests in flight count by their age). */
  #outlook(slot: number, reserved: number, deviations: number): Outlook {
    const [open, seen] = [this.#open, this.#answers];
    const oldest = open.count > 0 ? Math.min(AGES - 1, Math.max(0, slot - open.oldest)) : 0;
    const end = Math.min(AGES - 1, Math.max(seen.longest, oldest) + 1);
    const { left, tokens, squares, sums } = SCRATCH;
    let known = seen.total + open.count;
    let [survival, sum, sumOfSquares] = [1, 0, 0];
    for (let age = 0; age < end; age += 1) {
      left[age] = survival;
      tokens[age] = sum;
      squares[age] = sumOfSquares;
      const answers = seen.answers[age] ?? 0;
      if (answers > 0) {
        const part = survival / Math.max(known, answers);
        survival -= part * answers;
        sum += part * (seen.tokens[age] ?? 0);
        sumOfSquares += part * (seen.squares[age] ?? 0);
      }
      known -= answers;
      if (slot - age >= open.oldest) known -= open.at(slot - age);
    }
    left[end] = 0;
    const most = Math.max(reserved, seen.largest); // for a request that takes longer than any answer so far
    tokens[end] = sum + survival * most;
    squares[end] = sumOfSquares + survival * most * most;
    sums[0] = 0;
    for (let age = 0; age <= end; age += 1) sums[age + 1] = (sums[age] ?? 0) + (tokens[age] ?? 0);
    const inFlight = this.#inFlight(slot, { end, left, tokens, squares });
    return {
      end,
      tokens,
      sums,
      inFlight,
      spare: deviations * inFlight.deviation,
      spareOfOne: Math.sqrt(Math.max(0, (squares[end] ?? 0) - (tokens[end] ?? 0) ** 2)),
    };
  }

  /** The expectation for everything in flight, computed once an evaluation because each of its 31 horizons reads it. */
  #inFlight(slot: number, { end, left, tokens, squares }: Expected): InFlight {
    const [open, largest] = [this.#open, this.#answers.largest];
    const { weights } = SCRATCH;
    const ages = Math.min(end, Math.max(0, slot - open.oldest + 1));
    weights.fill(0, 0, ages);
    let [overdue, variance] = [0, 0];
    for (let sent = open.oldest; sent <= slot; sent += 1) {
      const requests = open.at(sent);
      if (requests <= 0) continue;
      const age = Math.min(end, slot - sent);
      const share = left[age] ?? 0;
      if (share <= SHARE_MIN) {
        overdue += Math.max(open.reservedAt(sent), requests * largest);
        continue;
      }
      weights[age] = requests / share;
      const mean = ((tokens[end] ?? 0) - (tokens[age] ?? 0)) / share;
      variance += requests * (((squares[end] ?? 0) - (squares[age] ?? 0)) / share - mean * mean);
    }
    return { weights, ages, overdue, deviation: Math.sqrt(Math.max(0, variance)) };
  }

  /** Requests per slot, evenly from now on, that fit into the minute that ends `horizon` slots from now. */
  #rateAt(horizon: number, { used, load, limits, overOf, outlook }: Plan): number {
    const { end, tokens, sums, spare, spareOfOne } = outlook;
    const isEarly = (tokens[Math.min(end, horizon + 1)] ?? 0) < EARLY_SHARE * (tokens[end] ?? 0);
    if (isEarly && limits.tokens === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    const coming = comingBy(horizon, outlook);
    const [usedInput, usedOutput] = [used.input[horizon] ?? 0, used.output[horizon] ?? 0];
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

  /** Whether nothing is in flight and nothing was used in the last minute. Then any single request may be sent. */
  #isIdle(slot: number): boolean {
    if (this.#open.count > 0) return false;
    const [input, output] = this.#used.since(slot);
    return input + output === 0;
  }
}

/** The data from which a rate is computed. */
interface Plan {
  readonly used: UsedByHorizon;
  readonly load: TokenLoad;
  readonly limits: FlowLimits;
  /** Tokens by which a minute may exceed `limit`. */
  readonly overOf: (limit: number) => number;
  readonly outlook: Outlook;
}

/** Expectations for a request, by its age in slots. */
interface Expected {
  /** The age by which its answer has arrived. */
  readonly end: number;
  /** Probability that it is not answered before an age. */
  readonly left: Float64Array;
  /** Expected tokens that arrive before an age. */
  readonly tokens: Float64Array;
  /** Expected squares of them. */
  readonly squares: Float64Array;
}

interface InFlight {
  /** By age: requests in flight, divided by the probability that a request reaches that age. */
  readonly weights: Float64Array;
  /** No request of `weights` is as old as this. */
  readonly ages: number;
  /** Tokens of requests older than any answer so far. */
  readonly overdue: number;
  /** Standard deviation of the tokens of all others. */
  readonly deviation: number;
}

interface Outlook extends Pick<Expected, "end" | "tokens"> {
  /** Sums of `tokens` over all lower ages. */
  readonly sums: Float64Array;
  readonly inFlight: InFlight;
  /** Tokens that stay free because answers in flight may be longer than expected. */
  readonly spare: number;
  /** Standard deviation of a single answer, in tokens. */
  readonly spareOfOne: number;
}

/** Tokens of requests in flight that are expected to arrive in the next `horizon` slots. Hot: 31 times an evaluation. */
function comingBy(horizon: number, { end, tokens, inFlight: { weights, ages, overdue } }: Outlook): number {
  let coming = overdue;
  for (let age = 0; age < ages; age += 1) {
    const weight = weights[age] ?? 0;
    if (weight > 0) coming += weight * ((tokens[Math.min(end, age + horizon + 1)] ?? 0) - (tokens[age] ?? 0));
  }
  return coming;
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
