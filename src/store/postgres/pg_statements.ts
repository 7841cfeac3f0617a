/**
 * Statements outside a partition: those of a worker's main thread, of objects in rows, and of a reader of another's partition.
 *
 *   connected -> away -> connected ...     (calls wait; the statement under way is repeated, so each one must be safe to repeat)
 *             -> closed                    (calls that wait, and every later one, reject with `closed`)
 *
 * The stores of partitions have separate sessions, in their threads (`pg_connection.ts`).
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { openDurableSession } from "./pg_connection.ts";
import { pgFailure, pgFaultOf } from "./pg_failure.ts";
import { migratePg } from "./pg_schema.ts";
import type { PgResult, PgSession, PgValue } from "./pg_session.ts";

const RETRY_MS = 250;

/**
 * One session that runs statements in the order of the calls, each in a separate transaction. No call waits for the answers of those before it, so that
 * a server that is far away delays each by one round trip. After a lost session the order is another one. Close it.
 */
export class PgStatements {
  readonly #url: string;
  readonly #clock: Clock;
  /** Undefined while the server is away. */
  #session: PgSession | undefined;
  #connecting: Promise<PgSession> | undefined;
  readonly #closing = new AbortController();

  private constructor(url: string, clock: Clock, session: PgSession) {
    this.#url = url;
    this.#clock = clock;
    this.#session = session;
  }

  /** Makes or migrates the tables. Throws `usage`, `data_dir_newer`, or `store_failed` for a server that does not answer. */
  static async open(url: string, clock: Clock): Promise<PgStatements> {
    try {
      const session = await openDurableSession(url);
      try {
        await migratePg(session);
        return new PgStatements(url, clock, session);
      } catch (error) {
        session.end();
        throw error;
      }
    } catch (error) {
      throw pgFailure(error, "cannot open the database");
    }
  }

  /** Waits while the server is away, and tries again every 250 ms. Rejects with `closed`, or with an error that waiting does not solve. */
  readonly query = async (sql: string, ...values: readonly PgValue[]): Promise<PgResult> => {
    for (;;) {
      let session = this.#session;
      try {
        session ??= await this.#connected();
        return await session.query(sql, ...values);
      } catch (error) {
        if (this.#closing.signal.aborted) throw closed();
        const fault = pgFaultOf(error);
        if (fault !== "away" && fault !== "again") throw pgFailure(error, "cannot use the database");
        if (fault === "away") this.#lose(session);
      }
      await this.#clock.sleep(RETRY_MS, { signal: this.#closing.signal });
    }
  };

  /** Ends the session at once. */
  close(): void {
    this.#closing.abort(closed());
    this.#lose(this.#session);
  }

  /** One attempt for all calls that wait. */
  #connected(): Promise<PgSession> {
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #connect(): Promise<PgSession> {
    if (this.#closing.signal.aborted) throw closed();
    const session = await openDurableSession(this.#url);
    if (this.#closing.signal.aborted) {
      session.end();
      throw closed();
    }
    this.#session = session;
    return session;
  }

  /** Unless another call has lost it before, and a new one is there. */
  #lose(session: PgSession | undefined): void {
    if (session !== this.#session) return;
    session?.end();
    this.#session = undefined;
  }
}

function closed(): PerigeeError {
  return new PerigeeError("closed", "this process has closed its session with the database");
}
