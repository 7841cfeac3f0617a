/**
 * Ties a fleet's database to its place of objects. The object `owner` in that place contains the name of the first database that used it, and a random
 * number. The database notes both. So all workers use one place, and a second database does not sweep objects that only rows of the first name.
 *
 *   place:    nobody's -> this database's -> refused to any other
 *   database: nowhere  -> at this place   -> refused with any other
 *
 * The name of a database is a hash of the fleet's secret, of the server's system identifier, which a standby shares, and of the numbers of the database
 * and its table. So a copy of the database has another name. Where the role may not read the identifier, a copy on another server may have the same one.
 */
import { createHash, randomUUID } from "node:crypto";
import { PerigeeError } from "../errors.ts";
import type { Objects } from "../store/objects/objects.ts";
import type { FleetDatabase } from "./fleet_database.ts";

const OWNER = "owner";
const OWNER_BYTES_MAX = 256;

interface Claim {
  /** Of the place. */
  readonly url: string;
  readonly database: Pick<FleetDatabase, "query" | "secret">;
}

/** Throws `conflict` where the place is another database's or the fleet's objects are elsewhere, and as `Objects.put`. */
export async function claimObjects(
  objects: Pick<Objects, "get" | "put">,
  { url, database }: Claim,
): Promise<void> {
  const { name, noted } = await described(database);
  const isHere = /^postgres(ql)?:/.test(url);
  const place = isHere
    ? `${name} database`
    : await placeAt(objects, { url, name, isNew: noted === undefined });
  const { rows } = await database.query(
    "UPDATE perigee_fleet SET objects = CASE WHEN starts_with(objects, $1) THEN objects ELSE $2 END RETURNING objects",
    `${name} `,
    place,
  );
  const [{ objects: at }] = rows as [{ readonly objects: string }]; // there is one row
  if (at !== place) throw elsewhere(isHere ? "in the database" : `at ${url}`);
}

/** The name of a database, and the place that it has noted under this name. */
async function described(
  database: Claim["database"],
): Promise<{ readonly name: string; readonly noted: string | undefined }> {
  const { rows } = await database.query(
    `SELECT oid::text || ' ' || 'perigee_fleet'::regclass::oid || ' ' || CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
       THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END AS place, (SELECT objects FROM perigee_fleet) AS noted
     FROM pg_database WHERE datname = current_database()`,
  );
  const [{ place, noted }] = rows as [{ readonly place: string; readonly noted: string }]; // the database that answers
  const name = createHash("sha256")
    .update(`${await database.secret()} ${place}`)
    .digest("base64url");
  return { name, noted: noted.startsWith(`${name} `) ? noted : undefined };
}

interface Placed {
  readonly url: string;
  readonly name: string;
  /** The database has noted no place. */
  readonly isNew: boolean;
}

/** The content of `owner`, which is made if it does not exist and the database has noted no place. */
async function placeAt(objects: Pick<Objects, "get" | "put">, { url, name, isNew }: Placed): Promise<string> {
  const read = async (): Promise<string | undefined> => {
    const bytes = await objects.get(OWNER, 0, OWNER_BYTES_MAX);
    return bytes === undefined ? undefined : Buffer.from(bytes).toString();
  };
  let found = await read();
  if (found === undefined && !isNew) throw elsewhere(`at ${url}`);
  if (found === undefined) {
    // Another worker may make it at the same time.
    await objects.put(OWNER, Buffer.from(`${name} ${randomUUID()}`)).catch((error: unknown) => {
      if (!(error instanceof PerigeeError) || error.code !== "conflict") throw error;
    });
    found = (await read()) ?? "";
  }
  if (found.startsWith(`${name} `)) return found;
  throw new PerigeeError(
    "conflict",
    `the objects at ${url} belong to another database: use another folder or prefix; if this database replaces that one, remove the object "${OWNER}" there first`,
  );
}

function elsewhere(where: string): PerigeeError {
  return new PerigeeError(
    "conflict",
    `the objects of this fleet are not ${where}: set --objects to the place that its workers have`,
  );
}
