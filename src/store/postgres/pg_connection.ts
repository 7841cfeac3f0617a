/**
 * The connection to the database: one session at a time. When it is lost, a new one is opened, however long that takes.
 *
 *   connected -> away -> connected ...     (a restart, a failover, a network failure: tried again after 0.1 to 2 s)
 *             -> closed
 *
 * The waits grow until something is done, not only until a session is open: a server that is read-only lets in, and refuses each write.
 *
 * Time-outs and the isolation level of the session are its own, whatever those of the role or the database are: they are for people's
 * queries, and the store has a limit for each of its statements (pg_session.ts).
 */
import type { Clock } from "../../clock.ts";
import { pgFaultOf } from "./pg_failure.ts";
import { connectPg, type PgResult, type PgSession, type PgValue } from "./pg_session.ts";

/** Between two attempts to connect: twice as long each time. A restart takes about a second, a failover some. */
const FIRST_WAIT_MS = 100;
const LAST_WAIT_MS = 2_000;

/** One for a store. Not for concurrent use: a `reconnect` replaces the session that queries run on. */
export class PgConnection {
  readonly #url: string;
  readonly #clock: Clock;
  #session: PgSession;
  /** Before the next attempt to connect. */
  #waitMs = 0;

  private constructor(url: string, clock: Clock, session: PgSession) {
    this.#url = url;
    this.#clock = clock;
    this.#session = session;
  }

  /** Rejects as `connectPg` does, at the first failure: it is reported to the one who starts the process. */
  static async open(url: string, clock: Clock): Promise<PgConnection> {
    return new PgConnection(url, clock, await openSession(url));
  }

  /** Of the session that is open now. */
  readonly query = (sql: string, ...values: readonly PgValue[]): Promise<PgResult> =>
    this.#session.query(sql, ...values);

  get session(): PgSession {
    return this.#session;
  }

  /** Resolves with a new session in place of a lost one. Rejects only with what waiting does not mend. */
  async reconnect(): Promise<void> {
    this.#session.end();
    for (;;) {
      if (this.#waitMs > 0) await this.#clock.sleep(this.#waitMs);
      this.#waitMs = Math.min(Math.max(2 * this.#waitMs, FIRST_WAIT_MS), LAST_WAIT_MS);
      try {
        this.#session = await openSession(this.#url);
        return;
      } catch (error) {
        if (pgFaultOf(error) !== "away") throw error;
      }
    }
  }

  /** The session did what was asked of it: when it is lost, the next one is opened at once. */
  works(): void {
    this.#waitMs = 0;
  }

  close(): void {
    this.#session.end();
  }
}

/** What roles and databases may have other defaults of. */
const SESSION = `
  SET default_transaction_isolation = 'read committed';
  SET statement_timeout = 0;
  SET lock_timeout = 0;
  SET idle_in_transaction_session_timeout = 0;
`;

/** Every commit of the session is durable before it is acknowledged, whatever the default of the database is. */
async function openSession(url: string): Promise<PgSession> {
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
