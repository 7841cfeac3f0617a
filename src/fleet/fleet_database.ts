/**
 * The session of a worker's main thread: its heartbeat, the rows of the fleet, keys and the audit log.
 */
import { randomBytes } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { PgQuery } from "../store/postgres/pg_session.ts";
import { PgStatements } from "../store/postgres/pg_statements.ts";

const SECRET_BYTES = 32;

export class FleetDatabase {
  readonly #statements: PgStatements;

  private constructor(statements: PgStatements) {
    this.#statements = statements;
  }

  /** Makes or migrates the tables. Throws as `PgStatements.open`. */
  static async open(url: string, clock: Clock): Promise<FleetDatabase> {
    const statements = await PgStatements.open(url, clock);
    try {
      await makeSecret(statements.query);
      return new FleetDatabase(statements);
    } catch (error) {
      statements.close();
      throw error;
    }
  }

  /** See `PgStatements`. */
  get query(): PgQuery {
    return this.#statements.query;
  }

  /** The secret with which workers authenticate to one another. */
  async secret(): Promise<string> {
    const { rows } = await this.query("SELECT secret FROM perigee_fleet");
    const [{ secret }] = rows as [{ readonly secret: string }]; // there is one row
    return secret;
  }

  /** Ends the session at once: calls that wait reject with `closed`. */
  close(): void {
    this.#statements.close();
  }
}

/** Makes the secret of the fleet, where the database has none. */
async function makeSecret(query: PgQuery): Promise<void> {
  const secret = randomBytes(SECRET_BYTES).toString("base64url");
  await query("INSERT INTO perigee_fleet (secret) VALUES ($1) ON CONFLICT DO NOTHING", secret);
}
