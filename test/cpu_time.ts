/** For bounds of work on hostile input: the time that this process computed, without the other work of the machine. */

/** User time in milliseconds since `since`, a `process.cpuUsage()`. */
export function userMsSince(since: NodeJS.CpuUsage): number {
  return process.cpuUsage(since).user / 1_000;
}
