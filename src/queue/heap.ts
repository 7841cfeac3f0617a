/**
 * A binary heap: the value with the smallest key first, those of one key in the order of their pushes.
 *
 * `push` and `pop` take O(log n), `peek` O(1), `keep` O(n). A caller that pops an entry that is not wanted any more skips it.
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
      if (!isBefore(place, parent)) break;
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
      if (sibling !== undefined && isBefore(sibling, child)) {
        childIndex += 1;
        child = sibling;
      }
      if (!isBefore(child, place)) break;
      places[index] = child;
      index = childIndex;
    }
    places[index] = place;
  }
}

function isBefore(left: Place<unknown>, right: Place<unknown>): boolean {
  return left.key < right.key || (left.key === right.key && left.sequence < right.sequence);
}
