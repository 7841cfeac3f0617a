/**
 * The different lists of warnings that items have, by number. Items of one file are alike, so there are a few lists for
 * millions of items, and a number of 16 bits is all that an item needs.
 */

/** Numbers count from 1; 0 means an item without warnings. A block or shard has fewer items than there are numbers. */
export class WarningLists {
  readonly #lists: string[] = [];
  readonly #numbers = new Map<string, number>();

  /** The lists by their numbers less 1. */
  get lists(): readonly string[] {
    return this.#lists;
  }

  /** The number of a list, which is not empty; a new one where it is new. */
  numberOf(list: string): number {
    const known = this.#numbers.get(list);
    if (known !== undefined) return known;
    this.#lists.push(list);
    this.#numbers.set(list, this.#lists.length);
    return this.#lists.length;
  }
}
