/**
 * Tasks and journal entries in SQLite tables: the statements, the schema and the checks of what is read back.
 *
 * Synchronous; runs on the store's own thread. Writes happen between `begin` and `commit`; the caller owns the
 * transaction, so that many calls share one sync. Every row carries a CRC-32 over all that it says, and sequences are
 * read without a gap: what does not pass is `store_damaged` with its place, never left out.
 *
 * Settings: WAL with `synchronous = FULL` (each commit is synced before it is acknowledged) and exclusive locking (no
 * shared-memory file, which is mapped and would kill the process with SIGBUS on a full disk).
 *
 * Hot: a commit of one entry of 16 KB takes 0.15 to 0.3 ms of CPU here, the sync's included (bench/parts/commit.ts).
 */
import { randomUUID } from "node:crypto";
import { PerigeeError } from "../errors.ts";
import {
  damaged,
  type EntryRow,
  entryPage,
  entryRowCrc,
  readTask,
  type TaskRow,
  taskRowCrc,
} from "./checked_rows.ts";
import type { FolderMark } from "./folder/folder_identity.ts";
import { checkVersion } from "./folder/known_version.ts";
import type { EntryPage, PackedEntries, PageStart } from "./packed/requests.ts";
import { countWithin, PAGE_ROWS_MAX } from "./page_bounds.ts";
import { copiedTo, copyOfSchema, hasTable } from "./schema_copy.ts";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "./sqlite_database.ts";
import { isUniqueViolation } from "./sqlite_failure.ts";
import { LOG_SCHEMA_VERSION, SqliteLog } from "./sqlite_log.ts";
import { SqliteRecords } from "./sqlite_records.ts";
import type { StoredTask } from "./store.ts";

/**
 * Version of the tables below. 1 had no `folder` table and gets one; the first opening of the work log makes it
 * `LOG_SCHEMA_VERSION`. A folder with a higher version was written by a newer perigee, one with a lower version by one whose folders
 * this version cannot read: both are refused.
 */
const SCHEMA_VERSION = 2;
const SCHEMA_OLDEST = 1;

/** Tasks whose next sequence is kept in memory. */
const SEQUENCES_MAX = 4_096;

/** The owner before frees its lock on the folder a moment before the system has closed its database: so one waits. */
const SETTINGS = `
  PRAGMA busy_timeout = 2000;
  PRAGMA locking_mode = EXCLUSIVE;
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 2000;
  PRAGMA secure_delete = ON;
`;

const FOLDER_SCHEMA = "CREATE TABLE folder (id TEXT NOT NULL, starts INTEGER NOT NULL);";

const SCHEMA = `
  CREATE TABLE schema (version INTEGER NOT NULL);
  CREATE TABLE tasks (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    body TEXT NOT NULL
  );
  CREATE TABLE entries (
    row INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    records BLOB NOT NULL,
    UNIQUE (task_id, sequence)
  );
  ${FOLDER_SCHEMA}
  INSERT INTO schema VALUES (${SCHEMA_VERSION});
`;

const TASK_COLUMNS = "row, id, name, created_ms, crc, body";
const ENTRY_COLUMNS = "row, task_id, sequence, wall_ms, crc, records";

const STATEMENTS = {
  begin: "BEGIN IMMEDIATE",
  commit: "COMMIT",
  putTask: `INSERT INTO tasks (id, name, created_ms, crc, body) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, created_ms = excluded.created_ms,
      crc = excluded.crc, body = excluded.body`,
  deleteTask: "DELETE FROM tasks WHERE id = ?",
  deleteEntries: "DELETE FROM entries WHERE task_id = ?",
  task: `SELECT ${TASK_COLUMNS} FROM tasks WHERE id = ?`,
  taskByName: `SELECT ${TASK_COLUMNS} FROM tasks WHERE name = ?`,
  tasksAfter: `SELECT ${TASK_COLUMNS} FROM tasks WHERE row > ? ORDER BY row LIMIT ?`,
  // Node 22 (22.23.3) binds bytes without a buffer as NULL, so records of no bytes.
  append: `INSERT INTO entries (task_id, sequence, wall_ms, crc, records) VALUES (?, ?, ?, ?, coalesce(?, x''))`,
  lastSequence: "SELECT max(sequence) AS last FROM entries WHERE task_id = ?",
  sizesOfTask: `SELECT length(records) AS size FROM entries WHERE task_id = ? AND sequence > ?
    ORDER BY sequence LIMIT ${PAGE_ROWS_MAX + 1}`,
  pageOfTask: `SELECT ${ENTRY_COLUMNS} FROM entries WHERE task_id = ? AND sequence > ? ORDER BY sequence LIMIT ?`,
  sizesOfLatest: `SELECT length(records) AS size FROM entries WHERE row < ?
    ORDER BY row DESC LIMIT ${PAGE_ROWS_MAX + 1}`,
  pageOfLatest: `SELECT ${ENTRY_COLUMNS} FROM entries WHERE row < ? ORDER BY row DESC LIMIT ?`,
} as const;

