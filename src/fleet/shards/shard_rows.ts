/**
 * The shards of a partition in the database: claimed, continued and ended behind the fence of its owner.
 *
 * Each fenced statement is one transaction that locks the row of the partition with its epoch: a worker that takes the partition over waits for it,
 * and a former owner finds another epoch and changes nothing. `claimed` finds a claim whose answer was lost.
 *
 * A claimed shard belongs to the partition, not to its owner: a worker that adopts the partition continues it.
 */
import type { PgQuery, PgValue } from "../../store/postgres/pg_session.ts";
import { removeEmptyRun } from "./run_rows.ts";

/** Which shard. */
export interface ShardId {
  readonly run: string;
  /** From 0. */
  readonly index: number;
}

/** A shard that the partition has claimed. */
export interface ClaimedShard extends ShardId {
  /** Its first line in the input, from 1. */
  readonly firstLine: number;
  readonly lines: number;
  /** How many objects hold its lines. */
  readonly pieces: number;
  /** Options of the run, as JSON. */
  readonly options: string;
  /** When the run was made: its sla counts from then. */
  readonly acceptedWallMs: number;
  /** The most that the run may cost in all its shards, in nano-USD; null without a cap. */
  readonly capNano: number | null;
}

/** How a shard ended. */
export interface ShardEnd {
  readonly state: "done" | "held" | "failed";
  /** Where its answers are on the disk of the partition; empty without any. */
  readonly output: string;
  /** A summary or an error, as JSON. */
  readonly counts: string;
  readonly spentNano: number;
}

/** Answers that no client has taken are removed after this. */
const RETENTION_DAYS = 30;
const FENCE = `fence AS MATERIALIZED (
  SELECT part FROM perigee_partitions WHERE part = $1 AND epoch = $2 FOR SHARE)`;

export class ShardRows {
  readonly #query: PgQuery;
  readonly #part: number;
  readonly #epoch: number;

  /** Of the owner; -1 when it has lost the partition already. */
  get epoch(): number {
    return this.#epoch;
  }

  /** `query` repeats a statement whose answer was lost. `epoch`: that of the owner. */
  constructor(query: PgQuery, part: number, epoch: number) {
    this.#query = query;
    this.#part = part;
    this.#epoch = epoch;
  }

  /** For an owner that has just taken the partition. If it has lost the partition since, no call changes anything. */
  static async open(query: PgQuery, part: number, owner: string): Promise<ShardRows> {
    const { rows } = await query(
      "SELECT epoch FROM perigee_partitions WHERE part = $1 AND owner = $2",
      part,
      owner,
    );
    const [row] = rows as { readonly epoch: number }[]; // as selected
    return new ShardRows(query, part, row?.epoch ?? -1);
  }

  /** Claims up to `countMax` waiting shards, the earliest latest start first, and skips those that another session is claiming. Resolves with how many. */
  async claim(countMax: number): Promise<number> {
    const { count } = await this.#run(
      `WITH ${FENCE}, picked AS (
         SELECT run, index FROM perigee_shards
         WHERE state = 'waiting' AND (part IS NULL OR part = $1) AND EXISTS (SELECT FROM fence)
         ORDER BY latest_start_ms, run, index LIMIT $3 FOR UPDATE SKIP LOCKED)
       UPDATE perigee_shards s SET state = 'claimed', part = $1, attempts = attempts + 1
       FROM picked p WHERE s.run = p.run AND s.index = p.index`,
      countMax,
    );
    return count;
  }

  /** All claimed shards of the partition, also those that a former owner claimed. */
  async claimed(): Promise<readonly ClaimedShard[]> {
    const { rows } = await this.#run(
      `WITH ${FENCE}
       SELECT s.run, s.index, s.first_line AS "firstLine", s.lines, s.pieces, r.options,
         (extract(epoch FROM r.created) * 1000)::bigint AS "acceptedWallMs", r.cap_nano AS "capNano"
       FROM perigee_shards s JOIN perigee_runs r ON r.id = s.run
       WHERE s.part = $1 AND s.state = 'claimed' AND EXISTS (SELECT FROM fence)
       ORDER BY s.latest_start_ms, s.run, s.index`,
    );
    return rows as readonly ClaimedShard[]; // as selected
  }

  /** Notes the progress of a shard at work, as JSON, for its client. */
  async note({ run, index }: ShardId, counts: string): Promise<void> {
    await this.#run(
      `WITH ${FENCE} UPDATE perigee_shards SET counts = $5
       WHERE run = $3 AND index = $4 AND part = $1 AND state = 'claimed' AND EXISTS (SELECT FROM fence)`,
      run,
      index,
      counts,
    );
  }

  /** Ends it once. */
  async end({ run, index }: ShardId, { state, output, counts, spentNano }: ShardEnd): Promise<void> {
    await this.#run(
      `WITH ${FENCE} UPDATE perigee_shards SET state = $5, output = $6, counts = $7, spent_nano = $8::bigint
       WHERE run = $3 AND index = $4 AND part = $1 AND state = 'claimed' AND EXISTS (SELECT FROM fence)`,
      ...[run, index, state, output, counts, spentNano],
    );
  }

  /** Up to 100 shards that are no longer needed: their client took all answers, or the run was made more than 30 days ago. */
  async unneeded(): Promise<readonly (ShardId & { readonly pieces: number })[]> {
    const { rows } = await this.#run(
      `WITH ${FENCE}
       SELECT s.run, s.index, s.pieces FROM perigee_shards s JOIN perigee_runs r ON r.id = s.run
       WHERE s.part = $1 AND s.state IN ('done', 'failed', 'held') AND EXISTS (SELECT FROM fence)
         AND (r.state = 'taken' OR r.created < clock_timestamp() - ${RETENTION_DAYS} * interval '1 day') LIMIT 100`,
    );
    return rows as readonly (ShardId & { readonly pieces: number })[]; // as selected
  }

  /** Removes a shard whose files were removed, and its run with the last shard. */
  async forget({ run, index }: ShardId): Promise<void> {
    await this.#run(
      `WITH ${FENCE} DELETE FROM perigee_shards
       WHERE run = $3 AND index = $4 AND part = $1 AND EXISTS (SELECT FROM fence)`,
      run,
      index,
    );
    await removeEmptyRun(this.#query, run);
  }

  /** Which of these runs exist. */
  async known(runs: readonly string[]): Promise<ReadonlySet<string>> {
    const { rows } = await this.#query("SELECT id FROM perigee_runs WHERE id = ANY($1::text[])", runs);
    return new Set((rows as readonly { readonly id: string }[]).map(({ id }) => id)); // as selected
  }

  #run(sql: string, ...values: readonly PgValue[]): ReturnType<PgQuery> {
    return this.#query(sql, this.#part, this.#epoch, ...values);
  }
}
