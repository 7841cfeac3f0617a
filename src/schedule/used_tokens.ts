/**
 * Tokens that were used in the last minute, input when it was sent and output when the answer came, in slots of half a second.
 *
 * Limits: 2 KB.
 */

/** Milliseconds. */
export const SLOT_MS = 500;
export const MINUTE_SLOTS = 120;
/** Slots of a minute and one more, since the first is partly over. */
const WINDOW = MINUTE_SLOTS + 1;

/** Tokens; as a limit those of a minute, Infinity for none. */
export interface UsedUnits {
  /** Input and output. */
  readonly tokens: number;
  readonly outputTokens: number;
}

/** Slots are whole numbers, `floor(time / SLOT_MS)`. */
export class UsedTokens {
  readonly #input = new Float64Array(WINDOW);
  readonly #output = new Float64Array(WINDOW);
  #newest = Number.NEGATIVE_INFINITY;
  #inputTotal = 0;
  #outputTotal = 0;

  /** Forgets what is too old; returns the newest slot. */
  advance(nowMs: number): number {
    const slot = Math.floor(nowMs / SLOT_MS);
    for (let fresh = Math.max(this.#newest + 1, slot - WINDOW + 1); fresh <= slot; fresh += 1)
      this.#input[at(fresh)] = this.#output[at(fresh)] = 0;
    this.#newest = Math.max(this.#newest, slot);
    return this.#newest;
  }

  /** Corrects the input of a slot, which may be forgotten by now. */
  addInput(slot: number, tokens: number): void {
    this.#inputTotal += tokens;
    if (slot <= this.#newest - WINDOW) return;
    this.#input[at(slot)] = Math.max(0, (this.#input[at(slot)] ?? 0) + tokens);
  }

  addOutput(slot: number, tokens: number): void {
    this.#outputTotal += tokens;
    if (slot <= this.#newest - WINDOW) return;
    this.#output[at(slot)] = (this.#output[at(slot)] ?? 0) + tokens;
  }

  /** Of all time. */
  get total(): UsedUnits {
    return { tokens: this.#inputTotal + this.#outputTotal, outputTokens: this.#outputTotal };
  }

  /** Input and output used so far of the minute that ends `horizon` slots after `slot`. */
  since(slot: number, horizon: number): readonly [number, number] {
    let [input, output] = [0, 0];
    for (let each = slot - WINDOW + 1 + horizon; each <= slot; each += 1) {
      input += this.#input[at(each)] ?? 0;
      output += this.#output[at(each)] ?? 0;
    }
    return [input, output];
  }

  /** Milliseconds until no more than `most` were used in the minute before, if nothing more is used; 0 for now. */
  fallsToMs(nowMs: number, unit: keyof UsedUnits, most: number): number {
    const slot = this.advance(nowMs);
    const [input, output] = this.since(slot, 0);
    const isAll = unit === "tokens";
    let used = output + (isAll ? input : 0);
    for (let each = slot - WINDOW + 1; each <= slot; each += 1) {
      if (used <= most) return Math.max(0, (each + WINDOW - 1) * SLOT_MS - nowMs);
      used -= (this.#output[at(each)] ?? 0) + (isAll ? (this.#input[at(each)] ?? 0) : 0);
    }
    return MINUTE_SLOTS * SLOT_MS;
  }
}

function at(slot: number): number {
  const rest = slot % WINDOW;
  return rest < 0 ? rest + WINDOW : rest;
}
