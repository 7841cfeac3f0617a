/**
 * Places in a file by 32-bit hashes: an open hash table with linear probing, in two arrays, which grows and whose places can be removed.
 *
 * Different things may have the same hash, so all places of a hash are returned, one after another. Memory: 12 bytes a slot; it doubles
 * when it is 70 % full.
 */
const SLOTS_MIN = 1_024;
const FULL = 0.7;

export class PlacesByHash {
  #hashes = new Uint32Array(SLOTS_MIN);
  /** A place and 1; 0: nothing. */
  #places = new Float64Array(SLOTS_MIN);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** `hash`: a whole number below 2^32; `place`: one from 0. */
  add(hash: number, place: number): void {
    if (this.#count >= this.#places.length * FULL) this.#grow();
    this.#put(hash, place + 1);
    this.#count += 1;
  }

  /** A slot with this hash, or -1. */
  first(hash: number): number {
    return this.#slotFrom(hash, this.#homeOf(hash));
  }

  /** The next slot with the hash of this one, or -1. */
  after(slot: number): number {
    return this.#slotFrom(this.#hashes[slot] as number, (slot + 1) & (this.#places.length - 1));
  }

  placeAt(slot: number): number {
    return (this.#places[slot] as number) - 1;
  }

  /** Slots are others afterwards. */
  remove(slot: number): void {
    const mask = this.#places.length - 1;
    let free = slot;
    // Those that follow move up, unless their home is after the free slot (Knuth, volume 3, 6.4, algorithm R).
    for (let at = (slot + 1) & mask; this.#places[at] !== 0; at = (at + 1) & mask) {
      const hash = this.#hashes[at] as number;
      if (((at - this.#homeOf(hash)) & mask) < ((at - free) & mask)) continue;
      this.#hashes[free] = hash;
      this.#places[free] = this.#places[at] as number;
      free = at;
    }
    this.#places[free] = 0;
    this.#count -= 1;
  }

  #slotFrom(hash: number, from: number): number {
    const mask = this.#places.length - 1;
    for (let slot = from; this.#places[slot] !== 0; slot = (slot + 1) & mask)
      if (this.#hashes[slot] === hash) return slot;
    return -1;
  }

  /** Numbers that follow each other have hashes that differ in few bits: a multiplication spreads them. */
  #homeOf(hash: number): number {
    return (Math.imul(hash, 0x9e3779b1) >>> 7) & (this.#places.length - 1);
  }

  #put(hash: number, stored: number): void {
    const mask = this.#places.length - 1;
    let slot = this.#homeOf(hash);
    while (this.#places[slot] !== 0) slot = (slot + 1) & mask;
    this.#hashes[slot] = hash;
    this.#places[slot] = stored;
  }

  #grow(): void {
    const [hashes, places] = [this.#hashes, this.#places];
    this.#hashes = new Uint32Array(places.length * 2);
    this.#places = new Float64Array(places.length * 2);
    for (let slot = 0; slot < places.length; slot += 1)
      if (places[slot] !== 0) this.#put(hashes[slot] as number, places[slot] as number);
  }
}
