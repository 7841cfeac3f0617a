/**
 * The entry point `perigee/fleet`: a store on PostgreSQL, so that another process, on any machine, can go on with the work.
 */
export { openPostgresStore, type PostgresStoreOptions } from "../store/postgres/postgres.ts";
export type { SpacedStore } from "../store/threaded_store.ts";
