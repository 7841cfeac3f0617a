/**
 * When tokens are used: input when a request is sent, output when its answer comes. Says how many more requests may go so
 * that no minute to come holds more tokens than the limit, though answers take long and are of any length.
 *
 *   for every horizon h up to the longest answer seen (steps of 2.5 s):
 *     used in (h - 60 s, now] + expected to come of what is in flight in (now, now + h] + 2 deviations
 *       + requests * (input + what one has given by h)  <=  limit + max(1 %, half a mean answer)
 *
 * What is expected of a request of age `a` is what answers that took longer than `a` gave, when they gave it: a histogram of
 * latencies (half seconds) with their tokens, so long answers count as long. Before the first answer all that is in flight
 * counts with what was reserved for it, so first answers of an unknown model are let in as the limit holds them at their worst.
 *
 * Counting when sent (bucket.ts) and when used are two laws, and both hold. Why not one: with answers of a minute the tokens of
 * a minute's requests come when they come, and a minute of them may hold twice what was sent in any.
 *
 * What is free is not used up at once, which would leave the next minute as uneven as this one, but at a pace in proportion to it.
 *
 * Limits: 42 KB a lane with a token limit. Hot path: a comparison; every 250 ms some 10 us.
 */
import type { TokenLoad } from "../work/limits.ts";

const SLOT_MS = 500;
/** Slots of ages and latencies: 512 s; older ones count in the last. */
const AGES = 1_024;
/** Slots of a minute and one more, since the first is partly over. */
const WINDOW = 121;
const EVALUATE_EVERY_MS = 250;
const HORIZON_STEP = 5;
const DEVIATIONS = 2;
const OVER_SHARE = 0.01;
const HALVE_AT = 2_000;
/** A horizon by which a request has given less than this part of its tokens does not hold it back. */
const PART_MIN = 0.05;
const BAND = 0.015;
const CATCH_UP = 1.5;
const PACE_MAX = 1.25;
const SINCE_MS_MAX = 1_000;
/** Where so many answers came within 3 s each, counting when sent is enough. */
const QUICK_ANSWERS = 20;
const QUICK_SLOTS = 6;

/** Tokens a minute; Infinity where nothing is limited. */
export interface FlowLimits {
  readonly tokens: number;
  readonly outputTokens: number;
}

export class TokenFlow {
  /** Requests in flight and what was reserved for their outputs, by the slot in which they were sent. */
  readonly #requests = new Float64Array(AGES);
  readonly #reserved = new Float64Array(AGES);
  #oldest = Number.POSITIVE_INFINITY;
  #inFlight = 0;
  /** Tokens used, by slot, a ring. */
  readonly #input = new Float64Array(WINDOW);
  readonly #output = new Float64Array(WINDOW);
  #newest = Number.NEGATIVE_INFINITY;
  /** Answers by latency: how many, their tokens, their squares. */
  readonly #answers = new Float64Array(AGES);
  readonly #tokens = new Float64Array(AGES);
  readonly #squares = new Float64Array(AGES);
  #total = 0;
  #answered = 0;
  #longest = 0;
  #budget = 0;
  #evaluatedAtMs = Number.NEGATIVE_INFINITY;

