/**
 * Rows of items that wait for a lane, in the order of the file; what comes back is first again.
 */
export class RowQueue {
  readonly #rows: Int32Array;
  #next = 0;
  readonly #returned: number[] = [];

  constructor(rows: Int32Array) {
    this.#rows = rows;
  }

  get size(): number {
    return this.#rows.length - this.#next + this.#returned.length;
  }

  /** The next row; -1 without any. */
  get first(): number {
    return this.#returned.at(-1) ?? this.#rows[this.#next] ?? -1;
  }

  shift(): number {
    const row = this.first;
    if (this.#returned.length > 0) this.#returned.pop();
    else if (row >= 0) this.#next += 1;
    return row;
  }

  giveBack(row: number): void {
    this.#returned.push(row);
  }
}
