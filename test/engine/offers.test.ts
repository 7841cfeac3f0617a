/**
 * Work with an sla goes to a provider's cheaper tier as long as its deadline allows, and is answered in time whatever the tier
 * does.
 */
import { describe, expect, it } from "vitest";
import { openaiError } from "../../src/testing/index.ts";
import { SHED, tiered } from "./tiers.ts";
import { INPUT, OUTPUT, type Reply, World, type WorldOptions } from "./world.ts";

const MODEL = "openai:gpt-5-mini";

interface TierBody {
  readonly service_tier?: string;
}

/** What each request asked for, by line, in order. */
type Asked = { readonly line: number; readonly tier: string; readonly atMs: number };

interface Tiers {
  /** By the line and its requests in flex so far, this one included. */
  readonly flex: (line: number, attempt: number) => Reply;
  readonly realtime?: (line: number) => Reply;
}

/** A provider with a flex tier. */
function tieredWorld(
  { flex, realtime = (line) => tiered(line, "default") }: Tiers,
  config: WorldOptions["config"] = {},
) {
  const asked: Asked[] = [];
  const attempts = new Map<number, number>();
  const world: World = new World({
    config: {
      providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } },
      ...config,
    },
    answer: (line, _attempt, _model, body) => {
      const { service_tier: tier = "none" } = body as TierBody;
      asked.push({ line, tier, atMs: world.clock.nowMs() });
      if (tier !== "flex") return realtime(line);
      const attempt = (attempts.get(line) ?? 0) + 1;
      attempts.set(line, attempt);
      return flex(line, attempt);
    },
  });
  const tiersOf = (line: number): string[] =>
    asked.filter((one) => one.line === line).map(({ tier }) => tier);
  const count = (tier: string): number => asked.filter((one) => one.tier === tier).length;
  return { world, asked, tiersOf, count };
}

const soon = (line: number): Reply => ({ afterMs: 3_000, result: tiered(line, "flex") });
async function finished(world: World, count: number, options: { readonly sla?: number } = {}) {
  world.input(count, MODEL);
  const engine = await world.engine();
  const startMs = world.clock.nowMs();
  const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, ...options }).finished);
  const takenMs = world.clock.nowMs() - startMs;
  await world.settle(engine.close());
  return { summary, takenMs };
}

