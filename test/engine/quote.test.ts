import { describe, expect, it } from "vitest";
import { resolveConfig } from "../../src/engine/config/config.ts";
import { priceFactor } from "../../src/price/factor.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { INPUT, itemLine, OUTPUT, ok, World } from "./world.ts";

/** A card on which a few lines are a volume that counts. */
const rateCard = {
  standard: { volumeHalfTokens: 100, volumeFullTokens: 10_000, poolFullMinutes: 60, poolHalfMinutes: 10 },
};
const PRICES = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 2_000, asOf: "2026-11-01" } };

const unlimited = (line: number, model = "alpha:m1"): string =>
  `${JSON.stringify({ key: `u${line}`, request: { model, contents: [{ role: "user", parts: [{ text: `[[${line}]] hello` }] }] } })}\n`;

describe("a quote", () => {
  it("has the price factor that a run of the same file then has", async () => {
    for (const path of [INPUT, "/in.json"]) {
      const world = new World({ config: { rateCard, prices: PRICES } });
      if (path === INPUT) world.input(20);
      else world.disk.put(path, `[${Array.from({ length: 20 }, (_, line) => itemLine(line + 1)).join(",")}]`);
      const engine = await world.engine();
      const quoted = await world.settle(engine.quote(path, { slas: [60] }));
      const { cost } = await world.settle(engine.run(path, { out: OUTPUT, sla: 60 }).finished);
      const factor = quoted.models[0]?.slas[0]?.price_factor ?? 0;
      expect(cost.usd / cost.list_usd).toBeCloseTo(factor, 9);
      expect(factor).toBeLessThan(priceFactor("alpha:m1", 60, 0, resolveConfig({ rateCard }, {}).rateCard));
    }
  });

  it("counts a stream's volume as none, as its run does", async () => {
    const world = new World({ config: { rateCard, prices: PRICES } });
    const engine = await world.engine();
    const lines = (): Uint8Array[] => [Buffer.from(itemLine(1)), Buffer.from(itemLine(2))];
    const quoted = await world.settle(engine.quote(lines(), { slas: [60] }));
    const { cost } = await world.settle(engine.run(lines(), { out: OUTPUT, sla: 60 }).finished);
    expect(cost.usd / cost.list_usd).toBeCloseTo(quoted.models[0]?.slas[0]?.price_factor ?? 0, 9);
  });

  it("counts what waits already, for the project whose work it would be", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } }, latencyMs: 500 });
    world.input(6_000);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, project: "busy", sla: 103 });
    await world.clock.advance(60_000);
    const lines = (): Uint8Array[] =>
      Array.from({ length: 300 }, (_, line) => Buffer.from(itemLine(10_000 + line)));
    const quoted = async (project?: string) =>
      world.settle(
        engine.quote(lines(), { slas: [60, 1_440], ...(project === undefined ? {} : { project }) }),
      );
    expect((await quoted()).time.seconds).toBeLessThan(320);
    const { time, slas, models } = await quoted("busy");
    expect(time.bound_by).toBe("backlog");
    expect(time.seconds).toBeGreaterThan(97 * 60);
    expect(time.seconds).toBeLessThan(110 * 60);
    expect(slas.map((sla) => sla.is_feasible)).toEqual([false, true]);
    expect(models[0]?.time).toEqual(time);
    expect((await quoted("idle")).slas.map((sla) => sla.is_feasible)).toEqual([true, true]);
    run.stop();
    await world.settle(run.finished);
  });

  it("refuses more models than its limit, and leaves nothing", async () => {
    const world = new World();
    const engine = await world.engine();
    const lines = (): Uint8Array[] =>
      Array.from({ length: 3 }, (_, line) => Buffer.from(unlimited(line, `alpha:m${line}`)));
    const quoted = world.settle(engine.quote(lines(), { modelsMax: 2 }));
    await expect(quoted).rejects.toMatchObject({ code: "too_many" });
    expect(world.disk.paths.filter((path) => path.includes("quote-"))).toEqual([]);
    expect((await world.settle(engine.quote(lines(), { modelsMax: 3 }))).models).toHaveLength(3);
  });

  it("expects the mean of the answers that were seen, never the limit, and says what it learnt it from", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.input(30);
    world.disk.put("/open.jsonl", unlimited(1));
    const engine = await world.engine();
    const before = await world.settle(engine.quote("/open.jsonl"));
    expect(before.models[0]).toMatchObject({
      expected_output_tokens: 512,
      expected_output_tokens_low: 64,
      expected_output_tokens_high: 4_096,
      expected_output_basis: ["default"],
      learnt_answers: 0,
    });
    const limited = await world.settle(engine.quote(INPUT));
    const limits = { expected_output_tokens: 30 * 8, expected_output_tokens_high: 30 * 16 };
    expect(limited.models[0]).toMatchObject(limits);
    expect(limited.billed_usd_high).toBeGreaterThan(limited.billed_usd + 30 * 8 * 0.002);
    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    for (const [path, items] of [
      ["/open.jsonl", 1],
      [INPUT, 30],
    ] as const)
      expect((await world.settle(engine.quote(path))).models[0]).toMatchObject({
        input_tokens: 10 * items,
        expected_output_tokens: 5 * items,
        expected_output_basis: ["learnt of the system prompt"],
        learnt_answers: 30,
        billed_usd: 0.02 * items,
        time: { basis: "learnt" },
      });
  });

  it("knows what earlier processes have learnt, by system prompt, and does not keep its texts", async () => {
    const long = (line: number): boolean => line % 5 === 0;
    const world = new World({
      answer: (line) => openaiAnswer("x", { inputTokens: 20, outputTokens: long(line) ? 400 : 10 }),
    });
    const asked = (line: number, system: string): string =>
      `${JSON.stringify({ key: `k${line}`, request: { model: "alpha:m1", system_instruction: { parts: [{ text: system }] }, contents: [{ role: "user", parts: [{ text: `[[${line}]]` }] }] } })}\n`;
    const lines = (from: number): string =>
      Array.from({ length: 25 }, (_, at) =>
        asked(from + at, long(from + at) ? "canary long" : "canary short"),
      ).join("");
    world.disk.put(INPUT, lines(1));
    const first = await world.engine();
    await world.settle(first.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(first.close());
    expect(world.disk.text("/state/learnt.json")).not.toContain("canary");
    const next = await world.engine();
    world.disk.put("/short", asked(1, "canary short"));
    world.disk.put("/long", asked(1, "canary long"));
    world.disk.put("/new", asked(1, "another"));
    const expected = async (path: string) => {
      const [model] = (await world.settle(next.quote(path))).models;
      return [model?.expected_output_tokens, ...(model?.expected_output_basis ?? [])];
    };
    expect(await expected("/short")).toEqual([10, "learnt of the system prompt"]);
    expect(await expected("/long")).toEqual([400, "learnt of the system prompt"]);
    expect(await expected("/new")).toEqual([88, "learnt of the model"]);
  });

  it("has the time of the same forecast as the run's own", async () => {
    const config = { limits: { alpha: { requestsPerMinute: 60 } } };
    const world = new World({ config, latencyMs: 2_000 });
    world.input(300);
    const engine = await world.engine();
    const quoted = await world.settle(engine.quote(INPUT));
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(500);
    const { etaMs = 0 } = run.progress();
    expect(Math.abs(etaMs / 1_000 - quoted.time.seconds)).toBeLessThan(5);
    const startMs = world.clock.nowMs();
    await world.settle(run.finished);
    expect(Math.abs(world.clock.nowMs() - startMs - etaMs)).toBeLessThan(5_000);
  });

  it("of a run is not known before the first answer of a model, where it depends on how long answers take", async () => {
    const world = new World({ config: { maxInFlight: 10 }, latencyMs: 30_000 });
    world.input(100, (line) => (line <= 90 ? "alpha:m1" : "beta:m1"));
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    for (let second = 0; second < 30; second += 1) {
      expect(run.progress()).not.toHaveProperty("etaMs");
      await world.clock.advance(1_000);
    }
    await world.clock.advance(5_000);
    const { etaMs = 0 } = run.progress();
    expect(etaMs).toBeGreaterThan(200_000); // nine rounds of alpha, one of beta
    expect(etaMs).toBeLessThan(300_000);
    await world.settle(run.finished);
    await world.settle(engine.close());
    const again = (await world.engine()).run(INPUT, { out: "/again.out" });
    await world.clock.advance(500);
    expect(again.progress().etaMs).toBeGreaterThan(200_000); // by what was learnt
  });

  it("takes the limits of the family in addition to those of the provider", async () => {
    const limits = { alpha: { requestsPerMinute: 60 }, "alpha:m2": { requestsPerMinute: 6 } };
    const world = new World({ config: { limits } });
    world.input(60, (line) => (line <= 30 ? "alpha:m1" : "alpha:m2"));
    const engine = await world.engine();
    const { models } = await world.settle(engine.quote(INPUT));
    const [m1, m2] = models.map(({ time }) => time);
    expect(m1).toMatchObject({ bound_by: "requests_per_minute" });
    expect(Math.floor((m1?.seconds ?? 0) / 60)).toBe(1);
    expect(Math.floor((m2?.seconds ?? 0) / 60)).toBe(5);
  });

  it("counts the lines that would fail, and leaves them out of the items", async () => {
    const world = new World();
    const tooLong = itemLine(3, "alpha:m1", "k".repeat(70_000));
    world.disk.put(INPUT, `${itemLine(1)}no json\n\n${itemLine(2, "nobody:m1")}${tooLong}${itemLine(4)}`);
    const engine = await world.engine();
    const quoted = await world.settle(engine.quote(INPUT));
    const first_fault = { line: 2, code: "invalid_json", message: "the line is not one JSON value" };
    expect(quoted).toMatchObject({ items: 2, rejected_lines: 3, first_fault });
    expect(world.sent).toEqual([]);
  });

  it("is given up by its caller, even while its source yields nothing", async () => {
    const world = new World({ answer: (line) => ok(line) });
    const engine = await world.engine();
    const waiting = new AbortController();
    const stalled = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from(itemLine(1));
      await new Promise(() => undefined);
    };
    const quoted = engine.quote(stalled(), { signal: waiting.signal });
    world.clock.timer(500, () => waiting.abort(new Error("enough")));
    await expect(world.settle(quoted)).rejects.toThrow("enough");
    const signal = AbortSignal.abort(new Error("never mind"));
    await expect(world.settle(engine.quote([], { signal }))).rejects.toThrow("never mind");
  });
});

