/**
 * The work log's rows of one partition in PostgreSQL: the same columns and checks as in SQLite (`checked_rows.ts`).
 *
 * The caller owns the transaction. A commit is a few statements with arrays, however many tasks and answers it has. Bytes are sent
 * end to end, and the server cuts them.
 */
import { PerigeeError } from "../../errors.ts";
import {
  type AnswerRow,
  answerCrc,
  bodyCrc,
  entryCrc,
  type LoggedTaskRow,
  nameCrc,
  payloadCrc,
  readAnswer,
  readLogEntries,
  readLoggedTask,
  readNames,
  taskCrc,
} from "../checked_rows.ts";
import type {
  AcceptedRows,
  AnswerRows,
  LogCommit,
  LoggedAnswer,
  LoggedTask,
  LoggedTaskQuery,
  OpenedLog,
  StoredLogEntry,
} from "../log_rows.ts";
import { countWithin, PAGE_ROWS_MAX } from "../page_bounds.ts";
import { isStorable } from "../record_changes.ts";
import { allDone } from "./all_done.ts";
import { pgFaultOf } from "./pg_failure.ts";
import type { PgQuery, PgValue } from "./pg_session.ts";

const METADATA = "number, id, project, kind, parent, created_ms, crc, body_crc, body";
const ANSWER_COLUMNS = "item, crc, record, text_crc, text";

/** The work log of one partition. */
export class PgLog {
  readonly #query: PgQuery;
  readonly #part: number;

  constructor(query: PgQuery, part: number) {
    this.#query = query;
    this.#part = part;
  }

