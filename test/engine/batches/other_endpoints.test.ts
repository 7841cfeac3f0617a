/** Items of other endpoints than a chat's in batches: a batch has one endpoint, and each line is one item. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { FakeOpenAiBatches, type FakeOpenAiOptions } from "../../batch_servers/openai.ts";
import { vectorOf } from "../../batch_servers/openai_answers.ts";
import { answerTo } from "../../batch_servers/prompt.ts";
import { BatchWorld } from "./batch_world.ts";
import { booksOf, paidTwice, wrongsOf } from "./books.ts";

const DAY = 1_440;
const ORIGIN = "https://api.openai.test";
const OPENAI = { baseUrl: `${ORIGIN}/v1`, key: "sk-a" };
const FREE = "openai:o";
const PRICES = {
  "openai:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 4 },
  [FREE]: { inputUsdPerMillion: 0, outputUsdPerMillion: 0 }, // answers of moderations do not say what they took
};

interface Line {
  readonly key: string;
  readonly output: { readonly text?: string; readonly type?: string } | null;
  readonly error?: { readonly code: string };
  readonly cost?: { readonly tier: string | null };
}

function worldWith(options: Partial<FakeOpenAiOptions> = {}, config: ConfigOptions = {}) {
  let made: FakeOpenAiBatches | undefined;
  const paths: string[] = [];
  const world = new BatchWorld(
    (nowMs) => {
      const fake = new FakeOpenAiBatches({
        seed: 1,
        price: (model) => (model === "o" ? { inputUsd: 0, outputUsd: 0 } : { inputUsd: 1, outputUsd: 4 }),
        ...options,
        nowMs,
      });
      made = fake;
      const handle: FakeOpenAiBatches["handle"] = (request) => {
        if (request.method === "POST") paths.push(request.path);
        return fake.handle(request);
      };
      return { [ORIGIN]: { ledger: fake.ledger, handle } };
    },
    { providers: { openai: OPENAI }, prices: PRICES, lanes: { deny: ["flex"] }, ...config },
  );
  const lines = (): readonly Line[] => world.lines() as unknown as readonly Line[]; // outputs of several kinds
  return { world, fake: made as unknown as FakeOpenAiBatches, lines, paths };
}

const embedding = (input: unknown): object => ({ kind: "embedding", model: "openai:e", input });
const text = (line: number): string => `text ${line}`;

/** Requests of each kind, and what their lines must hold. */
const KINDS = {
  embedding: (line: number) => ({
    request: embedding(text(line)),
    output: { type: "embedding", embedding: vectorOf(text(line)) },
  }),
  several: (line: number) => ({
    request: embedding([text(line), "other"]),
    output: { type: "embedding", embeddings: [vectorOf(text(line)), vectorOf("other")] },
  }),
  response: (line: number) => ({
    request: { kind: "response", model: "openai:m", input: text(line), max_output_tokens: 64 },
    output: { type: "text", text: answerTo(text(line)) },
  }),
  completion: (line: number) => ({
    request: { kind: "completion", model: "openai:m", prompt: text(line), max_tokens: 64 },
    output: { type: "text", text: answerTo(text(line)) },
  }),
  moderation: (line: number) => ({
    request: { kind: "moderation", model: FREE, input: text(line) },
    output: { type: "moderation" },
  }),
  chat: (line: number) => ({
    request: {
      model: "openai:m",
      contents: [{ role: "user", parts: [{ text: text(line) }] }],
      generation_config: { max_output_tokens: 64 },
    },
    output: { type: "text", text: answerTo(text(line)) },
  }),
} as const;

