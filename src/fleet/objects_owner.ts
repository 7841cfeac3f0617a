/**
 * Whose a place of objects is: the object `owner` there names the database that first used it. A second database would sweep the objects of the
 * first, because no row of its own names them.
 *
 *   nobody's -> this fleet's -> refused to any other
 *
 * The name is a hash of the fleet's secret, of the server's system identifier, which a standby shares, and of the numbers of the
 * database and its table. So a copy of the database is another owner. Where a role may not read the identifier, a copy on another server is taken for the same owner.
 */
import { createHash } from "node:crypto";
import { PerigeeError } from "../errors.ts";
import type { Objects } from "../store/objects/objects.ts";
import type { FleetDatabase } from "./fleet_database.ts";

const OWNER = "owner";

interface Claim {
  /** Of the place. The database itself is its own, and is not claimed. */
  readonly url: string;
  readonly database: Pick<FleetDatabase, "query" | "secret">;
}

/** Throws `conflict` where the place is another database's, and as `Objects.put`. */
export async function claimObjects(objects: Pick<Objects, "put">, { url, database }: Claim): Promise<void> {
  if (/^postgres(ql)?:/.test(url)) return;
  const { rows } = await database.query(
    `SELECT oid::text || ' ' || 'perigee_fleet'::regclass::oid || ' ' || CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
       THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END AS place
     FROM pg_database WHERE datname = current_database()`,
  );
  const [{ place }] = rows as [{ readonly place: string }]; // the database that answers
  const name = createHash("sha256")
    .update(`${await database.secret()} ${place}`)
    .digest("base64url");
  try {
    await objects.put(OWNER, Buffer.from(`${name}\n`));
  } catch (error) {
    if (!(error instanceof PerigeeError) || error.code !== "conflict") throw error;
    throw new PerigeeError(
      "conflict",
      `the objects at ${url} belong to another database: use another folder or prefix; if this database replaces that one, remove the object "${OWNER}" there first`,
      { cause: error },
    );
  }
}
