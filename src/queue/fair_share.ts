/**
 * Whose turn it is: those who wait for the same share what it can do by their weights, by start-time fair queueing (Goyal,
 * Vin and Cheng 1996, "Start-time fair queuing", section 2).
 *
 *   absent --join--> waiting, in the order of start tags --next, served--> waiting with a later tag
 *   waiting --cannot be served--> held, without losing its place --can--> waiting, from the present on
 *   any --leave--> absent; its tag is kept until the present has passed it
 *
 *   start tag: max(present, end of what it was served); `served` adds cost / weight to it
 *   present:   the start tag of what was served last, or the latest end when nobody was left
 *
 * Promise (theorem 1 of the paper): over any time in which i and j can both be served, with Max the largest cost and
 * weights that stay,
 *
 *   |served(i) / weight(i) - served(j) / weight(j)|  <=  Max / weight(i) + Max / weight(j)
 *
 * So one that arrives with n items while N others wait, all items of cost c and all weights 1, is done within the time of
 * (N + 1) n + N items: with one other, in twice its time without others and one item. Nobody saves up for a burst while it does not
 * wait or is held, and nobody gets ahead by leaving and coming back.
 *
 * Why not deficit round robin (Shreedhar and Varghese 1996), which takes O(1): a new one waits for a round of all others,
 * and the bound is looser by a round's credit (docs/decisions/0010-fair-share.md).
 *
 * Limits: `next` reads those who cannot be served and one more; `served`, `join` and `leave` move one entry of a
 * sorted list, O(log n) comparisons. With one present nothing is reckoned.
 */

interface Entry<T> {
  readonly who: T;
  startTag: number;
  isHeld: boolean;
}

export interface FairShareOptions<T> {
  /** Above 0. Asked whenever it is served. */
  readonly weightOf: (who: T) => number;
  /** By which it is known when it returns. */
  readonly nameOf: (who: T) => string;
}

/** One for those who wait for the same. */
export class FairShare<T> {
  readonly #options: FairShareOptions<T>;
  /** By start tag, then by how long they have it. */
  readonly #entries: Entry<T>[] = [];
  /** Tags of those who left, by name, later than the present. */
  readonly #left = new Map<string, number>();
  #present = 0;

  constructor(options: FairShareOptions<T>) {
    this.#options = options;
  }

  get size(): number {
    return this.#entries.length;
  }

  /** All who wait. */
  *waiting(): Generator<T> {
    for (const { who } of this.#entries) yield who;
  }

  /** Whether the claim holds for any who waits. */
  some(isSo: (who: T) => boolean): boolean {
    return this.#entries.some(({ who }) => isSo(who));
  }

  /** Waits from now on; false when it does already. */
  join(who: T): boolean {
    if (this.#find(who) >= 0) return false;
    const name = this.#options.nameOf(who);
    const startTag = Math.max(this.#present, this.#left.get(name) ?? 0);
    this.#left.delete(name);
    this.#insert({ who, startTag, isHeld: false });
    return true;
  }

  /** Waits no more; false when it did not. */
  leave(who: T): boolean {
    const index = this.#find(who);
    if (index < 0) return false;
    const [{ startTag = 0 } = {}] = this.#entries.splice(index, 1);
    this.#left.set(this.#options.nameOf(who), startTag);
    if (this.#entries.length === 0) for (const tag of this.#left.values()) this.#move(tag);
    this.#forget();
    return true;
  }

  /**
   * Whose turn it is; the same one in the next call without `served`, while that one can be. `canServe` is called
   * for the first ones, until it says yes; with one present that one is named without a call. Undefined when
   * nobody can be served.
   */
  next(canServe: (who: T) => boolean): T | undefined {
    const entries = this.#entries;
    if (entries.length < 2) return entries[0]?.who;
    for (let index = 0; index < entries.length; index += 1) {
      const entry = entries[index] as Entry<T>;
      if (!canServe(entry.who)) {
        entry.isHeld = true;
      } else if (entry.isHeld && entry.startTag < this.#present) {
        entries.splice(index, 1);
        entry.isHeld = false;
        entry.startTag = this.#present;
        this.#insert(entry);
        index -= 1;
      } else {
        entry.isHeld = false;
        return entry.who;
      }
    }
    return undefined;
  }

  /** What `next` named was served at this cost, above 0. */
  served(who: T, cost: number): void {
    if (this.#entries.length < 2) return;
    const index = this.#find(who);
    const [entry] = index < 0 ? [] : this.#entries.splice(index, 1);
    if (entry === undefined) return;
    this.#move(entry.startTag);
    entry.startTag += cost / this.#options.weightOf(who);
    this.#insert(entry);
  }

  #find(who: T): number {
    return this.#entries.findIndex((entry) => entry.who === who);
  }

  /** After all with an earlier tag or the same. */
  #insert(entry: Entry<T>): void {
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle] as Entry<T>).startTag <= entry.startTag) low = middle + 1;
      else high = middle;
    }
    this.#entries.splice(low, 0, entry);
  }

  #move(tag: number): void {
    if (tag > this.#present) this.#present = tag;
  }

  /** A tag that the present has passed says nothing; the list is cleaned when it has grown with nothing to keep. */
  #forget(): void {
    if (this.#left.size <= 2 * this.#entries.length + 16) return;
    for (const [name, tag] of this.#left) if (tag <= this.#present) this.#left.delete(name);
  }
}
