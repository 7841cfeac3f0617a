/**
 * A stop for everything behind a lane that waiting does not cure: billing, quota, key.
 *
 *   running --pause--> paused --resume, or a probe succeeds--> running
 *
 * While paused one probe per `probeEveryMs` is let through, the first one that long after the pause. Pausing again
 * (the rest of the burst, or a probe that was refused) changes the reason and leaves the next probe where it is. A process
 * that starts goes on with the pause of the one before; its first request is a probe, and may go at once.
 */

const PROBE_EVERY_MS = 60_000;

export class Pause {
  #reason: string | undefined;
  #probeEveryMs = Number.POSITIVE_INFINITY;
  #probeAtMs = Number.POSITIVE_INFINITY;
  #isProbed = false;

  get isPaused(): boolean {
    return this.#reason !== undefined;
  }

  /** Why, in the words of who paused; undefined while running. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Milliseconds until a probe may go: 0 when running or due, Infinity when there are none. */
  waitMs(nowMs: number): number {
    return this.#reason !== undefined && nowMs < this.#probeAtMs ? this.#probeAtMs - nowMs : 0;
  }

  pause(nowMs: number, reason: string, probeEveryMs: number = PROBE_EVERY_MS): void {
    if (this.#reason === undefined || probeEveryMs !== this.#probeEveryMs) {
      this.#probeEveryMs = probeEveryMs;
      this.#probeAtMs = nowMs + probeEveryMs;
      this.#isProbed = false;
    }
    this.#reason = reason;
  }

  /** Goes on with a pause of an earlier process, whose next probe is due. */
  restore(nowMs: number, reason: string): void {
    this.pause(nowMs, reason);
    this.#probeAtMs = nowMs;
  }

  /** A probe goes out. */
  probed(nowMs: number): void {
    this.#probeAtMs = nowMs + this.#probeEveryMs;
    this.#isProbed = true;
  }

  /** A success ends the pause if a probe was out: before one, it was sent before the pause and proves nothing. */
  succeeded(): void {
    if (this.#isProbed) this.resume();
  }

  resume(): void {
    this.#reason = undefined;
    this.#isProbed = false;
  }
}