  /** Reads names and the last task number. The tables exist: opening the store made them. */
  async open(): Promise<OpenedLog> {
    const names = await this.#rows<{ readonly number: number; readonly crc: number; readonly text: string }>(
      "SELECT number, crc, text FROM perigee_log_names WHERE part = $1 ORDER BY number",
    );
    const [last] = await this.#rows<{ readonly number: number }>(
      "SELECT coalesce(max(number), 0) AS number FROM perigee_log_tasks WHERE part = $1",
    );
    return { names: readNames(names), lastTask: last?.number ?? 0, notes: [] };
  }

  /** Throws `conflict` after a part of the commit: roll back the transaction then. */
  async commit(commit: Omit<LogCommit, "outputs">): Promise<void> {
    await allDone(this.#sent(commit));
  }

  /** Sends the statements of a commit, in their order. */
  *#sent(commit: Omit<LogCommit, "outputs">): Iterable<Promise<void>> {
    const { names, accepted, dropped, answers, bodies, erased, removed, sequence, records, cutTo } = commit;
    if (names.length > 0)
      yield this.#run(
        `INSERT INTO perigee_log_names (part, number, crc, text)
         SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[])`,
        names.map(([number]) => number),
        names.map(([number, text]) => nameCrc(number, text)),
        names.map(([, text]) => text),
      );
    if (accepted.numbers.length > 0) yield this.#accept(accepted);
    if (dropped.tasks.length > 0)
      yield this.#run(
        `DELETE FROM perigee_log_answers AS a USING unnest($2::bigint[], $3::bigint[]) AS d (task, item)
         WHERE a.part = $1 AND a.task = d.task AND a.item = d.item`,
        dropped.tasks,
        dropped.items,
      );
    if (answers.tasks.length > 0) yield this.#answer(answers);
    for (const [task, body, isSpent] of bodies) yield this.#rebody(task, body, isSpent);
    if (erased.length > 0) yield this.#erase(erased);
    if (removed.length > 0) {
      yield this.#run(
        "DELETE FROM perigee_log_tasks WHERE part = $1 AND number = ANY ($2::bigint[])",
        removed,
      );
      yield this.#run(
        "DELETE FROM perigee_log_answers WHERE part = $1 AND task = ANY ($2::bigint[])",
        removed,
      );
    }
    yield this.#run(
      "INSERT INTO perigee_log_entries (part, sequence, crc, records) VALUES ($1, $2, $3, $4)",
      sequence,
      entryCrc(sequence, records),
      records,
    );
    if (cutTo > 0)
      yield this.#run("DELETE FROM perigee_log_entries WHERE part = $1 AND sequence <= $2", cutTo);
  }

  /** One page of entries after a sequence, in order; empty at the end. */
  async entries(after: number): Promise<StoredLogEntry[]> {
    const sizes = await this.#rows<{ readonly size: number }>(
      `SELECT length(records) AS size FROM perigee_log_entries
       WHERE part = $1 AND sequence > $2 ORDER BY sequence LIMIT ${PAGE_ROWS_MAX}`,
      after,
    );
    const rows = await this.#rows<StoredLogEntry & { readonly crc: number }>(
      "SELECT sequence, crc, records FROM perigee_log_entries WHERE part = $1 AND sequence > $2 ORDER BY sequence LIMIT $3",
      after,
      countWithin(sizes),
    );
    return readLogEntries(rows, after);
  }

  async task(key: string | number): Promise<LoggedTask | undefined> {
    if (typeof key === "string" && !isStorable(key)) return undefined; // the server would refuse the statement
    const by = typeof key === "string" ? "id" : "number";
    const [row] = await this.#rows<LoggedTaskRow>(
      `SELECT ${METADATA}, request_crc, request FROM perigee_log_tasks WHERE part = $1 AND ${by} = $2`,
      key,
    );
    if (row === undefined) return undefined;
    const task = readLoggedTask(row);
    const [first] = await this.#rows<AnswerRow>(
      `SELECT ${ANSWER_COLUMNS} FROM perigee_log_answers WHERE part = $1 AND task = $2 AND item = 0`,
      task.number,
    );
    return first === undefined ? task : { ...task, first: readAnswer(task.number, first) };
  }

  async tasks({
    project,
    kind,
    parent,
    numbers,
    after,
    limit,
    isNewestFirst,
  }: LoggedTaskQuery): Promise<LoggedTask[]> {
    const [beyond, order, first] =
      isNewestFirst === true ? ["<", "DESC", Number.MAX_SAFE_INTEGER] : [">", "ASC", 0];
    const conditions: readonly (readonly [string, PgValue | undefined])[] = [
      ["project = ?", project],
      ["kind = ?", kind],
      ["parent <> '' AND parent = ?", parent], // the first lets the partial index be used
      ["number = ANY (?::bigint[])", numbers],
      [`number ${beyond} ?`, after ?? first],
    ];
    const wanted = conditions.filter(([, value]) => value !== undefined);
    const where = wanted.map(([condition], index) => condition.replace("?", `$${index + 2}`)).join(" AND ");
    const rows = await this.#rows<LoggedTaskRow>(
      `SELECT ${METADATA}, NULL::bigint AS request_crc, NULL::bytea AS request FROM perigee_log_tasks
       WHERE part = $1 AND ${where} ORDER BY number ${order} LIMIT $${wanted.length + 2}`,
      ...wanted.flatMap(([, value]) => (value === undefined ? [] : [value])),
      limit,
    );
    return rows.map(readLoggedTask);
  }

  async answers(task: number, from: number, limit: number): Promise<LoggedAnswer[]> {
    const sizes = await this.#rows<{ readonly size: number }>(
      `SELECT length(record) + coalesce(length(text), 0) AS size FROM perigee_log_answers
       WHERE part = $1 AND task = $2 AND item >= $3 ORDER BY item LIMIT $4`,
      task,
      from,
      Math.min(limit, PAGE_ROWS_MAX),
    );
    const rows = await this.#rows<AnswerRow>(
      `SELECT ${ANSWER_COLUMNS} FROM perigee_log_answers
       WHERE part = $1 AND task = $2 AND item >= $3 ORDER BY item LIMIT $4`,
      task,
      from,
      countWithin(sizes),
    );
    return rows.map((row) => readAnswer(task, row));
  }

  async #accept(rows: AcceptedRows): Promise<void> {
    const { numbers, ids, projects, kinds, parents, createdWallMs, bodies, requestSizes, requests } = rows;
    const starts = startsOf(requestSizes);
    const crcs = numbers.map((number, index) =>
      taskCrc({
        number,
        id: ids[index] ?? "",
        project: projects[index] ?? 0,
        kind: kinds[index] ?? 0,
        parent: parents[index] ?? "",
        createdWallMs: createdWallMs[index] ?? 0,
      }),
    );
    try {
      await this.#run(
        `INSERT INTO perigee_log_tasks
           (part, number, id, project, kind, parent, created_ms, crc, body_crc, body, request_crc, request)
         SELECT $1, t.number, t.id, t.project, t.kind, t.parent, t.created_ms, t.crc, t.body_crc, t.body,
           t.request_crc, substring($2::bytea FROM t.start FOR t.size)
         FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::int[], $7::text[], $8::bigint[], $9::bigint[],
           $10::bigint[], $11::text[], $12::bigint[], $13::int[], $14::int[])
           AS t (number, id, project, kind, parent, created_ms, crc, body_crc, body, request_crc, start, size)`,
        requests,
        numbers,
        ids,
        projects,
        kinds,
        parents,
        createdWallMs,
        crcs,
        numbers.map((number, index) => bodyCrc(number, bodies[index] ?? "")),
        bodies,
        crcsOf(requests, requestSizes),
        starts,
        requestSizes,
      );
    } catch (cause) {
      if (pgFaultOf(cause) !== "conflict") throw cause;
      throw new PerigeeError("conflict", "a task of the commit has an id that is in use", { cause });
    }
  }

  async #answer({ tasks, items, recordSizes, textSizes, records, texts }: AnswerRows): Promise<void> {
    const recordStarts = startsOf(recordSizes);
    const crcs = tasks.map((task, index) => {
      const start = (recordStarts[index] ?? 1) - 1;
      return answerCrc(task, items[index] ?? 0, records.subarray(start, start + (recordSizes[index] ?? 0)));
    });
    // The last of several answers of an item counts; a statement may not insert one row twice.
    await this.#run(
      `INSERT INTO perigee_log_answers AS a (part, task, item, crc, record, text_crc, text)
       SELECT DISTINCT ON (n.task, n.item) $1, n.task, n.item, n.crc,
         substring($2::bytea FROM n.record_start FOR n.record_size), n.text_crc,
         substring($3::bytea FROM n.text_start FOR n.text_size)
       FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::int[], $8::int[], $9::bigint[], $10::int[], $11::int[])
         WITH ORDINALITY AS n (task, item, crc, record_start, record_size, text_crc, text_start, text_size, place)
       ORDER BY n.task, n.item, n.place DESC
       ON CONFLICT (part, task, item) DO UPDATE SET crc = excluded.crc, record = excluded.record,
         text_crc = excluded.text_crc, text = excluded.text`,
      records,
      texts,
      tasks,
      items,
      crcs,
      recordStarts,
      recordSizes,
      crcsOf(texts, textSizes),
      startsOf(textSizes),
      textSizes,
    );
  }

  async #rebody(number: number, body: string, isSpent: boolean): Promise<void> {
    const request = isSpent ? ", request = NULL, request_crc = NULL" : "";
    await this.#run(
      `UPDATE perigee_log_tasks SET body = $2, body_crc = $3${request} WHERE part = $1 AND number = $4`,
      body,
      bodyCrc(number, body),
      number,
    );
  }

  async #erase(tasks: readonly number[]): Promise<void> {
    const requests = this.#run(
      "UPDATE perigee_log_tasks SET request = NULL, request_crc = NULL WHERE part = $1 AND number = ANY ($2::bigint[])",
      tasks,
    );
    const texts = this.#run(
      "UPDATE perigee_log_answers SET text = NULL, text_crc = NULL WHERE part = $1 AND task = ANY ($2::bigint[])",
      tasks,
    );
    await allDone([requests, texts]);
  }

  /** Runs a statement whose `$1` is the partition. */
  async #rows<T>(sql: string, ...values: readonly PgValue[]): Promise<readonly T[]> {
    const { rows } = await this.#query(sql, this.#part, ...values);
    return rows as T[]; // columns as selected
  }

  async #run(sql: string, ...values: readonly PgValue[]): Promise<void> {
    await this.#query(sql, this.#part, ...values);
  }
}

/** Where each part begins among bytes that hold them end to end; PostgreSQL counts from 1. */
function startsOf(sizes: readonly number[]): number[] {
  let end = 1;
  return sizes.map((size) => {
    end += size;
    return end - size;
  });
}

function crcsOf(bytes: Uint8Array, sizes: readonly number[]): number[] {
  let end = 0;
  return sizes.map((size) => {
    end += size;
    return payloadCrc(bytes.subarray(end - size, end));
  });
}
