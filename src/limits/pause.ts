/**
 * Stops a lane for causes that waiting does not cure: billing, quota, key.
 *
 *   running --pause--> paused --resume, or a probe succeeds--> running
 *
 * A paused lane sends one probe a minute, and one after `firstMs` where it may show at once that others are answered. Pausing again
 * (the rest of the burst, or a refused probe) changes the reason but not the time of the next probe. A new process continues the pause
 * of the earlier one; its first request is a probe, and may be sent at once.
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

  /** Why, as the caller of `pause` stated it; undefined while running. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Milliseconds until a probe may be sent: 0 when running or due, Infinity without probes. */
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

  /** Continues a pause of an earlier process, whose next probe is due. */
  restore(nowMs: number, reason: string): void {
    this.pause(nowMs, reason);
    this.#probeAtMs = nowMs;
  }

  /** A probe is sent. */
  probed(nowMs: number): void {
    const isEarly = nowMs < this.#sinceMs + MINUTE_MS && this.#isEarly;
    this.#probeAtMs = (isEarly ? this.#sinceMs : nowMs) + MINUTE_MS;
    this.#isEarly = false;
    this.#isProbed = true;
  }

  /** A success ends the pause if a probe was sent: earlier, it answers a request from before the pause and proves nothing. */
  succeeded(): void {
    if (this.#isProbed) this.resume();
  }

  resume(): void {
    this.#reason = undefined;
    this.#isProbed = false;
  }
}
