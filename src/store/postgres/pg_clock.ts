/**
 * The wall clock of the database, for the processes of a fleet: their own clocks may differ by minutes, and what one has accepted another one continues.
 *
 *   not noted -> the wall clock of this machine
 *   noted     -> monotonic time of this process + origin
 *
 * A reading that was sent at s and answered at r shows that the origin is between wall - r and wall - s. It is kept while it is within, so that the
 * clock does not jitter; otherwise it moves to the middle. So it is off by at most half a round trip, and a jump of this machine's clock changes nothing.
 */
import type { Clock } from "../../clock.ts";

export class PgClock {
  /** The same time for all processes that note readings of one database. */
  readonly clock: Clock;
  readonly #own: Clock;
  #originMs: number | undefined;

  /** `own`: of this machine; everything but the wall time is its. */
  constructor(own: Clock) {
    this.#own = own;
    this.clock = {
      nowMs: () => own.nowMs(),
      wallMs: () => this.#wallMs(),
      moment: () => ({ ...own.moment(), wallMs: this.#wallMs() }),
      timer: (delayMs, callback, options) => own.timer(delayMs, callback, options),
      soon: (callback) => own.soon(callback),
      sleep: (delayMs, options) => own.sleep(delayMs, options),
      random: () => own.random(),
    };
  }

  /** `wallMs`: Unix time of the database, read by a statement that was sent at `sentMs` and answered at `answeredMs` of `nowMs`. */
  note(wallMs: number, sentMs: number, answeredMs: number): void {
    const [from, to] = [wallMs - answeredMs, wallMs - sentMs];
    if (this.#originMs !== undefined && this.#originMs >= from && this.#originMs <= to) return;
    this.#originMs = (from + to) / 2;
  }

  #wallMs(): number {
    return this.#originMs === undefined ? this.#own.wallMs() : Math.floor(this.#own.nowMs() + this.#originMs);
  }
}
