/**
 * What statements cost the server, in milliseconds of a core. Measured with `node --import tsx bench/fleet_statements.ts 300` and PostgreSQL 15, fsync
 * on, one session at a time, on a machine of two cores that had other work (load 25 to 30). The figures are processor time of all processes of the
 * server, so the other work counts only through cold caches: they are rather too high than too low.
 *
 *   SELECT 1                           0.10 ms     lease of a partition renewed               0.57 ms
 *   version of keys                    0.13        look for a shard                           0.53
 *   fleet read, of 10 / 100 / 300      0.37 / 0.63 / 1.20     shard claimed / read / noted / ended       1.1 / 2.2 / 0.7 / 0.9
 *   heartbeat, then that               1.0 / 1.5 / 2.3        commit of the intents of 1 / 64 items      1.1 / 1.3
 *   draw, with 1 / 30 holders          1.27 / 1.73            commit of the answers of 1 / 64 items      1.9 / 2.3
 *   draw, with 100 / 300 holders       3.0 / 4.3              commit of 1 / 8 / 64 posts                 1.0 / 1.4 / 2.8
 *
 * The state of a quota with 300 holders was 86 KB.
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

/** What the caller of a draw takes to read, change and write a state, with all locks held, in milliseconds of its own. */
export function drawnByCaller(bytes: number): number {
  return 0.1 + 0.000035 * bytes;
}

export function limitRead(bytes: number): number {
  return 0.3 + 0.000012 * bytes;
}

export function limitWritten(bytes: number): number {
  return 0.4 + 0.000024 * bytes;
}

export const COMMIT = 0.35;
export const SHARD = { look: 0.53, read: 1, noted: 0.67, ended: 0.9 };

/** The statements of a partition's transaction between its BEGIN and its COMMIT; each item adds to them. */
export const PARTITION = { renew: 0.25, append: 0.35, file: 0.6, posts: 0.35, item: 0.004, post: 0.028 };
