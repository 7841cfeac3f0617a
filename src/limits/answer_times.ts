/**
 * A histogram of answers by latency, in slots of half a second, with their tokens.
 *
 * Each time the histogram reaches 2,000 answers, all counts are halved, so the newest thousand dominate.
 *
 * Limits: 24 KB.
 */

/** Slots of ages and latencies: 512 s. Longer ones count in the last slot. */
export const AGES = 1_024;
const HALVE_AT = 2_000;
/** After this many answers, each within 3 s, it is enough to count tokens when they are sent. */
const QUICK_ANSWERS = 20;
export const QUICK_SLOTS = 6;
const MEAN_ANSWERS = 32;

/** Latencies are in slots. */
export class AnswerTimes {
  /** Answers by latency: their number, their tokens, and the squares of their tokens. */
  readonly answers: Float64Array = new Float64Array(AGES);
  readonly tokens: Float64Array = new Float64Array(AGES);
  readonly squares: Float64Array = new Float64Array(AGES);
  #total = 0;
  #answered = 0;
  #longest = 0;
  #mean = 0;
  #largest = 0;

  /** Sum of `answers`. */
  get total(): number {
    return this.#total;
  }

  /** The highest latency so far. */
  get longest(): number {
    return this.#longest;
  }

  /** Moving mean of the latency; 0 before the first answer. */
  get mean(): number {
    return this.#mean;
  }

  /** Tokens of the largest answer. */
  get largest(): number {
    return this.#largest;
  }

  /** Whether answers arrive so soon that tokens count as used when they are sent. */
  get isQuick(): boolean {
    return this.#answered >= QUICK_ANSWERS && this.#longest < QUICK_SLOTS;
  }

  /** Adds an answer. */
  learn(slots: number, tokens: number): void {
    const latency = Math.min(AGES - 1, slots);
    this.answers[latency] = (this.answers[latency] ?? 0) + 1;
    this.tokens[latency] = (this.tokens[latency] ?? 0) + tokens;
    this.squares[latency] = (this.squares[latency] ?? 0) + tokens * tokens;
    this.#largest = Math.max(this.#largest, tokens);
    this.#total += 1;
    this.#answered += 1;
    this.#longest = Math.max(this.#longest, latency);
    this.#mean += (latency - this.#mean) / Math.min(this.#answered, MEAN_ANSWERS);
    if (this.#total < HALVE_AT) return;
    this.#total /= 2;
    for (let each = 0; each <= this.#longest; each += 1) {
      this.answers[each] = (this.answers[each] ?? 0) / 2;
      this.tokens[each] = (this.tokens[each] ?? 0) / 2;
      this.squares[each] = (this.squares[each] ?? 0) / 2;
    }
  }
}
