/**
 * `perigee migrate`: migrates the tables of a fleet to the schema of this version, or reports whether that is needed.
 */
import { fleetSchema, migrateFleet } from "../../fleet/fleet_schema_check.ts";
import { errorJson } from "../exit.ts";

/** Exit code of `--check` when the database has an older schema. */
const EXIT_NEEDED = 1;

interface MigrateArguments {
  readonly store: string;
  readonly check?: boolean;
  readonly json?: boolean;
}

/** Returns the exit code: with `--check` 1 when a migration is needed. Throws for what `exitCodeOf` knows. */
export async function migrate(options: Record<string, unknown>): Promise<number> {
  const { store, check: isCheck = false, json: isJson = false } = options as unknown as MigrateArguments; // declared in fleet_commands.ts
  try {
    const { found, newest } = await (isCheck ? fleetSchema : migrateFleet)(store);
    const text = isJson ? JSON.stringify({ from: found, to: newest }) : sentence(found, newest, isCheck);
    process.stdout.write(`${text}\n`);
    return isCheck && found !== newest ? EXIT_NEEDED : 0;
  } catch (error) {
    if (isJson) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

function sentence(found: number, newest: number, isCheck: boolean): string {
  if (found === newest) return `the database has schema ${newest}, which is the newest`;
  if (!isCheck)
    return found === 0
      ? `the database was empty and has schema ${newest} now`
      : `the database was migrated from schema ${found} to ${newest}`;
  return found === 0
    ? `the database has no tables yet: perigee migrate makes those of schema ${newest}`
    : `the database has schema ${found}: perigee migrate brings it to ${newest}`;
}
