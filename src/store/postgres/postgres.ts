/**
 * A store on PostgreSQL, in a separate thread: one partition of a database that several processes share.
 */
import { hostname } from "node:os";
import { PerigeeError } from "../../errors.ts";
import { type FilesStore, openThreadedStore } from "../threaded_store.ts";

/** The partition of a store, for its thread. */
export interface PgPlace {
  readonly url: string;
  readonly part: number;
  readonly owner: string;
}

/** Options of `openPostgresStore`. */
export interface PostgresStoreOptions {
  /**
   * `postgres://user:password@host:port/database`. The store keeps one session for its whole life: a pooler in between must not
   * share it (pgbouncer's `session` mode).
   */
  readonly url: string;
  /** Which partition of the database: a whole number from 1 to 2,147,483,647. Default 1. One process at a time owns it. */
  readonly part?: number;
  /** The owner of the partition, for messages and for the other processes of a fleet. Default: the process and its host. */
  readonly owner?: string;
}

/**
 * Opens the store of a partition, and makes or migrates the tables. Throws `data_dir_in_use` while another process holds the
 * partition, `data_dir_newer`, `store_damaged`, `disk_full`, `usage` (for options, without the package `pg`, for a server with
 * `fsync = off`, or where the server does not admit this user), or `store_failed`.
 *
 * Calls wait while the server is away, and take effect when it is back. An open store keeps the process alive only while calls are
 * pending.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<FilesStore> {
  const { url, part = 1, owner = `process ${process.pid} on ${hostname()}` } = options;
  if (!/^postgres(ql)?:\/\//.test(url))
    throw new PerigeeError("usage", "openPostgresStore: url must be postgres://user@host:port/database");
  if (!Number.isInteger(part) || part < 1 || part > PART_MAX)
    throw new PerigeeError(
      "usage",
      `openPostgresStore: part must be a whole number from 1 to ${PART_MAX}, got ${part}`,
    );
  const place: PgPlace = { url, part, owner };
  return openThreadedStore("postgres_thread.mjs", place);
}

/** The greatest `integer` of PostgreSQL. */
const PART_MAX = 2_147_483_647;
