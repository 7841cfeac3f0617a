/**
 * Projects that share lanes: what one has waiting does not hold up another by more than its share.
 */
import { describe, expect, it } from "vitest";
import type { EngineRunOptions } from "../../src/engine/runs/run_open.ts";
import { INPUT, itemLine, OUTPUT, ok, status, World, type WorldOptions } from "./world.ts";

/** Lines of the large project are below, those of the small one from here on. */
const SMALL = 1_000_000;

interface Given {
  readonly world: WorldOptions;
  readonly large: number;
  /** Of the thousands. */
  readonly models?: (line: number) => string;
  /** Of the ten. */
  readonly model?: string;
  readonly small?: EngineRunOptions;
  readonly arriveMs?: number;
}

/** Milliseconds from the arrival of the small project's ten items to its end. */
async function tenItemsMs(given: Given): Promise<number> {
  const { world: options, large, models = "alpha:m1", model, small, arriveMs = 30_000 } = given;
  const world = new World(options);
  world.input(large, models);
  const lines = Array.from({ length: 10 }, (_, index) => itemLine(SMALL + index, model));
  world.disk.put("/small.jsonl", lines.join(""));
  const engine = await world.engine();
  const first = large > 0 ? engine.run(INPUT, { out: OUTPUT, project: "large" }) : undefined;
  await world.clock.advance(arriveMs);
  const startMs = world.clock.nowMs();
  const run = engine.run("/small.jsonl", { out: "/small.out", project: "small", ...small });
  expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 10 } });
  const tookMs = world.clock.nowMs() - startMs;
  first?.stop();
  await world.settle(Promise.resolve(first?.finished));
  return tookMs;
}

async function delays(given: Omit<Given, "large">): Promise<{ alone: number; beside: number }> {
  return {
    alone: await tenItemsMs({ ...given, large: 0 }),
    beside: await tenItemsMs({ ...given, large: 3_000 }),
  };
}

describe("ten items of a project beside another's thousands", () => {
  it("take at most twice their time without others where requests a minute are the limit", async () => {
    const world = { config: { limits: { alpha: { requestsPerMinute: 60 } } }, latencyMs: 500 };
    const { alone, beside } = await delays({ world });
    expect(beside).toBeLessThanOrEqual(alone * 2 + 2_000);
  });

  it("take at most twice their time without others where tokens a minute are the limit", async () => {
    const world = { config: { limits: { "alpha:m1": { tokensPerMinute: 3_000 } } }, latencyMs: 500 };
    const { alone, beside } = await delays({ world });
    expect(beside).toBeLessThanOrEqual(alone * 2 + 2_000);
  });

  it("take at most twice their time without others where places are the limit", async () => {
    const world: WorldOptions = {
      config: { maxInFlight: 4 },
      answer: (line) => ({ afterMs: 1_000 + (line % 7) * 100, result: ok(line) }),
    };
    const { alone, beside } = await delays({ world });
    expect(beside).toBeLessThanOrEqual(alone * 2 + 1_600);
  });

  it("wait for their first place no longer than a call takes, and are not held by calls of many minutes", async () => {
    const world: WorldOptions = {
      config: { maxInFlight: 8 },
      answer: (line) => ({ afterMs: line < SMALL ? 60_000 : 1_000, result: ok(line) }),
    };
    const { alone, beside } = await delays({ world, arriveMs: 90_000 });
    expect(beside).toBeLessThanOrEqual(alone * 2 + 60_000);
  });

  it("do so when both have an sla, and the other's ends sooner", async () => {
    const world = { config: { limits: { alpha: { requestsPerMinute: 60 } } }, latencyMs: 500 };
    const { alone, beside } = await delays({ world, small: { sla: 43_200 } });
    expect(beside).toBeLessThanOrEqual(alone * 2 + 2_000);
  });

  it("take the longer the less their project weighs", async () => {
    const world = { config: { limits: { alpha: { requestsPerMinute: 60 } } }, latencyMs: 500 };
    const light = await tenItemsMs({ world, large: 3_000, small: { weight: 0.25 } });
    const heavy = await tenItemsMs({ world, large: 3_000, small: { weight: 4 } });
    expect(light).toBeGreaterThan(heavy * 3);
  });

  it("are not held up by the other's retries", async () => {
    const world: WorldOptions = {
      config: { limits: { alpha: { requestsPerMinute: 60 } } },
      answer: (line, attempt) => (line < SMALL && attempt < 3 ? status(500) : ok(line)),
    };
    const { alone, beside } = await delays({ world });
    expect(beside).toBeLessThanOrEqual(alone * 2 + 2_000);
  });
});

describe("ten items of a project beside another's thousands in many lanes of one provider", () => {
  const models = (line: number): string => `alpha:m${line % 12}`;
  const small = ["alpha:m0", "alpha:other"];

  it("take at most twice their time without others where the provider's requests a minute are the limit", async () => {
    const world = { config: { limits: { alpha: { requestsPerMinute: 60 } } }, latencyMs: 500 };
    for (const model of small) {
      const { alone, beside } = await delays({ world, models, model });
      expect(beside).toBeLessThanOrEqual(alone * 2 + 2_000);
    }
  });

  it("take at most twice their time without others where places in flight are the limit", async () => {
    const answer = (line: number) => ({ afterMs: 1_000 + (line % 7) * 100, result: ok(line) });
    for (const config of [{ maxInFlight: 4 }, { limits: { alpha: { concurrency: 4 } } }]) {
      for (const model of small) {
        const { alone, beside } = await delays({ world: { config, answer }, models, model });
        expect(beside).toBeLessThanOrEqual(alone * 2 + 1_600);
      }
    }
  });

  it("are not held by calls of many minutes in other lanes", async () => {
    const answer = (line: number) => ({ afterMs: line < SMALL ? 60_000 : 1_000, result: ok(line) });
    for (const model of small) {
      const given = { world: { config: { maxInFlight: 8 }, answer }, models, model, arriveMs: 90_000 };
      const { alone, beside } = await delays(given);
      expect(beside).toBeLessThanOrEqual(alone * 2 + 60_000);
    }
  });
});
