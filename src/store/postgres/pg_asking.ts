/**
 * Statements outside a partition. Each is one transaction that is safe to repeat: when the session is lost, a new one is opened, however long the
 * server is away, and the statement is repeated.
 */
import type { Clock } from "../../clock.ts";
import { KeyedMutex } from "../../keyed_mutex.ts";
import { PgConnection } from "./pg_connection.ts";
import { pgFailure, pgFaultOf } from "./pg_failure.ts";
import { migratePg } from "./pg_schema.ts";
import type { PgResult, PgValue } from "./pg_session.ts";

/** One session that runs statements one after another. Close it. */
export class PgAsking {
  readonly #connection: PgConnection;
  readonly #turns = new KeyedMutex();
  #isClosed = false;

  private constructor(connection: PgConnection) {
    this.#connection = connection;
  }

  /** Makes or migrates the tables. Rejects as `openPostgresStore` does. */
  static async open(url: string, clock: Clock): Promise<PgAsking> {
    try {
      const connection = await PgConnection.open(url, clock);
      await migratePg(connection.session).catch((error: unknown) => {
        connection.close();
        throw error;
      });
      return new PgAsking(connection);
    } catch (error) {
      throw pgFailure(error, "cannot connect to PostgreSQL");
    }
  }

  /** Waits while the server is away. Rejects with a `PerigeeError`. */
  readonly query = (sql: string, ...values: readonly PgValue[]): Promise<PgResult> =>
    this.#turns.take("", () => this.#answered(sql, values));

  close(): void {
    this.#isClosed = true;
    this.#connection.close();
  }

  async #answered(sql: string, values: readonly PgValue[]): Promise<PgResult> {
    for (;;) {
      try {
        return await this.#connection.query(sql, ...values);
      } catch (error) {
        const fault = pgFaultOf(error);
        if (this.#isClosed || (fault !== "away" && fault !== "again"))
          throw pgFailure(error, "PostgreSQL cannot do this");
        if (fault === "away") await this.#connection.reconnect();
        if (this.#isClosed) this.#connection.close();
      }
    }
  }
}
