/**
 * What others use of a limit that a lane shares with them: other models under one limit, other programs.
 *
 * Units that neither remain nor were used by this lane were used by others, or the provider counts more than this lane does. The
 * highest value of the last minute or two counts, by a moving mean over answers (weight 0.1; a refusal has weight 1).
 *
 *   nothing --3 answers in a row, or a refusal, show use by others--> their most counts
 *   their most counts --the mean falls, for a minute or two--> less counts
 *   their most counts --no response for two minutes--> nothing
 */

const WINDOW_MS = 60_000;
/** Shares of the limit: others count for at most the first, and for nothing below the second. */
const SHARE_MAX = 0.95;
export const SHARE_MIN = 0.02;
/** Weight of one answer in the mean. */
const ANSWER_WEIGHT = 0.1;
/** Use by others counts when this many answers in a row show it. */
const ANSWERS = 3;

/** One for each quota. Times are monotonic. */
export class OtherUse {
  /** Units a minute that others use, as a mean over recent answers. */
  #mean = 0;
  /** Answers in a row that showed use by others. */
  #answers = 0;
  /** The highest mean of the minute that began at `#sinceMs`. */
  #most = 0;
  /** The highest mean of the minute before it. */
  #before = 0;
  #sinceMs = Number.NEGATIVE_INFINITY;

  /**
   * Records a sample of `units` a minute (below 0: the lane used more than was counted) under `limit`. A refusal (nothing remains)
   * shows use at once; answers show it late and together. Returns false while too few answers show it.
   */
  learn(nowMs: number, units: number, limit: number, isRefused: boolean): boolean {
    if (nowMs - this.#sinceMs > 2 * WINDOW_MS) this.#forget(nowMs);
    const sample = Math.min(Math.max(0, units), limit * SHARE_MAX);
    this.#answers = units > 0 ? this.#answers + (isRefused ? ANSWERS : 1) : 0;
    this.#mean += (sample - this.#mean) * (isRefused ? 1 : ANSWER_WEIGHT);
    if (this.#answers > 0 && this.#answers < ANSWERS) return false;
    if (nowMs - this.#sinceMs > WINDOW_MS) {
      this.#before = this.#most;
      this.#most = 0;
      this.#sinceMs = nowMs;
    }
    this.#most = Math.max(this.#most, this.#mean);
    return true;
  }

  /** The part of `limit` that others leave. */
  leftOf(limit: number): number {
    const units = Math.max(this.#most, this.#before);
    return units < limit * SHARE_MIN ? limit : limit - units;
  }

  /** No response stated anything for two minutes: the earlier use and its mean are no evidence any more. */
  #forget(nowMs: number): void {
    this.#mean = this.#answers = this.#most = this.#before = 0;
    this.#sinceMs = nowMs;
  }
}
