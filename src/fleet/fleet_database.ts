/**
 * The session of a worker's main thread: its heartbeat, the rows of the fleet, keys and the audit log. One statement after another.
 *
 *   connected -> away -> connected ...     (calls wait, and the one under way is repeated: each statement must be safe to repeat)
 *             -> closed                    (every later call rejects with `closed`)
 *
 * The stores of its partitions have sessions of their own, in their threads.
 */
import { randomBytes } from "node:crypto";
import type { Clock } from "../clock.ts";
import { PerigeeError } from "../errors.ts";
import { KeyedMutex } from "../keyed_mutex.ts";
import { openDurableSession } from "../store/postgres/pg_connection.ts";
import { pgFailure, pgFaultOf } from "../store/postgres/pg_failure.ts";
import { migratePg } from "../store/postgres/pg_schema.ts";
import type { PgResult, PgSession, PgValue } from "../store/postgres/pg_session.ts";

const RETRY_MS = 250;
const TURN = "session";
const SECRET_BYTES = 32;

export class FleetDatabase {
  readonly #url: string;
  readonly #clock: Clock;
  readonly #turns = new KeyedMutex();
  /** Undefined while the server is away. */
  #session: PgSession | undefined;
  readonly #closing = new AbortController();

  private constructor(url: string, clock: Clock, session: PgSession) {
    this.#url = url;
    this.#clock = clock;
    this.#session = session;
  }

  /** Makes or migrates the tables. Throws `usage`, `data_dir_newer`, or `store_failed` for a server that does not answer. */
  static async open(url: string, clock: Clock): Promise<FleetDatabase> {
    try {
      const session = await openDurableSession(url);
      try {
        await migratePg(session);
        await makeSecret(session);
        return new FleetDatabase(url, clock, session);
      } catch (error) {
        session.end();
        throw error;
      }
    } catch (error) {
      throw pgFailure(error, "cannot open the database of the fleet");
    }
  }

  /** Waits while the server is away, and tries again every 250 ms. Rejects with `closed`, or with an error that waiting does not solve. */
  readonly query = (sql: string, ...values: readonly PgValue[]): Promise<PgResult> =>
    this.#turns.take(TURN, async () => {
      for (;;) {
        try {
          const session = this.#session ?? (await this.#connected());
          return await session.query(sql, ...values);
        } catch (error) {
          if (this.#closing.signal.aborted) throw closed();
          const fault = pgFaultOf(error);
          if (fault !== "away" && fault !== "again")
            throw pgFailure(error, "cannot use the database of the fleet");
          if (fault === "away") this.#lose();
        }
        await this.#clock.sleep(RETRY_MS, { signal: this.#closing.signal });
      }
    });

  /** The secret with which workers authenticate to one another. */
  async secret(): Promise<string> {
    const { rows } = await this.query("SELECT secret FROM perigee_fleet");
    const [{ secret }] = rows as [{ readonly secret: string }]; // there is one row
    return secret;
  }

  /** Ends the session at once: calls that wait reject with `closed`. */
  close(): void {
    this.#closing.abort(closed());
    this.#lose();
  }

  async #connected(): Promise<PgSession> {
    if (this.#closing.signal.aborted) throw closed();
    const session = await openDurableSession(this.#url);
    this.#session = session;
    return session;
  }

  #lose(): void {
    this.#session?.end();
    this.#session = undefined;
  }
}

/** Makes the secret of the fleet, where the database has none. */
async function makeSecret({ query }: PgSession): Promise<void> {
  const secret = randomBytes(SECRET_BYTES).toString("base64url");
  await query("INSERT INTO perigee_fleet (secret) VALUES ($1) ON CONFLICT DO NOTHING", secret);
}

function closed(): PerigeeError {
  return new PerigeeError("closed", "the worker has left the fleet");
}
