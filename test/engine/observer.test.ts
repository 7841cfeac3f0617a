import { describe, expect, it } from "vitest";
import type { AttemptReport, EngineObserver, SettledReport } from "../../src/engine/journal/observer.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

class Recording implements EngineObserver {
  readonly attempts: AttemptReport[] = [];
  readonly items: SettledReport[] = [];
  readonly commitsMs: number[] = [];

  attempted(report: AttemptReport): void {
    this.attempts.push(report);
  }

  settled(report: SettledReport): void {
    this.items.push(report);
  }

  committed(durationMs: number): void {
    this.commitsMs.push(durationMs);
  }
}

async function run(world: World) {
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, project: "red" }).finished);
  await world.settle(engine.close());
  return summary;
}

describe("the observer of an engine", () => {
  it("receives every attempt and every item once it is durable", async () => {
    const observer = new Recording();
    const world = new World({
      observer,
      commitMs: 3,
      answer: (line, attempt) => {
        if (line === 1 && attempt === 1) return status(503, "unavailable");
        return line === 2 ? status(400, "invalid_request_error") : ok(line);
      },
    });
    world.input(3);
    await run(world);
    const lane = { project: "red", lane: "alpha:realtime:m1", model: "alpha:m1", latencyMs: 10 };
    expect(observer.attempts).toHaveLength(4);
    expect(observer.attempts.filter(({ code }) => code !== undefined)).toEqual([
      expect.objectContaining({ ...lane, code: "overloaded" }),
      expect.objectContaining({ ...lane, code: "invalid_request" }),
    ]);
    expect(observer.attempts.at(-1)).toMatchObject({ ...lane, usage: { inputTokens: 10, outputTokens: 5 } });
    expect(observer.items.map(({ status, code }) => code ?? status).sort()).toEqual([
      "completed",
      "completed",
      "invalid_request",
    ]);
    expect(observer.items.find(({ status }) => status === "completed")).toEqual({
      project: "red",
      model: "alpha:m1",
      status: "completed",
      code: undefined,
      inputTokens: 10,
      outputTokens: 5,
      listUsd: 0,
      billedUsd: 0,
      ambiguousUsd: 0,
      usd: 0,
    });
    expect(new Set(observer.commitsMs)).toEqual(new Set([3]));
  });

  it("receives an item once, from the process that settled it", async () => {
    const observer = new Recording();
    const world = new World({ observer, config: { maxInFlight: 2 } });
    world.input(20);
    const engine = await world.engine();
    const first = engine.run(INPUT, { out: OUTPUT, project: "red" });
    await world.clock.advance(35);
    first.stop();
    const { counts } = await world.settle(first.finished);
    await world.settle(engine.close());
    expect(observer.items).toHaveLength(counts.completed);
    expect(counts.submitted).toBeGreaterThan(0);
    await run(world);
    expect(observer.items).toHaveLength(20);
  });
});
