/**
 * When the lines of an output became durable, by the range of each step: 16 bytes a step instead of 8 a line.
 *
 * Reading the journal again yields the same times.
 */
/** For one output; 16 bytes for each durable step. */
export class StepTimes {
  /** Offset of the first byte after each step's range; rises. */
  readonly #ends: number[] = [];
  /** Unix time of each step; never falls, even if the wall clock does. */
  readonly #wallMs: number[] = [];

  /** A step extended the output from `start` to `end`; bytes from `start` on were withdrawn before. */
  note(start: number, end: number, wallMs: number): void {
    if (end <= start) return;
    while ((this.#ends.at(-1) ?? 0) > start) {
      this.#ends.pop();
      this.#wallMs.pop();
    }
    this.#ends.push(end);
    this.#wallMs.push(Math.max(wallMs, this.last ?? 0));
  }

  /** Time of the last range; undefined without one. */
  get last(): number | undefined {
    return this.#wallMs.at(-1);
  }

  /** Time of the range with this byte; undefined without one. */
  at(offset: number): number | undefined {
    let low = 0;
    let high = this.#ends.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ends[middle] as number) > offset) high = middle;
      else low = middle + 1;
    }
    return this.#wallMs[low];
  }
}
