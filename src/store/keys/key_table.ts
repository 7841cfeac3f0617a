/**
 * The table of API keys: schema, statements, checks of what is read back. Synchronous.
 *
 * `keys.sqlite` is a database of its own, which several processes have open at once: `perigee keys` works while a
 * service owns the rest of the folder. It has a rollback journal, not a write-ahead log, because the log's index is
 * mapped memory, and a full disk kills a process that touches that. So while one process commits, others find the file
 * busy: writes and lists wait, and `changed` says that nothing has, which is still true then.
 */
import { crc32 } from "node:zlib";
import { damaged } from "../checked_rows.ts";
import { checkVersion } from "../folder/known_version.ts";
import type { SqliteDatabase, SqliteStatement } from "../sqlite_database.ts";
import { isBusy } from "../sqlite_failure.ts";

/** A file with a higher version was written by a newer perigee, one with tables and a lower version by an older one: both are refused. */
const SCHEMA_VERSION = 1;

/** How long to wait for another process's commit. */
const LOCK_WAIT_MS = 5_000;

const SCHEMA = `
  CREATE TABLE keys (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL UNIQUE,
    shown TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    is_beta INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    last_used_day INTEGER,
    crc INTEGER NOT NULL
  );
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

const STATEMENTS = {
  version: "PRAGMA data_version",
  all: "SELECT * FROM keys ORDER BY row",
  insert: `INSERT INTO keys (id, hash, shown, project, name, scopes, is_beta, created_ms, expires_ms, revoked_ms, crc)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  revoke: "UPDATE keys SET revoked_ms = ?, crc = ? WHERE id = ?",
  use: "UPDATE keys SET last_used_day = ? WHERE id = ?",
} as const;

/** All that is known of a key but the key itself. */
export interface StoredKey {
  readonly id: string;
  /** SHA-256. */
  readonly hash: Uint8Array;
  /** The 8 characters of the key that may be shown. */
  readonly shown: string;
  readonly project: string;
  readonly name: string;
  readonly scopes: readonly string[];
  /** May run what is not yet for everyone. */
  readonly isBeta: boolean;
  readonly createdWallMs: number;
  readonly expiresWallMs: number | undefined;
  readonly revokedWallMs: number | undefined;
  /** Days since 1970, UTC. */
  readonly lastUsedDay: number | undefined;
}

/** As the columns are. */
export interface KeyRow {
  readonly id: string;
  readonly hash: Uint8Array;
  readonly shown: string;
  readonly project: string;
  readonly name: string;
  readonly scopes: string;
  readonly is_beta: number;
  readonly created_ms: number;
  readonly expires_ms: number | null;
  readonly revoked_ms: number | null;
  readonly last_used_day: number | null;
  readonly crc: number;
}

/** The keys of one open database. Every method may throw an error of SQLite's. */
export class KeyTable {
  readonly #database: SqliteDatabase;
  readonly #statements: Readonly<Record<keyof typeof STATEMENTS, SqliteStatement>>;
  /** SQLite's number of what `changed` gave last. */
  #seenVersion: number | undefined;

