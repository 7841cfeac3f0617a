/**
 * What a fleet learnt about providers, as rows that all workers read: a new machine begins with what the others know.
 *
 * Each entry is of the worker that put it last. Ages are by the database's clock. Calls that the database does not answer within 2 s reject: nothing
 * depends on them.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { ENTRIES_MAX, type LearntRow, type LearntRows } from "../../store/learnt.ts";
import type { PgQuery, PgResult, PgValue } from "../../store/postgres/pg_session.ts";
import { inTime } from "../in_time.ts";

const ANSWER_MS = 2_000;

export class PgLearnt implements LearntRows {
  readonly #query: PgQuery;
  readonly #clock: Clock;

  constructor(query: PgQuery, clock: Clock) {
    this.#query = query;
    this.#clock = clock;
  }

  async read(): Promise<readonly LearntRow[]> {
    const { rows } = await this.#asked(
      `SELECT kind, key, value, (extract(epoch FROM clock_timestamp() - put_at) * 1000)::float8 AS "ageMs"
       FROM perigee_learnt ORDER BY put_at DESC LIMIT $1`,
      ENTRIES_MAX,
    );
    return rows as readonly LearntRow[]; // as selected
  }

  async put(rows: readonly LearntRow[]): Promise<void> {
    const sorted = rows.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1)); // so that two workers do not wait for each other
    await this.#asked(
      `INSERT INTO perigee_learnt AS old (kind, key, value, put_at)
       SELECT kind, key, value, clock_timestamp() - age_ms * interval '1 ms'
       FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]::float8[]) AS new (kind, key, value, age_ms)
       ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, put_at = excluded.put_at
       WHERE old.put_at <= excluded.put_at`,
      sorted.map(({ kind }) => kind),
      sorted.map(({ key }) => key),
      sorted.map(({ value }) => value),
      sorted.map(({ ageMs }) => String(ageMs)),
    );
    await this.#asked(
      "DELETE FROM perigee_learnt WHERE put_at < (SELECT put_at FROM perigee_learnt ORDER BY put_at DESC OFFSET $1 LIMIT 1)",
      ENTRIES_MAX - 1,
    );
  }

  async #asked(sql: string, ...values: readonly PgValue[]): Promise<PgResult> {
    const result = await inTime(this.#clock, ANSWER_MS, this.#query(sql, ...values));
    if (result === undefined) throw new PerigeeError("store_failed", "the database did not answer in time");
    return result;
  }
}

function nameOf({ kind, key }: LearntRow): string {
  return `${kind}\n${key}`;
}
