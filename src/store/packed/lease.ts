/** The clock of leases. */

/** Whole milliseconds of the machine's monotonic clock: the same in all threads, and it counts while the process is stopped. */
export function monotonicMs(): bigint {
  return process.hrtime.bigint() / 1_000_000n;
}
