/**
 * DashScope's Batch Chat: ordinary calls to another address at half price, answered in up to an hour. Work with an sla goes there
 * as long as its deadline allows.
 */
import { describe, expect, it } from "vitest";
import { resolveConfig } from "../../src/engine/config/config.ts";
import { openaiAnswer, openaiError } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, type Reply, World, type WorldOptions } from "./world.ts";

const MODEL = "dashscope:qwen-plus";
const MINUTE_MS = 60_000;
const REALTIME = "http://qwen.test";
const SLOW = "http://batch.test";

const answered = (line: number): Exclude<Reply, "hang"> =>
  openaiAnswer(`answer ${line}`, { inputTokens: 1_000, outputTokens: 100 }, "qwen-plus");

async function run(
  slow: (line: number, attempt: number) => Reply,
  options: { readonly sla?: number; readonly items?: number; readonly config?: WorldOptions["config"] } = {},
) {
  const { sla, items = 10, config } = options;
  const world: World = new World({
    latencyMs: 1_000,
    config: {
      providers: {
        dashscope: { baseUrl: `${REALTIME}/v1`, batchChatUrl: `${SLOW}/compatible-mode/v1/`, key: "k" },
      },
      prices: { "dashscope:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" } },
      ...config,
    },
    answer: (line, attempt, _model, _body, origin) =>
      origin === SLOW ? slow(line, attempt) : answered(line),
  });
  world.input(items, MODEL);
  const engine = await world.engine();
  const startMs = world.clock.nowMs();
  const summary = await world.settle(
    engine.run(INPUT, { out: OUTPUT, ...(sla === undefined ? {} : { sla }) }).finished,
  );
  const takenMs = world.clock.nowMs() - startMs;
  await world.settle(engine.close());
  const count = (origin: string): number => world.wire.ledger.filter((one) => one.origin === origin).length;
  return { summary, takenMs, ledger: world.wire.ledger, slow: count(SLOW), realtime: count(REALTIME) };
}

describe("work with an sla at a provider with a slow address", () => {
  it("is sent there as it is, waited for as long as that takes, and billed at half the price", async () => {
    const { summary, slow, realtime, ledger } = await run(
      (line) => ({ afterMs: 50 * MINUTE_MS, result: answered(line) as never }),
      { sla: 180 },
    );
    expect(summary.counts).toMatchObject({ completed: 10 });
    expect([slow, realtime]).toEqual([10, 0]);
    expect(ledger[0]).toMatchObject({ path: "/compatible-mode/v1/chat/completions" });
    expect(ledger[0]?.headers).toMatchObject({ authorization: "Bearer k" });
    expect(ledger[0]?.body).not.toContain("service_tier");
    expect(summary.cost.list_usd).toBeCloseTo(10 * (1_000 * 1e-6 + 100 * 2e-6), 9);
    expect(summary.cost.billed_usd).toBeCloseTo(summary.cost.list_usd / 2, 9);
    expect(summary.cost.ambiguous_usd).toBe(0);
  });

  it("goes to realtime while an answer there still arrives in time", async () => {
    const { summary, takenMs, slow, realtime } = await run(() => "hang", { sla: 90 });
    expect(summary.counts).toMatchObject({ completed: 10 });
    expect(slow).toBeGreaterThan(0);
    expect(realtime).toBe(10);
    expect(takenMs).toBeLessThanOrEqual(90 * MINUTE_MS);
    expect(summary.cost.billed_usd).toBeCloseTo(summary.cost.list_usd, 9);
  });

  it("goes to realtime for a model that the slow address does not have", async () => {
    const refusal = openaiError(404, { message: "the model does not exist", code: "model_not_found" });
    const { summary, slow, realtime } = await run(() => refusal, { sla: 180, items: 40 });
    expect(summary.counts).toMatchObject({ completed: 40 });
    expect(realtime).toBe(40);
    expect(slow).toBeLessThan(10);
  });

  it("goes to realtime without an sla, with a short one, where it is denied, and where there is no such address", async () => {
    const soon = (line: number): Reply => answered(line);
    const providers = { dashscope: { baseUrl: `${REALTIME}/v1`, key: "k" } };
    for (const options of [
      {},
      { sla: 5 },
      { sla: 180, config: { lanes: { deny: ["dashscope:slow"] } } },
      { sla: 180, config: { providers } },
    ])
      expect(await run(soon, options)).toMatchObject({ slow: 0, realtime: 10 });
  });
});

describe("the slow address of DashScope", () => {
  const offersOf = (env: Record<string, string>): readonly string[] =>
    (resolveConfig({}, env).offers.get("dashscope") ?? []).map(({ kind }) => kind);

  it("is known in Beijing, and elsewhere where it is set", () => {
    const elsewhere = { PERIGEE_PROVIDER_DASHSCOPE_BASE_URL: "https://elsewhere.test/v1" };
    expect(offersOf({})).toEqual(["slow"]);
    expect(offersOf(elsewhere)).toEqual([]);
    const set = { ...elsewhere, PERIGEE_PROVIDER_DASHSCOPE_BATCH_CHAT_URL: "https://batch.test/v1/" };
    expect(offersOf(set)).toEqual(["slow"]);
    const { providers } = resolveConfig({}, set);
    expect(providers.find(({ name }) => name === "dashscope")?.batchChatUrl).toBe("https://batch.test/v1");
  });
});
