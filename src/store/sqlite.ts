/**
 * The embedded store: SQLite in its own thread, so that a slow sync never stops the event loop
 * (docs/decisions/0007-sqlite-thread.md).
 *
 * Files in the data folder: `journal.sqlite` and its `-wal`, `folder.json`, `lock.sqlite`, `owner.json`,
 * `reserve.bin`.
 */
import { resolve } from "node:path";
import type { SqliteFolder } from "./packed/requests.ts";
import { openThreadedStore, type SpacedStore } from "./threaded_store.ts";

/** Space kept aside by default: 16 MiB, about what 2,048 requests in flight can bring home. */
const RESERVE_BYTES = 16 << 20;

/** Options of `openSqliteStore`. */
export interface SqliteStoreOptions {
  /** The data folder; made when it does not exist. Nothing else may write in it. */
  readonly dataDir: string;
  /** Bytes kept aside for when the disk is full; default 16 MiB, 0 for none. */
  readonly reserveBytes?: number;
}

/**
 * Opens the store of a data folder. Throws `data_dir_in_use` (within about a second), `data_dir_newer`, `data_dir_older`,
 * `store_damaged`, `disk_full`, or `store_failed`. An open store keeps the process alive only while calls are pending.
 */
export function openSqliteStore({ dataDir, reserveBytes }: SqliteStoreOptions): Promise<SpacedStore> {
  const folder: SqliteFolder = { dataDir: resolve(dataDir), reserveBytes: reserveBytes ?? RESERVE_BYTES };
  return openThreadedStore("store_thread.mjs", folder);
}
