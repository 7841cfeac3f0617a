/**
 * The tables of a store on PostgreSQL, and their versions. Forward only, one transaction a version, under an advisory lock, so that
 * processes that start together migrate once. A newer schema is refused.
 *
 * A *partition* is everything of one engine: its rows have its number in the column `part`.
 */
import { checkVersion } from "../folder/known_version.ts";
import { CAPS_TABLE, FLEET_TABLES, LEARNT_TABLE, OBJECTS_COLUMN, SECRETS_COLUMN } from "./fleet_schema.ts";
import { FILES_SCHEMA } from "./pg_files.ts";
import type { PgQuery, PgSession } from "./pg_session.ts";
import { SHARDS_SCHEMA } from "./shards_schema.ts";

/** Key of the advisory lock that migrations hold: chosen at random, so that no other program of the database uses it. */
const MIGRATION_LOCK = 7_037_447_336;

/** In order: the version of a schema is the number of migrations done. A released migration never changes; new ones are appended. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE perigee_partitions (
    part integer PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    commits bigint NOT NULL DEFAULT 0,
    owner text NOT NULL DEFAULT '',
    lease_until timestamptz NOT NULL DEFAULT '-infinity'
  );
  CREATE TABLE perigee_tasks (
    row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    part integer NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    created_ms bigint NOT NULL,
    crc bigint NOT NULL,
    body text NOT NULL,
    UNIQUE (part, id),
    UNIQUE (part, name)
  );
  CREATE TABLE perigee_entries (
    part integer NOT NULL,
    row bigint NOT NULL,
    task_id text NOT NULL,
    sequence bigint NOT NULL,
    wall_ms bigint NOT NULL,
    crc bigint NOT NULL,
    records bytea NOT NULL,
    PRIMARY KEY (part, row),
    UNIQUE (part, task_id, sequence)
  );
  CREATE TABLE perigee_records (
    row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    part integer NOT NULL,
    collection text NOT NULL,
    id text NOT NULL,
    project text NOT NULL,
    parent text NOT NULL,
    created_ms bigint NOT NULL,
    crc bigint NOT NULL,
    body text NOT NULL,
    payload_crc bigint,
    payload bytea,
    UNIQUE (part, collection, id)
  );
  CREATE INDEX perigee_records_of_collection ON perigee_records (part, collection, row);
  CREATE INDEX perigee_records_of_project ON perigee_records (part, collection, project, row);
  CREATE INDEX perigee_records_of_parent ON perigee_records (part, collection, parent, row) WHERE parent <> '';
  CREATE TABLE perigee_log_entries (
    part integer NOT NULL,
    sequence bigint NOT NULL,
    crc bigint NOT NULL,
    records bytea NOT NULL,
    PRIMARY KEY (part, sequence)
  );
  CREATE TABLE perigee_log_names (
    part integer NOT NULL,
    number bigint NOT NULL,
    crc bigint NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (part, number)
  );
  CREATE TABLE perigee_log_tasks (
    part integer NOT NULL,
    number bigint NOT NULL,
    id text NOT NULL,
    project bigint NOT NULL,
    kind integer NOT NULL,
    parent text NOT NULL,
    created_ms bigint NOT NULL,
    crc bigint NOT NULL,
    body_crc bigint NOT NULL,
    body text NOT NULL,
    request_crc bigint,
    request bytea,
    PRIMARY KEY (part, number),
    UNIQUE (part, id)
  );
  CREATE INDEX perigee_log_tasks_of_project ON perigee_log_tasks (part, project, kind, number);
  CREATE INDEX perigee_log_tasks_of_parent ON perigee_log_tasks (part, kind, parent, number) WHERE parent <> '';
  CREATE TABLE perigee_log_answers (
    part integer NOT NULL,
    task bigint NOT NULL,
    item bigint NOT NULL,
    crc bigint NOT NULL,
    record bytea NOT NULL,
    text_crc bigint,
    text bytea,
    PRIMARY KEY (part, task, item)
  );
  `,
  FLEET_TABLES,
  FILES_SCHEMA,
  SHARDS_SCHEMA,
  LEARNT_TABLE,
  CAPS_TABLE,
  OBJECTS_COLUMN,
  SECRETS_COLUMN,
];

/** Versions of the schema; 0 for a database without the tables. */
export interface PgSchemaVersions {
  readonly found: number;
  /** The schema of this version of perigee. */
  readonly newest: number;
}

/** Only reads, and does not wait for a migration under way. Throws `data_dir_newer`. */
export async function pgSchemaVersions({ query }: PgSession): Promise<PgSchemaVersions> {
  return checked((await isMade(query)) ? await versionIn(query) : 0);
}

/**
 * Makes or migrates the tables, up to `newest`. Where they are current, the role needs no right to create tables. `found` is the version
 * before. Throws `data_dir_newer`.
 */
export async function migratePg(
  { query, script }: PgSession,
  newest: number = MIGRATIONS.length,
): Promise<PgSchemaVersions> {
  await query("SELECT pg_advisory_lock($1)", MIGRATION_LOCK);
  try {
    if (!(await isMade(query))) await script("CREATE TABLE perigee_schema (version integer NOT NULL)");
    const versions = checked(await versionIn(query));
    for (const [index, migration] of MIGRATIONS.slice(0, newest).entries()) {
      if (index < versions.found) continue;
      await script(
        `BEGIN; ${migration} DELETE FROM perigee_schema; INSERT INTO perigee_schema VALUES (${index + 1}); COMMIT;`,
      );
    }
    return versions;
  } finally {
    await query("SELECT pg_advisory_unlock($1)", MIGRATION_LOCK).catch(() => undefined); // a lost session has none
  }
}

/** Notices for the operator about a migration at the start of a process. */
export function migrationNotes({ found, newest }: PgSchemaVersions): string[] {
  return found === 0 || found === newest
    ? []
    : [`the database was migrated from schema ${found} to ${newest}`];
}

async function versionIn(query: PgQuery): Promise<number> {
  const { rows } = await query("SELECT coalesce(max(version), 0) AS version FROM perigee_schema");
  const [{ version }] = rows as [{ readonly version: number }]; // an aggregate has one row
  return version;
}

function checked(found: number): PgSchemaVersions {
  const newest = MIGRATIONS.length;
  checkVersion("the database has schema", found, { oldest: 0, newest });
  return { found, newest };
}

async function isMade(query: PgQuery): Promise<boolean> {
  const { rows } = await query("SELECT to_regclass('perigee_schema') IS NOT NULL AS is_there");
  const [{ is_there: isThere }] = rows as [{ readonly is_there: boolean }]; // as selected
  return isThere;
}
