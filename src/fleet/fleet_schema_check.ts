/**
 * The schema of a fleet's database, without entering the fleet: reads its version, and migrates it to the newest.
 */
import { PerigeeError } from "../errors.ts";
import { pgFailure } from "../store/postgres/pg_failure.ts";
import { migratePg, type PgSchemaVersions, pgSchemaVersions } from "../store/postgres/pg_schema.ts";
import { connectPg, type PgSession } from "../store/postgres/pg_session.ts";
import { checkStore } from "./worker_options.ts";

/** Writes nothing. Throws `usage`, `data_dir_newer`, or `store_failed` for a server that does not answer. */
export function fleetSchema(store: string): Promise<PgSchemaVersions> {
  return withSession(store, "cannot read the schema of the database", pgSchemaVersions);
}

/** Makes or migrates the tables; `found` is the schema before. Waits for another migration to end, up to 30 s. Throws as `fleetSchema`. */
export function migrateFleet(store: string): Promise<PgSchemaVersions> {
  return withSession(store, "cannot migrate the database", migratePg);
}

/** Does `work` on a new session and ends it. Throws `usage` for an address of another kind, otherwise as `pgFailure` says. */
export async function withSession<T>(
  store: string,
  doing: string,
  work: (session: PgSession) => Promise<T>,
): Promise<T> {
  checkStore(store);
  try {
    const session = await connectPg(store);
    try {
      return await work(session);
    } finally {
      session.end();
    }
  } catch (error) {
    throw pgFailure(error, doing);
  }
}

/** Throws `usage` for a database that must be migrated first. */
export function refuseOlder({ found, newest }: PgSchemaVersions): void {
  if (found === newest) return;
  const what = found === 0 ? "the database has no tables of perigee" : `the database has schema ${found}`;
  throw new PerigeeError(
    "usage",
    `${what}, this version of perigee needs schema ${newest}: run perigee migrate --store first`,
    { details: { found, supported: newest } },
  );
}
