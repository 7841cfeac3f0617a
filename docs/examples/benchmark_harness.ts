/**
 * perigee in a benchmark harness: cases are made one by one, answers are scored as they arrive, and the run can be
 * stopped and continued without paying for a case twice. Run it:
 *
 *   npx tsx docs/examples/benchmark_harness.ts
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createEngine, type Engine, type LineItem } from "perigee";

const MODEL = "echo:candidate";
const CASES = 2_000;

/** Cases are made while the run reads them, never all at once; a continued run must get the same ones again. */
async function* cases(): AsyncGenerator<LineItem> {
  for (let number = 0; number < CASES; number += 1) {
    yield {
      key: `sum-${number}`,
      request: {
        model: MODEL,
        contents: [{ parts: [{ text: `Repeat after me: ${number} + 1 = ${number + 1}` }] }],
        generation_config: { temperature: 0, max_output_tokens: 32 },
      },
    };
  }
}

function isRight(key: string, text: string): boolean {
  return text.endsWith(` ${Number(key.replace("sum-", "")) + 1}`);
}

/** Scores until `answersMax` cases are answered; iterating gives the answers of earlier calls first. */
async function evaluate(engine: Engine, answersMax: number): Promise<string> {
  const work = engine.run(cases(), { id: `sums on ${MODEL}` });
  const scored = new Set<string>();
  let right = 0;
  for await (const { key, output } of work) {
    if (key === null) continue;
    scored.add(key);
    if (output !== null && isRight(key, output.text)) right += 1;
    if (scored.size === answersMax) work.stop();
  }
  const { status, requestsSent } = await work.finished;
  return `${status}: ${right} of ${scored.size} right, ${requestsSent} requests`;
}

const dataDir = await mkdtemp(join(tmpdir(), "perigee-benchmark-"));
for (const answersMax of [500, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]) {
  const engine = await createEngine({ dataDir, limits: { echo: { concurrency: 16 } } });
  console.log(await evaluate(engine, answersMax));
  await engine.close();
}
