/**
 * Statements outside a partition: each is a transaction of its own that may be repeated. A lost session is replaced, and the statement
 * made again, for about a minute.
 */
import type { Clock } from "../../clock.ts";
import { PgConnection } from "./pg_connection.ts";
import { pgFailure, pgFaultOf } from "./pg_failure.ts";
import { migratePg } from "./pg_schema.ts";
import type { PgResult, PgValue } from "./pg_session.ts";

const PATIENCE_MS = 60_000;

/** One session, which does statements one after another. Close it. */
export class PgAsking {
  readonly #connection: PgConnection;
  readonly #clock: Clock;
  #reconnecting: Promise<void> | undefined;
  #isClosed = false;

  private constructor(connection: PgConnection, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
  }

  /** Makes or migrates the tables. Rejects as `openPostgresStore` does. */
  static async open(url: string, clock: Clock): Promise<PgAsking> {
    try {
      const connection = await PgConnection.open(url, clock);
      await migratePg(connection.session).catch((error: unknown) => {
        connection.close();
        throw error;
      });
      return new PgAsking(connection, clock);
    } catch (error) {
      throw pgFailure(error, "cannot connect to PostgreSQL");
    }
  }

  /** Rejects with a `PerigeeError`. */
  readonly query = async (sql: string, ...values: readonly PgValue[]): Promise<PgResult> => {
    const sinceMs = this.#clock.nowMs();
    for (;;) {
      try {
        return await this.#connection.query(sql, ...values);
      } catch (error) {
        const fault = pgFaultOf(error);
        const mayAgain = fault === "away" || fault === "again";
        if (!mayAgain || this.#isClosed || this.#clock.nowMs() - sinceMs > PATIENCE_MS)
          throw pgFailure(error, "PostgreSQL cannot do this");
        if (fault === "away") await this.#reconnected();
      }
    }
  };

  close(): void {
    this.#isClosed = true;
    this.#connection.close();
  }

  #reconnected(): Promise<void> {
    this.#reconnecting ??= this.#connection.reconnect().finally(() => {
      this.#reconnecting = undefined;
    });
    return this.#reconnecting;
  }
}
