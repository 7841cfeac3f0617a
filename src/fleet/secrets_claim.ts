/**
 * Whether a worker has the key for secrets that the fleet has. The database notes the id of the first worker's key, an HMAC of a constant under the key
 * (`satellites/secrets/secret_key.ts`), so it reveals nothing of the key.
 *
 *   nothing noted -> the id of the first worker's key -> workers with another key are refused
 *
 * Without this, a worker with another key was noticed only when it took a partition that had secrets, and could not open it.
 */
import { PerigeeError } from "../errors.ts";
import type { FleetDatabase } from "./fleet_database.ts";

/** `id`: of the worker's key. Throws `invalid_config` where it is not that of the fleet. */
export async function claimSecretsKey(id: string, { query }: Pick<FleetDatabase, "query">): Promise<void> {
  const { rows } = await query(
    `UPDATE perigee_fleet SET secrets_key = CASE WHEN secrets_key = '' THEN $1 ELSE secrets_key END
     RETURNING secrets_key AS "noted"`,
    id,
  );
  const [{ noted }] = rows as [{ readonly noted: string }]; // there is one row
  if (noted === id) return;
  throw new PerigeeError(
    "invalid_config",
    `PERIGEE_SECRETS_KEY is key ${id}, but the workers of this fleet have key ${noted}: set the same key for all`,
  );
}
