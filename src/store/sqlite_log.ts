/**
 * The work log's rows in SQLite: statements, schema, checks of what is read back. Synchronous; on the store's thread.
 *
 * The tables are made when the log is opened for the first time; from then on the folder has a schema that older versions
 * refuse. The caller owns the transaction of `commit`. Every row carries a CRC-32, and one over its text, which can go
 * before the rest; entries are read without a gap.
 *
 * Hot: 5,000 tasks of one item a second, or 9,000 lines (bench/jobs/work_log.ts).
 */
import { PerigeeError } from "../errors.ts";
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
} from "./checked_rows.ts";
import type {
  AcceptedRows,
  AnswerRows,
  LogCommit,
  LoggedAnswer,
  LoggedTask,
  LoggedTaskQuery,
  OpenedLog,
  StoredLogEntry,
} from "./log_rows.ts";
import { countWithin, PAGE_ROWS_MAX } from "./page_bounds.ts";
import { copiedTo, copyOfSchema, hasTable } from "./schema_copy.ts";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "./sqlite_database.ts";
import { isUniqueViolation } from "./sqlite_failure.ts";

/** The folder's schema once its log was opened. At 3 it has the same tables, but those who read it do not know lists of `submit`. */
export const LOG_SCHEMA_VERSION = 4;
const LOG_SCHEMA_OLDEST = 3;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS log_entries (
    sequence INTEGER PRIMARY KEY, crc INTEGER NOT NULL, records BLOB NOT NULL
  );
  CREATE TABLE IF NOT EXISTS log_names (number INTEGER PRIMARY KEY, crc INTEGER NOT NULL, text TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS log_tasks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    project INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    parent TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    body_crc INTEGER NOT NULL,
    body TEXT NOT NULL,
    request_crc INTEGER,
    request BLOB
  );
  CREATE INDEX IF NOT EXISTS log_tasks_of_project ON log_tasks (project, kind);
  CREATE INDEX IF NOT EXISTS log_tasks_of_parent ON log_tasks (kind, parent) WHERE parent <> '';
  CREATE TABLE IF NOT EXISTS log_answers (
    task INTEGER NOT NULL,
    item INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    record BLOB NOT NULL,
    text_crc INTEGER,
    text BLOB,
    PRIMARY KEY (task, item)
  ) WITHOUT ROWID;
  UPDATE schema SET version = ${LOG_SCHEMA_VERSION} WHERE version < ${LOG_SCHEMA_VERSION};
