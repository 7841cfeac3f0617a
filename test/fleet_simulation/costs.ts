/**
 * What statements cost the server, in milliseconds of a core. Measured with `node --import tsx bench/fleet_statements.ts 300` and PostgreSQL 15, fsync
 * on, one session at a time, on a machine of two cores that had other work (load 25 to 30). The figures are processor time of all processes of the
 * server, so the other work counts only through cold caches: they are rather too high than too low.
 *
 *   SELECT 1                           0.10 ms     lease of a partition renewed               0.57 ms
 *   version of keys                    0.13        look for a shard                           0.53
 *   fleet read, of 10 / 100 / 300      0.37 / 0.63 / 1.20     shard claimed / read / noted / ended       1.1 / 2.2 / 0.7 / 0.9
 *   heartbeat, then that               1.0 / 1.5 / 2.3        commit of the intents of 1 / 64 items      1.1 / 1.3
 *   draw from 1 quota, 1 / 30 / 300 holders    1.2 / 1.8 / 4.2    commit of the answers of 1 / 64 items      1.9 / 2.3
 *   draw from 6 quotas, 1 / 30 / 100 holders   1.0 / 2.6 / 6.2    commit of 1 / 8 / 64 posts                 1.0 / 1.4 / 2.8
 *
 * Draws were measured with 280 bytes of state a holder: 0.033 ms for each KB, and 0.04 ms of the caller. It has been made smaller since.
 */

/** Of `SELECT 1`: what every round trip costs at least. */
export const ROUND_TRIP = 0.1;
export const KEYS_VERSION = 0.13;
export const HEARTBEAT = 0.6;
export const LEASE_RENEWED = 0.57;
export const PARTITION_TAKEN = 1;

/** One of the two statements of a reading of the fleet. */
export function readOf(rows: number): number {
  return 0.17 + 0.0014 * rows;
}

/** What the caller of a draw takes to read, change and write the states, with all locks held, in milliseconds of its own. */
export function drawnByCaller(bytes: number): number {
  return 0.1 + 0.00004 * bytes;
}

export function limitsRead(bytes: number): number {
  return 0.25 + 0.000011 * bytes;
}

export function limitsWritten(bytes: number): number {
  return 0.35 + 0.000022 * bytes;
}

export const COMMIT = 0.35;
export const SHARD = { look: 0.53, read: 1, noted: 0.67, ended: 0.9 };

/** The statements of a partition's transaction between its BEGIN and its COMMIT; each item adds to them. */
export const PARTITION = { renew: 0.25, append: 0.35, file: 0.6, posts: 0.35, item: 0.004, post: 0.028 };
