/**
 * Chance from a seed: mulberry32, 32 bits of state, equal on every machine.
 *
 * Source: https://gist.github.com/tommyettinger/46a874533244883189143505d203312c (public domain). Good enough to spread
 * faults over a simulation; not for secrets.
 */

/** A function that returns the next number in [0, 1). The same seed returns the same numbers. */
export function createRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
