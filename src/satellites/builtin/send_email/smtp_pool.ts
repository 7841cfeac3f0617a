/**
 * Sessions that are kept for the next message to the same server, so that signing in is not done for each.
 *
 *   given back -> resting -> taken | closed (after 5 s, or by the server)
 *
 * Limits: 4 rest for one server, 32 in all, each for 5 s.
 */
import type { Clock, Timer } from "../../../clock.ts";
import type { SmtpSession } from "./smtp.ts";

const REST_MS = 5_000;
const RESTING_MAX = 4;
const RESTING_IN_ALL_MAX = 32;

interface Resting {
  readonly key: string;
  readonly session: SmtpSession;
  readonly timer: Timer;
}

/** Shared by all executions: different keys never share a session. */
export class SmtpPool {
  /** The longest resting first. */
  #resting: Resting[] = [];

  /** One that is still open, and the caller's from now on. */
  take(key: string): SmtpSession | undefined {
    for (;;) {
      const found = this.#resting.findLast((one) => one.key === key);
      if (found === undefined) return undefined;
      this.#forget(found);
      if (!found.session.isOpen) continue;
      found.session.wake();
      return found.session;
    }
  }

  /** Keeps it, or closes it where enough rest already. */
  give(key: string, session: SmtpSession, clock: Clock): void {
    const alike = this.#resting.filter((one) => one.key === key).length;
    if (!session.isOpen || alike >= RESTING_MAX || this.#resting.length >= RESTING_IN_ALL_MAX) {
      session.close();
      return;
    }
    session.rest();
    const onTime = (): void => {
      this.#forget(resting);
      session.close();
    };
    const resting: Resting = { key, session, timer: clock.timer(REST_MS, onTime, { keepsAlive: false }) };
    this.#resting.push(resting);
  }

  #forget(resting: Resting): void {
    resting.timer.cancel();
    this.#resting = this.#resting.filter((one) => one !== resting);
  }
}
