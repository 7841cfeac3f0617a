/**
 * perigee in a batch script: a file in, answers as they arrive, progress beside them. Run it:
 *
 *   npx tsx docs/examples/batch_script.ts [questions.jsonl [data folder]]
 *
 * With the same data folder the same file continues where it was, and once it is done nothing is sent any more.
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createEngine, type ProgressEvent } from "perigee";

const [
  input = fileURLToPath(new URL("questions.jsonl", import.meta.url)),
  dataDir = await mkdtemp(join(tmpdir(), "perigee-batch-")),
] = process.argv.slice(2);

const engine = await createEngine({ dataDir, limits: { openai: { requestsPerMinute: 500 } } });
process.once("SIGINT", () => void engine.close()); // what is in flight is waited for and kept

function onProgress({ type, progress }: ProgressEvent): void {
  const { settled, linesTotal = "?", billedUsd, pausedBy } = progress;
  const why = pausedBy === undefined ? "" : ` by ${pausedBy}`;
  console.error(`${type}${why}: ${settled} of ${linesTotal}, ${billedUsd} USD billed so far`);
}

const work = engine.run(input, { sla: 60, maxCostUsd: 5, onProgress, progressEveryMs: 1_000 });
let answered = 0;
let failed = 0;
for await (const line of work) {
  if (line.status !== "completed") failed += 1;
  else answered += 1;
}

const summary = await work.finished;
console.log(`${summary.status}: ${answered} answered, ${failed} failed`);
console.log(`${summary.requestsSent} requests were sent, the answers are in ${summary.output}`);
await engine.close();
