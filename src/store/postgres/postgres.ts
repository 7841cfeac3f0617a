/**
 * A store on PostgreSQL, in a thread of its own: one partition of a database that several processes share.
 */
import { hostname } from "node:os";
import { type FilesStore, openThreadedStore } from "../threaded_store.ts";

/** Where the thread of PostgreSQL keeps its store. */
export interface PgPlace {
  readonly url: string;
  readonly part: number;
  readonly owner: string;
}

/** Options of `openPostgresStore`. */
export interface PostgresStoreOptions {
  /**
   * `postgres://user:password@host:port/database`. One session a process, for its whole life: a pooler in between must give it one
   * for itself (pgbouncer's `session` mode).
   */
  readonly url: string;
  /** Which partition of the database; default 1. One process at a time has it. */
  readonly part?: number;
  /** Who has the partition, for messages and for the other processes of a fleet. Default: the process and its host. */
  readonly owner?: string;
}

/**
 * Opens the store of a partition, and makes or migrates the tables. Throws `data_dir_in_use` while another process holds the
 * partition, `data_dir_newer`, `store_damaged`, `disk_full`, `usage` (without the package `pg`, or where the server does not let
 * this user in), or `store_failed`.
 *
 * Calls wait while the server is away, and take effect when it is back. An open store keeps the process alive only while calls are
 * pending.
 */
export function openPostgresStore(options: PostgresStoreOptions): Promise<FilesStore> {
  const { url, part = 1, owner = `process ${process.pid} on ${hostname()}` } = options;
  const place: PgPlace = { url, part, owner };
  return openThreadedStore("postgres_thread.mjs", place);
}
