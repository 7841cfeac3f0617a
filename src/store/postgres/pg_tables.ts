/**
 * The tables of one partition in PostgreSQL, on one connection. Tasks and journal entries are here: the same columns and checks as in SQLite
 * (`checked_rows.ts`).
 *
 * The caller owns the transaction. Sequences and rows are numbered here: the partition has one owner, so no other process adds any.
 */
import { PerigeeError } from "../../errors.ts";
import {
  type EntryRow,
  entryPage,
  entryRowCrc,
  readTask,
  type TaskRow,
  taskRowCrc,
} from "../checked_rows.ts";
import type { StoreTables } from "../packed/grouped_requests.ts";
import type { EntryPage, PackedEntries, PageStart } from "../packed/requests.ts";
import { countWithin, PAGE_ROWS_MAX } from "../page_bounds.ts";
import { isStorable } from "../record_changes.ts";
import type { StoredTask } from "../store.ts";
import { pgFaultOf } from "./pg_failure.ts";
import { PgFiles } from "./pg_files.ts";
import { PgLog } from "./pg_log.ts";
import type { PgPartition } from "./pg_partition.ts";
import { PgRecords } from "./pg_records.ts";
import type { PgQuery } from "./pg_session.ts";

/** Tasks whose next sequence is kept in memory. */
const SEQUENCES_MAX = 4_096;
const TASK_COLUMNS = "row, id, name, created_ms, crc, body";
const ENTRY_COLUMNS = "row, task_id, sequence, wall_ms, crc, records";

/** The tables of a store. Reads may be concurrent, writes are of one transaction at a time. */
export class PgTables implements StoreTables {
  readonly records: PgRecords;
  readonly log: PgLog;
  readonly files: PgFiles;
  readonly #query: PgQuery;
  readonly #part: number;
  readonly #nextSequences = new Map<string, number>();
  #nextRow: number | undefined;

  constructor(query: PgQuery, partition: PgPartition) {
    const { part } = partition;
    this.records = new PgRecords(query, part);
    this.log = new PgLog(query, part);
    this.files = new PgFiles(query, part, () => partition.epoch);
    this.#query = query;
    this.#part = part;
  }

  /** Call it after a rollback: the numbers of that transaction are void. */
  undone(): void {
    this.#nextSequences.clear();
    this.#nextRow = undefined;
  }

