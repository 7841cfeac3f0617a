/**
 * Whether a lane gets answers at all, and how carefully to send after it got none.
 *
 *   up   --5 failures in a row--> doubt --any answer--> up
 *   doubt --the row has lasted 10 s, or is 20 long and has lasted 2 s--> down
 *   down --one probe at a time, 5 s apart (30 s while one hangs); one gets an answer--> ramp
 *   ramp --15 s--> up
 *   ramp --5 failures in a row--> down
 *   up, doubt, ramp --a 429 states a wait--> doubt, from its end on --an answer--> up, after more than 61 s ramp
 *
 * Failures are 5xx, overload, timeouts, lost and refused connections. A success ends a row, as does any other answer that shows that
 * the provider works. An answer to a request from before the first failure shows that only while most requests sent since have not
 * failed: an outage leaves answers under way, and where answers take long, many surround chance failures. In doubt the lane sends a
 * request every 250 ms, and twice as often for each second without a failure. So a provider that resets connections at once receives
 * what was in flight and about twenty more, each of which may be billed, and one that has recovered gets all it can take before it has
 * answered the first. A ramp opens `share = 0.05 * 20^(t / 15 s)` of the rate. So an outage costs a probe per 5 s (1 % of 1,200 a
 * minute), and full speed returns 20 s and one answer after the outage ends.
 *
 * After a wait that a 429 stated, one request is sent, and the second one only after a refusal of the first would have arrived (250 ms
 * to 3 s). An answer to a request from before the wait proves nothing. Waits of up to 2 s count only from the eighth in a row without
 * any answer: a bucket states when its next token arrives, and the lane must not close for each of them.
 */

const PROBE_EVERY_MS = 5_000;
/** A probe that has not ended after this time does not delay the next one. */
const PROBE_HANGS_MS = 30_000;
const DOUBT_EVERY_MS = 250;
/** For each such time without a failure, requests in doubt are sent twice as often. */
const DOUBT_HALVES_MS = 1_000;
const DOUBT_EVERY_MS_MAX = 3_000;
/** The wait of a bucket; a longer one may be that of an outage. */
const SHORT_MS = 2_000;
/** This many of them without an answer in between are an outage. */
const SHORT_ROW = 8;
/** No window of a minute states a longer wait. */
const LONG_MS = 61_000;
const ROW_MIN = 5;
const ROW_MS = 10_000;
const WALL_MIN = 20;
const WALL_MS = 2_000;
/** If more of the requests sent since a first failure have failed, older answers do not show that the provider works. */
const FAILED_SHARE = 3 / 4;
const RAMP_MS = 15_000;
const RAMP_START = 0.05;

/** The wait that a 429 states: its start, its end, and the latency of the 429. */
interface StatedWait {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly refusalMs: number;
  /** The longest wait that one 429 stated. */
  readonly longestMs: number;
  /** Number of stated waits since the last answer. */
  readonly row: number;
}

/** Requests since the first failure that no answer to a later request has followed. */
interface Since {
  readonly fromMs: number;
  sent: number;
  failed: number;
}

export class Outage {
  #status: "up" | "doubt" | "down" | "ramp" = "up";
  /** Failures since the last answer, and the time of the first. */
  #row = 0;
  #rowSinceMs = 0;
  #failedMs = 0;
  #since: Since | undefined;
  #sentMs = 0;
  #rampSinceMs = 0;
  readonly #probes = new Probes();
  /** The last wait that a 429 stated, while no answer has shown that it is over. */
  #stated: StatedWait | undefined;

  get isDown(): boolean {
    return this.#status === "down";
  }

