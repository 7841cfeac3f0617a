/**
 * The fleet as its database has it, for an operator: workers, including those that died in the last minute, partitions, homes of projects, and
 * shared limits.
 *
 * `charged` of a limit is what `perigee_limits` has charged of its last window: units that were spent in it, and blocks that workers hold.
 */
import { SharedPlaces, type SharedPlacesState } from "../limits/shared/shared_places.ts";
import { SharedWindow, type SharedWindowState } from "../limits/shared/shared_window.ts";
import { pgSchemaVersions } from "../store/postgres/pg_schema.ts";
import type { PgQuery } from "../store/postgres/pg_session.ts";
import { refuseOlder, withSession } from "./fleet_schema_check.ts";
import { WINDOW_ENDING } from "./shared/pg_limit_pool.ts";
import type { WorkerEntry } from "./worker_rows.ts";

/** A partition and the time until its lease ends, if it is not renewed. */
export interface ReportedPartition {
  readonly part: number;
  /** Undefined while no worker has it. */
  readonly leaseLeftMs: number | undefined;
  /** Projects that have their home in it. */
  readonly projects: number;
}

/** A worker that lives, or died less than a minute ago. */
export interface ReportedWorker extends WorkerEntry {
  readonly state: "working" | "leaving" | "dead";
  /** Milliseconds; below 0 for a dead worker: how long ago its lease ended. */
  readonly leaseLeftMs: number;
  readonly startedWallMs: number;
  readonly partitions: readonly ReportedPartition[];
}

/** A quota that all workers share, in any 60 s, or a limit on requests in flight (its name ends in `places`). */
export interface ReportedLimit {
  readonly quota: string;
  readonly charged: number;
  /** The lowest of the workers that drew in the last 1.5 s; undefined without any. */
  readonly limit: number | undefined;
}

export interface FleetReport {
  readonly schema: number;
  /** The oldest first. */
  readonly workers: readonly ReportedWorker[];
  /** Partitions that no worker has. */
  readonly free: readonly ReportedPartition[];
  readonly limits: readonly ReportedLimit[];
}

/** How long the dead are shown. */
const DEAD_SHOWN_MS = 60_000;

/** Writes nothing. Throws `usage` (also for a database that must be migrated first), `data_dir_newer`, or `store_failed` for a server that does not answer. */
export function readFleetReport(store: string): Promise<FleetReport> {
  return withSession(store, "cannot read the fleet", async (session) => {
    const versions = await pgSchemaVersions(session);
    refuseOlder(versions);
    const { query } = session;
    const partitions = await readPartitions(query);
    return {
      schema: versions.found,
      workers: await readWorkers(query, partitions),
      free: partitions.filter(({ owner }) => owner === null).map(reported),
      limits: await readLimits(query),
    };
  });
}

interface PartitionRow {
  readonly part: number;
  readonly owner: string | null;
  readonly leftMs: number | null;
  readonly projects: number;
}

async function readPartitions(query: PgQuery): Promise<readonly PartitionRow[]> {
  const { rows } = await query(
    `SELECT p.part, CASE WHEN p.lease_until > clock_timestamp() THEN p.owner END AS owner,
       CASE WHEN p.lease_until > clock_timestamp()
         THEN (extract(epoch FROM p.lease_until - clock_timestamp()) * 1000)::int END AS "leftMs",
       (SELECT count(*) FROM perigee_projects h WHERE h.part = p.part) AS projects
     FROM perigee_partitions p WHERE p.in_fleet ORDER BY p.part`,
  );
  return rows as readonly PartitionRow[]; // as selected
}

function reported({ part, leftMs, projects }: PartitionRow): ReportedPartition {
  return { part, leaseLeftMs: leftMs ?? undefined, projects };
}

interface WorkerReading extends WorkerEntry {
  readonly isLeaving: boolean;
  readonly startedWallMs: number;
  readonly leftMs: number;
}

async function readWorkers(
  query: PgQuery,
  partitions: readonly PartitionRow[],
): Promise<readonly ReportedWorker[]> {
  const { rows } = await query(
    `SELECT id, name, address, role, version, is_leaving AS "isLeaving",
       (extract(epoch FROM started) * 1000)::bigint AS "startedWallMs",
       (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::int AS "leftMs"
     FROM perigee_workers WHERE lease_until > clock_timestamp() - $1 * interval '1 ms' ORDER BY started, id`,
    DEAD_SHOWN_MS,
  );
  return (rows as readonly WorkerReading[]).map(({ isLeaving, leftMs, ...worker }) => ({
    ...{ ...worker, state: stateOf(isLeaving, leftMs), leaseLeftMs: leftMs },
    partitions: partitions.filter(({ owner }) => owner === worker.id).map(reported),
  })); // as selected
}

function stateOf(isLeaving: boolean, leftMs: number): ReportedWorker["state"] {
  if (leftMs <= 0) return "dead";
  return isLeaving ? "leaving" : "working";
}

async function readLimits(query: PgQuery): Promise<readonly ReportedLimit[]> {
  const { rows: found } = await query("SELECT to_regclass('perigee_limits') IS NOT NULL AS exists");
  const [{ exists }] = found as [{ readonly exists: boolean }]; // as selected
  if (!exists) return [];
  const { rows } = await query(
    `SELECT quota, state, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS "nowMs"
     FROM perigee_limits WHERE state <> '' AND (quota LIKE '% places' OR quota LIKE '%' || $1) ORDER BY quota`,
    WINDOW_ENDING,
  );
  return (rows as readonly { quota: string; state: string; nowMs: number }[]).map(
    ({ quota, state, nowMs }) => ({
      quota: quota.endsWith(WINDOW_ENDING) ? quota.slice(0, -WINDOW_ENDING.length) : quota,
      ...limitOf(JSON.parse(state) as SharedWindowState | SharedPlacesState).inForce(nowMs), // as written by the workers
    }),
  );
}

function limitOf(state: SharedWindowState | SharedPlacesState): SharedWindow | SharedPlaces {
  return "slots" in state ? new SharedWindow(state) : new SharedPlaces(state);
}
