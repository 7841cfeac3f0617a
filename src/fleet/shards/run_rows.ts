/**
 * A run over the fleet as its client sees it: made with its shards in one statement, read until all have ended, and then marked as taken.
 */
import type { PgQuery } from "../../store/postgres/pg_session.ts";

/** A run before it is made. */
export interface NewRun {
  readonly id: string;
  /** For people: the path of its answers. */
  readonly name: string;
  /** Options of the engine's run, as JSON, without secrets. */
  readonly options: string;
  /** The checksum of its input. */
  readonly input: string;
  /** The most that it may cost, in nano-USD; undefined without a cap. */
  readonly capNano: number | undefined;
  /** Until its deadline, in milliseconds; undefined without one. */
  readonly slaMs: number | undefined;
}

/** A range of lines, as it was uploaded. */
export interface NewShard {
  readonly firstLine: number;
  readonly lines: number;
  readonly pieces: number;
}

/** A shard with its state. */
export interface SeenShard {
  readonly index: number;
  readonly firstLine: number;
  readonly lines: number;
  readonly state: "waiting" | "claimed" | "held" | "done" | "failed";
  /** The partition that has it; null before the first claim. */
  readonly part: number | null;
  /** The path of its answers in the partition; empty before it ended. */
  readonly output: string;
  /** Progress, summary or error as JSON; empty before it began. */
  readonly counts: string;
}

export class RunRows {
  readonly #query: PgQuery;

  constructor(query: PgQuery) {
    this.#query = query;
  }

  /** How many partitions living workers own. */
  async partitions(): Promise<number> {
    const { rows } = await this.#query(
      "SELECT count(*)::integer AS count FROM perigee_partitions WHERE in_fleet AND lease_until > clock_timestamp()",
    );
    const [{ count }] = rows as [{ readonly count: number }]; // an aggregate has one row
    return count;
  }

  async has(id: string): Promise<boolean> {
    const { count } = await this.#query("SELECT FROM perigee_runs WHERE id = $1", id);
    return count > 0;
  }

  /** Makes all or nothing; repeating it changes nothing. The latest start of a shard is the deadline: how long it takes is not known in advance. */
  async make(run: NewRun, shards: readonly NewShard[]): Promise<void> {
    await this.#query(
      `WITH made AS (
         INSERT INTO perigee_runs (id, name, options, input, cap_nano, unshared_lines) VALUES ($1, $2, $3, $4, $5::bigint, $6)
         ON CONFLICT DO NOTHING RETURNING id, created)
       INSERT INTO perigee_shards (run, index, first_line, lines, pieces, latest_start_ms)
       SELECT made.id, s.n - 1, s.first_line, s.lines, s.pieces, (extract(epoch FROM made.created) * 1000)::bigint + $7::bigint
       FROM made, unnest($8::bigint[], $9::integer[], $10::integer[]) WITH ORDINALITY AS s (first_line, lines, pieces, n)`,
      ...[run.id, run.name, run.options, run.input, run.capNano ?? null],
      shards.reduce((sum, { lines }) => sum + lines, 0),
      run.slaMs ?? null,
      shards.map(({ firstLine }) => firstLine),
      shards.map(({ lines }) => lines),
      shards.map(({ pieces }) => pieces),
    );
  }

  /** In the order of the input. */
  async shards(id: string): Promise<readonly SeenShard[]> {
    const { rows } = await this.#query(
      `SELECT index, first_line AS "firstLine", lines, state, part, output, counts FROM perigee_shards WHERE run = $1 ORDER BY index`,
      id,
    );
    return rows as readonly SeenShard[]; // as selected
  }

  /** Sets the most that it may cost in all, in nano-USD; undefined removes the cap. With a cap, what partitions have named does not count any more
   *  (`shared_money.ts`); without one, it counts until it expires. */
  async setCap(id: string, capNano: number | undefined): Promise<void> {
    await this.#query(
      `WITH run AS (UPDATE perigee_runs SET cap_nano = $2::bigint WHERE id = $1)
       UPDATE perigee_caps SET state = (state::jsonb - 'capNano' || jsonb_strip_nulls(jsonb_build_object('capNano', $2::bigint)))::text
       WHERE cap = $3 AND state <> ''`,
      ...[id, capNano ?? null, capNameOf(id)],
    );
  }

  /** Held shards wait again, each for the partition that has the answers it got so far. */
  async release(id: string): Promise<void> {
    await this.#query("UPDATE perigee_shards SET state = 'waiting' WHERE run = $1 AND state = 'held'", id);
  }

  /** Marks the run: its answers are no longer needed, and are removed. One without shards is removed at once. */
  async taken(id: string): Promise<void> {
    await this.#query("UPDATE perigee_runs SET state = 'taken' WHERE id = $1", id);
    await removeEmptyRun(this.#query, id);
  }
}

/** Removes a run that has no shard any more, and its cap. */
export async function removeEmptyRun(query: PgQuery, id: string): Promise<void> {
  await query(
    `WITH gone AS (
       DELETE FROM perigee_runs WHERE id = $1 AND NOT EXISTS (SELECT FROM perigee_shards WHERE run = $1) RETURNING id)
     DELETE FROM perigee_caps WHERE cap = $2 AND EXISTS (SELECT FROM gone)`,
    id,
    capNameOf(id),
  );
}

/** The cap that the shards of a run share, by its name. */
export function capNameOf(run: string): string {
  return `run:${run}`;
}
