/**
 * When the lines of an output became durable: by the range of each step in it, so 16 bytes a step and not 8 a line.
 *
 * Read from the journal again, it tells the same times.
 */
/** For one output; 16 bytes for each durable step. */
export class StepTimes {
  /** First byte behind each step's range; rises. */
  readonly #ends: number[] = [];
  /** Unix time of each; never falls, whatever the wall clock does. */
  readonly #wallMs: number[] = [];

  /** A step took the output from `start` up to `end`; what was there from `start` on was taken back before. */
  note(start: number, end: number, wallMs: number): void {
    if (end <= start) return;
    while ((this.#ends.at(-1) ?? 0) > start) {
      this.#ends.pop();
      this.#wallMs.pop();
    }
    this.#ends.push(end);
    this.#wallMs.push(Math.max(wallMs, this.last ?? 0));
  }

  /** Of the last range; undefined when there is none. */
  get last(): number | undefined {
    return this.#wallMs.at(-1);
  }

  /** Of the range with this byte; undefined when there is none. */
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
