/** Fault 100: move-file killed at any step, over the system's own files. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { build } from "esbuild";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { filesBelow } from "../files_below.ts";
import { moveIn } from "./move_file_process.ts";

const content = Buffer.alloc(24 * 1024 * 1024, "what must not be lost ");
let root: string;
/** The process in one file: it starts 20 times, and from the sources each start takes half a second of CPU time. */
let script: string;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-fault100-process-"));
  script = join(folder, "move_file_process.mjs");
  await build({
    entryPoints: [join(import.meta.dirname, "move_file_process.ts")],
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["opendal", "@aws-sdk/*"],
    // Packages of CommonJS call require, which modules do not have.
    banner: {
      js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
    },
    outfile: script,
  });
});
afterAll(() => rmSync(dirname(script), { recursive: true, force: true }));

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "perigee-fault100-"));
  mkdirSync(join(root, "in"));
  mkdirSync(join(root, "out"));
  writeFileSync(join(root, "in/a.bin"), content);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Runs until the process is dead, killed at a step of its own or so many milliseconds after it began. */
async function killed(step: number, afterMs?: number): Promise<NodeJS.Signals | null> {
  const child = spawn(process.execPath, [script, root, String(step)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<NodeJS.Signals | null>((resolve) =>
    child.once("exit", (_code, signal) => resolve(signal)),
  );
  if (afterMs !== undefined) {
    await new Promise((resolve) => child.stdout.once("data", resolve));
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, afterMs))]);
    child.kill("SIGKILL");
  }
  return ended;
}

const filesOf = (folder: string): string[] => filesBelow(join(root, folder)).map((path) => basename(path));

/** The bytes are somewhere whole at any time: in the source until the copy is. */
function isSomewhere(): boolean {
  const places = [join(root, "in/a.bin"), join(root, "out/b/c.bin")];
  return places.some((place) => {
    try {
      return readFileSync(place).equals(content);
    } catch {
      return false;
    }
  });
}

it("fault 100: a move that is killed between any two steps loses nothing, and the next attempt ends it", async () => {
  let kills = 0;
  for (let step = 1; step <= 12; step += 1) {
    if ((await killed(step)) !== "SIGKILL") break;
    kills += 1;
    expect(isSomewhere(), `step ${step}`).toBe(true);
  }
  expect(await moveIn(root, () => undefined)).toMatchObject({ outcome: "moved", bytes: content.length });
  expect(kills).toBeGreaterThan(0);
  expect([filesOf("in"), filesOf("out")]).toEqual([[], ["c.bin"]]);
  expect(readFileSync(join(root, "out/b/c.bin")).equals(content)).toBe(true);
});

it.each([1, 2, 3, 4, 5, 6])(
  "fault 100: killed at step %i of only the first attempt, it ends whole",
  async (step) => {
    expect(await killed(step)).toBe("SIGKILL");
    expect(isSomewhere()).toBe(true);
    // Only after the copy was read back may the source be gone.
    if (step < 6) expect(filesOf("in")).toEqual(["a.bin"]);
    expect(await moveIn(root, () => undefined)).toMatchObject({ outcome: "moved", bytes: content.length });
    expect([filesOf("in"), filesOf("out")]).toEqual([[], ["c.bin"]]);
  },
);

it("fault 100: killed at any moment of the copy, it leaves no half file under the name, and ends whole", async () => {
  for (const afterMs of [0, 8, 20, 35, 60]) {
    await killed(0, afterMs);
    expect(isSomewhere(), `after ${afterMs} ms`).toBe(true);
    const there = filesOf("out").filter((name) => !name.startsWith(".perigee-"));
    if (there.length > 0) expect(readFileSync(join(root, "out/b/c.bin")).equals(content)).toBe(true);
  }
  await moveIn(root, () => undefined);
  expect([filesOf("in"), filesOf("out")]).toEqual([[], ["c.bin"]]);
});
