/**
 * The state of an engine's lanes, and their forecast for new work.
 */
import { describe, expect, it } from "vitest";
import type { NewWork } from "../../src/engine/lanes/forecasts.ts";
import { INPUT, itemLine, OUTPUT, ok, status, World } from "./world.ts";

describe("the lanes of an engine", () => {
  it("tell their limits, what is used, in flight and waits, and how long answers take", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 60, concurrency: 8 } } },
      answer: (line) => ({ afterMs: 3_000, result: ok(line) }),
    });
    world.input(100);
    const engine = await world.engine();
    expect(engine.lanes()).toEqual([]);
    const run = engine.run(INPUT, { out: OUTPUT, project: "a" });
    await world.clock.advance(10_100);
    const [lane, ...others] = engine.lanes();
    expect(others).toEqual([]);
    expect(lane).toMatchObject({
      provider: "alpha",
      tier: "realtime",
      family: "m1",
      state: "open",
      cooldownMs: 0,
      requests: { used: 11, limit: 60, share: 11 / 60 },
      inFlight: 3,
      inFlightMax: 8,
      waiting: 89,
      projects: 1,
    });
    expect(lane?.answerMs).toBe(3_000);
    expect(lane).not.toHaveProperty("tokens");
    run.stop();
    await world.settle(run.finished);
    expect(engine.lanes()[0]).toMatchObject({ inFlight: 0, waiting: 0, projects: 0 });
  });

  it("never show more in flight than may be, also while the maximum falls (63/32 in flight)", async () => {
    const world = new World({
      config: { limits: { alpha: { concurrency: 64 } } },
      answer: (line) => ({
        afterMs: line === 1 ? 500 : 5_000,
        result: line === 1 ? status(429, "rate_limit_exceeded") : ok(line),
      }),
    });
    world.input(200);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    let most = 0;
    for (let step = 0; step < 40; step += 1) {
      await world.clock.advance(50);
      const shown = [...run.progress().lanes, ...engine.lanes()];
      for (const { inFlight, inFlightMax } of shown) expect(inFlight).toBeLessThanOrEqual(inFlightMax);
      most = Math.max(most, ...shown.map(({ inFlight }) => inFlight));
    }
    expect(most).toBeGreaterThan(32);
    run.stop();
    await world.settle(run.finished);
  });

  it("tell why an account has stopped them", async () => {
    const world = new World({ answer: () => status(402, "insufficient_balance") });
    world.input(5);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(5_000);
    expect(engine.lanes()).toMatchObject([{ state: "paused", pauseReason: "quota", waiting: 5 }]);
    run.stop();
    await world.settle(run.finished);
  });
});

describe("the forecast of new work", () => {
  it("is about what ten items then take beside a project with thousands, read or not", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 60 } } },
      latencyMs: 500,
    });
    world.input(6_000);
    world.disk.put("/small.jsonl", Array.from({ length: 10 }, (_, at) => itemLine(10_000 + at)).join(""));
    const { engine, core } = await world.opened();
    const large = engine.run(INPUT, { out: OUTPUT, project: "large", sla: 600 });
    await world.clock.advance(120_000);
    const work: NewWork = {
      model: "alpha:m1",
      project: "small",
      items: 10,
      inputTokens: 100,
      deadlineMs: world.clock.nowMs() + 60_000,
    };
    const { sla, doneMs } = core.sending.lanes.forecasts.forecast(work);
    expect(sla).toBe("feasible");
    const started = world.clock.nowMs();
    await world.settle(engine.run("/small.jsonl", { out: "/small.out", project: "small" }).finished);
    const tookMs = world.clock.nowMs() - started;
    expect(doneMs - started).toBeGreaterThan(tookMs * 0.7);
    expect(doneMs - started).toBeLessThan(tookMs * 1.3);
    const more = { ...work, project: "large", items: 100, deadlineMs: world.clock.nowMs() + 60_000 };
    expect(core.sending.lanes.forecasts.forecast(more)).toMatchObject({ sla: "infeasible" });
    const behind = core.sending.lanes.forecasts.forecast({ ...more, deadlineMs: Number.POSITIVE_INFINITY });
    expect(behind.doneMs - world.clock.nowMs()).toBeLessThan(110_000); // its own work need not have begun yet
    large.stop();
    await world.settle(large.finished);
  });
});