  /** Milliseconds until the next request while in doubt, or until the next probe while down; 0 otherwise. */
  waitMs(nowMs: number): number {
    if (this.#status === "doubt") {
      const { untilMs, refusalMs } = this.#stated ?? { untilMs: 0, refusalMs: 0 };
      const firstMs = Math.min(DOUBT_EVERY_MS_MAX, Math.max(DOUBT_EVERY_MS, 2 * refusalMs));
      const calmMs = Math.max(0, nowMs - Math.max(this.#failedMs, untilMs));
      return Math.max(0, this.#sentMs + firstMs * 2 ** -(calmMs / DOUBT_HALVES_MS) - nowMs);
    }
    return this.#status === "down" ? this.#probes.waitMs(nowMs) : 0;
  }

  /** Like `waitMs`, but while a probe is under way, milliseconds until the next one if it fails or hangs. */
  retryMs(nowMs: number): number {
    return this.#status === "down" ? this.#probes.retryMs(nowMs) : this.waitMs(nowMs);
  }

  /** Open share of the rate, 0.05 to 1; probes are extra. */
  share(nowMs: number): number {
    if (this.#status !== "ramp") return 1;
    const part = (nowMs - this.#rampSinceMs) / RAMP_MS;
    if (part < 1) return RAMP_START * RAMP_START ** -part;
    this.#status = "up";
    return 1;
  }

  /** Milliseconds until the ramp opens `share` of the rate, at least 1; Infinity without a ramp, or above a share of 1. */
  rampsInMs(nowMs: number, share: number): number {
    if (this.#status !== "ramp" || share > 1) return Number.POSITIVE_INFINITY;
    const part = 1 - Math.log(share) / Math.log(RAMP_START);
    return Math.max(1, this.#rampSinceMs + RAMP_MS * part - nowMs);
  }

  /** A request is sent; while down it is a probe. */
  sent(nowMs: number): void {
    this.#sentMs = nowMs;
    if (this.#since !== undefined) this.#since.sent += 1;
    if (this.#status === "down") this.#probes.sent(nowMs);
  }

  /**
   * The 429 to a request sent at `sentMs` states a wait of `waitMs`. The lane waits until `untilMs`, which other 429s may extend:
   * requests under way can add up to a long wait, but each wait stays short.
   */
  stated(nowMs: number, untilMs: number, sentMs: number, waitMs: number = untilMs - nowMs): void {
    if (this.#status === "down") return;
    const before = this.#stated ?? { fromMs: nowMs, untilMs: nowMs, longestMs: 0, row: 0 };
    const goesOn = nowMs < before.untilMs;
    this.#stated = {
      fromMs: goesOn ? before.fromMs : nowMs,
      ...{ untilMs, refusalMs: nowMs - sentMs },
      longestMs: goesOn ? Math.max(before.longestMs, waitMs) : waitMs,
      row: goesOn ? before.row : before.row + 1,
    };
    if (this.#stated.longestMs > SHORT_MS || this.#stated.row >= SHORT_ROW) this.#status = "doubt";
  }

  /** A request sent at `sentMs` failed. */
  failed(nowMs: number, sentMs: number = nowMs): void {
    this.#since ??= { fromMs: nowMs, sent: 0, failed: 0 };
    if (sentMs >= this.#since.fromMs) this.#since.failed += 1;
    if (this.#row === 0) this.#rowSinceMs = nowMs;
    this.#row += 1;
    this.#failedMs = nowMs;
    if (this.#status === "down") {
      this.#probes.failed(nowMs);
      return;
    }
    if (this.#row < ROW_MIN) return;
    const rowMs = nowMs - this.#rowSinceMs;
    if (this.#status === "up") this.#status = "doubt";
    if (this.#status === "doubt" && rowMs < ROW_MS && !(this.#row >= WALL_MIN && rowMs >= WALL_MS)) return;
    this.#status = "down";
    this.#probes.begin(nowMs);
  }

  /** The provider answered a request sent at `sentMs`. True if this ends an outage. */
  answered(nowMs: number, sentMs: number = nowMs): boolean {
    if (this.#status === "up" && this.#since === undefined && this.#stated === undefined) return false; // hot: nothing to end
    const { fromMs: failedMs, sent, failed } = this.#since ?? { fromMs: sentMs, sent: 0, failed: 0 };
    if (sentMs < failedMs && failed > FAILED_SHARE * sent) return false;
    if (sentMs >= failedMs) this.#since = undefined;
    this.#row = 0;
    const isHealed = this.#status === "down";
    const { fromMs, untilMs, longestMs } = this.#stated ?? { fromMs: nowMs, untilMs: nowMs, longestMs: 0 };
    const statedMs = untilMs - fromMs;
    if (!isHealed && longestMs > SHORT_MS && sentMs < untilMs) return false;
    this.#stated = undefined;
    if (this.#status === "doubt") this.#status = "up";
    if (!isHealed && statedMs <= LONG_MS) return false;
    this.#status = "ramp";
    this.#rampSinceMs = isHealed ? nowMs : untilMs;
    return isHealed;
  }
}

/** The probes of a lane that is down: waiting --sent--> under way --failed, or 30 s without an end--> waiting. */
class Probes {
  #nextMs = 0;
  #isUnderWay = false;
  #sentMs = 0;

  /** The lane is down from now on. */
  begin(nowMs: number): void {
    this.#nextMs = nowMs + PROBE_EVERY_MS;
    this.#isUnderWay = false;
  }

  sent(nowMs: number): void {
    this.#nextMs = nowMs + PROBE_HANGS_MS;
    this.#isUnderWay = true;
    this.#sentMs = nowMs;
  }

  /** A request failed: the probe, if one is under way. */
  failed(nowMs: number): void {
    if (this.#isUnderWay) this.#nextMs = Math.max(nowMs, this.#sentMs + PROBE_EVERY_MS);
    this.#isUnderWay = false;
  }

  /** Milliseconds until the next one; 0 for now. */
  waitMs(nowMs: number): number {
    return Math.max(0, this.#nextMs - nowMs);
  }

  /** The same, but while one is under way, until the next one if it fails or hangs. */
  retryMs(nowMs: number): number {
    const nextMs = this.#sentMs + PROBE_EVERY_MS - nowMs;
    return this.#isUnderWay && nextMs > 0 ? nextMs : this.waitMs(nowMs);
  }
}
