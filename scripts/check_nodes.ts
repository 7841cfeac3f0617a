/**
 * Runs the test of the packed tarball, and those of the store, on the further Node versions that are supported:
 * `npm run check:nodes` after a build. The store has tests of its own there because Node 20 has another SQLite.
 *
 * Each version comes from the npm registry as the package of its binary, into a temporary folder. One that cannot be
 * installed fails the check: nothing is skipped.
 *
 * `-- --install <folder>` only installs them there, and prints their paths with commas between them. Where `PERIGEE_TEST_NODES` has these
 * paths, `npm test` has run the test of the tarball on them, and only those of the store are run.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Beside the Node that runs this, 20 in CI. Exact, so that a check that passed passes again. */
const VERSIONS: readonly string[] = ["22.23.3", "24.21.0"];

const TARBALL_TESTS: readonly string[] = ["test/package/tarball.test.ts"];
const STORE_TESTS: readonly string[] = [
  "test/store",
  "test/contracts/store.test.ts",
  "test/properties/store.test.ts",
  "test/properties/records.test.ts",
];
/** Of each version: both run at once, on two cores. */
const STORE_WORKERS = "2";

const [option, target] = process.argv.slice(2);
if (option === "--install" && target !== undefined) {
  console.log(VERSIONS.map((version) => install(version, target)).join(","));
} else {
  const installed = (process.env["PERIGEE_TEST_NODES"] ?? "").split(",").filter((path) => path !== "");
  if (installed.length > 0) await runStoreTests(installed);
  else await checkAll();
}

async function checkAll(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-nodes-"));
  try {
    const nodes = VERSIONS.map((version) => install(version, folder));
    await runStoreTests(nodes);
    await runTests(process.execPath, TARBALL_TESTS, { PERIGEE_TEST_NODES: nodes.join(",") });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the path of the binary. */
function install(version: string, folder: string): string {
  const name = `node-${process.platform}-${process.arch}`;
  const place = join(folder, version);
  // The package of the platform itself: `node` would fetch it by an install script, which npm is about to stop running.
  execFileSync("npm", ["install", "--prefix", place, "--no-audit", "--no-fund", `${name}@${version}`], {
    stdio: ["ignore", process.stderr, "inherit"],
  });
  const node = join(place, "node_modules", name, "bin/node");
  const found = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
  if (found !== `v${version}`) throw new Error(`${name}@${version} is Node ${found}`);
  return node;
}

/** The versions at once. */
async function runStoreTests(nodes: readonly string[]): Promise<void> {
  const workers = { VITEST_MAX_WORKERS: STORE_WORKERS };
  const runs = nodes.map((node) => runTests(node, STORE_TESTS, workers));
  const results = await Promise.allSettled(runs); // none is left running when another one fails
  for (const result of results) if (result.status === "rejected") throw result.reason;
}

/** Rejects when one fails, or when no test ran. */
async function runTests(node: string, words: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const vitest = join(import.meta.dirname, "../node_modules/vitest/vitest.mjs");
  const child = spawn(node, [vitest, "run", ...words], { stdio: "inherit", env: { ...process.env, ...env } });
  const [code, signal] = await once(child, "exit");
  if (code !== 0) throw new Error(`the tests ended with ${code ?? signal} on ${node}`);
}
