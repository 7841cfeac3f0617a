import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { defineConfig } from "vitest/config";
import { filesBelow } from "./test/files_below.ts";
import { LongestFirst } from "./test/longest_first.ts";

/** Tests that replace modules or measure their process: what ran in it before them would show. */
const NEEDS_A_PROCESS =
  /vi\.mock\(|process\.(cpuUsage|memoryUsage|getActiveResourcesInfo|on)\b|process\.env\[[^\]]*\] =|\/proc\/self|eventLoopUtilization|monitorEventLoopDelay|setFlagsFromString/;

const isolated = filesBelow(join(import.meta.dirname, "test"))
  .filter((path) => path.endsWith(".test.ts") && NEEDS_A_PROCESS.test(readFileSync(path, "utf8")))
  .map((path) => relative(import.meta.dirname, path));

/** A sequencer of the configuration would override the random one. */
const isShuffled = process.argv.some((word) => word.startsWith("--sequence.shuffle"));

/** For two cores: tests that start processes wait a third of their time. */
const WORKERS = 4;
/** Vitest does not pass the option on to projects. */
const { maxWorkers = WORKERS } = parseArgs({
  options: { maxWorkers: { type: "string" } },
  strict: false,
}).values;

export default defineConfig({
  test: {
    setupFiles: ["test/state_home.ts"],
    testTimeout: 120_000, // that a test hangs, not that it takes long
    hookTimeout: 120_000,
    pool: "forks",
    maxWorkers: Number(maxWorkers),
    expect: { poll: { timeout: 60_000 } }, // a page beside other load
    deps: { interopDefault: false }, // as in Node; otherwise each use of a name of a package goes through a proxy, for 0.25 us
    sequence: isShuffled ? {} : { sequencer: LongestFirst },
    projects: [
      { extends: true, test: { name: "isolated", include: isolated } },
      // Loading the sources for each file took as long as the tests.
      {
        extends: true,
        test: {
          name: "shared",
          include: ["test/**/*.test.ts"],
          exclude: isolated,
          isolate: false,
          execArgv: ["--max-semi-space-size=64"], // what a world makes is garbage soon: 5 to 20 % less CPU time
        },
      },
    ],
  },
});
