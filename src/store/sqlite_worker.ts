/**
 * The store's own thread: opens the data folder, then does requests in the order of their coming.
 *
 *   opening -> open -> closed
 *   opening -> closed    (the folder is held, damaged, newer, or cannot be made)
 *
 * All that has arrived is taken at once, so that calls made during one sync are committed together in the next.
 */
import { join } from "node:path";
import { isMainThread, type MessagePort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { hasCode } from "../errors.ts";
import { isShared, noteLargeBytes } from "../large_bytes.ts";
import { type DataDirLock, lockDataDir, openPrivately } from "./folder/data_dir.ts";
import { readMark, refuseLostJournal, refuseOtherJournal, writeMark } from "./folder/folder_identity.ts";
import { Reserve } from "./folder/reserve.ts";
import { bytesOf, GroupCommit, refusal, type WorkRequest } from "./group_commit.ts";
import type {
  EntryPage,
  SqliteFolder,
  StoreReply,
  StoreRequest,
  StoreThreadData,
} from "./packed/requests.ts";
import { loadSqlite, type OpenDatabase } from "./sqlite_database.ts";
import { storeFailure } from "./sqlite_failure.ts";
import { SqliteTables } from "./sqlite_tables.ts";
import { checkWal } from "./wal_check.ts";

/** Requests taken from the port at once. */
const REQUESTS_MAX = 1_024;

type SqliteThreadData = SqliteFolder & StoreThreadData;

interface OpenStore {
  readonly lock: DataDirLock;
  readonly tables: SqliteTables;
  readonly reserve: Reserve;
  readonly dataDir: string;
}

if (!isMainThread) await serve(workerData as SqliteThreadData); // sqlite.ts starts it so

async function serve(data: SqliteThreadData): Promise<void> {
  const { port, answered } = data;
  const answer = (replies: readonly StoreReply[], isSpaceLow: boolean): void => {
    port.postMessage({ replies, isSpaceLow }, replies.flatMap(buffersOf));
    Atomics.add(answered, 0, 1);
  };
  let store: OpenStore;
  try {
    store = openStore(await loadSqlite(), data);
  } catch (error) {
    answer([refusal(0, storeFailure(error, `cannot open the store in ${data.dataDir}`))], false);
    port.close();
    return;
  }
  const commits = new GroupCommit(store.tables, store.reserve);
  answer([{ id: 0, ok: true, value: store.tables.notes }], false);
  store.reserve.take();
  const arrived: StoreRequest[] = [];
  let isWorking = false;
  const workOff = async (): Promise<void> => {
    isWorking = true;
    while (arrived.length > 0) {
      const { work, closing } = takeArrived(port, arrived);
      const bytes = work.reduce((sum, request) => sum + movedBytesOf(request), 0);
      if (work.length > 0) answer(await commits.handle(work), !store.reserve.isHeld);
      if (work.some(({ kind }) => kind === "scrub")) keepMark(store); // once a minute, in a service
      work.length = 0;
      noteLargeBytes(bytes);
      if (closing === undefined) continue;
      answer([closeStore(store, closing.id)], false);
      port.close();
      return;
    }
    isWorking = false;
  };
  port.on("message", (request: StoreRequest) => {
    arrived.push(request);
    if (!isWorking) void workOff(); // it never rejects: what fails is answered
  });
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

function closeStore(store: OpenStore, id: number): StoreReply {
  try {
    store.reserve.close();
    keepMark(store);
    store.tables.close();
    return { id, ok: true, value: undefined };
  } catch (error) {
    return refusal(id, storeFailure(error, "cannot close the store"));
  } finally {
    store.lock.release();
  }
}

/** What it brings, and is garbage of this thread when it is done. */
function movedBytesOf(request: WorkRequest): number {
  const { outputs } = request.kind === "append" || request.kind === "commitLog" ? request.packed : {};
  const isOwn = outputs === undefined || !isShared(outputs.bytes.buffer);
  return bytesOf(request) - (isOwn ? 0 : outputs.bytes.byteLength);
}

/** All that has arrived, up to a request to close. */
function takeArrived(
  port: MessagePort,
  arrived: StoreRequest[],
): { readonly work: WorkRequest[]; readonly closing: StoreRequest | undefined } {
  const work: WorkRequest[] = [];
  while (work.length < REQUESTS_MAX) {
    const request: StoreRequest | undefined = arrived.shift() ?? receiveMessageOnPort(port)?.message;
    if (request === undefined) break;
    if (request.kind === "close") return { work, closing: request };
    work.push(request);
  }
  return { work, closing: undefined };
}

/** The buffers of a page, which move to the main thread instead of being copied. */
function buffersOf(reply: StoreReply): ArrayBuffer[] {
  if (!reply.ok || typeof reply.value !== "object" || reply.value === null || !("next" in reply.value)) {
    return [];
  }
  const page = reply.value as EntryPage; // only pages have a next one
  return page.entries.map((entry) => entry.records.buffer as ArrayBuffer); // SQLite returns each blob in its own buffer
}
