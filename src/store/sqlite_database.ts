/**
 * The only import of SQLite: Node's own `node:sqlite` where it exists (22.13 and later), else `@photostructure/sqlite`,
 * which has the same API with binaries for Node 20 (docs/decisions/0007-sqlite-thread.md).
 *
 * Limit: one process must use one of the two for a file, never both: SQLite keeps its locks right within one copy of
 * itself, and a second copy that closes the file drops the locks of the first (https://sqlite.org/howtocorrupt.html 2.2).
 */
import { PerigeeError } from "../errors.ts";

/** What a column can hold. */
export type SqliteValue = string | number | null | Uint8Array;

/** A prepared statement. Rows are objects by column name. */
export interface SqliteStatement {
  run(...values: readonly SqliteValue[]): unknown;
  /** The first row, or undefined. */
  get(...values: readonly SqliteValue[]): unknown;
  all(...values: readonly SqliteValue[]): unknown[];
}

/** The part of SQLite's API that the store uses. Every method may throw an error with SQLite's extended `errcode`. */
export interface SqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

/** Opens or makes the database file. */
export type OpenDatabase = (path: string) => SqliteDatabase;

/** An optional dependency: npm leaves it out with `--omit=optional`. The version is that of package.json. */
const SQLITE_PACKAGE = "@photostructure/sqlite@1.2.1";

interface SqliteModule {
  readonly DatabaseSync: new (path: string) => SqliteDatabase;
}

/** The SQLite of this process. Throws `store_failed` when it does not exist for this platform. */
export async function loadSqlite(): Promise<OpenDatabase> {
  const { DatabaseSync } = builtInSqlite() ?? (await packagedSqlite());
  return (path) => new DatabaseSync(path);
}

function builtInSqlite(): SqliteModule | undefined {
  const emitWarning = process.emitWarning;
  // Loading warns that the API is experimental, on stderr, which belongs to the program that embeds perigee.
  process.emitWarning = (warning: string | Error, ...rest: unknown[]): void => {
    if (String(warning).includes("SQLite is an experimental feature")) return;
    Reflect.apply(emitWarning, process, [warning, ...rest]);
  };
  try {
    // Node 20's types know no such module; where it exists it has this shape.
    return process.getBuiltinModule("node:sqlite") as SqliteModule | undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

async function packagedSqlite(): Promise<SqliteModule> {
  try {
    const loaded = await import("@photostructure/sqlite");
    return { DatabaseSync: loaded.DatabaseSync };
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND"; // import() throws errors of Node
    const found = isMissing ? "is not installed" : `cannot be loaded on ${process.platform} ${process.arch}`;
    const remedy = isMissing ? `run "npm install ${SQLITE_PACKAGE}", or ` : "";
    throw new PerigeeError(
      "store_failed",
      `Node ${process.versions.node} has no SQLite, and ${SQLITE_PACKAGE} ${found}: ${remedy}use Node 22.13 or later`,
      { cause },
    );
  }
}
