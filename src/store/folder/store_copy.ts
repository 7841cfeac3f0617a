/**
 * A copy of a store that another process may hold, for reading: the state of one moment of the last seconds.
 *
 * The owner locks its database for itself, so it is read as files. SQLite changes the database file only by moving pages
 * into it that are in the log; as long as the log was not begun again meanwhile (its head says so), a copy of the file
 * and then of the log is whole, also if pages were moved or appended while it was made. A torn end of the log is left out by its
 * checksums, as after a crash.
 *
 * Limits: not for a folder that this very process holds: closing a file drops the locks that SQLite has on it.
 */
import { constants } from "node:fs";
import { copyFile, mkdtemp, open, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { PageStart } from "../packed/requests.ts";
import { EVERY_PROJECT, type StoredRecord } from "../records.ts";
import { loadSqlite } from "../sqlite_database.ts";
import { SqliteTables } from "../sqlite_tables.ts";
import type { Store, StoredEntry, StoredTask } from "../store.ts";

const DATABASE = "journal.sqlite";
const LOG = "journal.sqlite-wal";
const LOG_HEAD_BYTES = 32;
/** Copies until one is whole: a log is begun again every 8 MiB at most. */
const COPIES_MAX = 50;
const TASKS_PAGE = 100;
const RECORDS_PAGE = 100;

/** What a copy can read. */
export type ReadableStore = Pick<Store, "journal"> & {
  /** The first task that fits, in order of creation. */
  findTask(isWanted: (task: StoredTask) => boolean): StoredTask | undefined;
  /** All of a collection, of every project, in order of creation. */
  records(collection: string): readonly StoredRecord[];
};

/** Copies the store of a data folder, lets `read` work on the copy, and removes it. Throws `not_found`. */
export async function readStoreCopy<T>(
  dataDir: string,
  read: (store: ReadableStore) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "perigee-copy-"));
  try {
    await copyWhole(dataDir, folder);
    const tables = new SqliteTables((await loadSqlite())(join(folder, DATABASE)));
    try {
      return await read({
        findTask: (isWanted) => findTask(tables, isWanted),
        journal: (taskId) => journalOf(tables, taskId),
        records: (collection) => recordsOf(tables, collection),
      });
    } finally {
      tables.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function copyWhole(dataDir: string, folder: string): Promise<void> {
  for (let copies = 0; copies < COPIES_MAX; copies += 1) {
    const before = await headOf(dataDir);
    await copyFile(join(dataDir, DATABASE), join(folder, DATABASE), constants.COPYFILE_FICLONE);
    await rm(join(folder, LOG), { force: true });
    await copyFile(join(dataDir, LOG), join(folder, LOG), constants.COPYFILE_FICLONE).catch(ifMissing);
    if ((await headOf(dataDir)) === before) return;
  }
  throw new PerigeeError("data_dir_in_use", `${dataDir} changes too fast to be read; try again`);
}

/** What changes when the log is begun again; without a log, when the database is written. */
async function headOf(dataDir: string): Promise<string> {
  const database = await stat(join(dataDir, DATABASE)).catch(ifMissing);
  if (database === undefined)
    throw new PerigeeError("not_found", `no run is recorded in ${dataDir}: it has no ${DATABASE}`);
  const log = await open(join(dataDir, LOG), "r").catch(ifMissing);
  try {
    const head = Buffer.alloc(LOG_HEAD_BYTES);
    const found = await log?.read(head, 0, LOG_HEAD_BYTES, 0);
    if (found !== undefined && found.bytesRead > 0) return head.toString("hex");
    return `${database.size}:${database.mtimeMs}`;
  } finally {
    await log?.close();
  }
}

function ifMissing(error: unknown): undefined {
  if (errorCodeOf(error) !== "ENOENT") throw error;
  return undefined;
}

function findTask(tables: SqliteTables, isWanted: (task: StoredTask) => boolean): StoredTask | undefined {
  for (let after: string | undefined; ; ) {
    const page = tables.tasks(after, TASKS_PAGE);
    const found = page.find(isWanted);
    if (found !== undefined || page.length < TASKS_PAGE) return found;
    after = page.at(-1)?.id;
  }
}

function recordsOf(tables: SqliteTables, collection: string): StoredRecord[] {
  const records: StoredRecord[] = [];
  for (let after: string | undefined; ; ) {
    const query = { collection, limit: RECORDS_PAGE, ...(after === undefined ? {} : { after }) };
    const page = tables.records.records(EVERY_PROJECT, query);
    records.push(...page);
    after = page.at(-1)?.id;
    if (page.length < RECORDS_PAGE) return records;
  }
}

async function* journalOf(tables: SqliteTables, taskId: string): AsyncGenerator<StoredEntry> {
  let start: PageStart | undefined = { taskId, afterSequence: 0 };
  while (start !== undefined) {
    const { entries, next } = tables.page(start);
    yield* entries;
    start = next;
  }
}
