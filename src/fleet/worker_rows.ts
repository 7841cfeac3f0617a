/**
 * The rows of workers and partitions: a worker's heartbeat, and what it reads of the others with it.
 *
 * A worker's lease is on the database's clock, and as long as that of a partition. Rows of workers that are dead for a day are removed.
 */
import type { PgClock } from "../store/postgres/pg_clock.ts";
import { LEASE_MS } from "../store/postgres/pg_partition.ts";
import type { PgQuery } from "../store/postgres/pg_session.ts";
import type { HeldPartition } from "./placement.ts";

/** `all` answers callers and owns partitions, `api` only answers callers, `worker` only owns partitions. */
export type WorkerRole = "all" | "api" | "worker";

/** A worker as it registers. */
export interface WorkerEntry {
  /** Unique for each start of a worker; a name is not. */
  readonly id: string;
  readonly name: string;
  /** Where the other workers reach it, such as `http://10.0.0.5:8081`. */
  readonly address: string;
  readonly role: WorkerRole;
  /** The version of perigee. */
  readonly version: string;
}

/** A worker that lives, as the others see it. */
export interface WorkerRow extends WorkerEntry {
  readonly isLeaving: boolean;
  readonly startedWallMs: number;
}

/** One reading. */
export interface FleetReading {
  readonly workers: readonly WorkerRow[];
  readonly partitions: readonly HeldPartition[];
  /** Milliseconds until the first lease of a partition ends, if it is not renewed; Infinity without one. */
  readonly endsInMs: number;
}

const DAY_MS = 86_400_000;

export class WorkerRows {
  readonly #query: PgQuery;
  readonly #entry: WorkerEntry;
  readonly #time: PgClock;

  /** Each heartbeat notes the database's time in `time`. */
  constructor(query: PgQuery, entry: WorkerEntry, time: PgClock) {
    this.#query = query;
    this.#entry = entry;
    this.#time = time;
  }

  /** Of the worker. */
  get id(): string {
    return this.#entry.id;
  }

  /** Renews the worker's lease and reads the fleet. */
  async beat(isLeaving: boolean): Promise<FleetReading> {
    const { id, name, address, role, version } = this.#entry;
    const { clock } = this.#time;
    const sentMs = clock.nowMs();
    const { rows } = await this.#query(
      `INSERT INTO perigee_workers (id, name, address, role, version, is_leaving, lease_until)
       VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7 * interval '1 ms')
       ON CONFLICT (id) DO UPDATE SET is_leaving = excluded.is_leaving, lease_until = excluded.lease_until
       RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS "wallMs"`,
      ...[id, name, address, role, version, isLeaving, LEASE_MS],
    );
    const [{ wallMs }] = rows as [{ readonly wallMs: number }]; // as returned
    this.#time.note(wallMs, sentMs, clock.nowMs());
    return readFleet(this.#query);
  }

  /** Removes the worker's row. */
  async leave(): Promise<void> {
    await this.#query("DELETE FROM perigee_workers WHERE id = $1", this.#entry.id);
  }

  /** Removes rows of workers that have been dead for a day. */
  async sweep(): Promise<void> {
    await this.#query(
      "DELETE FROM perigee_workers WHERE lease_until < clock_timestamp() - $1 * interval '1 ms'",
      DAY_MS,
    );
  }

  /** Makes a partition, which is free, and resolves with its number. */
  async makePartition(): Promise<number> {
    for (;;) {
      const { rows } = await this.#query(
        `INSERT INTO perigee_partitions (part, in_fleet)
         SELECT coalesce(max(part), 0) + 1, true FROM perigee_partitions
         ON CONFLICT DO NOTHING RETURNING part`,
      );
      const [row] = rows as { readonly part: number }[]; // as returned
      if (row !== undefined) return row.part;
    }
  }
}

/** Both are null while it is free. */
interface PartitionRow {
  readonly part: number;
  readonly owner: string | null;
  readonly leftMs: number | null;
}

/** The living workers, oldest first, and all partitions of the fleet. */
export async function readFleet(query: PgQuery): Promise<FleetReading> {
  const workersRead = query(
    `SELECT id, name, address, role, version, is_leaving AS "isLeaving",
       (extract(epoch FROM started) * 1000)::bigint AS "startedWallMs"
     FROM perigee_workers WHERE lease_until > clock_timestamp() ORDER BY started, id`,
  );
  const partitionsRead = query(
    `SELECT part, CASE WHEN lease_until > clock_timestamp() THEN owner END AS owner,
       CASE WHEN lease_until > clock_timestamp()
         THEN (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::int END AS "leftMs"
     FROM perigee_partitions WHERE in_fleet ORDER BY part`,
  );
  const [workers, partitions] = await Promise.all([workersRead, partitionsRead]); // one round trip
  const rows = partitions.rows as PartitionRow[]; // as selected
  return {
    workers: workers.rows as WorkerRow[], // as selected
    partitions: rows.map(({ part, owner }) => ({ part, owner: owner ?? undefined })),
    endsInMs: Math.min(...rows.map(({ leftMs }) => leftMs ?? Number.POSITIVE_INFINITY)),
  };
}