describe("work with an sla", () => {
  it("is sent in the flex tier, and billed at its price", async () => {
    const { world, count } = tieredWorld({ flex: soon });
    const { summary } = await finished(world, 40, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 40 });
    expect([count("flex"), count("none")]).toEqual([40, 0]);
    expect(summary.cost.billed_usd).toBeCloseTo(summary.cost.list_usd / 2, 9);
  });

  it("shows what is in the tier", async () => {
    const { world } = tieredWorld({ flex: (line, attempt) => (attempt === 1 ? SHED : soon(line)) });
    world.input(3, MODEL);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 60 });
    await world.clock.advance(2_500);
    const [lane] = engine.lanes();
    expect(lane?.cheaper).toMatchObject({ tier: "flex", inFlight: 3, inFlightMax: 4 });
    expect(lane?.cheaper?.tier === "flex" && lane.cheaper.refusedShare > 0).toBe(true);
    await world.settle(run.finished);
    expect(engine.lanes()[0]?.cheaper).toMatchObject({ inFlight: 0 });
    await world.settle(engine.close());
  });

  it("is sent in realtime without one, with one that is too short, where flex is denied, and where it asks for a tier itself", async () => {
    const none = tieredWorld({ flex: soon });
    await finished(none.world, 5);
    expect(none.count("flex")).toBe(0);
    const short = tieredWorld({ flex: soon });
    await finished(short.world, 5, { sla: 1 });
    expect(short.count("flex")).toBe(0);
    for (const denied of ["flex", "openai:flex"]) {
      const { world, count } = tieredWorld({ flex: soon }, { lanes: { deny: [denied] } });
      await finished(world, 5, { sla: 60 });
      expect(count("flex")).toBe(0);
    }
  });

  it.each([
    ["429 of its own", SHED],
    ["429 without a code", openaiError(429, { message: "no capacity" })],
    ["498", openaiError(498, { message: "flex is full", code: "capacity_exceeded" })],
    ["503", openaiError(503, { message: "unavailable" })],
  ])("waits while the tier has no capacity (%s), and costs nothing for it", async (_name, refusal) => {
    const { world, tiersOf } = tieredWorld({
      flex: (line, attempt) => (attempt <= 3 ? refusal : soon(line)),
    });
    const { summary } = await finished(world, 20, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 20 });
    expect(tiersOf(7)).toEqual(["flex", "flex", "flex", "flex"]);
    expect(summary.cost).toMatchObject({ ambiguous_usd: 0 });
    expect(summary.usage.attempts).toBe(20);
    expect(summary.requests_sent).toBe(80);
    expect(summary.cost.billed_usd).toBeCloseTo(summary.cost.list_usd / 2, 9);
  });

  it("makes the lane wait where the tier names a rate limit, as in realtime", async () => {
    const limited = openaiError(
      429,
      { message: "Rate limit reached", code: "rate_limit_exceeded", type: "requests" },
      { "retry-after": "30" },
    );
    const { world, asked } = tieredWorld({ flex: (line, attempt) => (attempt === 1 ? limited : soon(line)) });
    world.input(3, MODEL);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 60 });
    await world.clock.advance(2_000);
    expect(engine.lanes()[0]).toMatchObject({ state: "cooldown" });
    expect(asked.length).toBeLessThanOrEqual(3);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 3 } });
    await world.settle(engine.close());
  });

  it("stays in the tier after a rate limit that the provider names: it would pay more in realtime under the same limit", async () => {
    const limited = openaiError(
      429,
      { message: "Rate limit reached", code: "rate_limit_exceeded", type: "tokens" },
      { "retry-after": "2" },
    );
    const { world, tiersOf, count } = tieredWorld({
      flex: (line, attempt) => (attempt === 1 ? limited : soon(line)),
    });
    const { summary } = await finished(world, 10, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 10 });
    expect(tiersOf(3)).toEqual(["flex", "flex"]);
    expect(count("none")).toBe(0);
  });

  it("is answered in realtime before its deadline where the tier never has capacity", async () => {
    const { world, tiersOf } = tieredWorld({ flex: () => SHED });
    const { summary, takenMs } = await finished(world, 20, { sla: 10 });
    expect(summary.counts).toMatchObject({ completed: 20 });
    expect(takenMs).toBeLessThan(600_000);
    expect(takenMs).toBeGreaterThan(400_000);
    expect(tiersOf(7).at(-1)).toBe("none");
    expect(summary.cost.billed_usd).toBeCloseTo(summary.cost.list_usd, 9);
  });

  it("is answered in realtime where the tier hangs, and what may have been billed stays in doubt", async () => {
    const { world, tiersOf } = tieredWorld({ flex: () => "hang" });
    const { summary, takenMs } = await finished(world, 6, { sla: 10 });
    expect(summary.counts).toMatchObject({ completed: 6 });
    expect(takenMs).toBeLessThan(600_000);
    expect(tiersOf(3)).toEqual(["flex", "none"]);
    expect(summary.cost.ambiguous_usd).toBeGreaterThan(0);
  });

  it("goes on in realtime where the model has no such tier, after few requests in vain", async () => {
    const refusal = openaiError(400, {
      message: "Invalid service_tier argument",
      type: "invalid_request_error",
    });
    const { world, count } = tieredWorld({ flex: () => refusal });
    const { summary, takenMs } = await finished(world, 300, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 300 });
    expect(count("flex")).toBeLessThanOrEqual(8);
    expect(takenMs).toBeLessThan(60_000);
    expect(summary.cost.ambiguous_usd).toBe(0);
  });

  it("is answered in realtime where the tier alone is broken, and not held for it", async () => {
    const broken = openaiError(500, { message: "oops", type: "server_error" });
    const { world, count, tiersOf } = tieredWorld({ flex: () => broken });
    const { summary, takenMs } = await finished(world, 200, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 200 });
    expect(tiersOf(1)).toEqual(["flex", "none"]);
    expect(count("flex")).toBeLessThanOrEqual(200);
    expect(takenMs).toBeLessThan(300_000);
  });

  it("ends an item that is refused in both, for its own sake, and uses the tier for the others", async () => {
    const refusal = openaiError(400, { message: "bad", type: "invalid_request_error", code: "bad" });
    const reply = (line: number, otherwise: Reply): Reply => (line === 1 ? refusal : otherwise);
    const { world, tiersOf } = tieredWorld({
      flex: (line) => reply(line, soon(line)),
      realtime: (line) => reply(line, tiered(line, "default")),
    });
    const { summary } = await finished(world, 20, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 19, failed: 1 });
    expect(tiersOf(1)).toEqual(["flex", "none"]);
    expect(tiersOf(20)).toEqual(["flex"]);
  });

  it("asks in realtime what the tier refuses of a model that it answered before, and leaves it after three such items", async () => {
    const refusal = openaiError(400, { message: "flex was withdrawn", type: "invalid_request_error" });
    let answered = 0;
    const { world, count } = tieredWorld({
      flex: (line) => {
        answered += 1;
        return answered > 40 ? refusal : soon(line);
      },
    });
    const { summary } = await finished(world, 300, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 300 });
    expect(count("flex")).toBeLessThanOrEqual(80);
  });

  it("stays in the tier beside single items that only realtime answers", async () => {
    const refusal = openaiError(400, { message: "no images", type: "invalid_request_error" });
    const { world, tiersOf, count } = tieredWorld({
      flex: (line) => (line % 10 === 5 ? refusal : soon(line)),
    });
    const { summary } = await finished(world, 100, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 100 });
    expect(tiersOf(95)).toEqual(["flex", "none"]);
    expect(count("none")).toBe(10);
  });

  it("leaves a tier that is answered by another one, after three answers", async () => {
    const { world, count } = tieredWorld({
      flex: (line) => ({ afterMs: 3_000, result: tiered(line, "default") }),
    });
    const { summary } = await finished(world, 200, { sla: 60 });
    expect(summary.counts).toMatchObject({ completed: 200 });
    expect(count("flex")).toBeLessThanOrEqual(8);
    expect(summary.cost.billed_usd).toBeCloseTo(summary.cost.list_usd, 9);
  });
});