/** The tables of one open database. */
export class SqliteTables {
  readonly records: SqliteRecords;
  readonly log: SqliteLog;
  /** The journal's identity before this start; undefined if this start made it. */
  readonly markBefore: FolderMark | undefined;
  /** What the operator should know of how it was opened. */
  readonly notes: readonly string[];
  readonly #database: SqliteDatabase;
  readonly #statements: Readonly<Record<keyof typeof STATEMENTS, SqliteStatement>>;
  /** Next sequence of tasks written to lately; forgotten when a transaction is undone. */
  readonly #nextSequences = new Map<string, number>();

  /** Sets up the connection, and the tables if they are missing. Throws `data_dir_newer`, `data_dir_older`, or SQLite's error. */
  constructor(database: SqliteDatabase) {
    this.#database = database;
    database.exec(SETTINGS);
    this.notes = ensureSchema(database);
    this.markBefore = readFolder(database);
    this.records = new SqliteRecords(database);
    this.log = new SqliteLog(database, this.markBefore === undefined);
    this.#statements = Object.fromEntries(
      Object.entries(STATEMENTS).map(([name, sql]) => [name, database.prepare(sql)]),
    ) as Record<keyof typeof STATEMENTS, SqliteStatement>; // built from the same names
  }

  /** Counts this start, and adds an identity to a journal without one; synced when it returns. */
  countStart(): FolderMark {
    this.begin();
    try {
      if (this.markBefore === undefined)
        this.#database.prepare("INSERT INTO folder VALUES (?, 1)").run(randomUUID());
      else this.#database.exec("UPDATE folder SET starts = starts + 1");
      this.commit();
    } catch (error) {
      this.rollback();
      throw error;
    }
    return this.mark();
  }

  /** How far the journal is. */
  mark(): FolderMark {
    return readFolder(this.#database) ?? { id: "", starts: 0, tasks: 0 };
  }

  /** Deleted rows are overwritten in the database (`secure_delete`), so only the write-ahead log holds them until then. */
  scrub(): void {
    this.#database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  begin(): void {
    this.#statements.begin.run();
  }

  /** Returns once the transaction is synced. */
  commit(): void {
    this.#statements.commit.run();
    this.records.committed();
  }

  /** Undoes what `begin` began. No error when SQLite has undone it already, as it does on some failures. */
  rollback(): void {
    this.#nextSequences.clear();
    this.records.undone();
    try {
      this.#database.exec("ROLLBACK");
    } catch {
      // A transaction that is still open makes the next `begin` fail, and that is reported.
    }
  }

  /** Inserts or replaces by id; throws `conflict` when another task has the name, with nothing changed. */
  putTask(task: StoredTask): void {
    try {
      this.#statements.putTask.run(task.id, task.name, task.createdWallMs, taskRowCrc(task), task.body);
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw new PerigeeError("conflict", `another task has the name ${JSON.stringify(task.name)}`, {
        cause: error,
      });
    }
  }

  deleteTask(id: string): void {
    this.#nextSequences.delete(id);
    this.#statements.deleteEntries.run(id);
    this.#statements.deleteTask.run(id);
  }

  task(id: string): StoredTask | undefined {
    return taskOf(this.#statements.task.get(id));
  }

  taskByName(name: string): StoredTask | undefined {
    return taskOf(this.#statements.taskByName.get(name));
  }

  /** Tasks in order of creation after a task; empty when that task does not exist. */
  tasks(after: string | undefined, limit: number): StoredTask[] {
    let afterRow = 0;
    if (after !== undefined) {
      const found = this.#statements.task.get(after) as TaskRow | undefined; // columns as selected
      if (found === undefined) return [];
      afterRow = found.row;
    }
    return this.#statements.tasksAfter.all(afterRow, limit).flatMap((row) => taskOf(row) ?? []);
  }

  append(packed: PackedEntries): void {
    let start = 0;
    for (const [index, taskId] of packed.taskIds.entries()) {
      const wallMs = packed.wallMs[index] ?? 0;
      const end = start + (packed.sizes[index] ?? 0);
      const records = packed.bytes.subarray(start, end);
      const sequence = this.#takeSequence(taskId);
      const crc = entryRowCrc({ taskId, sequence, wallMs, records });
      this.#statements.append.run(taskId, sequence, wallMs, crc, records);
      start = end;
    }
  }

  /** One page of a task's entries, or of all of them, newest first. Throws `store_damaged` at the first bad one. */
  page(start: PageStart): EntryPage {
    const { taskId } = start;
    const [sizes, page, from]: [SqliteStatement, SqliteStatement, SqliteValue[]] =
      taskId === undefined
        ? [this.#statements.sizesOfLatest, this.#statements.pageOfLatest, [start.beforeRow]]
        : [this.#statements.sizesOfTask, this.#statements.pageOfTask, [taskId, start.afterSequence]];
    const found = sizes.all(...from) as { readonly size: number }[]; // as selected
    const count = countWithin(found);
    if (count === 0) return { entries: [], next: undefined };
    const rows = page.all(...from, count) as EntryRow[]; // as selected
    return entryPage(rows, start, found.length > count);
  }

  /** Moves the log into the database file and closes it. */
  close(): void {
    this.#database.close();
  }

  #takeSequence(taskId: string): number {
    let next = this.#nextSequences.get(taskId);
    if (next === undefined) {
      const row = this.#statements.lastSequence.get(taskId) as { readonly last: number | null }; // an aggregate has one row
      next = (row.last ?? 0) + 1;
      if (this.#nextSequences.size >= SEQUENCES_MAX) this.#nextSequences.clear();
    }
    this.#nextSequences.set(taskId, next + 1);
    return next;
  }
}

/** Undefined where no start was counted yet. */
function readFolder(database: SqliteDatabase): FolderMark | undefined {
  const folder = database.prepare("SELECT id, starts FROM folder").get() as
    | { readonly id: string; readonly starts: number }
    | undefined; // columns as selected
  if (folder === undefined) return undefined;
  const sequence = database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'tasks'").get() as
    | { readonly seq: number }
    | undefined; // columns as selected
  return { ...folder, tasks: sequence?.seq ?? 0 };
}

/**
 * Makes or migrates the tables; returns what the operator should know of it. A service's folder is copied first: its log, which
 * is opened next, changes it further.
 */
function ensureSchema(database: SqliteDatabase): string[] {
  const tables = database.prepare("SELECT count(*) AS count FROM sqlite_master").get() as {
    readonly count: number; // an aggregate has one row
  };
  if (tables.count === 0) {
    database.exec(`BEGIN; ${SCHEMA} COMMIT;`);
    return [];
  }
  const row = database.prepare("SELECT max(version) AS version FROM schema").get() as {
    readonly version: number | null; // an aggregate has one row
  };
  const { version } = row;
  if (version === null) throw damaged("the store has no schema version", {});
  checkVersion("the data folder has schema", version, { oldest: SCHEMA_OLDEST, newest: LOG_SCHEMA_VERSION });
  if (version >= SCHEMA_VERSION) return [];
  const copy = hasTable(database, "records") ? copyOfSchema(database, version) : undefined;
  database.exec(`BEGIN; ${FOLDER_SCHEMA} UPDATE schema SET version = ${SCHEMA_VERSION}; COMMIT;`);
  return [
    `the data folder was migrated from schema ${version}, and earlier versions of perigee can no longer open it${copy === undefined ? "" : `; ${copiedTo(copy)}`}`,
  ];
}

function taskOf(row: unknown): StoredTask | undefined {
  return row === undefined ? undefined : readTask(row as TaskRow); // columns as selected
}
