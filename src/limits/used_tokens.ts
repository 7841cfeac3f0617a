/**
 * Counts the tokens of the last minute in slots of half a second: input when it is sent, output when the answer arrives.
 *
 * Limits: 4 KB.
 */
import { ringPosition } from "./ring.ts";

export const SLOT_MS = 500;
export const MINUTE_SLOTS = 120;
/** The slots of a minute and one more, because part of the oldest slot is within the minute. */
const WINDOW = MINUTE_SLOTS + 1;

/** Tokens. As a limit: tokens a minute, Infinity for no limit. */
export interface UsedUnits {
  /** Input and output. */
  readonly tokens: number;
  readonly outputTokens: number;
}

/** Tokens used in a minute, by how many slots after the newest one it ends: 0 to `MINUTE_SLOTS`. */
export interface UsedByHorizon {
  readonly input: Float64Array;
  readonly output: Float64Array;
}

/** Slots are whole numbers, `floor(time / SLOT_MS)`; times are monotonic. */
export class UsedTokens {
  readonly #input = new Float64Array(WINDOW);
  readonly #output = new Float64Array(WINDOW);
  readonly #byHorizon = { input: new Float64Array(WINDOW), output: new Float64Array(WINDOW) };
  #newest = Number.NEGATIVE_INFINITY;
  #inputTotal = 0;
  #outputTotal = 0;

  /** Forgets slots that are older than a minute; returns the newest slot. */
  advance(nowMs: number): number {
    const slot = Math.floor(nowMs / SLOT_MS);
    for (let fresh = Math.max(this.#newest + 1, slot - WINDOW + 1); fresh <= slot; fresh += 1)
      this.#input[ringPosition(fresh, WINDOW)] = this.#output[ringPosition(fresh, WINDOW)] = 0;
    this.#newest = Math.max(this.#newest, slot);
    return this.#newest;
  }

  /** Adds input tokens to a slot; negative for a correction. In the sums of the minute, a forgotten slot is ignored. */
  addInput(slot: number, tokens: number): void {
    this.#inputTotal += tokens;
    if (slot <= this.#newest - WINDOW) return;
    this.#input[ringPosition(slot, WINDOW)] = Math.max(
      0,
      (this.#input[ringPosition(slot, WINDOW)] ?? 0) + tokens,
    );
  }

  /** Adds output tokens to a slot. In the sums of the minute, a forgotten slot is ignored. */
  addOutput(slot: number, tokens: number): void {
    this.#outputTotal += tokens;
    if (slot <= this.#newest - WINDOW) return;
    this.#output[ringPosition(slot, WINDOW)] = (this.#output[ringPosition(slot, WINDOW)] ?? 0) + tokens;
  }

  /** Tokens since the start. */
  get total(): UsedUnits {
    return { tokens: this.#inputTotal + this.#outputTotal, outputTokens: this.#outputTotal };
  }

  /** Input and output tokens used in the minute that ends with `slot`. */
  since(slot: number): readonly [number, number] {
    const { input, output } = this.byHorizon(slot);
    return [input[0] ?? 0, output[0] ?? 0];
  }

  /** Tokens used up to `slot` in minutes that end later. Valid until the next call. Hot: one pass for the 31 horizons of an evaluation. */
  byHorizon(slot: number): UsedByHorizon {
    const { input, output } = this.#byHorizon;
    let position = ringPosition(slot, WINDOW);
    let [inputSum, outputSum] = [0, 0];
    for (let horizon = WINDOW - 1; horizon >= 0; horizon -= 1) {
      inputSum += this.#input[position] ?? 0;
      outputSum += this.#output[position] ?? 0;
      input[horizon] = inputSum;
      output[horizon] = outputSum;
      position = position === 0 ? WINDOW - 1 : position - 1;
    }
    return this.#byHorizon;
  }

  /** Milliseconds until the last minute holds at most `most` tokens if nothing more is used; 0 for now, at most 60,000. */
  fallsToMs(nowMs: number, unit: keyof UsedUnits, most: number): number {
    const slot = this.advance(nowMs);
    const [input, output] = this.since(slot);
    const isAll = unit === "tokens";
    let used = output + (isAll ? input : 0);
    for (let each = slot - WINDOW + 1; each <= slot; each += 1) {
      if (used <= most) return Math.max(0, (each + WINDOW - 1) * SLOT_MS - nowMs);
      used -=
        (this.#output[ringPosition(each, WINDOW)] ?? 0) +
        (isAll ? (this.#input[ringPosition(each, WINDOW)] ?? 0) : 0);
    }
    return MINUTE_SLOTS * SLOT_MS;
  }
}
