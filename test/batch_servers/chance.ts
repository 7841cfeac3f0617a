/**
 * Chance of the fakes: numbers in [0, 1) from a seed and a text, and durations from three quantiles.
 *
 * Between the quantiles the logarithm of the time is linear in the probability; below p50 it begins at a third of it, above p99 it
 * ends at twice that.
 */

/** Durations in milliseconds. */
export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** Always the same. */
export function always(ms: number): Quantiles {
  return { p50: ms, p90: ms, p99: ms };
}

/** 32 bits of a text: FNV-1a. */
export function hashOf(text: string, seed = 0): number {
  let hash = (0x811c9dc5 ^ seed) | 0;
  for (let index = 0; index < text.length; index += 1)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}

/** A number in [0, 1) that is always the same for a seed and a text. */
export function chanceOf(seed: number, text: string): number {
  return mixed(hashOf(text, seed));
}

/** The same for a number. */
export function chanceAt(seed: number, index: number): number {
  return mixed((Math.imul(index + 1, 0x9e3779b1) ^ seed) >>> 0);
}

function mixed(bits: number): number {
  let state = bits | 0;
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return ((state ^ (state >>> 16)) >>> 0) / 2 ** 32;
}

/** The duration at a probability. */
export function durationAt({ p50, p90, p99 }: Quantiles, chance: number): number {
  if (p50 === p99) return p50;
  if (chance < 0.5) return between(p50 / 3, p50, chance / 0.5);
  if (chance < 0.9) return between(p50, p90, (chance - 0.5) / 0.4);
  if (chance < 0.99) return between(p90, p99, (chance - 0.9) / 0.09);
  return between(p99, 2 * p99, (chance - 0.99) / 0.01);
}

function between(low: number, high: number, share: number): number {
  return low === high ? low : low * (high / low) ** share;
}
