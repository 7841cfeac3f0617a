/**
 * The connection of a store to the database: one session at a time. When it is lost, a new one is opened, however long that takes.
 *
 *   connected -> away -> connected ...     (a restart, a failover, a network failure: tried again at once, then after 0.1 to 2 s)
 *             -> closed
 *
 * The waits grow until a statement succeeds, not only until a session is open: a read-only server accepts sessions and refuses each write.
 *
 * The session sets its time-outs and isolation level, whatever the defaults of the role or the database are: those are meant for people's
 * queries, and the store limits each of its statements (pg_session.ts). A transaction that waits for its client is rolled back after 5 s: a process
 * that is stopped or cut off in the middle of one would keep its rows locked for as long as its connection lasts, and no other process could take its
 * partition, whose lease ends after 6 s.
 */
import type { Clock } from "../../clock.ts";
import { pgFaultOf } from "./pg_failure.ts";
import { connectPg, type PgResult, type PgSession, type PgValue } from "./pg_session.ts";

/** Waits between attempts to connect, twice as long each time. A restart takes about a second, a failover some seconds. */
const FIRST_WAIT_MS = 100;
const LAST_WAIT_MS = 2_000;

/** One for a store. `reconnect` replaces the session on which queries run: one call at a time. */
export class PgConnection {
  readonly #url: string;
  readonly #clock: Clock;
  #session: PgSession;
  /** The wait before the next attempt to connect. */
  #waitMs = 0;

  private constructor(url: string, clock: Clock, session: PgSession) {
    this.#url = url;
    this.#clock = clock;
    this.#session = session;
  }

  /** Rejects as `connectPg` does, at the first failure: the caller reports it when the process starts. */
  static async open(url: string, clock: Clock): Promise<PgConnection> {
    return new PgConnection(url, clock, await openDurableSession(url));
  }

  /** Runs a statement on the current session. */
  readonly query = (sql: string, ...values: readonly PgValue[]): Promise<PgResult> =>
    this.#session.query(sql, ...values);

  get session(): PgSession {
    return this.#session;
  }

  /** Replaces a lost session; resolves when the new one is open. Rejects only with an error that waiting does not solve. */
  async reconnect(): Promise<void> {
    this.#session.end();
    for (;;) {
      if (this.#waitMs > 0) await this.#clock.sleep(this.#waitMs);
      this.#waitMs = Math.min(Math.max(2 * this.#waitMs, FIRST_WAIT_MS), LAST_WAIT_MS);
      try {
        this.#session = await openDurableSession(this.#url);
        return;
      } catch (error) {
        if (pgFaultOf(error) !== "away") throw error;
      }
    }
  }

  /** Call it after a statement succeeded: when the session is lost then, the next one is opened at once. */
  works(): void {
    this.#waitMs = 0;
  }

  close(): void {
    this.#session.end();
  }
}

/** Shorter than a lease. The session is lost then, and its owner, if it lives, opens another one and repeats the transaction. */
const IDLE_MS = 5_000;
/** Settings for which roles and databases may have other defaults. */
const SESSION = `
  SET default_transaction_isolation = 'read committed';
  SET statement_timeout = 0;
  SET lock_timeout = 0;
  SET idle_in_transaction_session_timeout = ${IDLE_MS};
`;

/** Every commit of the session is durable before it is acknowledged, whatever the default of the database is. */
export async function openDurableSession(url: string): Promise<PgSession> {
  const session = await connectPg(url);
  try {
    await session.script(SESSION);
    const { rows } = await session.query("SELECT current_setting('synchronous_commit') AS level");
    const [{ level }] = rows as [{ readonly level: string }]; // as selected
    if (level === "off") await session.script("SET synchronous_commit = on");
    return session;
  } catch (error) {
    session.end();
    throw error;
  }
}
