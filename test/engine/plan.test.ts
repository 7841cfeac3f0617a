/** `engine.plan`: what an engine says of the lanes that a source would go to, and that its runs then do so. */
import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../src/engine/config/config_options.ts";
import type { Plan } from "../../src/engine/plans/plan.ts";
import type { PlanOptions } from "../../src/engine/plans/plan_source.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 4 };

function configOf(provider: string, more: ConfigOptions = {}): ConfigOptions {
  const providers = { [provider]: { baseUrl: `http://${provider}.test/v1`, key: "k" } };
  return { providers, prices: { [`${provider}:*`]: PRICE }, ...more };
}

async function planned(
  model: string,
  items: number,
  options: PlanOptions,
  config: ConfigOptions = configOf(model.split(":")[0] as string),
): Promise<{ readonly plan: Plan; readonly world: World }> {
  const world = new World({ config, allowsBatches: true });
  world.input(items, model);
  const engine = await world.engine();
  const plan = await world.settle(engine.plan(INPUT, options));
  await world.settle(engine.close());
  return { plan, world };
}

const lanesOf = (plan: Plan): readonly (string | null)[] =>
  plan.models.flatMap(({ shares }) => shares.map(({ lane }) => lane));

describe("a plan of a source", () => {
  it("without an sla has everything in realtime, at list price, and says what batches would cost", async () => {
    const { plan } = await planned("anthropic:claude-haiku-4-5", 100, {});
    expect(plan).toMatchObject({ sla_minutes: null, items: 100, on_time: 1, next_switch_seconds: null });
    expect(plan.models[0]?.shares).toMatchObject([{ lane: "anthropic:realtime", why: "no_deadline" }]);
    expect(plan.expected_usd).toBeCloseTo(plan.realtime_usd, 9);
    expect(plan.models[0]?.lanes.map(({ lane }) => lane)).toEqual(["anthropic:realtime", "anthropic:batch"]);
  });

  it("with hours goes to a batch at about half the price, until realtime would take over", async () => {
    const { plan } = await planned("anthropic:claude-haiku-4-5", 1_000, { sla: 360 });
    expect(lanesOf(plan)).toEqual(["anthropic:batch"]);
    expect(plan.expected_usd / plan.realtime_usd).toBeGreaterThanOrEqual(0.5);
    expect(plan.expected_usd / plan.realtime_usd).toBeLessThan(0.52);
    const [share] = plan.models[0]?.shares ?? [];
    expect(share?.switch_seconds).toBeGreaterThan(5 * 3_600);
    expect(share?.switch_seconds).toBeLessThan(6 * 3_600);
    expect(plan.on_time).toBeGreaterThan(0.99);
  });

  it("counts on batches of a provider whose key is not set yet, as its quote does", async () => {
    const world = new World({ config: { prices: { "anthropic:*": PRICE } }, allowsBatches: true });
    world.input(1_000, "anthropic:claude-haiku-4-5");
    const engine = await world.engine();
    const plan = await world.settle(engine.plan(INPUT, { sla: 360 }));
    const { slas } = await world.settle(engine.quote(INPUT, { slas: [360] }));
    await world.settle(engine.close());
    expect(lanesOf(plan)).toEqual(["anthropic:batch"]);
    expect(slas[0]?.lanes).toEqual([{ lane: "anthropic:batch", items: 1_000 }]);
  });

  it("is done when a quote says so, where an item is a quarter of what a minute takes", async () => {
    const config = configOf("alpha", { limits: { alpha: { tokensPerMinute: 90 } } });
    const { plan, world } = await planned("alpha:m1", 200, {}, config);
    const engine = await world.engine();
    const quoted = await world.settle(engine.quote(INPUT));
    await world.settle(engine.close());
    expect(quoted.time.seconds).toBeGreaterThan(1_800);
    expect((plan.finish.expected_seconds ?? 0) / quoted.time.seconds).toBeCloseTo(1, 1);
  });

  it("knows what batches cost by the configuration, also at a server of one's own", async () => {
    const config = (priceFactor: number): ConfigOptions => ({
      providers: {
        box: { baseUrl: "http://box.test/v1", key: "k", batches: { wire: "compatible", priceFactor } },
      },
      prices: { "box:*": PRICE },
    });
    const { plan } = await planned("box:llama", 500, { sla: 1_440 }, config(0.3));
    expect(lanesOf(plan)).toEqual(["box:batch"]);
    expect(plan.expected_usd / plan.realtime_usd).toBeCloseTo(0.3, 1);
    const dear = await planned("box:llama", 500, { sla: 1_440 }, config(1.2));
    expect(lanesOf(dear.plan)).toEqual(["box:realtime"]);
  });

  it("expects as many batches without an end, whatever is configured of other lanes", async () => {
    const deny = ["flex"];
    const outcome = async (lanes: ConfigOptions["lanes"]) => {
      const config = configOf("openai", { lanes: { ...lanes, deny } });
      const { plan } = await planned("openai:gpt-5-mini", 1_000, { sla: 1_440 }, config);
      return plan.models[0]?.lanes.find(({ lane }) => lane === "openai:batch")?.expected_usd ?? 0;
    };
    const known = { p50: 156, p90: 2_100, p99: 21_960 };
    const usd = await outcome({});
    expect(await outcome({ priors: { flex: { p50: 3, p90: 10, p99: 60 } } })).toBeCloseTo(usd, 9);
    expect(await outcome({ priors: { batch: known } })).toBeLessThan(usd); // says that each of them ends
  });

  it("uses the lanes that the call, the configuration and the policy allow", async () => {
    const model = "openai:gpt-5-mini";
    expect(lanesOf((await planned(model, 50, { sla: 360 })).plan)).toEqual(["openai:flex"]);
    const deny = ["flex"];
    expect(lanesOf((await planned(model, 50, { sla: 1_440, lanes: { deny } })).plan)).toEqual([
      "openai:batch",
    ]);
    const config = configOf("openai", { lanes: { deny: ["flex", "batch"] } });
    expect(lanesOf((await planned(model, 50, { sla: 360 }, config)).plan)).toEqual(["openai:realtime"]);
    expect(lanesOf((await planned(model, 50, { sla: 360, policy: "fastest" })).plan)).toEqual([
      "openai:realtime",
    ]);
  });

  it("leaves waiting what the amount does not pay for", async () => {
    const whole = (await planned("anthropic:claude-haiku-4-5", 1_000, { sla: 360 })).plan;
    const maxCostUsd = whole.usd_90 / 2;
    const { plan } = await planned("anthropic:claude-haiku-4-5", 1_000, { sla: 360, maxCostUsd });
    const waits = plan.models[0]?.shares.find(({ lane }) => lane === null);
    expect(waits).toMatchObject({ why: "no_money", items: 500 });
    expect(plan.usd_90).toBeLessThanOrEqual(maxCostUsd + 1e-9);
  });

  it("has no amounts for a model without a known price, and names it", async () => {
    const config = { providers: { anthropic: { baseUrl: "http://anthropic.test", key: "k" } } };
    const { plan } = await planned("anthropic:nobody-knows", 10, { sla: 360 }, config);
    expect(plan).toMatchObject({ expected_usd: 0, unpriced_models: ["anthropic:nobody-knows"] });
    expect(plan.models[0]).toMatchObject({ expected_usd: null, usd_90: null });
    expect(plan.models[0]?.shares[0]).toMatchObject({ lane: "anthropic:batch", expected_usd: null });
  });

  it("splits limits that models share by their work", async () => {
    const limits = { anthropic: { requestsPerMinute: 100 } };
    const finishOf = async (models: readonly string[]): Promise<number> => {
      const world = new World({ config: configOf("anthropic", { limits }) });
      const lines = models.flatMap((model, at) =>
        Array.from({ length: 300 }, (_, line) => {
          const contents = [{ role: "user", parts: [{ text: `prompt ${line}` }] }];
          return `${JSON.stringify({ key: `${at}-${line}`, request: { model, contents } })}\n`;
        }),
      );
      world.disk.put(INPUT, lines.join(""));
      const engine = await world.engine();
      const plan = await world.settle(engine.plan(INPUT, {}));
      await world.settle(engine.close());
      return plan.finish.expected_seconds ?? Number.NaN;
    };
    const one = await finishOf(["anthropic:claude-haiku-4-5"]);
    const two = await finishOf(["anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-4-5"]);
    expect(two / one).toBeGreaterThan(1.8);
    expect(two / one).toBeLessThan(2.2);
  });

  it("knows which hours cost less, and when prices change on the way", async () => {
    const config: ConfigOptions = {
      providers: { deepseek: { baseUrl: "http://deepseek.test", key: "k" } },
      prices: { "deepseek:*": { ...PRICE, peakFactor: 2 } },
      limits: { deepseek: { requestsPerMinute: 100 } },
    };
    const world = new World({ config, wallMs: Date.UTC(2026, 10, 25, 2) }); // Wednesday, 10:00 in Beijing
    world.input(100, "deepseek:deepseek-chat");
    const engine = await world.engine();
    const plan = await world.settle(engine.plan(INPUT, { sla: 600 }));
    await world.settle(engine.close());
    expect(lanesOf(plan)).toEqual(["deepseek:offpeak"]);
    expect(plan.expected_usd / plan.realtime_usd).toBeCloseTo(0.5, 6);
    expect(plan.price_changes.length).toBeGreaterThan(0);
    const [share] = plan.models[0]?.shares ?? [];
    const fallsAt = Date.parse(plan.planned_at) + (share?.start_seconds ?? 0) * 1_000;
    expect(plan.price_changes.map(({ at }) => Date.parse(at))).toContain(fallsAt);
  });

  it("is what a quote states: the expected price of an sla, and list price without one", async () => {
    const world = new World({ config: configOf("anthropic"), allowsBatches: true });
    world.input(1_000, "anthropic:claude-haiku-4-5");
    const engine = await world.engine();
    const plan = await world.settle(engine.plan(INPUT, { sla: 1_440 }));
    const quoted = await world.settle(engine.quote(INPUT, { slas: [1, 1_440] }));
    await world.settle(engine.close());
    const [minute, day] = quoted.slas;
    expect(quoted).toMatchObject({ basis: "ceiling", billed_usd: plan.realtime_usd });
    expect(minute).toMatchObject({ billed_usd: quoted.billed_usd });
    expect(day?.billed_usd).toBeCloseTo(plan.expected_usd, 9);
    expect(day).toMatchObject({ lanes: [{ lane: "anthropic:batch", items: 1_000 }], finish: plan.finish });
  });

  const embedding = "openai:text-embedding-3-small";
  const embeddings = async (
    count: number,
    options: PlanOptions,
    config: Parameters<typeof configOf>[1] = {},
    providers: ConfigOptions["providers"] = {},
  ) => {
    const prices = { [embedding]: { inputUsdPerMillion: 1, outputUsdPerMillion: 0 } };
    const made = configOf("openai", { prices, ...config });
    const openai = { ...(made.providers?.["openai"] as object), ...(providers["openai"] as object) };
    const world = new World({ config: { ...made, providers: { openai } }, allowsBatches: true });
    const lines = Array.from({ length: count }, (_, index) =>
      JSON.stringify({ key: `k${index}`, kind: "embedding", model: embedding, input: "a short text" }),
    );
    world.disk.put(INPUT, `${lines.join("\n")}\n`);
    const engine = await world.engine();
    const plan = await world.settle(engine.plan(INPUT, options));
    const quoted = await world.settle(engine.quote(INPUT, { slas: [1_440] }));
    await world.settle(engine.close());
    return { plan, quoted };
  };

  it("has embeddings in batches at half of the list price, as they are sent, and without output", async () => {
    const { plan, quoted } = await embeddings(1_000, { sla: 1_440 });
    expect(plan.models[0]?.shares).toMatchObject([{ lane: "openai:batch", items: 1_000 }]);
    expect(plan.models[0]?.lanes.map(({ lane }) => lane)).toEqual(["openai:realtime", "openai:batch"]);
    expect(plan.expected_usd / plan.realtime_usd).toBeLessThan(0.6); // one batch in seven does not end in time
    expect(quoted.slas[0]?.billed_usd).toBeCloseTo(plan.expected_usd, 9);
    expect(quoted.expected_output_tokens).toBe(0);
  });

  it("has items in realtime at list price where the provider's batches do not have their endpoint", async () => {
    const { plan, quoted } = await embeddings(
      1_000,
      { sla: 1_440 },
      {},
      {
        openai: { batches: { endpoints: ["chat"] } },
      },
    );
    expect(plan.models[0]?.lanes.map(({ lane }) => lane)).toEqual(["openai:realtime"]);
    expect(plan.expected_usd).toBeCloseTo(plan.realtime_usd, 9);
    expect(quoted.slas[0]?.billed_usd).toBeCloseTo(quoted.billed_usd, 9);
  });

  it("counts the requests that embeddings share, not their texts", async () => {
    const limits = { openai: { requestsPerMinute: 10 } };
    const { plan, quoted } = await embeddings(10_000, {}, { limits });
    // 227 vectors of 1,536 numbers are 4 MiB, so 45 requests: 4.5 minutes, not 16 hours
    expect(plan.finish.expected_seconds).toBeGreaterThan(180);
    expect(plan.finish.expected_seconds).toBeLessThan(360);
    expect(quoted.time.seconds).toBeLessThan(360);
  });

  it("sends nothing, leaves nothing, and refuses what it does not know", async () => {
    const { world } = await planned("anthropic:claude-haiku-4-5", 10, { sla: 360 });
    expect(world.disk.paths.filter((path) => path.includes("quote-") || path === OUTPUT)).toEqual([]);
    const engine = await world.engine();
    const wrong = { slas: [60] } as unknown as PlanOptions;
    expect(() => engine.plan(INPUT, wrong)).toThrow(/slas/);
    expect(() => engine.plan(INPUT, { lanes: { deny: ["flux"] } })).toThrow(/flux/);
    await expect(world.settle(engine.plan(INPUT, { sla: 0 }))).rejects.toMatchObject({ code: "usage" });
    await world.settle(engine.close());
  });
});