  /** Makes the table if it does not exist. Throws `data_dir_newer`. */
  constructor(database: SqliteDatabase) {
    this.#database = database;
    this.#statements = this.#waiting(() => {
      database.exec("PRAGMA synchronous = FULL");
      this.write(() => ensureSchema(database), false);
      return Object.fromEntries(
        Object.entries(STATEMENTS).map(([name, sql]) => [name, database.prepare(sql)]),
      ) as Record<keyof typeof STATEMENTS, SqliteStatement>; // built from the same names
    });
  }

  /** All keys when another connection has committed since this gave them last, and the first time. Never waits. */
  changed(): StoredKey[] | undefined {
    try {
      // Read first: what is committed between the two is found by the next call.
      const { data_version: version } = this.#statements.version.get() as { readonly data_version: number }; // its one column
      if (version === this.#seenVersion) return undefined;
      const keys = this.#read();
      this.#seenVersion = version;
      return keys;
    } catch (error) {
      if (isBusy(error)) return undefined;
      throw error;
    }
  }

  /** In order of creation. Throws `store_damaged` at the first row that does not pass its checksum. */
  all(): StoredKey[] {
    return this.#waiting(() => this.#read());
  }

  /** Inside `write`. */
  insert(key: StoredKey): void {
    const { id, hash, shown, project, name, createdWallMs, expiresWallMs, revokedWallMs } = key;
    const flags = [key.scopes.join(" "), key.isBeta ? 1 : 0] as const;
    const times = [createdWallMs, expiresWallMs ?? null, revokedWallMs ?? null] as const;
    this.#statements.insert.run(id, hash, shown, project, name, ...flags, ...times, keyChecksumOf(key));
  }

  /** Inside `write`. */
  revoke(key: StoredKey, revokedWallMs: number): void {
    this.#statements.revoke.run(revokedWallMs, keyChecksumOf({ ...key, revokedWallMs }), key.id);
  }

  /** Inside `write`. */
  use(id: string, day: number): void {
    this.#statements.use.run(day, id);
  }

  /** One transaction, durable when it returns. Waits for others; not when `isPatient` is false: then it throws. */
  write<T>(work: () => T, isPatient = true): T {
    const transaction = (): T => {
      this.#database.exec("BEGIN IMMEDIATE");
      try {
        const result = work();
        this.#database.exec("COMMIT");
        return result;
      } catch (error) {
        try {
          this.#database.exec("ROLLBACK");
        } catch {
          // SQLite has undone it already, as it does on some failures.
        }
        throw error;
      }
    };
    return isPatient ? this.#waiting(transaction) : transaction();
  }

  close(): void {
    this.#database.close();
  }

  #read(): StoredKey[] {
    return (this.#statements.all.all() as KeyRow[]).map(readKeyRow); // columns of the schema above
  }

  #waiting<T>(work: () => T): T {
    this.#database.exec(`PRAGMA busy_timeout = ${LOCK_WAIT_MS}`);
    try {
      return work();
    } finally {
      this.#database.exec("PRAGMA busy_timeout = 0");
    }
  }
}

function ensureSchema(database: SqliteDatabase): void {
  const { user_version: version } = database.prepare("PRAGMA user_version").get() as {
    readonly user_version: number; // its one column
  };
  const tables = database.prepare("SELECT count(*) AS count FROM sqlite_master").get() as {
    readonly count: number; // an aggregate has one row
  };
  if (version === 0 && tables.count === 0) database.exec(SCHEMA);
  else checkVersion("keys.sqlite has schema", version, { oldest: SCHEMA_VERSION, newest: SCHEMA_VERSION });
}

/** Throws `store_damaged` when it does not match its checksum. */
export function readKeyRow(row: KeyRow): StoredKey {
  const key: StoredKey = {
    id: row.id,
    hash: row.hash,
    shown: row.shown,
    project: row.project,
    name: row.name,
    scopes: row.scopes.split(" ").filter((scope) => scope !== ""),
    isBeta: row.is_beta === 1,
    createdWallMs: row.created_ms,
    expiresWallMs: row.expires_ms ?? undefined,
    revokedWallMs: row.revoked_ms ?? undefined,
    lastUsedDay: row.last_used_day ?? undefined,
  };
  if (keyChecksumOf(key) === row.crc) return key;
  throw damaged(`key ${key.id} does not match its checksum`, { keyId: key.id });
}

/** Over all that decides what a key may do. */
export function keyChecksumOf(key: StoredKey): number {
  const { id, shown, project, name, scopes, isBeta, createdWallMs, expiresWallMs, revokedWallMs } = key;
  const texts = [id, Buffer.from(key.hash).toString("hex"), shown, project, name, ...scopes];
  return crc32(JSON.stringify([...texts, isBeta, createdWallMs, expiresWallMs ?? 0, revokedWallMs ?? 0]));
}
