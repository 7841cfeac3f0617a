/**
 * A seed has one trace, however the simulation is loaded: by the test runner, from the sources in processes of their own, or
 * as it was built; as the first, or after other seeds in another order.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { simulate } from "./simulate.ts";

const SCRIPT = fileURLToPath(new URL("../../scripts/simulate.ts", import.meta.url));
const FROM = 7_000;
const COUNT = 4;

/** The hashes of the seeds' traces, by seed. */
async function hashesOf(...options: readonly string[]): Promise<Record<string, string>> {
  const words = [SCRIPT, "--seeds", String(COUNT), "--from", String(FROM), "--hashes", ...options];
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", ...words]);
  const lines = [...stdout.matchAll(/^(\d+) ([0-9a-f]{64})$/gm)];
  return Object.fromEntries(lines.map(([, seed, hash]) => [seed, hash]));
}

describe("a simulated seed", () => {
  it("leaves the same trace in this process, from the sources elsewhere, and as it was built", async () => {
    const here: Record<string, string> = {};
    for (let seed = FROM + COUNT - 1; seed >= FROM; seed -= 1) here[seed] = (await simulate(seed)).traceHash;
    expect(await hashesOf("--jobs", "1")).toEqual(here);
    expect(await hashesOf("--jobs", "2", "--dist")).toEqual(here);
  }, 120_000);
});
