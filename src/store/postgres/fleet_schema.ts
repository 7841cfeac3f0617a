/**
 * The tables of a fleet: workers, homes of projects, the fleet's secret, keys, the audit log, and the state of shared limits.
 *
 * Leases use the clock of the database. `in_fleet` marks the partitions that workers adopt: others belong to programs that opened a store themselves.
 */
export const FLEET_TABLES = `
  ALTER TABLE perigee_partitions ADD COLUMN in_fleet boolean NOT NULL DEFAULT false;
  CREATE TABLE perigee_workers (
    id text PRIMARY KEY,
    name text NOT NULL,
    address text NOT NULL,
    role text NOT NULL,
    version text NOT NULL,
    is_leaving boolean NOT NULL DEFAULT false,
    started timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until timestamptz NOT NULL
  );
  CREATE TABLE perigee_projects (
    project text PRIMARY KEY,
    part integer NOT NULL
  );
  CREATE INDEX perigee_projects_of_part ON perigee_projects (part);
  CREATE TABLE perigee_fleet (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    secret text NOT NULL,
    keys_version bigint NOT NULL DEFAULT 0
  );
  CREATE TABLE perigee_keys (
    row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    hash bytea NOT NULL UNIQUE,
    shown text NOT NULL,
    project text NOT NULL,
    name text NOT NULL,
    scopes text NOT NULL,
    is_beta boolean NOT NULL,
    created_ms bigint NOT NULL,
    expires_ms bigint,
    revoked_ms bigint,
    last_used_day integer,
    crc bigint NOT NULL
  );
  CREATE TABLE perigee_audit (
    writer text NOT NULL,
    n bigint NOT NULL,
    wall_ms bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (writer, n)
  );
  CREATE TABLE perigee_limits (
    quota text PRIMARY KEY,
    state text NOT NULL DEFAULT ''
  );
  CREATE INDEX perigee_audit_of_time ON perigee_audit (wall_ms);
`;

/**
 * What the fleet learnt about providers (src/store/learnt.ts); `value` is JSON. And the key of posted tasks as it is since partitions may have tasks of
 * one id: tables that were made before have it without the partition.
 */
export const LEARNT_TABLE = `
  ALTER TABLE perigee_log_tasks DROP CONSTRAINT IF EXISTS perigee_log_tasks_id_key;
  CREATE UNIQUE INDEX IF NOT EXISTS perigee_log_tasks_part_id_key ON perigee_log_tasks (part, id);
  CREATE TABLE perigee_learnt (
    kind text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    put_at timestamptz NOT NULL,
    PRIMARY KEY (kind, key)
  );
`;

/** Caps that the partitions share: the state of each, as JSON (`price/shared/shared_money.ts`). */
export const CAPS_TABLE = `
  CREATE TABLE perigee_caps (
    cap text PRIMARY KEY,
    state text NOT NULL DEFAULT ''
  );
`;

/** Where the fleet has its objects (fleet/objects_owner.ts); empty before the first worker of this version. */
export const OBJECTS_COLUMN = `ALTER TABLE perigee_fleet ADD COLUMN objects text NOT NULL DEFAULT '';`;

/** The id of the key for secrets that all workers have (fleet/secrets_claim.ts); empty before the first worker of this version. */
export const SECRETS_COLUMN = `ALTER TABLE perigee_fleet ADD COLUMN secrets_key text NOT NULL DEFAULT '';`;
