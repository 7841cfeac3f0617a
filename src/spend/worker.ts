/**
 * The other thread of `log_parts.ts`: counts parts of a file. Nothing imports this file.
 */
import { parentPort, workerData } from "node:worker_threads";
import { systemDisk } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import type { ThreadAnswer, ThreadCall } from "../shard/threads.ts";
import { countLines } from "./count_lines.ts";
import { type CountTerms, ledgerTerms, type PartAnswer, type PartTask } from "./log_parts.ts";

const terms = ledgerTerms(workerData as CountTerms); // log_parts.ts starts this file with only these

parentPort?.on("message", async ({ id, task }: ThreadCall) => {
  try {
    const answer = await count(task as PartTask); // by log_parts.ts
    parentPort?.postMessage({ id, ok: true, answer } satisfies ThreadAnswer);
  } catch (error) {
    parentPort?.postMessage({ id, ok: false, error } satisfies ThreadAnswer);
  }
});

async function count({ path, from, to }: PartTask): Promise<PartAnswer> {
  const file = await systemDisk.open(path, "read");
  try {
    return { ok: true, counted: await countLines(file, terms, { fromOffset: from, toOffset: to }) };
  } catch (error) {
    if (error instanceof PerigeeError) return { ok: false, code: error.code, message: error.message };
    throw error;
  } finally {
    await file.close();
  }
}