  /** Milliseconds until one more request may go; 0 for now. */
  waitMs(nowMs: number, load: TokenLoad, limits: FlowLimits): number {
    if (this.#budget >= 1 && nowMs - this.#evaluatedAtMs < EVALUATE_EVERY_MS) return 0;
    if (this.#budget < 1 && nowMs - this.#evaluatedAtMs < EVALUATE_EVERY_MS / 2)
      return this.#evaluatedAtMs + EVALUATE_EVERY_MS / 2 - nowMs;
    this.#evaluate(nowMs, load, limits);
    return this.#budget >= 1 ? 0 : EVALUATE_EVERY_MS / 2;
  }

  sent(nowMs: number, load: TokenLoad): void {
    const slot = this.#advance(nowMs);
    this.#add(slot, 1, load.outputTokens);
    this.#input[at(slot, WINDOW)] = (this.#input[at(slot, WINDOW)] ?? 0) + load.inputTokens;
    this.#budget -= 1;
  }

  /** A request that was sent at `sentAtMs` ended, and took so much. */
  ended(nowMs: number, sentAtMs: number, load: TokenLoad, used: TokenLoad, isAnswer: boolean): void {
    const slot = this.#advance(nowMs);
    const sent = Math.floor(sentAtMs / SLOT_MS);
    this.#add(sent, -1, -load.outputTokens);
    if (sent > slot - WINDOW)
      this.#input[at(sent, WINDOW)] = Math.max(
        0,
        (this.#input[at(sent, WINDOW)] ?? 0) + used.inputTokens - load.inputTokens,
      );
    this.#output[at(slot, WINDOW)] = (this.#output[at(slot, WINDOW)] ?? 0) + used.outputTokens;
    if (isAnswer) this.#learn(Math.min(AGES - 1, slot - sent), used.outputTokens);
  }

  /** What an earlier process sent, as if it had been used then. */
  restore(nowMs: number, atMs: number, load: TokenLoad): void {
    const slot = this.#advance(nowMs);
    const sent = Math.floor(atMs / SLOT_MS);
    if (sent <= slot - WINDOW) return;
    this.#input[at(sent, WINDOW)] = (this.#input[at(sent, WINDOW)] ?? 0) + load.inputTokens;
    this.#output[at(sent, WINDOW)] = (this.#output[at(sent, WINDOW)] ?? 0) + load.outputTokens;
  }

  #add(slot: number, requests: number, reserved: number): void {
    const position = at(slot, AGES);
    this.#requests[position] = (this.#requests[position] ?? 0) + requests;
    this.#reserved[position] = (this.#reserved[position] ?? 0) + reserved;
    this.#inFlight += requests;
    this.#oldest = Math.min(this.#oldest, slot);
  }

  #learn(latency: number, tokens: number): void {
    this.#answers[latency] = (this.#answers[latency] ?? 0) + 1;
    this.#tokens[latency] = (this.#tokens[latency] ?? 0) + tokens;
    this.#squares[latency] = (this.#squares[latency] ?? 0) + tokens * tokens;
    this.#total += 1;
    this.#answered += 1;
    this.#longest = Math.max(this.#longest, latency);
    if (this.#total < HALVE_AT) return;
    this.#total /= 2;
    for (let each = 0; each <= this.#longest; each += 1) {
      this.#answers[each] = (this.#answers[each] ?? 0) / 2;
      this.#tokens[each] = (this.#tokens[each] ?? 0) / 2;
      this.#squares[each] = (this.#squares[each] ?? 0) / 2;
    }
  }

  #advance(nowMs: number): number {
    const slot = Math.floor(nowMs / SLOT_MS);
    for (let fresh = Math.max(this.#newest + 1, slot - WINDOW + 1); fresh <= slot; fresh += 1)
      this.#input[at(fresh, WINDOW)] = this.#output[at(fresh, WINDOW)] = 0;
    this.#newest = Math.max(this.#newest, slot);
    return this.#newest;
  }

  #evaluate(nowMs: number, load: TokenLoad, limits: FlowLimits): void {
    const slot = this.#advance(nowMs);
    const sinceMs = Math.min(SINCE_MS_MAX, nowMs - this.#evaluatedAtMs);
    this.#evaluatedAtMs = nowMs;
    if (this.#answered >= QUICK_ANSWERS && this.#longest < QUICK_SLOTS) {
      this.#budget = Number.POSITIVE_INFINITY; // when they are used is when they are sent
      return;
    }
    while (this.#oldest < slot && (this.#requests[at(this.#oldest, AGES)] ?? 0) <= 0) this.#oldest += 1;
    const table = this.#table(load.outputTokens);
    const last = Math.max(HORIZON_STEP, this.#longest + HORIZON_STEP);
    let room = Number.POSITIVE_INFINITY;
    for (let horizon = 0; horizon <= last; horizon += HORIZON_STEP)
      room = Math.min(room, this.#roomAt(slot, horizon, load, limits, table));
    const perMinute = Math.min(
      limits.outputTokens / Math.max(1, load.outputTokens),
      limits.tokens / Math.max(1, load.outputTokens + load.inputTokens),
    );
    const earned = (sinceMs * perMinute * paceOf(room / perMinute)) / 60_000;
    this.#budget = Math.min(room, Math.min(1 + 2 * earned, Math.max(0, this.#budget) + earned));
    if (this.#isIdle(slot)) this.#budget = Math.max(1, this.#budget);
  }

  /** Sums over latencies up to each slot: answers, tokens, squares; tokens raised to what is reserved for one now, and by the standard error of their mean. */
  #table(reserved: number): readonly [Float64Array, Float64Array, Float64Array] {
    const size = this.#longest + 2;
    const [answers, tokens, squares] = [
      new Float64Array(size),
      new Float64Array(size),
      new Float64Array(size),
    ];
    for (let each = 1; each < size; each += 1) {
      answers[each] = (answers[each - 1] ?? 0) + (this.#answers[each - 1] ?? 0);
      tokens[each] = (tokens[each - 1] ?? 0) + (this.#tokens[each - 1] ?? 0);
      squares[each] = (squares[each - 1] ?? 0) + (this.#squares[each - 1] ?? 0);
    }
    const mean = (tokens[size - 1] ?? 0) / Math.max(1, answers[size - 1] ?? 0);
    const spread = Math.sqrt(Math.max(0, (squares[size - 1] ?? 0) / Math.max(1, this.#total) - mean * mean));
    const error = spread / Math.sqrt(Math.max(1, this.#total));
    const factor = mean > 0 ? Math.max(1, reserved / mean, 1 + error / mean) : 1;
    if (factor > 1)
      for (let each = 1; each < size; each += 1) {
        tokens[each] = (tokens[each] ?? 0) * factor;
        squares[each] = (squares[each] ?? 0) * factor * factor;
      }
    return [answers, tokens, squares];
  }

  /** Requests that may go now as far as the minute is concerned that ends `horizon` slots from now. */
  #roomAt(
    slot: number,
    horizon: number,
    load: TokenLoad,
    limits: FlowLimits,
    table: readonly [Float64Array, Float64Array, Float64Array],
  ): number {
    const [answers, tokens, squares] = table;
    const end = answers.length - 1;
    const total = answers[end] ?? 0;
    const from = Math.max(0, horizon - WINDOW + 1);
    let coming = 0;
    let variance = 0;
    for (let sent = this.#oldest; sent <= slot && this.#inFlight > 0; sent += 1) {
      const requests = this.#requests[at(sent, AGES)] ?? 0;
      if (requests <= 0) continue;
      const age = Math.min(end, slot - sent);
      const left = total - (answers[age] ?? 0);
      if (left < 1) {
        if (from === 0)
          coming += Math.max(
            this.#reserved[at(sent, AGES)] ?? 0,
            total > 0 ? (requests * (tokens[end] ?? 0)) / total : 0,
          );
        continue;
      }
      const [first, final] = [Math.min(end, age + from), Math.min(end, age + horizon + 1)];
      const mean = ((tokens[final] ?? 0) - (tokens[first] ?? 0)) / left;
      coming += requests * mean;
      variance += requests * (((squares[final] ?? 0) - (squares[first] ?? 0)) / left - mean * mean);
    }
    const ownAnswer =
      total > 0
        ? ((tokens[Math.min(end, horizon + 1)] ?? 0) - (tokens[Math.min(end, from)] ?? 0)) / total
        : load.outputTokens;
    const spare = DEVIATIONS * Math.sqrt(Math.max(0, variance));
    const [usedInput, usedOutput] = this.#usedSince(slot, horizon);
    return Math.min(
      roomOf(limits.outputTokens, usedOutput + coming + spare, ownAnswer, load.outputTokens),
      roomOf(
        limits.tokens,
        usedInput + usedOutput + coming + spare,
        ownAnswer + (from === 0 ? load.inputTokens : 0),
        load.outputTokens + load.inputTokens,
      ),
    );
  }

  /** Whether nothing is in flight and nothing was used in the last minute: then any single request may go. */
  #isIdle(slot: number): boolean {
    if (this.#inFlight > 0) return false;
    const [input, output] = this.#usedSince(slot, 0);
    return input + output === 0;
  }

  /** Input and output tokens used so far of the minute that ends `horizon` slots from now. */
  #usedSince(slot: number, horizon: number): readonly [number, number] {
    let [input, output] = [0, 0];
    for (let each = slot - WINDOW + 1 + horizon; each <= slot; each += 1) {
      input += this.#input[at(each, WINDOW)] ?? 0;
      output += this.#output[at(each, WINDOW)] ?? 0;
    }
    return [input, output];
  }
}

/** The pace, as a part of the even one, at which what is free of the limit (a part of it) is used up without swinging. */
function paceOf(free: number): number {
  return free < BAND ? Math.max(0, free / BAND) : Math.min(PACE_MAX, 1 + CATCH_UP * (free - BAND));
}

/** How many requests that give `own` fit under the limit, with what it may be passed by. */
function roomOf(limit: number, taken: number, own: number, whole: number): number {
  if (limit === Number.POSITIVE_INFINITY || own <= whole * PART_MIN) return Number.POSITIVE_INFINITY;
  return (limit + Math.max(OVER_SHARE * limit, Math.min(whole / 2, limit)) - taken) / own;
}

function at(slot: number, size: number): number {
  const rest = slot % size;
  return rest < 0 ? rest + size : rest;
}
