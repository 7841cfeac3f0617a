/**
 * A binary heap: the value with the smallest key first, those of one key in the order of their pushes, or in one that its owner states.
 *
 * `push` and `pop` take O(log n), `peek` O(1), `keep` and `take` O(n). A caller that pops an entry that is not wanted any more skips it.
 */
interface Place<T> {
  readonly key: number;
  readonly sequence: number;
  readonly value: T;
}

/** Push and pop take logarithmic time; keys are not changed once they are in. */
export class Heap<T> {
  #places: Place<T>[] = [];
  #pushed = 0;
  readonly #compared: (left: T, right: T) => number;

  /** `compared`: below 0 where the left one of two values with one key is first; 0 leaves it to their pushes. */
  constructor(compared: (left: T, right: T) => number = () => 0) {
    this.#compared = compared;
  }

  get size(): number {
    return this.#places.length;
  }

  push(key: number, value: T): void {
    this.#pushed += 1;
    this.#places.push({ key, sequence: this.#pushed, value });
    this.#siftUp(this.#places.length - 1);
  }

  /** The value with the smallest key; undefined without one. */
  peek(): { readonly key: number; readonly value: T } | undefined {
    return this.#places[0];
  }

  /** Takes the value with the smallest key; undefined without one. */
  pop(): T | undefined {
    const top = this.#places[0];
    const last = this.#places.pop();
    if (top === undefined || last === undefined) return undefined;
    if (this.#places.length > 0) {
      this.#places[0] = last;
      this.#siftDown(0);
    }
    return top.value;
  }

  /** All values, in no order. */
  *values(): Generator<T, void, undefined> {
    for (const { value } of this.#places) yield value;
  }

  /** Takes all such values, in their order. */
  take(isTaken: (value: T) => boolean): T[] {
    const taken = this.#places.filter(({ value }) => isTaken(value));
    if (taken.length > 0) this.keep((value) => !isTaken(value));
    return taken.sort((left, right) => this.#order(left, right)).map(({ value }) => value);
  }

  /** Drops all others. */
  keep(isWanted: (value: T) => boolean): void {
    this.#places = this.#places.filter(({ value }) => isWanted(value));
    for (let index = (this.#places.length >> 1) - 1; index >= 0; index -= 1) this.#siftDown(index);
  }

  #siftUp(from: number): void {
    const places = this.#places;
    const place = places[from] as Place<T>; // callers pass an existing index
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = places[parentIndex] as Place<T>;
      if (this.#order(place, parent) >= 0) break;
      places[index] = parent;
      index = parentIndex;
    }
    places[index] = place;
  }

  #siftDown(from: number): void {
    const places = this.#places;
    const place = places[from] as Place<T>;
    let index = from;
    for (;;) {
      let childIndex = 2 * index + 1;
      let child = places[childIndex];
      if (child === undefined) break;
      const sibling = places[childIndex + 1];
      if (sibling !== undefined && this.#order(sibling, child) < 0) {
        childIndex += 1;
        child = sibling;
      }
      if (this.#order(child, place) >= 0) break;
      places[index] = child;
      index = childIndex;
    }
    places[index] = place;
  }

  #order(left: Place<T>, right: Place<T>): number {
    if (left.key !== right.key) return left.key - right.key;
    return this.#compared(left.value, right.value) || left.sequence - right.sequence;
  }
}
