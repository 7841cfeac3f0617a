/**
 * Adds a line to the file that TEST_CPU_FILE names for each test file: seconds of CPU of its process, of the processes that it started and waited for, then
 * its path. Vitest's own process, which compiles the tests, is not in it.
 *
 *   TEST_CPU_FILE=/tmp/cpu.txt npx vitest run && sort -nr /tmp/cpu.txt | head
 */
import { appendFileSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import { afterAll, expect } from "vitest";

/** Of the clock that /proc counts in: the same on all machines of Linux. */
const TICKS_PER_SECOND = 100;

/** Set while files share a process: the start of the process belongs to the first one. */
const isFirst = process.env["TEST_CPU_PID"] !== String(process.pid);
process.env["TEST_CPU_PID"] = String(process.pid);

const before = isFirst ? { own: 0, started: 0 } : spent();

afterAll(() => {
  const after = spent();
  const seconds = [after.own - before.own, after.started - before.started].map((each) => each.toFixed(2));
  const path = relative(process.cwd(), expect.getState().testPath ?? "");
  appendFileSync(process.env["TEST_CPU_FILE"] ?? "", `${seconds.join("\t")}\t${path}\n`);
});

function spent(): { readonly own: number; readonly started: number } {
  const { user, system } = process.cpuUsage();
  const fields = readFileSync("/proc/self/stat", "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  const ticks = Number(fields[13]) + Number(fields[14]); // cutime and cstime, counted from the state
  return { own: (user + system) / 1e6, started: ticks / TICKS_PER_SECOND };
}
