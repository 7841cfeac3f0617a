/**
 * Lines that are cancelled one by one while their run goes on.
 */
import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

describe("a run that skips lines", () => {
  it("ends them as cancelled without a request, and answers all others", async () => {
    const world = new World();
    world.input(20);
    const options = { out: OUTPUT, skip: (line: number) => line % 2 === 0 };
    const summary = await world.settle((await world.engine()).run(INPUT, options).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 10, cancelled: 10 } });
    expect(world.sent.map(({ line }) => line)).toEqual([1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    const cancelled = world.output().filter(({ error }) => error?.code === "cancelled");
    expect(cancelled.map(({ error }) => error?.line)).toEqual([2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
  });

  it("asks at a line's turn: what is in flight is answered, what waits is not sent", async () => {
    const world = new World({ config: { maxInFlight: 2 }, latencyMs: 1_000 });
    world.input(10);
    const skipped = new Set<number>();
    const skip = (line: number): boolean => skipped.has(line);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, skip });
    await world.clock.advance(1_500);
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3, 4]);
    for (const line of [1, 3, 4, 9]) skipped.add(line);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 9, cancelled: 1 } });
    expect(world.output().find(({ key }) => key === "k9")?.error?.code).toBe("cancelled");
  });

  it("does not send a line again that was cancelled between two attempts", async () => {
    const world = new World({
      answer: (line) => (line === 2 ? status(503, "overloaded", { "retry-after": "20" }) : ok(line)),
    });
    world.input(3);
    const skipped = new Set<number>();
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, skip: (line) => skipped.has(line) });
    await world.clock.advance(1_000);
    skipped.add(2);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 2, cancelled: 1 } });
    expect(world.output().find(({ key }) => key === "k2")?.error).toMatchObject({
      code: "cancelled",
      attempts: 1,
    });
    expect(world.sent.filter(({ line }) => line === 2)).toHaveLength(1);
  });

  it("takes a line that waits for its retry's turn out of a lane whose limits hold it", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 1 } } },
      answer: () => status(500),
    });
    world.input(1);
    const skipped = new Set<number>();
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, skip: (line) => skipped.has(line) });
    await world.clock.advance(30_000);
    skipped.add(1);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 0, cancelled: 1 } });
    expect(world.sent).toHaveLength(1);
  });

  it("does not take a line back that was cancelled when the same run is called again", async () => {
    const world = new World();
    world.input(5);
    const first = (await world.engine()).run(INPUT, { out: OUTPUT, skip: (line) => line === 3 });
    await world.settle(first.finished);
    world.kill();
    const again = (await world.engine()).run(INPUT, { out: OUTPUT });
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 4, cancelled: 1 } });
    expect(world.sent).toHaveLength(4);
  });
});

describe("a weight", () => {
  it("that is not a number above 0 is refused with the call", async () => {
    const engine = await new World().engine();
    for (const weight of [0, -1, Number.NaN, Number.POSITIVE_INFINITY])
      expect(() => engine.run(INPUT, { weight })).toThrow("weight must be a number above 0");
  });
});
