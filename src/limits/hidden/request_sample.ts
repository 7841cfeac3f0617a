/**
 * The requests that count now, by number: how many of them have ended, and which were refused.
 *
 * Requests are numbered in the order in which they are sent, and a 429 arrives no later than an answer: all requests before one whose
 * end is known count as accepted unless they were refused.
 *
 * Limits: 64 numbers.
 */

const REFUSALS_KEPT = 64;

export interface Sample {
  readonly refused: number;
  readonly all: number;
}

/** One for each lane. */
export class RequestSample {
  #sent = 0;
  /** The newest request whose end is known. */
  #known = 0;
  /** The first request that counts now, and the refused ones from it on, in the order in which they were sent. */
  #from = 1;
  #refused: number[] = [];

  /** The number of the newest request. */
  get newest(): number {
    return this.#sent;
  }

  /** The ends of the requests that count, as far as they are known. */
  get known(): Sample {
    return { refused: this.#refused.length, all: Math.max(0, this.#known - this.#from + 1) };
  }

  /** Number of requests sent that count. */
  get count(): number {
    return this.#sent - this.#from + 1;
  }

  /** Whether all with a known end were refused. */
  get isRefused(): boolean {
    return this.known.all === this.#refused.length;
  }

  /** Length of the row of refusals that ends with the last request whose end is known. */
  get row(): number {
    let row = 0;
    while (row < this.#refused.length && this.#refused.at(-1 - row) === this.#known - row) row += 1;
    return row;
  }

  /** A request is sent; returns its number. */
  add(): number {
    this.#sent += 1;
    return this.#sent;
  }

  /** The end of a request is known. Returns how many more ends are known than before. */
  know(index: number): number {
    const more = Math.max(0, index - this.#known);
    this.#known += more;
    return more;
  }

  /** Whether a request counts. */
  has(index: number): boolean {
    return index >= this.#from;
  }

  /** A request that counts was refused. */
  refuse(index: number): void {
    this.#refused.splice(this.#refused.findLastIndex((each) => each < index) + 1, 0, index);
    if (this.#refused.length > REFUSALS_KEPT) this.#refused.shift();
  }

  /** Whether the sum of evidence for `other` against `share` (see `evidence`) reaches `most` from some refusal on. */
  reaches(most: number, share: number, other: number): boolean {
    return this.#refused.some((from, at) => {
      const sample = { refused: this.#refused.length - at, all: this.#known - from + 1 };
      return evidence(sample, share, other) >= most;
    });
  }

  /** Only later requests count from now on. */
  begin(): void {
    this.#known = this.#sent;
    this.#from = this.#sent + 1;
    this.#refused = [];
  }
}

/** Log likelihood ratio of `sample` for a refused share of `other` against `share`. */
export function evidence({ refused, all }: Sample, share: number, other: number): number {
  return refused * Math.log(other / share) + (all - refused) * Math.log((1 - other) / (1 - share));
}
