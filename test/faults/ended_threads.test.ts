/** Threads that are ended while an answer of theirs is on its way, in a process with nothing else to do. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, expect, it } from "vitest";
import { compiledProgram } from "../compiled_program.ts";

const dir = mkdtempSync(join(tmpdir(), "perigee-threads-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const SOURCE = fileURLToPath(new URL("../../src/shard/threads.ts", import.meta.url));
const THREADS = pathToFileURL(compiledProgram(SOURCE, dir)).href;

/** Answers each call at once, then says so in shared memory. */
const THREAD = `
  import { parentPort, workerData } from "node:worker_threads";
  parentPort.on("message", ({ id }) => {
    parentPort.postMessage({ id, ok: true, answer: undefined });
    Atomics.store(workerData, 0, 1);
    Atomics.notify(workerData, 0);
  });`;

const PROCESS = `
  import { Threads } from ${JSON.stringify(THREADS)};
  const answered = new Int32Array(new SharedArrayBuffer(4));
  const file = new URL("data:text/javascript," + encodeURIComponent(${JSON.stringify(THREAD)}));
  const threads = new Threads({ file, count: 1, workerData: answered, resourceLimits: {}, onIdleDeath: () => undefined });
  threads.run("any", undefined).catch(() => undefined);
  Atomics.wait(answered, 0, 0); // the answer is here, and this thread has not read it
  await threads.destroy();
  console.log("ended");`;

it("keep the process until they are over, although nothing of them is under way any more", () => {
  const options = { encoding: "utf8", timeout: 60_000 } as const;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "--eval", PROCESS],
    options,
  );
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "ended\n", stderr: "" });
});
