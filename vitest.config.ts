import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { defineConfig } from "vitest/config";
import { filesBelow } from "./test/files_below.ts";
import { LongestFirst } from "./test/longest_first.ts";
import { NATIVE, nativeSources } from "./test/native_sources.ts";

/** Tests that replace modules or measure their process: what ran in it before them would show. */
const NEEDS_A_PROCESS =
  /vi\.mock\(|process\.(cpuUsage|memoryUsage|getActiveResourcesInfo|on)\b|process\.env\[[^\]]*\] =|\/proc\/self|eventLoopUtilization|monitorEventLoopDelay|setFlagsFromString/;

/** Tests that replace modules: only Vite's own loading can do that. */
const REPLACES_MODULES = /vi\.mock\(/;

const isolated = filesWith(NEEDS_A_PROCESS);
const replacing = filesWith(REPLACES_MODULES);

function filesWith(call: RegExp): string[] {
  return filesBelow(join(import.meta.dirname, "test"))
    .filter((path) => path.endsWith(".test.ts") && call.test(readFileSync(path, "utf8")))
    .map((path) => relative(import.meta.dirname, path));
}

/** What all processes of a run share, until its end. Vitest loads this file again for each project. */
const shared = globalThis as { perigeeTests?: string };
shared.perigeeTests ??= makeRunFolder();
const runFolder = shared.perigeeTests;

function makeRunFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "perigee-tests-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const templates = join(folder, "postgres");
  mkdirSync(templates);
  for (const each of [folder, templates]) chmodSync(each, 0o711); // the user of PostgreSQL copies from there
  process.env["TEST_POSTGRES_TEMPLATES"] = templates;
  return folder;
}

/** Watched sources are Vite's to load, and so are those whose coverage is measured. */
const isNative = process.argv[2] === "run" && !process.argv.some((word) => word.startsWith("--coverage"));
const plugins = isNative ? [nativeSources(import.meta.dirname, join(runFolder, NATIVE))] : [];

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
    setupFiles: [
      ...(process.env["TEST_CPU_FILE"] === undefined ? [] : ["test/cpu_by_file.ts"]),
      "test/state_home.ts",
    ],
    testTimeout: 120_000, // that a test hangs, not that it takes long
    hookTimeout: 120_000,
    pool: "forks",
    maxWorkers: Number(maxWorkers),
    expect: { poll: { timeout: 60_000 } }, // a page beside other load
    server: { deps: { external: [new RegExp(`/perigee-tests-\\w+/${NATIVE}/`)] } }, // Node loads them
    deps: { interopDefault: false }, // as in Node; otherwise each use of a name of a package goes through a proxy, for 0.25 us
    sequence: isShuffled ? {} : { sequencer: LongestFirst },
    projects: [
      { extends: true, test: { name: "replacing", include: replacing } },
      { extends: true, plugins, test: { name: "isolated", include: isolated, exclude: replacing } },
      // Loading the sources for each file took as long as the tests.
      {
        extends: true,
        plugins,
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
