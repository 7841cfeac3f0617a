/**
 * The entry point `perigee/fleet`: a store on PostgreSQL and its files, so that another process on any machine can continue the work, and
 * workers, which together are one service. The server is loaded when the first worker is opened.
 */
import type { FleetWorker } from "./fleet_worker.ts";
import type { FleetWorkerOptions } from "./worker_options.ts";

export type { ListedObject, Objects } from "../store/objects/objects.ts";
export { type ObjectsPlace, openObjects } from "../store/objects/open_objects.ts";
export {
  openPartitionDisk,
  type PartitionDisk,
  type PartitionDiskOptions,
} from "../store/objects/partition_disk.ts";
export { type SweepOptions, sweepObjects } from "../store/objects/sweep.ts";
export { openPostgresStore, type PostgresStoreOptions } from "../store/postgres/postgres.ts";
export type { FilesStore, SpacedStore } from "../store/threaded_store.ts";
export type { FleetWorker } from "./fleet_worker.ts";
export type { FleetWorkerOptions } from "./worker_options.ts";

/** Enters the fleet and works. Throws `usage` and `invalid_config` for its options, `store_failed` when the database does not answer. */
export async function openFleetWorker(options: FleetWorkerOptions): Promise<FleetWorker> {
  const opened = await import("./fleet_worker.ts");
  return opened.openFleetWorker(options);
}
