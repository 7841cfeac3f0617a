/** Items of an alias: which of its models answers them. */
import { describe, expect, it } from "vitest";
import type { Hold } from "../../../src/engine/items/holds.ts";
import { finish, killedAfter } from "../runs.ts";
import { OUTPUT, okFrom, status, type World } from "../world.ts";
import { ALIAS, answeredBy, counted, failoverWorld } from "./failover_world.ts";

const MINUTE_MS = 60_000;
const REFUSED = { ok: false, failure: "not_sent", message: "connection refused" } as const;
const CUT = { ok: false, failure: "lost", message: "connection reset" } as const;
const QUOTA = status(429, "insufficient_quota");

/** Lines of requests to a model, in the order of their sending. */
function sentTo(world: World, model: string): number[] {
  return world.sent.filter((request) => request.model === model).map(({ line }) => line);
}

async function run(world: World, options: object = {}) {
  const summary = await finish(world, { out: OUTPUT, ...options });
  return { summary, models: counted(answeredBy(world)), endMs: world.clock.nowMs() };
}

describe("the first model of an alias", () => {
  it("answers while it can, and each line names it", async () => {
    const { summary, models } = await run(failoverWorld(20));
    expect(summary.status).toBe("completed");
    expect(models).toEqual({ "alpha:m1": 20 });
  });

  it("is left 10 s after the beginning of an outage of 10 minutes", async () => {
    const world = failoverWorld(300, { alpha: (nowMs) => (nowMs < 10 * MINUTE_MS ? REFUSED : undefined) });
    const { summary, models, endMs } = await run(world);
    expect(summary.status).toBe("completed");
    expect(models).toEqual({ "beta:m2": 300 });
    expect(endMs).toBeGreaterThan(10_000);
    expect(endMs).toBeLessThan(45_000);
  });

  it("keeps its work over an outage of 5 s", async () => {
    const { models } = await run(
      failoverWorld(300, { alpha: (nowMs) => (nowMs < 5_000 ? REFUSED : undefined) }),
    );
    expect(models).toEqual({ "alpha:m1": 300 });
  });

  it.each([
    ["its account has no money", QUOTA],
    ["its key is refused", status(401, "invalid_api_key")],
    ["its provider does not know it", status(404, "model_not_found")],
    ["its provider asks to wait for five minutes", status(429, "rate_limit", { "retry-after": "300" })],
  ])("is left at once when %s", async (_, refusal) => {
    const { summary, models, endMs } = await run(failoverWorld(300, { alpha: () => refusal }));
    expect(summary.status).toBe("completed");
    expect(models).toEqual({ "beta:m2": 300 });
    expect(endMs).toBeLessThan(10_000);
  });

  it("is left at once when its provider has no key", async () => {
    const world = failoverWorld(50, {
      config: {
        providers: {
          alpha: { baseUrl: "http://alpha.test/v1", needsKey: true },
          beta: { baseUrl: "http://beta.test/v1", needsKey: false },
        },
      },
    });
    const { summary, models } = await run(world);
    expect(summary.status).toBe("completed");
    expect(models).toEqual({ "beta:m2": 50 });
  });

  it("keeps its work over a rate limit of 20 s", async () => {
    const limit = status(429, "rate_limit", { "retry-after": "20" });
    const { models } = await run(
      failoverWorld(100, { alpha: (nowMs) => (nowMs < 20_000 ? limit : undefined) }),
    );
    expect(models).toEqual({ "alpha:m1": 100 });
  });

  it("is left before 10 s have passed when its outage would cost the deadline", async () => {
    const world = failoverWorld(320, {
      config: { limits: { alpha: { requestsPerMinute: 60 } } },
      alpha: (nowMs) => (nowMs > 294_000 ? REFUSED : undefined),
    });
    const { summary, models } = await run(world, { sla: 5 });
    expect(summary.counts.completed).toBe(320);
    expect(models["beta:m2"]).toBeGreaterThan(0);
  });
});

describe("the way back", () => {
  it("is for new items, after one of them was answered and 30 s have passed", async () => {
    const world = failoverWorld(300, { alpha: (nowMs) => (nowMs < 5 * MINUTE_MS ? REFUSED : undefined) });
    const engine = await world.engine();
    const models = async (out: string): Promise<Record<string, number>> => {
      await world.settle(engine.run("/in.jsonl", { out }).finished);
      return counted(answeredBy(world, out));
    };
    expect(await models("/1.jsonl")).toEqual({ "beta:m2": 300 });
    await world.clock.advance(5 * MINUTE_MS);
    expect(await models("/2.jsonl")).toEqual({ "alpha:m1": 1, "beta:m2": 299 });
    await world.clock.advance(10_000);
    expect(await models("/3.jsonl")).toEqual({ "beta:m2": 300 });
    await world.clock.advance(30_000);
    expect(await models("/4.jsonl")).toEqual({ "alpha:m1": 300 });
    await world.settle(engine.close());
  });

  it("is taken ever more rarely while the first model flaps", async () => {
    const isUp = (nowMs: number): boolean => nowMs % (2 * MINUTE_MS) > MINUTE_MS;
    const world = failoverWorld(20, { alpha: (nowMs) => (isUp(nowMs) ? undefined : QUOTA) });
    const engine = await world.engine();
    for (let round = 0; round < 120; round += 1) {
      await world.settle(engine.run("/in.jsonl", { out: `/${round}.jsonl` }).finished);
      expect(answeredBy(world, `/${round}.jsonl`)).toHaveLength(20);
      await world.clock.advance(20_000);
    }
    await world.settle(engine.close());
    const refused = world.sent.filter(({ model, atMs }) => model === "m1" && !isUp(atMs)).length;
    expect(refused).toBeLessThan(160); // 1,200 if half of all work were sent to it in vain
  });
});

