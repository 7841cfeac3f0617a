/**
 * `perigee run` over texts for embeddings, killed while many share each request: one line for each key, with its own vector; only what
 * was in flight at a kill is asked for again, and the costs that are stated cover what the provider bills.
 */
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { end, KilledRuns, linesUpTo, until } from "./killed_run.ts";

const TEXTS = 1_600;
const IN_FLIGHT = 2;
/** Of a request, by the bytes of its answer. */
const INPUTS_MAX = 227;
const TOKENS = 7;
/** The list price of the model. */
const USD_PER_TOKEN = 0.02e-6;

let runs: KilledRuns;
let server: Server;
/** The texts of each request, and of those that were answered. */
let asked: number[][];
let answered: number[][];

beforeEach(async () => {
  [asked, answered] = [[], []];
  runs = new KilledRuns();
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { input } = JSON.parse(Buffer.concat(chunks).toString()) as { input: readonly string[] };
    const numbers = input.map((text) => Number(/\[\[(\d+)\]\]/.exec(text)?.[1]));
    asked.push(numbers);
    setTimeout(() => {
      answered.push(numbers);
      const data = numbers.map((number, index) => ({ index, embedding: [number, 0.5] }));
      const tokens = numbers.length * TOKENS;
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ data, usage: { prompt_tokens: tokens, total_tokens: tokens } }));
    }, 60);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const lines = linesUpTo(TEXTS).map((line) =>
    JSON.stringify({ key: `k${line}`, kind: "embedding", model: MODEL, input: `[[${line}]] a short text` }),
  );
  writeFileSync(runs.path("in.jsonl"), `${lines.join("\n")}\n`);
});
afterEach(() => {
  runs.close();
  server.closeAllConnections();
  server.close();
});

const MODEL = "openai:text-embedding-3-small";

it("has each key once with its vector, and asks again only for what was in flight", async () => {
  let kills = 0;
  for (const requests of [1, 2, 3]) {
    const known = writtenKeys();
    const before = asked.length;
    const child = start();
    const closed = end(child);
    await until(() => asked.length >= before + requests || child.exitCode !== null);
    child.kill("SIGKILL");
    await closed;
    if (child.signalCode === "SIGKILL") kills += 1;
    expect(
      asked
        .slice(before)
        .flat()
        .filter((line) => known.has(line)),
    ).toEqual([]);
  }
  expect(kills).toBe(3);
  const { code, stdout } = await end(start());
  expect(code).toBe(0);
  expect(Math.max(...asked.map((inputs) => inputs.length))).toBe(INPUTS_MAX);
  expect([...written().keys()].sort((one, other) => one - other)).toEqual(linesUpTo(TEXTS));
  for (const [line, vector] of written()) expect(vector).toEqual([line, 0.5]);
  const again = asked.flat().length - TEXTS;
  expect(again).toBeGreaterThan(0);
  expect(again).toBeLessThanOrEqual(kills * IN_FLIGHT * INPUTS_MAX);

  const { cost } = JSON.parse(stdout) as { cost: { billed_usd: number; ambiguous_usd: number } };
  const billed = answered.flat().length * TOKENS * USD_PER_TOKEN;
  expect(cost.billed_usd).toBeCloseTo(TEXTS * TOKENS * USD_PER_TOKEN, 6);
  expect(cost.billed_usd + cost.ambiguous_usd).toBeGreaterThanOrEqual(billed - 1e-9);
  const asksBefore = asked.length;
  expect((await end(start())).code).toBe(0);
  expect(asked).toHaveLength(asksBefore);
}, 120_000);

function start(): ReturnType<KilledRuns["start"]> {
  const { port } = server.address() as AddressInfo;
  return runs.start({
    env: {
      PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
      PERIGEE_PROVIDER_OPENAI_KEY: "k",
      PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT),
    },
  });
}

/** Vectors by the numbers of their keys, of whole lines; each line is an answer, and no key has two. */
function written(): Map<number, readonly number[]> {
  const vectors = new Map<number, readonly number[]>();
  const path = runs.path("out.jsonl");
  const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
  for (const text of lines) {
    const { key, output } = JSON.parse(text) as { key: string; output: { embedding: readonly number[] } };
    const line = Number(key.slice(1));
    expect(vectors.has(line)).toBe(false);
    vectors.set(line, output.embedding);
  }
  return vectors;
}

function writtenKeys(): ReadonlySet<number> {
  return new Set(written().keys());
}
