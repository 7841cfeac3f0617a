/**
 * Records in one SQLite table: statements, schema, checks of what is read back. Synchronous; on the store's thread.
 *
 * The table is made with the first record, so that folders of the command line do not have it. The caller owns the
 * transaction. Every row carries a CRC-32 over its metadata and one over its payload, which can go before the rest.
 */
import { PerigeeError } from "../errors.ts";
import { payloadCrc, type RecordRow, readRecord, recordCrc } from "./checked_rows.ts";
import { idTaken } from "./record_changes.ts";
import {
  EVERY_PROJECT,
  type NumberedPlace,
  newestAtMost,
  type ProjectScope,
  type RecordChange,
  type RecordQuery,
  type StoredRecord,
} from "./records.ts";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "./sqlite_database.ts";

/** Every index ends with the row by itself, so each list is read from one, page by page, in the order of creation. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS records (
    row INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    project TEXT NOT NULL,
    parent TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    body TEXT NOT NULL,
    payload_crc INTEGER,
    payload BLOB,
    UNIQUE (collection, id)
  );
  CREATE INDEX IF NOT EXISTS records_of_collection ON records (collection);
  CREATE INDEX IF NOT EXISTS records_of_project ON records (collection, project);
  CREATE INDEX IF NOT EXISTS records_of_parent ON records (collection, parent) WHERE parent <> '';
`;

const METADATA = "row, collection, id, project, parent, created_ms, crc, body";
const COLUMNS = `${METADATA}, payload_crc, payload`;

const INSERT = `
  INSERT INTO records (collection, id, project, parent, created_ms, crc, body, payload_crc, payload)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (collection, id) DO NOTHING
`;
const PUT = INSERT.replace(
  "DO NOTHING",
  `DO UPDATE SET parent = excluded.parent, created_ms = excluded.created_ms, crc = excluded.crc,
     body = excluded.body, payload_crc = excluded.payload_crc, payload = excluded.payload
   WHERE project = excluded.project`,
);

/** The records of one open database. */
export class SqliteRecords {
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();
  #hasTable: boolean;
  /** Made in the transaction that is open. */
  #isTableNew = false;

  constructor(database: SqliteDatabase) {
    this.#database = database;
    this.#hasTable =
      database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'records'").get() !==
      undefined;
  }

  /** A transaction was undone, and the table with it when it had made that. */
  undone(): void {
    if (!this.#isTableNew) return;
    this.#hasTable = false;
    this.#statements.clear();
  }

  /** A transaction was committed. */
  committed(): void {
    this.#isTableNew = false;
  }

  /** After a `conflict` nothing of the call has happened, and the transaction continues. */
  change(changes: readonly RecordChange[]): void {
    this.#ensureTable();
    if (changes.length === 1) {
      for (const change of changes) this.#apply(change);
      return;
    }
    this.#statement("SAVEPOINT changes").run();
    try {
      for (const change of changes) this.#apply(change);
    } catch (error) {
      if (error instanceof PerigeeError) this.#statement("ROLLBACK TO changes").run();
      throw error; // SQLite's own undoes the whole transaction, and may have done so already
    }
    this.#statement("RELEASE changes").run();
  }

  record(project: ProjectScope, collection: string, id: string): StoredRecord | undefined {
    if (!this.#hasTable) return undefined;
    const row = this.#statement(`SELECT ${COLUMNS} FROM records WHERE collection = ? AND id = ?`).get(
      collection,
      id,
    );
    const found = row === undefined ? undefined : readRecord(row as RecordRow); // columns as selected
    return found !== undefined && (project === EVERY_PROJECT || found.project === project)
      ? found
      : undefined;
  }

  records(project: ProjectScope, query: RecordQuery): StoredRecord[] {
    if (!this.#hasTable) return [];
    const where = ["collection = ?"];
    const values: SqliteValue[] = [query.collection];
    if (project !== EVERY_PROJECT) {
      where.push("project = ?");
      values.push(project);
    }
    if (query.parent !== undefined) {
      where.push("parent = ?", "parent <> ''"); // the second lets the partial index be used
      values.push(query.parent);
    }
    if (query.after !== undefined) {
      const found = this.#statement("SELECT row, project FROM records WHERE collection = ? AND id = ?").get(
        query.collection,
        query.after,
      ) as { readonly row: number; readonly project: string } | undefined; // as selected
      if (found === undefined || (project !== EVERY_PROJECT && found.project !== project)) return [];
      where.push(query.isNewestFirst === true ? "row < ?" : "row > ?");
      values.push(found.row);
    }
    if (query.atMost !== undefined) {
      const row = this.#rowAt(where, values, query.atMost);
      where.push("row <= ?");
      values.push(row);
    }
    const order = query.isNewestFirst === true ? "DESC" : "ASC";
    const sql = `SELECT ${COLUMNS} FROM records WHERE ${where.join(" AND ")} ORDER BY row ${order} LIMIT ?`;
    return (this.#statement(sql).all(...values, query.limit) as RecordRow[]).map(readRecord); // columns as selected
  }

  #rowAt(where: readonly string[], values: readonly SqliteValue[], place: NumberedPlace): number {
    const newest = this.#statement(
      `SELECT row, body FROM records WHERE ${where.join(" AND ")} AND row <= ? ORDER BY row DESC LIMIT 1`,
    );
    const search = newestAtMost(place);
    let step = search.next();
    while (step.done !== true)
      step = search.next(
        newest.get(...values, step.value) as Pick<RecordRow, "row" | "body"> | undefined, // as selected
      );
    return step.value;
  }

  #ensureTable(): void {
    if (this.#hasTable) return;
    this.#database.exec(SCHEMA);
    this.#hasTable = true;
    this.#isTableNew = true;
  }

  #apply(change: RecordChange): void {
    switch (change.kind) {
      case "put":
        this.#write(PUT, change.record);
        return;
      case "insert":
        this.#write(INSERT, change.record);
        return;
      case "delete":
        this.#statement("DELETE FROM records WHERE collection = ? AND id = ?").run(
          change.collection,
          change.id,
        );
        return;
      case "deleteOf":
        this.#statement("DELETE FROM records WHERE collection = ? AND parent = ? AND parent <> ''").run(
          change.collection,
          change.parent,
        );
    }
  }

  #write(sql: string, record: StoredRecord): void {
    const { payload } = record;
    const written = this.#statement(sql).run(
      record.collection,
      record.id,
      record.project,
      record.parent,
      record.createdWallMs,
      recordCrc(record),
      record.body,
      payload === undefined ? null : payloadCrc(payload),
      payload === undefined || payload.byteLength === 0 ? null : payload,
    ) as { readonly changes: number }; // as both packages of `sqlite_database.ts` answer
    if (written.changes === 0) throw idTaken(record);
  }

  #statement(sql: string): SqliteStatement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const prepared = this.#database.prepare(sql);
    this.#statements.set(sql, prepared);
    return prepared;
  }
}
