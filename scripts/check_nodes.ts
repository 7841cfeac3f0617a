/**
 * Runs the test of the packed tarball, and those of the store, on the further Node versions that are supported:
 * `npm run check:nodes` after a build. The store has tests of its own there because Node 20 has another SQLite.
 *
 * Each version comes from the npm registry as the package of its binary, into a temporary folder. One that cannot be
 * installed fails the check: nothing is skipped.
 */
import { execFileSync } from "node:child_process";
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

const folder = mkdtempSync(join(tmpdir(), "perigee-nodes-"));
try {
  const nodes = VERSIONS.map(install);
  for (const node of nodes) runTests(node, STORE_TESTS, {});
  runTests(process.execPath, TARBALL_TESTS, { PERIGEE_TEST_NODES: nodes.join(",") });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Returns the path of the binary. */
function install(version: string): string {
  const name = `node-${process.platform}-${process.arch}`;
  const place = join(folder, version);
  // The package of the platform itself: `node` would fetch it by an install script, which npm is about to stop running.
  execFileSync("npm", ["install", "--prefix", place, "--no-audit", "--no-fund", `${name}@${version}`], {
    stdio: "inherit",
  });
  const node = join(place, "node_modules", name, "bin/node");
  const found = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
  if (found !== `v${version}`) throw new Error(`${name}@${version} is Node ${found}`);
  return node;
}

/** Throws when one fails, or when no test ran. */
function runTests(node: string, paths: readonly string[], env: NodeJS.ProcessEnv): void {
  const vitest = join(import.meta.dirname, "../node_modules/vitest/vitest.mjs");
  execFileSync(node, [vitest, "run", ...paths], { stdio: "inherit", env: { ...process.env, ...env } });
}
