/**
 * Open tasks in columns, in the order in which the log states them, found by number: 46 bytes a task, and 8 to 16 for its place
 * in the index.
 *
 *   absent -> last row (`put`) -> last row again (`put`, stated again) -> absent (`delete`)
 *
 * A removed row leaves a hole; if the end is reached, holes are closed if they are half of all, or the columns
 * double. The index is a table with open addressing, at most half full.
 *
 * Limit: 1,073,741,824 rows and holes.
 */

/** A task that is open. */
export interface OpenTask {
  readonly number: number;
  /** All of them, ended or not; `UNCOUNTED_ITEMS` while nobody knows. */
  readonly items: number;
  /** Items that have not ended. */
  readonly left: number;
  /** Unix time; Infinity without a deadline. */
  readonly deadlineMs: number;
  /** Number of a name. */
  readonly project: number;
  readonly kind: number;
  /** What the rest ended with while these were under way: 0, or the place in `ENDED_STATUSES` and one. */
  readonly restStatus: number;
  /** The entry that states it. */
  readonly sequence: number;
}

const ROWS_MIN = 1_024;
const FREE = 0;

export class OpenColumns {
  #numbers = new Float64Array(ROWS_MIN);
  #deadlines = new Float64Array(ROWS_MIN);
  #sequences = new Float64Array(ROWS_MIN);
  #items = new Uint32Array(ROWS_MIN);
  #left = new Uint32Array(ROWS_MIN);
  #projects = new Uint32Array(ROWS_MIN);
  #flags = new Uint16Array(ROWS_MIN); // kind, and restStatus above it
  /** Rows and holes, from `#first` to `#end`. */
  #span = { first: 0, end: 0, size: 0 };
  /** Row plus one, by hash of the number; 0 if the slot is free. */
  #index = new Int32Array(ROWS_MIN * 2);

  get size(): number {
    return this.#span.size;
  }

  has(number: number): boolean {
    return this.#rowOf(number) >= 0;
  }

  /** Of a task; 0 if it is not there. */
  itemsOf(number: number): number {
    const row = this.#rowOf(number);
    return row < 0 ? 0 : (this.#items[row] ?? 0);
  }

  get(number: number): OpenTask | undefined {
    const row = this.#rowOf(number);
    return row < 0 ? undefined : this.#read(row);
  }

  /** Adds it as the last row, or makes it the last one. Numbers count from 1. */
  put(task: OpenTask): void {
    this.delete(task.number);
    if (this.#span.end === this.#numbers.length) this.#makePlace();
    const row = this.#span.end;
    this.#span.end += 1;
    this.#span.size += 1;
    this.#numbers[row] = task.number;
    this.#deadlines[row] = task.deadlineMs;
    this.#sequences[row] = task.sequence;
    this.#items[row] = task.items;
    this.#projects[row] = task.project;
    this.#write(row, task);
    this.#enter(row);
  }

  /** Changes what may change of a task in its place. */
  update(number: number, change: Pick<OpenTask, "items" | "left" | "restStatus" | "kind">): void {
    const row = this.#rowOf(number);
    if (row < 0) return;
    this.#items[row] = change.items;
    this.#write(row, change);
  }

  delete(number: number): void {
    const row = this.#rowOf(number);
    if (row < 0) return;
    this.#leave(number);
    this.#numbers[row] = FREE;
    this.#span.size -= 1;
    while (this.#span.first < this.#span.end && this.#numbers[this.#span.first] === FREE)
      this.#span.first += 1;
  }

  /** In the order in which they are stated. Nothing may be put or deleted meanwhile. */
  *[Symbol.iterator](): Generator<OpenTask> {
    for (let row = this.#span.first; row < this.#span.end; row += 1)
      if (this.#numbers[row] !== FREE) yield this.#read(row);
  }

  #read(row: number): OpenTask {
    const flags = this.#flags[row] ?? 0;
    return {
      number: this.#numbers[row] ?? 0,
      items: this.#items[row] ?? 0,
      left: this.#left[row] ?? 0,
      deadlineMs: this.#deadlines[row] ?? 0,
      project: this.#projects[row] ?? 0,
      kind: flags & 0xff,
      restStatus: flags >>> 8,
      sequence: this.#sequences[row] ?? 0,
    };
  }

  #write(row: number, { left, kind, restStatus }: Pick<OpenTask, "left" | "kind" | "restStatus">): void {
    this.#left[row] = left;
    this.#flags[row] = kind | (restStatus << 8);
  }

  #makePlace(): void {
    const { first, end, size } = this.#span;
    const rows = size * 2 <= end ? end : end * 2;
    const kept: number[] | undefined = size === end ? undefined : [];
    for (let row = first; kept !== undefined && row < end; row += 1)
      if (this.#numbers[row] !== FREE) kept.push(row);
    const moved = <T extends Float64Array | Uint32Array | Uint16Array>(column: T, larger: T): T => {
      if (kept === undefined) larger.set(column);
      else for (let index = 0; index < kept.length; index += 1) larger[index] = column[kept[index] ?? 0] ?? 0;
      return larger;
    };
    this.#numbers = moved(this.#numbers, new Float64Array(rows));
    this.#deadlines = moved(this.#deadlines, new Float64Array(rows));
    this.#sequences = moved(this.#sequences, new Float64Array(rows));
    this.#items = moved(this.#items, new Uint32Array(rows));
    this.#left = moved(this.#left, new Uint32Array(rows));
    this.#projects = moved(this.#projects, new Uint32Array(rows));
    this.#flags = moved(this.#flags, new Uint16Array(rows));
    this.#span = { first: 0, end: size, size };
    this.#index = new Int32Array(rows * 2);
    for (let row = 0; row < size; row += 1) this.#enter(row);
  }

  #rowOf(number: number): number {
    const mask = this.#index.length - 1;
    for (let slot = hash(number) & mask; ; slot = (slot + 1) & mask) {
      const row = (this.#index[slot] ?? 0) - 1;
      if (row < 0 || this.#numbers[row] === number) return row;
    }
  }

  #enter(row: number): void {
    const mask = this.#index.length - 1;
    let slot = hash(this.#numbers[row] ?? 0) & mask;
    while (this.#index[slot] !== 0) slot = (slot + 1) & mask;
    this.#index[slot] = row + 1;
  }

  /** Those after it move up, so that no search ends at the free place too early. */
  #leave(number: number): void {
    const mask = this.#index.length - 1;
    const numberAt = (slot: number): number => this.#numbers[(this.#index[slot] ?? 0) - 1] ?? 0;
    let free = hash(number) & mask;
    while (numberAt(free) !== number) free = (free + 1) & mask;
    for (let slot = (free + 1) & mask; this.#index[slot] !== 0; slot = (slot + 1) & mask) {
      const home = hash(numberAt(slot)) & mask;
      if (((slot - home) & mask) < ((slot - free) & mask)) continue;
      this.#index[free] = this.#index[slot] ?? 0;
      free = slot;
    }
    this.#index[free] = 0;
  }
}

/**
 * Numbers rise by one. As slots, they would be side by side, and removing a row would read all after it: 3.5 ms of CPU each with
 * 1,000,000 open. So their bits are mixed (the last steps of MurmurHash3).
 */
function hash(number: number): number {
  let bits = number ^ (number / 0x1_0000_0000);
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
