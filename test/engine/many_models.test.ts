/**
 * Files in which each line names another model: hundreds of lanes of one provider, each with a shard of one item (I16).
 */
import { afterEach, describe, expect, it, type MockInstance, vi } from "vitest";
import { Backlog } from "../../src/engine/items/backlog.ts";
import { Lane } from "../../src/engine/lanes/lane.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const MODELS = 400;
const eachItsOwn = (line: number): string => `alpha:m${line}`;

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a file of hundreds of models", () => {
  it("has a place that is free wake the lanes whose turn it is, not all that wait for it", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(MODELS, eachItsOwn);
    const engine = await world.engine();
    const pumped = vi.spyOn(Lane.prototype, "pump");
    const { counts } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(counts.completed).toBe(MODELS);
    expect(pumped.mock.calls.length).toBeLessThan(8 * MODELS);
    await world.settle(engine.close());
  });

  it("has what waits put together once for all the lanes that share their limits, for each of them", async () => {
    const world = new World({ config: { maxInFlight: 4, limits: { alpha: { requestsPerMinute: 60 } } } });
    world.input(MODELS, eachItsOwn);
    const { engine, core } = await world.opened();
    const run = engine.run(INPUT, { out: OUTPUT, project: "a" });
    await world.clock.advance(1_000);
    const looked = vi.spyOn(Lane.prototype, "waiting");
    const nowMs = world.clock.nowMs();
    const work = { project: "a", items: 1, inputTokens: 10, deadlineMs: Number.POSITIVE_INFINITY };
    const tookMs = Array.from(
      { length: MODELS },
      (_, index) =>
        core.sending.lanes.forecasts.forecast({ ...work, model: eachItsOwn(index + 1) }).doneMs - nowMs,
    );
    expect(looked.mock.calls.length).toBe(MODELS);
    expect(Math.min(...tookMs)).toBeGreaterThan((MODELS - 70) * 1_000);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
  });

  it("brings at most 64 shards in a turn of the event loop, of all files that are read", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(MODELS, eachItsOwn);
    world.input(MODELS / 4, eachItsOwn, "/few.jsonl");
    const engine = await world.engine();
    const added = vi.spyOn(Backlog.prototype, "add");
    const most = mostCallsInATurn(added);
    const runs = [engine.run(INPUT, { out: OUTPUT }), engine.run("/few.jsonl", { out: "/few.out" })];
    await world.settle(Promise.all(runs.map(({ finished }) => finished)));
    expect(added.mock.calls.length).toBe(MODELS + MODELS / 4);
    expect(most()).toBeLessThanOrEqual(64);
    await world.settle(engine.close());
  });
});

function mostCallsInATurn(spy: MockInstance): () => number {
  let [most, seen, isWatched] = [0, 0, true];
  const look = (): void => {
    most = Math.max(most, spy.mock.calls.length - seen);
    seen = spy.mock.calls.length;
    if (isWatched) setImmediate(look);
  };
  setImmediate(look);
  return () => {
    isWatched = false;
    return most;
  };
}
