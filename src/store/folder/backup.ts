/**
 * Backups of a data folder, also of one that a service is at work in: one archive, consistent with itself.
 *
 *   files are linked aside -> journal copied -> files that were made meanwhile are linked -> all archived -> links removed
 *
 * Files of a folder are immutable or append-only, so a link taken before the journal's copy keeps what the journal speaks of
 * also when it is removed meanwhile; what was appended after the copy is cut or taken up when the copy is opened.
 *
 * The journal: its owner has it locked, and no second connection may read it. So the database is copied, then its write-ahead
 * log. A checkpoint writes only pages that are in the log, and the log keeps them until it begins again, which its salts
 * show. When they are the same after the copy as before, database and log are that of one moment; otherwise both are copied again.
 */
import { randomUUID } from "node:crypto";
import {
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
} from "node:fs";
import { mkdir, open, readdir, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { systemClock } from "../../clock.ts";
import { errorCodeOf, systemDisk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { SCHEMA_COPY } from "../schema_copy.ts";
import { loadSqlite, type OpenDatabase } from "../sqlite_database.ts";
import { storeFailure } from "../sqlite_failure.ts";
import { type ArchivedFile, ArchiveWriter, unpackArchive } from "./archive.ts";

/** Of the process, not of the work; or copied in a way of their own. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "lock.sqlite",
  "owner.json",
  "reserve.bin",
  "audit.lock",
  "journal.sqlite",
  "journal.sqlite-wal",
  "journal.sqlite-shm",
  "keys.sqlite",
  "keys.sqlite-journal",
]);
const FOLDERS = ["tasks", "lots", "files"] as const;
const WORK_PREFIX = "backup-";
const TRIES_MAX = 50;
const TRY_AGAIN_MS = 200;
/** Salts of the log's header, which are others after each checkpoint that emptied it. */
const SALTS_AT = 16;
const SALTS_BYTES = 8;

/** What is in a backup. */
export interface Backup {
  readonly files: readonly ArchivedFile[];
}

/** Writes the backup of a folder to a file that does not exist yet; it has its name once it is whole. */
export async function backupFolder(dataDir: string, to: string): Promise<Backup> {
  const journal = join(dataDir, "journal.sqlite");
  if (!existsSync(journal))
    throw new PerigeeError("not_found", `${dataDir} is not a data folder: it has no journal.sqlite`);
  if (existsSync(to))
    throw new PerigeeError("output_unwritable", `${to} exists; choose another name for the backup`);
  const openDatabase = await loadSqlite();
  const work = join(dataDir, `${WORK_PREFIX}${randomUUID()}`);
  mkdirSync(work, { mode: 0o700 });
  const part = `${to}.part`;
  await mkdir(dirname(resolve(to)), { recursive: true });
  const file = await open(part, "w", 0o600);
  try {
    linkFiles(dataDir, work);
    await copyJournal(openDatabase, journal, join(work, "journal.sqlite"));
    copyKeys(openDatabase, dataDir, work);
    linkFiles(dataDir, work);
    const writer = new ArchiveWriter(file);
    for (const name of filesBelow(work)) await writer.add(name, join(work, name));
    const files = await writer.finish();
    await file.close();
    await systemDisk.rename(part, to); // its name survives a power cut
    return { files };
  } catch (error) {
    await file.close().catch(() => undefined); // closed already, or of no use any more
    await rm(part, { force: true });
    throw storeFailure(error, `cannot back up ${dataDir}`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Makes a folder of a backup; it has its name once all is checked and synced. Throws `conflict` where there is one that is in use. */
export async function restoreFolder(from: string, dataDir: string): Promise<Backup> {
  const found = await readdir(dataDir).catch((error: unknown) => {
    if (errorCodeOf(error) === "ENOENT") return [];
    throw error;
  });
  if (found.length > 0)
    throw new PerigeeError("conflict", `${dataDir} is not empty; restore into a folder that does not exist`);
  if (!existsSync(from)) throw new PerigeeError("input_unreadable", `${from}: no such file`);
  const part = `${resolve(dataDir)}.part`;
  await rm(part, { recursive: true, force: true });
  await mkdir(part, { recursive: true, mode: 0o700 });
  try {
    const files = await unpackArchive(from, part);
    if (!files.some(({ name }) => name === "journal.sqlite"))
      throw new PerigeeError(
        "store_damaged",
        `${from} is not a backup of a data folder: it has no journal.sqlite`,
      );
    await rm(dataDir, { recursive: true, force: true });
    await systemDisk.rename(part, resolve(dataDir));
    return { files };
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    throw storeFailure(error, `cannot restore ${from}`);
  }
}

/** Links files that are not linked yet. The first pass links `folder.json`, so that the journal is never older than it. */
function linkFiles(dataDir: string, work: string): void {
  for (const folder of ["", ...FOLDERS]) {
    const source = join(dataDir, folder);
    if (!existsSync(source)) continue;
    mkdirSync(join(work, folder), { recursive: true, mode: 0o700 });
    for (const entry of readdirSync(source, { withFileTypes: true })) {
      const isOurs =
        folder !== "" ||
        !(LEFT_OUT.has(entry.name) || /\.(part|tmp)$/.test(entry.name) || SCHEMA_COPY.test(entry.name));
      if (entry.isFile() && isOurs) keep(join(source, entry.name), join(work, folder, entry.name));
    }
  }
}

/** A hard link if the file system has them, otherwise a copy. A file that was deleted since the listing is not needed. */
function keep(from: string, to: string): void {
  if (existsSync(to)) return;
  try {
    try {
      linkSync(from, to);
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") return;
      copyFileSync(from, to);
    }
  } catch (error) {
    if (errorCodeOf(error) !== "ENOENT") throw error; // it was deleted between the two
  }
}

async function copyJournal(openDatabase: OpenDatabase, from: string, to: string): Promise<void> {
  for (let tries = 1; !isCopiedWhole(from, to); tries += 1) {
    if (tries === TRIES_MAX)
      throw new PerigeeError(
        "conflict",
        `the journal changed ${TRIES_MAX} times while it was copied; back up when there is less work`,
      );
    await systemClock.sleep(TRY_AGAIN_MS);
  }
  foldLog(openDatabase, to);
}

/** Copies database and log; whether both are of one moment. */
function isCopiedWhole(from: string, to: string): boolean {
  const before = saltsOf(`${from}-wal`);
  copyFileSync(from, to);
  rmSync(`${to}-wal`, { force: true });
  if (existsSync(`${from}-wal`)) copyFileSync(`${from}-wal`, `${to}-wal`);
  return saltsOf(`${from}-wal`) === before && saltsOf(`${to}-wal`) === before;
}

/** Brings the copy's log into its database, and has SQLite check it. */
function foldLog(openDatabase: OpenDatabase, to: string): void {
  const database = openDatabase(to);
  try {
    database.exec(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA wal_checkpoint(TRUNCATE)",
    );
    const [row] = database.prepare("PRAGMA quick_check(1)").all() as { readonly quick_check: string }[]; // one column
    if (row?.quick_check !== "ok")
      throw new PerigeeError(
        "store_damaged",
        `the journal's copy does not pass SQLite's check: ${row?.quick_check}`,
      );
  } finally {
    database.close();
  }
  for (const side of ["-wal", "-shm"]) rmSync(`${to}${side}`, { force: true });
}

/** Empty if there is no log, or if it was not begun. */
function saltsOf(wal: string): string {
  if ((statSync(wal, { throwIfNoEntry: false })?.size ?? 0) < SALTS_AT + SALTS_BYTES) return "";
  const file = openSync(wal, "r");
  try {
    const salts = Buffer.alloc(SALTS_BYTES);
    readSync(file, salts, 0, SALTS_BYTES, SALTS_AT);
    return salts.toString("hex");
  } finally {
    closeSync(file);
  }
}

/** Several processes may have the keys open: SQLite copies them. */
function copyKeys(openDatabase: OpenDatabase, dataDir: string, work: string): void {
  if (!existsSync(join(dataDir, "keys.sqlite"))) return;
  const database = openDatabase(join(dataDir, "keys.sqlite"));
  try {
    database.exec("PRAGMA busy_timeout = 5000");
    database.prepare("VACUUM INTO ?").run(join(work, "keys.sqlite"));
  } finally {
    database.close();
  }
}

function filesBelow(folder: string): string[] {
  const names: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isFile()) names.push(entry.name);
    else for (const name of readdirSync(join(folder, entry.name))) names.push(`${entry.name}/${name}`);
  }
  return names.filter((name) => name !== "" && existsSync(join(folder, name))).sort();
}
