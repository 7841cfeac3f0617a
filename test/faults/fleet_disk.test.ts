/** A run whose output is on the disk of a partition, and whose process is killed twice: another one, with nothing of its own, ends it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createRandom } from "../../src/testing/random.ts";
import { compiledProgram } from "../compiled_program.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

const PROGRAM = fileURLToPath(new URL("fleet_disk_program.ts", import.meta.url));
const LINES = 2_000;

describeCounterpart("PostgreSQL under a run that is killed", POSTGRES, () => {
  let postgres: PostgresServer;
  const dir = mkdtempSync(join(tmpdir(), "perigee-fleet-disk-"));
  const program = compiledProgram(PROGRAM, dir);
  const children: ChildProcess[] = [];

  beforeAll(async () => {
    postgres = await PostgresServer.start();
    const lines = Array.from({ length: LINES }, (_, index) =>
      JSON.stringify({ key: `k${index}`, model: "local:small", input: `question ${index}` }),
    );
    writeFileSync(join(dir, "in.jsonl"), `${lines.join("\n")}\n`);
  });
  afterEach(() => {
    for (const child of children.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
  });
  afterAll(async () => {
    await postgres?.remove();
    rmSync(dir, { recursive: true, force: true });
  });

  /** Runs until it ends, or until it has answered so many. Resolves with what it said last. */
  async function run(url: string, objects: string, killAt = Number.POSITIVE_INFINITY): Promise<unknown> {
    const child = spawn(process.execPath, [program, url, objects, join(dir, "in.jsonl")], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    children.push(child);
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += String(chunk);
    });
    let last: { readonly answered?: number } = {};
    createInterface({ input: child.stdout }).on("line", (line) => {
      last = JSON.parse(line) as typeof last; // as the program prints it
      if ((last.answered ?? 0) >= killAt) child.kill("SIGKILL");
    });
    const [code] = (await once(child, "close")) as [number | null];
    if (killAt === Number.POSITIVE_INFINITY) expect(code, stderr).toBe(0);
    else expect(code, stderr).toBe(null);
    return last;
  }

  it("has exactly one line a key in the end, whichever process owned the partition when", {
    timeout: 120_000,
  }, async () => {
    const random = createRandom(7);
    const url = await postgres.freshUrl();
    const { href: objects } = pathToFileURL(join(dir, "objects"));
    await run(url, objects, 500 + Math.floor(random() * 400));
    await run(url, objects, 500 + Math.floor(random() * 400));
    const end = await run(url, objects);
    expect(end).toMatchObject({ lines: LINES, keys: LINES });
    expect((end as { readonly answered: number }).answered).toBeLessThan(LINES - 150); // it went on
    expect(existsSync("/perigee/1")).toBe(false); // nothing is in the folder of a machine
  });
});
