/**
 * `node --import skewed_clock.mjs`: as on a machine of its own, whose wall clock is wrong by the milliseconds in the file PERIGEE_TEST_SKEW_FILE, for the
 * process and its threads. The id of the machine's boot follows from the name of that file.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const { readFileSync } = fs;
const file = process.env.PERIGEE_TEST_SKEW_FILE;
const boot = `00000000-0000-4000-8000-${Buffer.from(file).toString("hex").slice(-32, -20)}`;
fs.readFileSync = (path, ...rest) =>
  path === "/proc/sys/kernel/random/boot_id" ? `${boot}\n` : readFileSync(path, ...rest);
syncBuiltinESMExports();

const Real = Date;
const now = Real.now.bind(Real);
let skewMs = 0;

function read() {
  try {
    skewMs = Number(readFileSync(file, "utf8")) || 0;
  } catch {
    skewMs = 0;
  }
}

read();
setInterval(read, 100).unref();
globalThis.Date = class extends Real {
  constructor(...parts) {
    super(...(parts.length === 0 ? [now() + skewMs] : parts));
  }
  static now() {
    return now() + skewMs;
  }
};
