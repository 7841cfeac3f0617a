/**
 * Answers in an SQLite table, by the hash of their request. Synchronous; runs on the cache's own thread.
 *
 * Processes share it by SQLite's locks on the file. Its journal is not a write-ahead log: that needs a file that is mapped into
 * memory, which kills the process when its disk is full, and which no network disk has. A commit is whole after a kill; with
 * `synchronous = NORMAL` a power cut may damage the file, which is then put aside (answers_worker.ts).
 *
 * A row carries a CRC-32 over its answer: one that does not pass is deleted and not found. Rows not used for longest are deleted when the
 * answers have more bytes than `maxBytes`, until they have nine tenths. The file reuses their pages; it has up to a quarter more.
 */
import { crc32 } from "node:zlib";
import { PerigeeError } from "../../errors.ts";
import { ANSWER_KEY_BYTES } from "../../work/answer_key.ts";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "../sqlite_database.ts";
import type { AnswersRequest, CachedAnswer } from "./answers_requests.ts";

type Finding = Extract<AnswersRequest, { readonly kind: "find" }>;
type Keeping = Extract<AnswersRequest, { readonly kind: "keep" }>;

/** Version of the table, in the header of the file. A higher one was made by a newer perigee: it is left as it is. */
const VERSION = 1;
/** What a row takes besides its answer. */
const ROW_BYTES = 160;
/** A use is written when the last one is older. */
const USED_EVERY_MS = 3_600_000;
/** Uses that wait for the next write. */
const USES_MAX = 10_000;
/** Rows that one step deletes. */
const EVICTED_ROWS = 256;

const SETTINGS = `
  PRAGMA busy_timeout = 5000;
  PRAGMA journal_mode = TRUNCATE;
  PRAGMA synchronous = NORMAL;
  PRAGMA secure_delete = ON;
`;

const SCHEMA = `
  CREATE TABLE answers (
    key BLOB PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,
    origin TEXT NOT NULL,
    crc INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    answer TEXT NOT NULL
  );
  CREATE INDEX answers_used ON answers (used_ms);
  CREATE TABLE sums (bytes INTEGER NOT NULL);
  INSERT INTO sums VALUES (0);
  PRAGMA user_version = ${VERSION};
`;

const STATEMENTS = {
  begin: "BEGIN",
  beginWrite: "BEGIN IMMEDIATE",
  commit: "COMMIT",
  rollback: "ROLLBACK",
  find: "SELECT created_ms, used_ms, origin, crc, answer FROM answers WHERE key = ?",
  remove: "DELETE FROM answers WHERE key = ? RETURNING bytes",
  keep: "INSERT OR IGNORE INTO answers (key, created_ms, used_ms, origin, crc, bytes, answer) VALUES (?, ?, ?, ?, ?, ?, ?)",
  use: "UPDATE answers SET used_ms = ? WHERE key = ?",
  sum: "SELECT bytes FROM sums",
  setSum: "UPDATE sums SET bytes = ?",
  evict: `DELETE FROM answers WHERE rowid IN (SELECT rowid FROM answers ORDER BY used_ms LIMIT ${EVICTED_ROWS}) RETURNING bytes`,
} as const;

interface AnswerRow {
  readonly created_ms: number;
  readonly used_ms: number;
  readonly origin: string;
  readonly crc: number;
  readonly answer: string;
}

/** One for a database. */
export class AnswerTable {
  readonly #database: SqliteDatabase;
  readonly #maxBytes: number;
  readonly #statements = new Map<string, SqliteStatement>();
  /** Keys, in base64, that were found, and when. */
  readonly #uses = new Map<string, number>();
  /** Keys whose rows do not pass their checks. */
  #broken: Uint8Array[] = [];

