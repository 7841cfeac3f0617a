/**
 * A stop for everything behind a lane that waiting does not cure: billing, quota, key.
 *
 *   running --pause--> paused --resume, or a probe succeeds--> running
 *
 * While paused one probe a minute is let through, and where one may prove at once that others are answered, one after
 * `firstMs`, too. Pausing again (the rest of the burst, or a probe that was refused) changes the reason
 * and leaves the next probe where it is. A process that starts goes on with the pause of the one before; its first request is
 * a probe, and may go at once.
 */

const MINUTE_MS = 60_000;

export class Pause {
  #reason: string | undefined;
  #sinceMs = 0;
  /** Whether the next probe is the one after `firstMs`. */
  #isEarly = false;
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

  pause(nowMs: number, reason: string, firstMs: number = MINUTE_MS): void {
    if (this.#reason === undefined) {
      this.#sinceMs = nowMs;
      this.#isEarly = firstMs < MINUTE_MS;
      this.#probeAtMs = nowMs + firstMs;
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
    const isEarly = nowMs < this.#sinceMs + MINUTE_MS && this.#isEarly;
    this.#probeAtMs = (isEarly ? this.#sinceMs : nowMs) + MINUTE_MS;
    this.#isEarly = false;
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
