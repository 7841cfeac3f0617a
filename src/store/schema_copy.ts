/**
 * A copy of the database before its tables change so that earlier versions refuse it: `journal.sqlite.schema-<version>`.
 *
 *   (none) -> written under another name, synced -> named
 *
 * Use it to return to an earlier version. Backups do not contain it.
 */
import { chmodSync, closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { SqliteDatabase } from "./sqlite_database.ts";

/** The name of a copy, after that of the database. */
export const SCHEMA_COPY: RegExp = /\.schema-\d+$/;

/** Makes the copy where it is missing; returns its path. Outside of transactions. Throws the error of SQLite or the system, with no copy left. */
export function copyOfSchema(database: SqliteDatabase, version: number): string {
  const { file } = database.prepare("SELECT file FROM pragma_database_list WHERE name = 'main'").get() as {
    readonly file: string; // of a database on a disk
  };
  const path = `${file}.schema-${version}`;
  if (existsSync(path)) return path;
  const part = `${path}.part`;
  try {
    rmSync(part, { force: true });
    database.prepare("VACUUM INTO ?").run(part);
    chmodSync(part, 0o600);
    sync(part);
    renameSync(part, path);
    sync(dirname(path));
    return path;
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
}

/** What a copy is, for the operator; `tasks/leftovers.ts` removes it. */
export function copiedTo(copy: string): string {
  return `its database as it was is ${copy}, which is deleted after 7 days`;
}

export function hasTable(database: SqliteDatabase, name: string): boolean {
  const sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?";
  return database.prepare(sql).get(name) !== undefined;
}

function sync(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