  /** Makes the table in a new database. Throws `store_failed` for one of a newer version, and what SQLite throws. */
  constructor(database: SqliteDatabase, maxBytes: number) {
    this.#database = database;
    this.#maxBytes = maxBytes;
    database.exec(SETTINGS);
    this.#write(() => {
      const version = this.#version();
      if (version === 0) database.exec(SCHEMA);
      if (version <= VERSION) return;
      const message = `a newer version of perigee made it (${version}, this one knows ${VERSION}); use another folder`;
      throw new PerigeeError("store_failed", message);
    });
  }

  find({ keys, wallMs, sinceWallMs }: Finding): readonly (CachedAnswer | undefined)[] {
    const found: (CachedAnswer | undefined)[] = [];
    this.#run("begin");
    try {
      for (let start = 0; start < keys.byteLength; start += ANSWER_KEY_BYTES)
        found.push(this.#find(keys.subarray(start, start + ANSWER_KEY_BYTES), wallMs, sinceWallMs));
    } finally {
      this.#run("rollback");
    }
    return found;
  }

  keep({ keys, answers, origins, wallMs }: Keeping): void {
    this.#write(() => {
      let sum = this.#sum();
      for (const key of this.#broken) sum -= this.#remove(key);
      this.#broken = [];
      this.#writeUses();
      for (const [index, answer] of answers.entries()) {
        const key = keys.subarray(ANSWER_KEY_BYTES * index, ANSWER_KEY_BYTES * (index + 1));
        const [at, origin] = [wallMs[index] as number, origins[index] as string];
        const bytes = Buffer.byteLength(answer) + ROW_BYTES;
        const values = [key, at, at, origin, crc32(answer), bytes, answer] as const;
        sum += bytes;
        if (this.#isChanged("keep", ...values)) continue; // nearly all are new
        sum -= this.#remove(key);
        this.#run("keep", ...values);
      }
      this.#run("setSum", this.#evicted(sum));
    });
  }

  /** Writes what was used before, if it can be. */
  close(): void {
    try {
      if (this.#uses.size > 0) this.#write(() => this.#writeUses());
    } catch {
      // The next process takes them as not used.
    }
    this.#database.close();
  }

  #find(key: Uint8Array, wallMs: number, sinceWallMs: number): CachedAnswer | undefined {
    const row = this.#statement("find").get(key) as AnswerRow | undefined; // of these columns
    if (row === undefined || row.created_ms < sinceWallMs) return undefined;
    const { answer, origin } = row;
    if (crc32(answer) !== row.crc) {
      if (this.#broken.length < USES_MAX) this.#broken.push(key.slice());
      return undefined;
    }
    if (wallMs - row.used_ms > USED_EVERY_MS && this.#uses.size < USES_MAX)
      this.#uses.set(Buffer.from(key).toString("base64"), wallMs);
    return { answer, origin };
  }

  #writeUses(): void {
    for (const [key, wallMs] of this.#uses) this.#run("use", wallMs, Buffer.from(key, "base64"));
    this.#uses.clear();
  }

  #sum(): number {
    return (this.#statement("sum").get() as { readonly bytes: number }).bytes;
  }

  /** Its bytes; 0 if it is not there. */
  #remove(key: Uint8Array): number {
    return bytesOf(this.#statement("remove").all(key));
  }

  /** The bytes that are left when there is room again. */
  #evicted(sum: number): number {
    let left = sum;
    if (left <= this.#maxBytes) return left;
    while (left > this.#maxBytes * 0.9) {
      const freed = bytesOf(this.#statement("evict").all());
      if (freed === 0) return 0; // no row is left
      left -= freed;
    }
    return left;
  }

  #version(): number {
    const row = this.#database.prepare("PRAGMA user_version").get();
    return (row as { readonly user_version: number }).user_version;
  }

  #write(work: () => void): void {
    this.#run("beginWrite");
    try {
      work();
      this.#run("commit");
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  /** SQLite itself has done so after some errors, and then this is one, too. */
  #rollBack(): void {
    try {
      this.#run("rollback");
    } catch {
      // Nothing is left to undo.
    }
  }

  #run(name: keyof typeof STATEMENTS, ...values: readonly SqliteValue[]): void {
    this.#statement(name).run(...values);
  }

  /** Whether it changed a row. */
  #isChanged(name: keyof typeof STATEMENTS, ...values: readonly SqliteValue[]): boolean {
    const { changes } = this.#statement(name).run(...values) as { readonly changes: number | bigint }; // of node:sqlite
    return Number(changes) > 0;
  }

  #statement(name: keyof typeof STATEMENTS): SqliteStatement {
    const known = this.#statements.get(name);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(STATEMENTS[name]);
    this.#statements.set(name, statement);
    return statement;
  }
}

function bytesOf(rows: readonly unknown[]): number {
  return (rows as readonly { readonly bytes: number }[]).reduce((sum, { bytes }) => sum + bytes, 0); // of this column
}