`;

const METADATA = "number, id, project, kind, parent, created_ms, crc, body_crc, body";

/** The log's rows of one open database. */
export class SqliteLog {
  readonly #database: SqliteDatabase;
  readonly #isNew: boolean;
  readonly #statements = new Map<string, SqliteStatement>();

  /** `isNew`: no process before this one has had the database. */
  constructor(database: SqliteDatabase, isNew: boolean) {
    this.#database = database;
    this.#isNew = isNew;
  }

  /**
   * In a transaction of its own; synced when it returns. A folder with earlier tables is copied before its schema changes, a folder
   * without them only if it is a service's.
   */
  open(): OpenedLog {
    const notes: string[] = [];
    const version = this.#version();
    if (version < LOG_SCHEMA_VERSION) {
      const hasLog = version >= LOG_SCHEMA_OLDEST;
      if (hasLog || (!this.#isNew && hasTable(this.#database, "records")))
        notes.push(migratedNote(copyOfSchema(this.#database, version)));
      try {
        this.#database.exec(`BEGIN IMMEDIATE; ${SCHEMA} COMMIT;`);
      } catch (error) {
        try {
          this.#database.exec("ROLLBACK");
        } catch {
          // Undone by SQLite already.
        }
        throw error;
      }
    }
    const last = this.#statement("SELECT coalesce(max(number), 0) AS number FROM log_tasks").get();
    return { names: this.#names(), lastTask: (last as { readonly number: number }).number, notes }; // an aggregate has one row
  }

  /** After a `conflict` nothing of it has happened, and the transaction continues. */
  commit(commit: Omit<LogCommit, "outputs">): void {
    this.#statement("SAVEPOINT log").run();
    try {
      this.#apply(commit);
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      this.#statement("ROLLBACK TO log").run();
      throw new PerigeeError("conflict", "a task of the commit has an id that is in use", { cause: error });
    }
    this.#statement("RELEASE log").run();
  }

  /** One page in order, after a sequence; empty at the end. */
  entries(after: number): StoredLogEntry[] {
    const sql = "SELECT sequence, crc, records FROM log_entries WHERE sequence > ? ORDER BY sequence LIMIT ?";
    const sizes = this.#statement(
      `SELECT length(records) AS size FROM log_entries WHERE sequence > ? ORDER BY sequence LIMIT ${PAGE_ROWS_MAX}`,
    ).all(after) as { readonly size: number }[]; // as selected
    const rows = this.#statement(sql).all(after, countWithin(sizes)) as (StoredLogEntry & {
      readonly crc: number;
    })[]; // as selected
    return readLogEntries(rows, after);
  }

  task(key: string | number): LoggedTask | undefined {
    const by = typeof key === "string" ? "id" : "number";
    const row = this.#statement(
      `SELECT ${METADATA}, request_crc, request FROM log_tasks WHERE ${by} = ?`,
    ).get(key);
    if (row === undefined) return undefined;
    const task = readLoggedTask(row as LoggedTaskRow); // columns as selected
    const first = this.#statement(
      "SELECT item, crc, record, text_crc, text FROM log_answers WHERE task = ? AND item = 0",
    ).get(task.number);
    return first === undefined ? task : { ...task, first: readAnswer(task.number, first as AnswerRow) }; // as above
  }

  tasks({ project, kind, parent, numbers, after, limit, isNewestFirst }: LoggedTaskQuery): LoggedTask[] {
    const [behind, order, first] =
      isNewestFirst === true ? ["<", "DESC", Number.MAX_SAFE_INTEGER] : [">", "ASC", 0];
    const list = numbers === undefined ? undefined : JSON.stringify(numbers);
    const conditions: readonly (readonly [string, SqliteValue | undefined])[] = [
      ["project = ?", project],
      ["kind = ?", kind],
      ["parent <> '' AND parent = ?", parent], // the first lets the partial index be used
      ["number IN (SELECT value FROM json_each(?))", list],
      [`number ${behind} ?`, after ?? first],
    ];
    const wanted = conditions.filter(([, value]) => value !== undefined);
    const sql = `SELECT ${METADATA}, NULL AS request_crc, NULL AS request FROM log_tasks
      WHERE ${wanted.map(([condition]) => condition).join(" AND ")} ORDER BY number ${order} LIMIT ?`;
    const values = wanted.flatMap(([, value]) => value ?? []);
    const rows = this.#statement(sql).all(...values, limit);
    return (rows as LoggedTaskRow[]).map(readLoggedTask); // columns as selected
  }

  answers(task: number, from: number, limit: number): LoggedAnswer[] {
    const sizes = this.#statement(
      `SELECT length(record) + coalesce(length(text), 0) AS size FROM log_answers
       WHERE task = ? AND item >= ? ORDER BY item LIMIT ?`,
    ).all(task, from, Math.min(limit, PAGE_ROWS_MAX)) as { readonly size: number }[]; // as selected
    const rows = this.#statement(
      `SELECT item, crc, record, text_crc, text FROM log_answers WHERE task = ? AND item >= ? ORDER BY item LIMIT ?`,
    ).all(task, from, countWithin(sizes));
    return (rows as AnswerRow[]).map((row) => readAnswer(task, row)); // columns as selected
  }

  #apply(commit: Omit<LogCommit, "outputs">): void {
    const { names, accepted, dropped, answers, bodies, erased, removed, sequence, records, cutTo } = commit;
    const run = (sql: string, ...values: SqliteValue[]): unknown => this.#statement(sql).run(...values);
    for (const [number, text] of names)
      run("INSERT INTO log_names VALUES (?, ?, ?)", number, nameCrc(number, text), text);
    this.#accept(accepted);
    for (const [index, task] of dropped.tasks.entries())
      run("DELETE FROM log_answers WHERE task = ? AND item = ?", task, dropped.items[index] ?? 0);
    this.#answer(answers);
    for (const [task, body, isSpent] of bodies) this.#rebody(task, body, isSpent);
    for (const task of erased) {
      run("UPDATE log_tasks SET request = NULL, request_crc = NULL WHERE number = ?", task);
      run("UPDATE log_answers SET text = NULL, text_crc = NULL WHERE task = ?", task);
    }
    for (const task of removed) {
      run("DELETE FROM log_tasks WHERE number = ?", task);
      run("DELETE FROM log_answers WHERE task = ?", task);
    }
    run("INSERT INTO log_entries VALUES (?, ?, ?)", sequence, entryCrc(sequence, records), records);
    if (cutTo > 0) run("DELETE FROM log_entries WHERE sequence <= ?", cutTo);
  }

  #accept({
    numbers,
    ids,
    projects,
    kinds,
    parents,
    createdWallMs,
    bodies,
    requestSizes,
    requests,
  }: AcceptedRows): void {
    const insert = this.#statement(
      "INSERT INTO log_tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, x''))", // see `append` of sqlite_tables.ts
    );
    let start = 0;
    for (const [index, number] of numbers.entries()) {
      const end = start + (requestSizes[index] ?? 0);
      const request = requests.subarray(start, end);
      const task = {
        number,
        id: ids[index] ?? "",
        project: projects[index] ?? 0,
        kind: kinds[index] ?? 0,
        parent: parents[index] ?? "",
        createdWallMs: createdWallMs[index] ?? 0,
        body: bodies[index] ?? "",
      };
      const { id, project, kind, parent, body } = task;
      insert.run(
        number,
        id,
        project,
        kind,
        parent,
        task.createdWallMs,
        taskCrc(task),
        bodyCrc(number, body),
        body,
        payloadCrc(request),
        request,
      );
      start = end;
    }
  }

  #answer({ tasks, items, recordSizes, textSizes, records, texts }: AnswerRows): void {
    const insert = this.#statement(
      "INSERT OR REPLACE INTO log_answers VALUES (?, ?, ?, ?, ?, coalesce(?, x''))",
    );
    let [recordEnd, textEnd] = [0, 0];
    for (const [index, task] of tasks.entries()) {
      const item = items[index] ?? 0;
      const record = records.subarray(recordEnd, recordEnd + (recordSizes[index] ?? 0));
      const text = texts.subarray(textEnd, textEnd + (textSizes[index] ?? 0));
      insert.run(task, item, answerCrc(task, item, record), record, payloadCrc(text), text);
      recordEnd += record.byteLength;
      textEnd += text.byteLength;
    }
  }

  #rebody(number: number, body: string, isSpent: boolean): void {
    const request = isSpent ? ", request = NULL, request_crc = NULL" : "";
    this.#statement(`UPDATE log_tasks SET body = ?, body_crc = ?${request} WHERE number = ?`).run(
      body,
      bodyCrc(number, body),
      number,
    );
  }

  #names(): string[] {
    const rows = this.#statement("SELECT number, crc, text FROM log_names ORDER BY number").all() as {
      readonly number: number;
      readonly crc: number;
      readonly text: string;
    }[]; // columns as selected
    return readNames(rows);
  }

  #version(): number {
    const row = this.#statement("SELECT coalesce(max(version), 0) AS version FROM schema").get();
    return (row as { readonly version: number }).version; // an aggregate has one row
  }

  #statement(sql: string): SqliteStatement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const prepared = this.#database.prepare(sql);
    this.#statements.set(sql, prepared);
    return prepared;
  }
}

function migratedNote(copy: string): string {
  return `the data folder was migrated to schema ${LOG_SCHEMA_VERSION}, which earlier versions of perigee cannot open; ${copiedTo(copy)}`;
}
