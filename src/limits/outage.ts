/**
 * Whether anything works behind a lane, and how carefully to send when nothing did.
 *
 *   up   --5 failures in a row--> doubt --any answer--> up
 *   doubt --the row has lasted 10 s, or is 20 long and has lasted 2 s--> down
 *   down --one probe at a time, 5 s apart (30 s while one hangs); one gets an answer--> ramp
 *   ramp --15 s--> up
 *   ramp --5 failures in a row--> down
 *
 * Failures are 5xx, overload, timeouts, lost and refused connections. A row is broken by any success, and by any other
 * answer that shows the provider at work. In doubt a request goes every 250 ms, and twice as often for each second without
 * a failure: a provider that resets connections as fast as they come is sent what was in flight and about twenty more, each
 * of which may have to be paid, and one that is back gets all that it can take before it has answered the first. A ramp
 * opens `share = 0.05 * 20^(t / 15 s)` of the rate. So during an outage a probe per 5 s is sent (1 % of 1,200 a minute),
 * and full speed is reached 20 s and one answer after healing.
 */

const PROBE_EVERY_MS = 5_000;
/** A probe without any end for so long does not keep the next one back. */
const PROBE_HANGS_MS = 30_000;
const DOUBT_EVERY_MS = 250;
/** Without a failure for so long, requests in doubt go twice as often. */
const DOUBT_HALVES_MS = 1_000;
const ROW_MIN = 5;
const ROW_MS = 10_000;
const WALL_MIN = 20;
const WALL_MS = 2_000;
const RAMP_MS = 15_000;
const RAMP_START = 0.05;

export class Outage {
  #status: "up" | "doubt" | "down" | "ramp" = "up";
  /** Failures since the last answer, and when the first came. */
  #row = 0;
  #rowSinceMs = 0;
  #failedMs = 0;
  #sentMs = 0;
  #probeAtMs = 0;
  #rampSinceMs = 0;
  #isProbed = false;
  #probedMs = 0;

  get isDown(): boolean {
    return this.#status === "down";
  }

  /** Milliseconds until the next request while in doubt, or until the next probe while down; 0 otherwise. */
  waitMs(nowMs: number): number {
    if (this.#status === "doubt") {
      const everyMs = DOUBT_EVERY_MS * 2 ** -((nowMs - this.#failedMs) / DOUBT_HALVES_MS);
      return Math.max(0, this.#sentMs + everyMs - nowMs);
    }
    return this.#status === "down" && nowMs < this.#probeAtMs ? this.#probeAtMs - nowMs : 0;
  }

  /** As `waitMs`; while a probe is under way, milliseconds until the probe that follows if it fails. */
  retryMs(nowMs: number): number {
    const isOut = this.#status === "down" && this.#isProbed;
    return isOut ? Math.max(0, this.#probedMs + PROBE_EVERY_MS - nowMs) : this.waitMs(nowMs);
  }

  /** Share of the rate that is open, 0.05 to 1; probes are not part of it. */
  share(nowMs: number): number {
    if (this.#status !== "ramp") return 1;
    const part = (nowMs - this.#rampSinceMs) / RAMP_MS;
    if (part < 1) return RAMP_START * RAMP_START ** -part;
    this.#status = "up";
    return 1;
  }

  /** A request goes out; while down it is a probe. */
  sent(nowMs: number): void {
    this.#sentMs = nowMs;
    if (this.#status !== "down") return;
    this.#probeAtMs = nowMs + PROBE_HANGS_MS;
    this.#isProbed = true;
    this.#probedMs = nowMs;
  }

  failed(nowMs: number): void {
    if (this.#row === 0) this.#rowSinceMs = nowMs;
    this.#row += 1;
    this.#failedMs = nowMs;
    if (this.#status === "down") {
      if (this.#isProbed) this.#probeAtMs = Math.max(nowMs, this.#probedMs + PROBE_EVERY_MS);
      this.#isProbed = false;
      return;
    }
    if (this.#row < ROW_MIN) return;
    const rowMs = nowMs - this.#rowSinceMs;
    if (this.#status === "up") this.#status = "doubt";
    if (this.#status === "doubt" && rowMs < ROW_MS && !(this.#row >= WALL_MIN && rowMs >= WALL_MS)) return;
    this.#status = "down";
    this.#probeAtMs = nowMs + PROBE_EVERY_MS;
    this.#isProbed = false;
  }

  /** The provider answered. True when this ends an outage. */
  answered(nowMs: number): boolean {
    this.#row = 0;
    if (this.#status === "doubt") this.#status = "up";
    if (this.#status !== "down") return false;
    this.#status = "ramp";
    this.#rampSinceMs = nowMs;
    return true;
  }
}
