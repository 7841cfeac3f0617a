/**
 * The thread of a store on PostgreSQL: connects, migrates, takes its partition, then does requests (`packed/store_thread.ts`).
 *
 * It renews its lease every 1.5 s, also while no requests arrive, so that no other process takes the partition of a living one.
 */
import { isMainThread, workerData } from "node:worker_threads";
import { systemClock, type Timer } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { KeyedMutex } from "../../keyed_mutex.ts";
import { monotonicMs } from "../packed/lease.ts";
import type { StoreThreadData } from "../packed/requests.ts";
import { serveStore, type ThreadStore } from "../packed/store_thread.ts";
import { PgGroupCommit } from "./pg_commit.ts";
import { PgConnection } from "./pg_connection.ts";
import { pgFailure } from "./pg_failure.ts";
import { REAP_REMOVED } from "./pg_files.ts";
import { LEASE_MS, PgPartition, RENEW_MS } from "./pg_partition.ts";
import { migratePg, migrationNotes } from "./pg_schema.ts";
import { PgTables } from "./pg_tables.ts";
import type { PgPlace } from "./postgres.ts";

if (!isMainThread) {
  const data = workerData as PgPlace & StoreThreadData; // postgres.ts starts it so
  await serveStore(data, () => openedPartition(data));
}

async function openedPartition({
  url,
  part,
  owner,
  leased,
}: PgPlace & Pick<StoreThreadData, "leased">): Promise<ThreadStore> {
  const doing = `cannot open the store in ${withoutPassword(url)}`;
  try {
    const connection = await PgConnection.open(url, systemClock);
    try {
      await refuseUnsafe(connection);
      const notes = migrationNotes(await migratePg(connection.session));
      const partition = new PgPartition(part, owner);
      const onRenewed = (sinceMs: bigint): void => {
        Atomics.store(leased, 0, sinceMs + BigInt(LEASE_MS));
      };
      const takenMs = monotonicMs();
      await partition.take(connection.query);
      onRenewed(takenMs);
      await connection.query(REAP_REMOVED, part);
      const tables = new PgTables(connection.query, partition);
      const commits = new PgGroupCommit(connection, partition, tables, onRenewed);
      return threadStore({ connection, partition, commits }, notes);
    } catch (error) {
      connection.close();
      throw error;
    }
  } catch (error) {
    throw pgFailure(error, doing);
  }
}

/** With `fsync` off a commit that was acknowledged does not survive a power cut of the server. */
async function refuseUnsafe({ query }: PgConnection): Promise<void> {
  const { rows } = await query("SELECT current_setting('fsync') AS fsync");
  const [{ fsync }] = rows as [{ readonly fsync: string }]; // as selected
  if (fsync === "off")
    throw new PerigeeError(
      "usage",
      "PostgreSQL runs with fsync = off, and would lose what it has acknowledged: set it to on",
    );
}

interface OpenPartition {
  readonly connection: PgConnection;
  readonly partition: PgPartition;
  readonly commits: PgGroupCommit;
}

function threadStore(
  { connection, partition, commits }: OpenPartition,
  notes: readonly string[],
): ThreadStore {
  const turns = new KeyedMutex();
  let renewal: Timer | undefined;
  let isOpen = true;
  const renewLater = (): void => {
    if (isOpen)
      renewal = systemClock.timer(RENEW_MS, () => {
        void turns.take("", () => commits.renew()).then(renewLater);
      });
  };
  return {
    notes,
    opened: renewLater,
    handle: (requests) => turns.take("", () => commits.handle(requests)),
    isSpaceLow: () => commits.isSpaceLow,
    close: async () => {
      isOpen = false;
      renewal?.cancel();
      await turns.ended();
      await partition.release(connection.query).catch(() => undefined); // its lease ends by itself
      connection.close();
    },
  };
}

function withoutPassword(url: string): string {
  if (!URL.canParse(url)) return "the database";
  const { host, pathname } = new URL(url);
  return `postgres://${host}${pathname}`;
}
