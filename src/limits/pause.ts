/**
 * Stops a lane for causes that waiting does not cure: billing, quota, key.
 *
 *   running --pause--> paused --resume, or a probe succeeds--> running
 *
 * A paused lane sends one probe a minute, and some early ones where they may show at once that others are answered. Pausing again
 * (the rest of the burst, or a refused probe) changes the reason but not the time of the next probe. A new process continues the pause
 * of the earlier one; its first request is a probe, and may be sent at once.
 */

const MINUTE_MS = 60_000;

/** Probes before the one of a minute after the pause began: the first one after `afterMs`, each further one after twice that time. */
export interface EarlyProbes {
  readonly afterMs: number;
  readonly count: number;
}

export class Pause {
  #reason: string | undefined;
  #sinceMs = 0;
  /** Early probes that are left, and after what time; undefined when the last one was refused. */
  #early: EarlyProbes | undefined;
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

  /** Whether early probes are left, or the last one is under way. */
  get isAsking(): boolean {
    return this.#reason !== undefined && this.#early !== undefined;
  }

  pause(nowMs: number, reason: string, early?: EarlyProbes): void {
    if (this.#reason === undefined) {
      this.#sinceMs = nowMs;
      this.#early = early;
      this.#probeAtMs = nowMs + (early?.afterMs ?? MINUTE_MS);
      this.#isProbed = false;
    } else if (this.#early?.count === 0) this.#early = undefined;
    this.#reason = reason;
  }

  /** Continues a pause of an earlier process, whose next probe is due. */
  restore(nowMs: number, reason: string): void {
    this.pause(nowMs, reason);
    this.#probeAtMs = nowMs;
  }

  /** Continues a pause of which another process hears the end: the next probe is due here after a minute without news. */
  follow(nowMs: number, reason: string): void {
    this.pause(nowMs, reason);
    this.#early = undefined;
    this.#probeAtMs = nowMs + MINUTE_MS;
  }

  /** A probe is sent. */
  probed(nowMs: number): void {
    const { afterMs = 0, count = 0 } = this.#early ?? {};
    const isEarly = nowMs < this.#sinceMs + MINUTE_MS && count > 0;
    if (isEarly) this.#early = { afterMs: 2 * afterMs, count: count - 1 };
    if (isEarly && count > 1) this.#probeAtMs = nowMs + 2 * afterMs;
    else this.#probeAtMs = (isEarly ? this.#sinceMs : nowMs) + MINUTE_MS;
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