describe("a quote of requests with more than text", () => {
  const message = { role: "user", content: "hi" };
  const prices = { "openai:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 } };
  async function quoted(body: object) {
    const world = new World({ config: { prices } });
    const engine = await world.engine();
    const whole = { model: "openai:gpt-4o-mini", messages: [message], max_tokens: 100, ...body };
    const lines = Array.from({ length: 50 }, (_, line) =>
      Buffer.from(
        `${JSON.stringify({ custom_id: `c${line}`, method: "POST", url: "/v1/chat/completions", body: whole })}\n`,
      ),
    );
    const { models, billed_usd, billed_usd_high, list_usd } = await world.settle(engine.quote(lines));
    const [{ input_tokens = 0, items_uncounted } = {}] = models;
    return {
      input: input_tokens,
      items_uncounted,
      billed: billed_usd,
      high: billed_usd_high,
      list: list_usd,
    };
  }
  const withPart = (part: object): object => ({
    messages: [{ role: "user", content: [{ type: "text", text: "hi" }, part] }],
  });
  const image = (detail?: string): object =>
    withPart({ type: "image_url", image_url: { url: "https://example.com/a.png", detail } });

  it("counts images by the vendor's formula, taking an unknown size for 1,024 by 1,024 pixels", async () => {
    const plain = await quoted({});
    const square = await quoted(image());
    expect(square.input).toBe(plain.input + 50 * (2_833 + 4 * 5_667));
    expect(square.high - square.billed).toBeGreaterThan((50 * 4 * 5_667) / 1_000);
    expect((await quoted(image("low"))).input).toBe(plain.input + 50 * 2_833);
    expect(square.items_uncounted).toBeUndefined();
  });

  it("counts tools and sounds, and says how many items have parts that no formula counts", async () => {
    const plain = await quoted({});
    const tool = { type: "function", function: { name: "f", description: "word ".repeat(2_000) } };
    const extra = (await quoted({ tools: [tool] })).input - plain.input;
    expect(extra / 50).toBeGreaterThan(2_000);
    expect(extra / 50).toBeLessThan(2_100);
    const audio = { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } };
    const heard = await quoted(withPart(audio));
    expect(heard.items_uncounted).toBeUndefined();
    expect(heard.input).toBeGreaterThan(plain.input);
    const stored = { type: "file", file: { file_id: "file-1" } };
    expect((await quoted(withPart(stored))).items_uncounted).toBe(50);
  });

  it("bills the requested tier, and leaves the list price as it is", async () => {
    const plain = await quoted({});
    const dear = await quoted({ service_tier: "priority" });
    expect([dear.billed, dear.list]).toEqual([plain.billed * 2, plain.list]);
    expect((await quoted({ service_tier: "flex" })).billed).toBe(plain.billed / 2);
  });
});
