/**
 * The thread of the embedded store: opens the data folder, then does requests (`packed/store_thread.ts`).
 */
import { join } from "node:path";
import { isMainThread, workerData } from "node:worker_threads";
import { hasCode } from "../errors.ts";
import { type DataDirLock, lockDataDir, openPrivately } from "./folder/data_dir.ts";
import { readMark, refuseLostJournal, refuseOtherJournal, writeMark } from "./folder/folder_identity.ts";
import { Reserve } from "./folder/reserve.ts";
import { GroupCommit } from "./group_commit.ts";
import type { SqliteFolder, StoreThreadData } from "./packed/requests.ts";
import { serveStore, type ThreadStore } from "./packed/store_thread.ts";
import { loadSqlite, type OpenDatabase } from "./sqlite_database.ts";
import { storeFailure } from "./sqlite_failure.ts";
import { SqliteTables } from "./sqlite_tables.ts";
import { checkWal } from "./wal_check.ts";

interface OpenStore {
  readonly lock: DataDirLock;
  readonly tables: SqliteTables;
  readonly reserve: Reserve;
  readonly dataDir: string;
}

if (!isMainThread) {
  const data = workerData as SqliteFolder & StoreThreadData; // sqlite.ts starts it so
  await serveStore(data, () => openedFolder(data));
}

async function openedFolder(folder: SqliteFolder): Promise<ThreadStore> {
  let store: OpenStore;
  try {
    store = openStore(await loadSqlite(), folder);
  } catch (error) {
    throw storeFailure(error, `cannot open the store in ${folder.dataDir}`);
  }
  const commits = new GroupCommit(store.tables, store.reserve);
  return {
    notes: store.tables.notes,
    opened: () => store.reserve.take(),
    handle: async (work) => {
      const replies = await commits.handle(work);
      if (work.some(({ kind }) => kind === "scrub")) keepMark(store); // once a minute, in a service
      return replies;
    },
    isSpaceLow: () => !store.reserve.isHeld,
    close: () => closeStore(store),
  };
}

function openStore(open: OpenDatabase, data: SqliteFolder): OpenStore {
  const lock = lockDataDir(open, data.dataDir);
  const path = join(data.dataDir, "journal.sqlite");
  try {
    const mark = readMark(data.dataDir);
    refuseLostJournal(data.dataDir, mark);
    checkWal(`${path}-wal`);
    const database = openPrivately(open, path);
    try {
      const reserve = new Reserve(join(data.dataDir, "reserve.bin"), data.reserveBytes);
      const tables = new SqliteTables(database);
      refuseOtherJournal(data.dataDir, mark, tables.markBefore);
      countStart(tables, data.dataDir);
      return { lock, tables, reserve, dataDir: data.dataDir };
    } catch (error) {
      database.close();
      throw error;
    }
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** A full disk must not keep a run from finishing what it began: this start is not counted then. */
function countStart(tables: SqliteTables, dataDir: string): void {
  try {
    writeMark(dataDir, tables.countStart());
  } catch (error) {
    if (!hasCode(storeFailure(error, ""), "disk_full")) throw error;
  }
}

/** A write that fails is made up for by the next one: the mark may be older than its journal. */
function keepMark({ tables, dataDir }: OpenStore): void {
  try {
    writeMark(dataDir, tables.mark());
  } catch {
    // As above; the journal's own writes report a disk that fails.
  }
}

function closeStore(store: OpenStore): void {
  try {
    store.reserve.close();
    keepMark(store);
    store.tables.close();
  } catch (error) {
    throw storeFailure(error, "cannot close the store");
  } finally {
    store.lock.release();
  }
}
