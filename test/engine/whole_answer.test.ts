/**
 * What was paid for is in the line: tokens, money, who answered, how it ended, under which id, after how long.
 */
import { describe, expect, it } from "vitest";
import { jsonAnswer, openaiAnswer } from "../../src/testing/scripted_transport.ts";
import type { OutputLine } from "../../src/work/item.ts";
import { finish } from "./runs.ts";
import { mortal, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const PRICES = { "*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" } };

const lines = (world: World): Map<string | null, OutputLine> =>
  new Map(world.output().map((line) => [line.key, line as OutputLine]));

describe("the line of an answer", () => {
  it("has the tokens, the money, the model, the end, the time and the ids of its request", async () => {
    const world = new World({ config: { prices: PRICES }, latencyMs: 400 });
    world.input(1);
    const counts = {
      inputTokens: 40,
      cachedTokens: 8,
      cacheWriteTokens: 4,
      outputTokens: 20,
      reasoningTokens: 6,
    };
    const body = openaiAnswer("hi", counts, "m1-2026-10-01");
    world.answer = () => ({ ...body, headers: { "x-request-id": "req_7" } }) as typeof body;
    const summary = await finish(world, OPTIONS);
    expect(lines(world).get("k1")).toEqual({
      key: "k1",
      output: { type: "text", text: "hi" },
      finish_reason: "stop",
      model: "alpha:m1-2026-10-01",
      usage: {
        input_tokens: 40,
        cached_tokens: 8,
        cache_write_tokens: 4,
        output_tokens: 20,
        reasoning_tokens: 6,
      },
      cost: {
        list_usd: summary.cost.list_usd,
        billed_usd: summary.cost.billed_usd,
        ambiguous_usd: 0,
        tier: null,
        price_version: "config",
      },
      latency_ms: 400,
      attempts: 1,
      provider_request_id: "req_7",
    });
    expect(summary.usage).toMatchObject({ cached_tokens: 8, cache_write_tokens: 4, reasoning_tokens: 6 });
  });

  it("sums what all its requests took, over a restart too, and so do all lines the summary", async () => {
    const world = new World({ config: { prices: PRICES, maxInFlight: 1 }, latencyMs: 50 });
    world.input(2);
    const billed = {
      prompt_tokens: 10,
      completion_tokens: 5,
      prompt_tokens_details: { cache_write_tokens: 3 },
    };
    const empty = jsonAnswer(200, { choices: [], usage: billed });
    world.answer = (line, attempt) => (line === 1 && attempt === 1 ? empty : ok(line));
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run("/in.jsonl", OPTIONS).finished.catch(() => undefined);
    await world.clock.advance(60);
    process.kill();
    world.kill();
    const summary = await finish(world, OPTIONS);
    const all = lines(world);
    expect(all.get("k1")).toMatchObject({
      usage: { input_tokens: 20, output_tokens: 10, cache_write_tokens: 3 },
      attempts: 2,
    });
    const sum = (name: "list_usd" | "billed_usd"): number =>
      [...all.values()].reduce((usd, { cost }) => usd + (cost?.[name] ?? 0), 0);
    expect(sum("list_usd")).toBeCloseTo(summary.cost.list_usd, 9);
    expect(sum("billed_usd")).toBeCloseTo(summary.cost.billed_usd, 9);
  });

  it("of an item that failed says what was paid all the same, and of one that was not sent nothing", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.disk.put(
      "/in.jsonl",
      `${[1, 2].map((line) => JSON.stringify({ key: `k${line}`, request: { model: "alpha:m1", contents: [{ parts: [{ text: `[[${line}]]` }] }] } })).join("\n")}\n{"key":"k3","request":{}}\n`,
    );
    const usage = { prompt_tokens: 10, completion_tokens: 5 };
    const filtered = jsonAnswer(200, { choices: [{ message: {}, finish_reason: "content_filter" }], usage });
    world.answer = (line) => (line === 1 ? filtered : status(400, "bad", { "x-request-id": "req_2" }));
    await finish(world, OPTIONS);
    const all = lines(world);
    expect(all.get("k1")).toMatchObject({
      output: null,
      error: { code: "filtered", attempts: 1 },
      usage: { input_tokens: 10, output_tokens: 5 },
      cost: { list_usd: 0.00002 },
    });
    expect(all.get("k2")).toMatchObject({
      output: null,
      provider_request_id: "req_2",
      cost: { billed_usd: 0 },
    });
    expect(Object.keys(all.get("k3") ?? {})).toEqual(["key", "output", "error"]);
  });

  it("marks what is estimated, because the provider counted nothing or no price is known", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.input(1);
    world.answer = () =>
      jsonAnswer(200, { choices: [{ message: { content: "hi" }, finish_reason: "stop" }] });
    await finish(world, OPTIONS);
    expect(lines(world).get("k1")).toMatchObject({ model: "alpha:m1", cost: { is_estimated: true } });
  });

  it("stays one line however a provider nests what it returns", async () => {
    const world = new World();
    world.input(1);
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const body = Buffer.from(
      `{"choices":[{"message":{"content":"hi"},"logprobs":{"content":${deep}},"finish_reason":"stop"}]}`,
    );
    world.answer = () => ({ ok: true, status: 200, headers: {}, body });
    expect(await finish(world, OPTIONS)).toMatchObject({ counts: { completed: 1 } });
    const [line] = world.output();
    expect(line).toMatchObject({ key: "k1", output: { text: "hi" } });
  });
});