  /** Inserts or replaces by id. Throws `conflict` when another task has the name: roll back the transaction then. */
  async putTask(task: StoredTask): Promise<void> {
    try {
      await this.#query(
        `INSERT INTO perigee_tasks (part, id, name, created_ms, crc, body) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (part, id) DO UPDATE SET name = excluded.name, created_ms = excluded.created_ms,
           crc = excluded.crc, body = excluded.body`,
        this.#part,
        task.id,
        task.name,
        task.createdWallMs,
        taskRowCrc(task),
        task.body,
      );
    } catch (error) {
      if (pgFaultOf(error) !== "conflict") throw error;
      throw new PerigeeError("conflict", `another task has the name ${JSON.stringify(task.name)}`, {
        cause: error,
      });
    }
  }

  async deleteTask(id: string): Promise<void> {
    this.#nextSequences.delete(id);
    await this.#query("DELETE FROM perigee_entries WHERE part = $1 AND task_id = $2", this.#part, id);
    await this.#query("DELETE FROM perigee_tasks WHERE part = $1 AND id = $2", this.#part, id);
  }

  async task(id: string): Promise<StoredTask | undefined> {
    const [row] = await this.#tasks("id = $2", id);
    return row === undefined ? undefined : readTask(row);
  }

  async taskByName(name: string): Promise<StoredTask | undefined> {
    const [row] = await this.#tasks("name = $2", name);
    return row === undefined ? undefined : readTask(row);
  }

  /** Tasks in order of creation after a task; empty when that task does not exist. */
  async tasks(after: string | undefined, limit: number): Promise<StoredTask[]> {
    let afterRow = 0;
    if (after !== undefined) {
      const [found] = await this.#tasks("id = $2", after);
      if (found === undefined) return [];
      afterRow = found.row;
    }
    const { rows } = await this.#query(
      `SELECT ${TASK_COLUMNS} FROM perigee_tasks WHERE part = $1 AND row > $2 ORDER BY row LIMIT $3`,
      this.#part,
      afterRow,
      limit,
    );
    return (rows as TaskRow[]).map(readTask); // columns as selected
  }

  async append({ taskIds, wallMs, sizes, bytes }: PackedEntries): Promise<void> {
    if (taskIds.length === 0) return;
    let row = await this.#takeRows(taskIds.length);
    const columns = {
      rows: [] as number[],
      sequences: [] as number[],
      crcs: [] as number[],
      starts: [] as number[],
    };
    let start = 0;
    for (const [index, taskId] of taskIds.entries()) {
      const end = start + (sizes[index] ?? 0);
      const sequence = await this.#takeSequence(taskId);
      const records = bytes.subarray(start, end);
      columns.rows.push(row);
      columns.sequences.push(sequence);
      columns.crcs.push(entryRowCrc({ taskId, sequence, wallMs: wallMs[index] ?? 0, records }));
      columns.starts.push(start + 1); // PostgreSQL counts from 1
      row += 1;
      start = end;
    }
    await this.#query(
      `INSERT INTO perigee_entries (part, row, task_id, sequence, wall_ms, crc, records)
       SELECT $1, e.row, e.task_id, e.sequence, e.wall_ms, e.crc, substring($2::bytea FROM e.start FOR e.size)
       FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[], $9::int[])
         AS e (row, task_id, sequence, wall_ms, crc, start, size)`,
      this.#part,
      bytes,
      columns.rows,
      taskIds,
      columns.sequences,
      wallMs,
      columns.crcs,
      columns.starts,
      sizes,
    );
  }

  /** One page of a task's entries, or of all of them, newest first. Throws `store_damaged` at the first bad one. */
  async page(start: PageStart): Promise<EntryPage> {
    const [where, order, ...from] =
      start.taskId === undefined
        ? ([
            "part = $1 AND row < $2",
            "row DESC",
            Math.min(start.beforeRow, Number.MAX_SAFE_INTEGER),
          ] as const)
        : ([
            "part = $1 AND sequence > $2 AND task_id = $3",
            "sequence",
            start.afterSequence,
            start.taskId,
          ] as const);
    const { rows: found } = await this.#query(
      `SELECT length(records) AS size FROM perigee_entries WHERE ${where} ORDER BY ${order} LIMIT ${PAGE_ROWS_MAX + 1}`,
      this.#part,
      ...from,
    );
    const sizes = found as { readonly size: number }[]; // as selected
    const count = countWithin(sizes);
    if (count === 0) return { entries: [], next: undefined };
    const { rows } = await this.#query(
      `SELECT ${ENTRY_COLUMNS} FROM perigee_entries WHERE ${where} ORDER BY ${order} LIMIT ${count}`,
      this.#part,
      ...from,
    );
    return entryPage(rows as EntryRow[], start, sizes.length > count); // columns as selected
  }

  async #tasks(where: string, value: string): Promise<readonly TaskRow[]> {
    if (!isStorable(value)) return []; // the server would refuse the statement
    const { rows } = await this.#query(
      `SELECT ${TASK_COLUMNS} FROM perigee_tasks WHERE part = $1 AND ${where}`,
      this.#part,
      value,
    );
    return rows as TaskRow[]; // columns as selected
  }

  async #takeRows(count: number): Promise<number> {
    const first =
      this.#nextRow ??
      1 + (await this.#highest("SELECT max(row) AS last FROM perigee_entries WHERE part = $1"));
    this.#nextRow = first + count;
    return first;
  }

  async #takeSequence(taskId: string): Promise<number> {
    const next =
      this.#nextSequences.get(taskId) ??
      1 +
        (await this.#highest(
          "SELECT max(sequence) AS last FROM perigee_entries WHERE part = $1 AND task_id = $2",
          taskId,
        ));
    if (this.#nextSequences.size >= SEQUENCES_MAX) this.#nextSequences.clear();
    this.#nextSequences.set(taskId, next + 1);
    return next;
  }

  async #highest(sql: string, ...values: readonly string[]): Promise<number> {
    const { rows } = await this.#query(sql, this.#part, ...values);
    const [row] = rows as [{ readonly last: number | null }]; // an aggregate has one row
    return row.last ?? 0;
  }
}
