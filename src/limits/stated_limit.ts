/**
 * The limit that responses state.
 *
 *   none --a response states one--> stated --a response states another one--> stated
 *   stated --60 s without a response that repeats it--> old, until a response repeats it
 *
 * A wrong header does not freeze the lane: the limit is at least 1, and a limit below a tenth of the one in force (0
 * included) counts only when the next response repeats it.
 */

const STATED_FOR_MS = 60_000;
const SUSPECT_SHARE = 0.1;

/** One for each quota. Times are monotonic. */
export class StatedLimit {
  #units = Number.POSITIVE_INFINITY;
  #atMs = Number.NEGATIVE_INFINITY;
  #isSuspect = false;

  /** Units a minute, whole and at least 1; Infinity if no response stated a limit. */
  get units(): number {
    return this.#units;
  }

  /** Whether no response has repeated it for 60 s. */
  isOld(nowMs: number): boolean {
    return nowMs - this.#atMs > STATED_FOR_MS;
  }

  /** Whether a response that states `limit` counts, where `effective` is in force. Call it once for each response. */
  believes(limit: number, effective: number): boolean {
    const isKnown = effective !== Number.POSITIVE_INFINITY;
    const isSuspect = isKnown ? limit < effective * SUSPECT_SHARE : limit < 1;
    const isFirst = isSuspect && !this.#isSuspect;
    this.#isSuspect = isSuspect;
    return !isFirst;
  }

  /** Records a limit that counts. */
  learn(nowMs: number, limit: number): void {
    this.#units = Math.max(1, Math.floor(limit));
    this.#atMs = nowMs;
  }
}
