/**
 * Which line of an output answers which key, by 64-bit hashes of keys: 24 bytes a key at most.
 */

/** Keys differ. Open addressing; grows at half full. */
export class KeyLines {
  #highs = new Uint32Array(1_024);
  #lows = new Uint32Array(1_024);
  #lines = new Uint32Array(1_024);
  #count = 0;

  /** `line` from 1. */
  set(high: number, low: number, line: number): void {
    if ((this.#count + 1) * 2 > this.#lines.length) this.#grow();
    const at = this.#find(high, low);
    if (this.#lines[at] === 0) this.#count += 1;
    this.#highs[at] = high;
    this.#lows[at] = low;
    this.#lines[at] = line;
  }

  /** 0 for a key that is not there. */
  get(high: number, low: number): number {
    return this.#lines[this.#find(high, low)] as number;
  }

  /** The high halves of all hashes, in no order. */
  *highs(): Generator<number> {
    for (let at = 0; at < this.#lines.length; at += 1)
      if (this.#lines[at] !== 0) yield this.#highs[at] as number;
  }

  #find(high: number, low: number): number {
    const mask = this.#lines.length - 1;
    let at = (high ^ low) & mask;
    while (this.#lines[at] !== 0 && (this.#highs[at] !== high || this.#lows[at] !== low))
      at = (at + 1) & mask;
    return at;
  }

  #grow(): void {
    const [highs, lows, lines] = [this.#highs, this.#lows, this.#lines];
    this.#highs = new Uint32Array(lines.length * 2);
    this.#lows = new Uint32Array(lines.length * 2);
    this.#lines = new Uint32Array(lines.length * 2);
    this.#count = 0;
    for (let at = 0; at < lines.length; at += 1)
      if (lines[at] !== 0) this.set(highs[at] as number, lows[at] as number, lines[at] as number);
  }
}
