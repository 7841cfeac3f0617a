/**
 * Records of one partition in PostgreSQL: the same columns and checks as in SQLite (`checked_rows.ts`).
 *
 * The caller owns the transaction, and rolls back a call that ended with `conflict`.
 */
import { errorCodeOf } from "../../disk.ts";
import { payloadCrc, type RecordRow, readRecord, recordCrc } from "../checked_rows.ts";
import { idTaken, isStorable } from "../record_changes.ts";
import {
  EVERY_PROJECT,
  newestAtMost,
  type ProjectScope,
  type RecordChange,
  type RecordQuery,
  type StoredRecord,
} from "../records.ts";
import { allDone } from "./all_done.ts";
import type { PgQuery, PgValue } from "./pg_session.ts";

const COLUMNS = "row, collection, id, project, parent, created_ms, crc, body, payload_crc, payload";

/** Fails where the id is in use. */
const INSERT = `
  INSERT INTO perigee_records AS old (part, collection, id, project, parent, created_ms, crc, body, payload_crc, payload)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
`;
/** Fails where another project has the id, with `project` not null: a statement that changes no row would not end its transaction. */
const PUT = `
  ${INSERT} ON CONFLICT (part, collection, id) DO UPDATE SET
    project = CASE old.project WHEN excluded.project THEN old.project END, parent = excluded.parent, created_ms = excluded.created_ms,
    crc = excluded.crc, body = excluded.body, payload_crc = excluded.payload_crc, payload = excluded.payload
`;
/** The unique columns of a record's id; an INSERT fails with it where the id is in use. */
const UNIQUE_ID = "perigee_records_part_collection_id_key";

/** The records of one partition. */
export class PgRecords {
  readonly #query: PgQuery;
  readonly #part: number;

  constructor(query: PgQuery, part: number) {
    this.#query = query;
    this.#part = part;
  }

  /** Throws `conflict` after some of the changes: roll back the transaction, or to a savepoint, then. */
  async change(changes: readonly RecordChange[]): Promise<void> {
    await allDone(changes.map((change) => this.#apply(change)));
  }

  async record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined> {
    if (!isStorable(id)) return undefined; // the server would refuse the statement
    const { rows } = await this.#query(
      `SELECT ${COLUMNS} FROM perigee_records WHERE part = $1 AND collection = $2 AND id = $3`,
      this.#part,
      collection,
      id,
    );
    const [row] = rows as RecordRow[]; // columns as selected
    const found = row === undefined ? undefined : readRecord(row);
    return found !== undefined && (project === EVERY_PROJECT || found.project === project)
      ? found
      : undefined;
  }

  async records(project: ProjectScope, query: RecordQuery): Promise<StoredRecord[]> {
    if (!isStorable(query.parent ?? "") || !isStorable(query.after ?? "")) return [];
    const values: PgValue[] = [this.#part, query.collection];
    const where = ["part = $1", "collection = $2"];
    const add = (condition: string, value: PgValue): void => {
      values.push(value);
      where.push(`${condition} $${values.length}`);
    };
    if (project !== EVERY_PROJECT) add("project =", project);
    if (query.parent !== undefined) add("parent <> '' AND parent =", query.parent); // the first lets the partial index be used
    if (query.after !== undefined) {
      const row = await this.#rowOf(project, query.collection, query.after);
      if (row === undefined) return [];
      add(query.isNewestFirst === true ? "row <" : "row >", row);
    }
    if (query.atMost !== undefined) {
      const newest = `SELECT row, body FROM perigee_records
        WHERE ${where.join(" AND ")} AND row <= $${values.length + 1} ORDER BY row DESC LIMIT 1`;
      const search = newestAtMost(query.atMost);
      let step = search.next();
      while (step.done !== true) {
        const { rows } = await this.#query(newest, ...values, step.value);
        step = search.next((rows as Pick<RecordRow, "row" | "body">[])[0]); // as selected
      }
      add("row <=", step.value);
    }
    const order = query.isNewestFirst === true ? "DESC" : "ASC";
    const { rows } = await this.#query(
      `SELECT ${COLUMNS} FROM perigee_records WHERE ${where.join(" AND ")} ORDER BY row ${order} LIMIT $${values.length + 1}`,
      ...values,
      query.limit,
    );
    return (rows as RecordRow[]).map(readRecord); // columns as selected
  }

  /** The row of a record; undefined where the project has none with this id. */
  async #rowOf(project: ProjectScope, collection: string, id: string): Promise<number | undefined> {
    const { rows } = await this.#query(
      "SELECT row, project FROM perigee_records WHERE part = $1 AND collection = $2 AND id = $3",
      this.#part,
      collection,
      id,
    );
    const [found] = rows as Pick<RecordRow, "row" | "project">[]; // as selected
    return project === EVERY_PROJECT || found?.project === project ? found?.row : undefined;
  }

  async #apply(change: RecordChange): Promise<void> {
    switch (change.kind) {
      case "put":
        return this.#write(PUT, change.record);
      case "insert":
        return this.#write(INSERT, change.record);
      case "delete":
        await this.#query(
          "DELETE FROM perigee_records WHERE part = $1 AND collection = $2 AND id = $3",
          this.#part,
          change.collection,
          change.id,
        );
        return;
      case "deleteOf":
        await this.#query(
          "DELETE FROM perigee_records WHERE part = $1 AND collection = $2 AND parent = $3 AND parent <> ''",
          this.#part,
          change.collection,
          change.parent,
        );
    }
  }

  async #write(sql: string, record: StoredRecord): Promise<void> {
    const { payload } = record;
    try {
      await this.#query(
        sql,
        this.#part,
        record.collection,
        record.id,
        record.project,
        record.parent,
        record.createdWallMs,
        recordCrc(record),
        record.body,
        payload === undefined ? null : payloadCrc(payload),
        payload ?? null,
      );
    } catch (error) {
      throw isIdTaken(error) ? idTaken(record) : error;
    }
  }
}

/** Other violations of the two kinds are faults of the database or of this program. */
function isIdTaken(error: unknown): boolean {
  const { constraint, column } = error as { readonly constraint?: string; readonly column?: string }; // of a server's error
  const code = errorCodeOf(error);
  return (code === "23505" && constraint === UNIQUE_ID) || (code === "23502" && column === "project");
}
