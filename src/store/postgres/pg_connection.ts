/**
 * The connection to the database: one session at a time. When it is lost, a new one is opened, however long that takes.
 *
 *   connected -> away -> connected ...     (a restart, a failover, a network failure: tried again after 0.1 to 2 s)
 *             -> closed
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
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LAST_WAIT_MS)) {
      try {
        this.#session = await openSession(this.#url);
        return;
      } catch (error) {
        if (pgFaultOf(error) !== "away") throw error;
      }
      await this.#clock.sleep(waitMs);
    }
  }

  close(): void {
    this.#session.end();
  }
}

/** Every commit of the session is durable before it is acknowledged, whatever the default of the database is. */
async function openSession(url: string): Promise<PgSession> {
  const session = await connectPg(url);
  try {
    const { rows } = await session.query("SELECT current_setting('synchronous_commit') AS level");
    const [{ level }] = rows as [{ readonly level: string }]; // as selected
    if (level === "off") await session.script("SET synchronous_commit = on");
    return session;
  } catch (error) {
    session.end();
    throw error;
  }
}
