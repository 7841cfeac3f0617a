/**
 * The data folder's one owner, kept by a lock of the operating system.
 *
 * The lock is SQLite's exclusive lock on `lock.sqlite` (fcntl on POSIX, LockFileEx on Windows), held from opening to
 * closing. The kernel frees it with the process, so a kill leaves nothing to clean up; SQLite itself keeps two threads
 * of one process apart. `owner.json` says who holds it, only for the message: it is never trusted.
 *
 * Limits: folders on network file systems without working fcntl locks are not protected. No other code of the process
 * may open and close `lock.sqlite`: POSIX drops a process's locks when any of its descriptors closes.
 */
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { OpenDatabase, SqliteDatabase } from "../sqlite_database.ts";
import { isBusy, storeFailure } from "../sqlite_failure.ts";

/** How long to wait for a lock: two that open at one moment sort themselves out within it, and one of them wins. */
const LOCK_WAIT_MS = 500;

/** The lock of one data folder. */
export interface DataDirLock {
  /** Releases the folder. Call it once, after all files in it are closed. */
  release(): void;
}

/** What to do about a folder that is held. */
export const FOLDER_IN_USE: string =
  "wait until that has ended, or use another folder; runs that share a cap at the same time need one engine";

/**
 * Makes the folder where needed (mode 0700) and takes its lock. Throws `data_dir_in_use` when another process or
 * another engine of this one holds it, after at most about a second.
 */
export function lockDataDir(open: OpenDatabase, dataDir: string): DataDirLock {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const database = takeLock(open, dataDir);
    const ownerPath = join(dataDir, "owner.json");
    writeOwner(ownerPath);
    return {
      release: () => {
        rmSync(ownerPath, { force: true });
        database.close();
      },
    };
  } catch (error) {
    throw storeFailure(error, `cannot open data folder ${dataDir}`);
  }
}

/** Opens a database file in the folder so that only its owner can read it; its side files take the mode from it. */
export function openPrivately(open: OpenDatabase, path: string): SqliteDatabase {
  const database = open(path);
  chmodSync(path, 0o600);
  return database;
}

function takeLock(open: OpenDatabase, dataDir: string): SqliteDatabase {
  const database = openPrivately(open, join(dataDir, "lock.sqlite"));
  try {
    // With its journal in memory the lock needs no byte of a full disk.
    database.exec(`PRAGMA busy_timeout = ${LOCK_WAIT_MS}; PRAGMA journal_mode = MEMORY`);
    database.exec("BEGIN EXCLUSIVE");
    return database;
  } catch (error) {
    database.close();
    if (!isBusy(error)) throw error;
    const message = `data folder ${dataDir} is held by ${describeOwner(dataDir)}; ${FOLDER_IN_USE}`;
    throw new PerigeeError("data_dir_in_use", message, { cause: error });
  }
}

function writeOwner(path: string): void {
  const { wallMs, bootId } = systemClock.moment();
  const owner = { pid: process.pid, bootId, startedWallMs: wallMs };
  try {
    writeFileSync(path, JSON.stringify(owner), { mode: 0o600 });
  } catch {
    // A full disk must not keep a run from finishing what it began; without the file the message names no pid.
  }
}

function describeOwner(dataDir: string): string {
  try {
    const owner: unknown = JSON.parse(readFileSync(join(dataDir, "owner.json"), "utf8"));
    if (typeof owner !== "object" || owner === null) return "another process";
    const pid: unknown = Reflect.get(owner, "pid");
    const isThisMachine = Reflect.get(owner, "bootId") === systemClock.moment().bootId;
    if (!isThisMachine) return `pid ${pid} of another machine`;
    return pid === process.pid ? `another engine of this process (pid ${pid})` : `pid ${pid}`;
  } catch {
    return "another process";
  }
}