describe("while no model of an alias can answer", () => {
  it("items are held, and a hold names each of them", async () => {
    const isDown = (nowMs: number) => (nowMs < 3 * MINUTE_MS ? QUOTA : undefined);
    const world = failoverWorld(100, {
      alpha: isDown,
      beta: (nowMs) => (nowMs < 20 * MINUTE_MS ? REFUSED : undefined),
    });
    const engine = await world.engine();
    const seen: Hold[] = [];
    const work = engine.run("/in.jsonl", { out: OUTPUT, waitMs: 60 * MINUTE_MS });
    for (let second = 0; second < 60; second += 1) {
      await world.clock.advance(1_000);
      seen.push(...engine.holds());
    }
    const summary = await world.settle(work.finished);
    await world.settle(engine.close());
    expect(summary.status).toBe("completed");
    const named = new Set(seen.map(({ reason, provider, items }) => `${provider} ${reason} ${items}`));
    expect(named).toContain("beta outage 100"); // where the items wait
    expect(named).toContain("alpha quota 0"); // which could answer them, too
    expect(counted(answeredBy(world))).toEqual({ "alpha:m1": 100 });
    expect(world.clock.nowMs()).toBeLessThan(6 * MINUTE_MS);
  });
});

describe("money of an alias", () => {
  it("is what the model costs that answered", async () => {
    const world = failoverWorld(1, { alpha: () => QUOTA });
    const { summary } = await run(world);
    const [line] = world.output() as unknown as { model: string; cost: { billed_usd: number } }[];
    expect(line).toMatchObject({ model: "beta:m2", cost: { billed_usd: 0.00003 } });
    expect(summary.cost.billed_usd).toBeCloseTo(0.00003, 12);
  });

  it("stays under a cap when work moves to a dearer model", async () => {
    const maxCostUsd = 0.004;
    const world = failoverWorld(200, {
      alpha: (_now, line) => (line > 40 ? QUOTA : undefined),
      latencyMs: 200,
    });
    const { summary, models } = await run(world, { maxCostUsd, waitMs: 1_000 });
    expect(summary.cost.billed_usd + summary.cost.ambiguous_usd).toBeLessThanOrEqual(maxCostUsd);
    expect(models["beta:m2"]).toBeGreaterThan(50);
  });
});

describe("an item in doubt", () => {
  it("stays with its model until its answer arrives, while the others move", async () => {
    const world = failoverWorld(100, {
      alpha: (_now, line) =>
        line === 1 ? { afterMs: 50_000, result: okFrom(1, "m1") } : line > 1 ? QUOTA : undefined,
    });
    const { models } = await run(world);
    expect(models).toEqual({ "alpha:m1": 1, "beta:m2": 99 });
    expect(world.sent.filter(({ line }) => line === 1)).toHaveLength(1);
  });

  it("is not sent to another model under at_most_once", async () => {
    const world = failoverWorld(100, {
      config: { delivery: "at_most_once" },
      alpha: (_now, line) => (line <= 5 ? CUT : QUOTA),
    });
    const { summary } = await run(world);
    const ambiguous = world.output().filter(({ error }) => error?.code === "ambiguous");
    expect(ambiguous.length).toBeGreaterThan(0);
    expect(summary.counts.completed + ambiguous.length).toBe(100);
    for (const line of new Set(sentTo(world, "m1").filter((each) => each <= 5)))
      expect(world.sent.filter((request) => request.line === line)).toHaveLength(1);
  });
});

describe("a kill while items move", () => {
  it.each([5_000, 10_500, 11_000, 11_500, 12_000, 14_000])("after %i ms loses no item", async (liveMs) => {
    const world = failoverWorld(600, {
      latencyMs: 300,
      alpha: (nowMs) => (nowMs < 10 * MINUTE_MS ? REFUSED : undefined),
    });
    await killedAfter(world, liveMs);
    const { summary, models } = await run(world);
    expect(summary.status).toBe("completed");
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(600);
    expect(world.output()).toHaveLength(600);
    expect(models["beta:m2"]).toBeGreaterThan(590);
  });
});

describe("items that another model does not take", () => {
  it("stay with their own model and are held there", async () => {
    const world = failoverWorld(2, {
      config: {
        providers: {
          alpha: { baseUrl: "http://alpha.test/v1", needsKey: false },
          beta: {
            baseUrl: "http://beta.test/v1",
            needsKey: false,
            protocol: "anthropic",
            unsupportedConfig: "refuse",
          },
        },
      },
      alpha: (nowMs) => (nowMs < MINUTE_MS ? REFUSED : undefined),
    });
    const line = (key: string) =>
      JSON.stringify({
        key,
        request: {
          model: ALIAS,
          contents: [{ role: "user", parts: [{ text: "[[1]] hello" }] }],
          generation_config: { max_output_tokens: 16, seed: 7 },
        },
      });
    world.disk.put("/in.jsonl", `${line("k1")}\n${line("k2")}\n`);
    const { summary, models } = await run(world);
    expect(summary.status).toBe("completed");
    expect(models).toEqual({ "alpha:m1": 2 });
  });
});

describe("a submitted list", () => {
  it("may name an alias", async () => {
    const world = failoverWorld(1, { alpha: () => QUOTA });
    const engine = await world.engine();
    const task = await world.settle(
      engine.submit([{ model: ALIAS, input: "[[1]] hello" }]) as unknown as Promise<{
        objects: readonly { status: string; model?: string }[];
      }>,
    );
    expect(task.objects[0]).toMatchObject({ status: "completed" });
    await world.settle(engine.close());
  });
});