describe("items of other endpoints whose deadline leaves time for a batch", () => {
  it("are answered once each by batches of their endpoint at half of the list price, in any mix, and at once where they are free", async () => {
    const kinds = fc.constantFrom(...(Object.keys(KINDS) as (keyof typeof KINDS)[]));
    await fc.assert(
      fc.asyncProperty(fc.array(kinds, { minLength: 1, maxLength: 60 }), async (drawn) => {
        const { world, fake, lines } = worldWith({}, { lanes: { deny: ["flex"], minItems: 1 } });
        const items = drawn.map((kind, index) => KINDS[kind](index + 1));
        world.requests(items.length, (line) => items[line - 1]?.request ?? {});
        const summary = await world.run({ sla: DAY });
        expect(summary.counts.completed).toBe(items.length);
        expect(wrongsOf(world, fake, items.length)).toEqual([]);
        for (const { key, output, cost } of lines()) {
          const index = Number(key.slice(1)) - 1;
          expect(output).toMatchObject(items[index]?.output ?? {});
          expect(cost?.tier === "batch").toBe(drawn[index] !== "moderation");
        }
        const { answers, nanoUsd } = fake.ledger.sums();
        expect(answers).toBe(items.length);
        const priced = drawn.filter((kind) => kind !== "moderation");
        expect(fake.ledger.sums("batch").answers).toBe(priced.length);
        expect(Math.round(summary.cost.billed_usd * 1e9)).toBe(nanoUsd);
      }),
      { numRuns: 6 },
    );
  });

  it("go at once, those of embeddings together, where the provider's batches do not have the endpoint", async () => {
    const { world, fake, paths } = worldWith(
      {},
      { providers: { openai: { ...OPENAI, batches: { endpoints: ["chat"] } } } },
    );
    world.requests(300, (line) => KINDS[line % 3 === 0 ? "chat" : "embedding"](line).request);
    const summary = await world.run({ sla: DAY });
    expect(summary.counts.completed).toBe(300);
    expect(fake.ledger.sums("batch").answers).toBe(100);
    expect(paths.filter((path) => path === "/v1/embeddings").length).toBeLessThan(20);
    const offNanos = summary.cost.billed_usd * 1e9 - fake.ledger.sums().nanoUsd;
    expect(Math.abs(offNanos)).toBeLessThanOrEqual(200); // shares of requests are rounded for each item
  });

  it("have at most as many inputs in a batch of embeddings as the provider takes", async () => {
    const { world, fake } = worldWith(
      { inputsMax: 100 },
      { providers: { openai: { ...OPENAI, batches: { inputsMax: 100 } } } },
    );
    world.requests(90, (line) => KINDS[line % 2 === 0 ? "several" : "embedding"](line).request);
    expect((await world.run({ sla: DAY })).counts.completed).toBe(90);
    expect(fake.ledger.batches.size).toBe(2); // 135 inputs
    expect(fake.ledger.sums("batch").answers).toBe(90);
  });

  it("are refused alone for an input that the provider does not take", async () => {
    const { world, fake, lines } = worldWith();
    world.requests(200, (line) => embedding(line % 50 === 0 ? `FAIL-400 ${line}` : text(line)));
    expect((await world.run({ sla: DAY })).counts).toMatchObject({ completed: 196, failed: 4 });
    const failed = lines().filter(({ error }) => error !== undefined);
    expect(failed.map(({ key }) => key).sort()).toEqual(["k100", "k150", "k200", "k50"]);
    expect(fake.ledger.batches.size).toBe(1);
    expect(paidTwice(fake)).toEqual([]);
  });

  it("are not answered by a batch with more or fewer outputs than they have inputs, and then at once", async () => {
    const { world, fake, lines } = worldWith();
    const wrong = [embedding(["FEWER", "two"]), embedding("FURTHER"), embedding(["FURTHER", "two"])];
    world.requests(200, (line) => wrong[line - 1] ?? KINDS.several(line).request);
    expect((await world.run({ sla: DAY })).counts.completed).toBe(200);
    const late = lines().filter(({ cost }) => cost?.tier !== "batch");
    expect(late.map(({ key }) => key).sort()).toEqual(["k1", "k2", "k3"]);
    const outputs = new Map(lines().map(({ key, output }) => [key, output]));
    expect(outputs.get("k1")).toMatchObject({ embeddings: [vectorOf("FEWER"), vectorOf("two")] });
    expect(outputs.get("k2")).toMatchObject({ embedding: vectorOf("FURTHER") });
    expect(outputs.get("k3")).toMatchObject({ embeddings: [vectorOf("FURTHER"), vectorOf("two")] });
    expect(wrongsOf(world, fake, 200)).toEqual([]);
  });

  it("are answered at once, together, when their batch does not finish", async () => {
    const { world, fake, paths } = worldWith({ batchFaults: () => ({ isStalled: true }) });
    world.requests(200, (line) => KINDS.embedding(line).request);
    const { counts } = await world.run({ sla: DAY });
    expect(counts.completed).toBe(200);
    expect(world.lines().some(({ late }) => late === true)).toBe(false);
    expect(paths.filter((path) => path === "/v1/embeddings").length).toBeLessThan(20);
    expect(wrongsOf(world, fake, 200)).toEqual([]);
  });

  it("are on time at half of the list price although their texts are more than the requests of a minute", async () => {
    const { world, fake } = worldWith(
      { times: { p50: 600_000, p90: 1_200_000, p99: 2_400_000 } },
      {
        limits: { openai: { requestsPerMinute: 1 } },
        lanes: { deny: ["flex"], priors: { batch: { p50: 600, p90: 1_200, p99: 2_400 } } },
      },
    );
    world.requests(400, (line) => KINDS.embedding(line).request); // 2 requests
    const { counts } = await world.run({ sla: 300 }); // realtime alone would need 400 minutes for single texts
    expect(counts.completed).toBe(400);
    expect(fake.ledger.sums("batch").answers).toBe(400);
  });

  it("cost no more than a cap, which holds half of the list price of each", async () => {
    const { world, fake } = worldWith();
    world.requests(200, (line) => KINDS.embedding(line).request);
    const capUsd = 200 * 7e-6; // a text costs 5e-6 in a batch, and is bounded by 5.5e-6
    const summary = await world.run({ sla: DAY, maxCostUsd: capUsd });
    expect(summary.counts.completed).toBe(200);
    expect(fake.ledger.sums("batch").answers).toBe(200);
    expect(booksOf(world, fake).billedNanos).toBeLessThanOrEqual(capUsd * 1e9);
  });
});
