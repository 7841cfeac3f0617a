/**
 * The entry point `perigee/fleet`: a store on PostgreSQL and the files that go with it, so that another process, on any machine, can go on
 * with the work.
 */

export type { ListedObject, Objects } from "./store/objects/objects.ts";
export { type ObjectsPlace, openObjects } from "./store/objects/open_objects.ts";
export {
  openPartitionDisk,
  type PartitionDisk,
  type PartitionDiskOptions,
} from "./store/objects/partition_disk.ts";
export {
  openPartitionReader,
  type PartitionReader,
  type PartitionReaderOptions,
} from "./store/objects/partition_reader.ts";
export { type SweepOptions, sweepObjects } from "./store/objects/sweep.ts";
export { openPostgresStore, type PostgresStoreOptions } from "./store/postgres/postgres.ts";
export type { FilesStore, SpacedStore } from "./store/threaded_store.ts";
