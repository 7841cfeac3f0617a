/**
 * A run of which items are left goes on, or fails and says what waits for what; it never waits for ever.
 */
import { describe, expect, it } from "vitest";
import { ArmedClock } from "../../src/engine/items/armed_clock.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { INPUT, itemLine, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

describe("a run that nothing goes on with", () => {
  it("fails within two minutes and names what waits for what; the same call goes on", async () => {
    const world = new World({ config: { limits: { alpha: { concurrency: 1 } } }, latencyMs: 1_000 });
    world.input(5);
    const { engine, core } = await world.opened();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(500);
    for (const lane of core.sending.lanes.all()) lane.pump = () => undefined; // a lane that forgets to go on
    await expect(world.settle(run.finished)).rejects.toMatchObject({
      code: "internal_error",
      message:
        "the run has stalled: 4 items wait to be sent and 0 to end (open), and nothing is scheduled that would continue with them: " +
        "lane alpha:realtime:m1 (open, 0 of 1 in flight, no timer). This is a fault of perigee, please report it. " +
        "Nothing answered is lost: run the same command again to continue",
    });
    expect(world.clock.nowMs()).toBeLessThan(120_000);
    expect(world.output()).toHaveLength(1);
    await world.settle(engine.close());
    const again = (await world.engine()).run(INPUT, OPTIONS);
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 5 } });
  });
});

describe("a run that has long to wait is not taken for one", () => {
  it.each([
    ["an answer of nine minutes", () => ({ afterMs: 540_000, result: ok(1) })],
    [
      "a Retry-After of a quarter of an hour",
      (_: number, attempt: number) =>
        attempt === 1 ? status(429, "rate_limit_exceeded", { "retry-after": "900" }) : ok(1),
    ],
    [
      "an overloaded provider that names five minutes",
      (_: number, attempt: number) => (attempt === 1 ? status(503, "busy", { "retry-after": "300" }) : ok(1)),
    ],
  ])("because of %s", async (_, answer) => {
    const world = new World({ answer });
    world.input(1);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 1 } });
    expect(world.clock.nowMs()).toBeGreaterThan(299_000);
  });

  it("because its input is silent for an hour", async () => {
    const world = new World();
    const { clock } = world;
    const source = (async function* () {
      yield Buffer.from(itemLine(1));
      await clock.sleep(3_600_000);
      yield Buffer.from(itemLine(2));
    })();
    const run = (await world.engine()).run(source, OPTIONS);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 2 } });
  });

  it("because of a limit of one request in a minute", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
    world.input(8, (line) => (line % 2 === 0 ? "alpha:m1" : "alpha:m2"));
    const run = (await world.engine()).run(INPUT, OPTIONS);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 8 } });
  });
});

describe("a clock that knows whether something waits on it", () => {
  it("counts timers and sleeps from when they are armed until they fire or are cancelled, each once", async () => {
    const fake = new FakeClock();
    const clock = new ArmedClock(fake);
    const leaving = new AbortController();
    const timer = clock.timer(10, () => undefined);
    const slept = clock.sleep(20);
    const left = clock.sleep(30, { signal: leaving.signal });
    expect(clock.isArmed).toBe(true);
    timer.cancel();
    timer.cancel();
    leaving.abort();
    await expect(left).rejects.toBe(leaving.signal.reason);
    expect(clock.isArmed).toBe(true);
    await fake.runUntilSettled(slept);
    expect(clock.isArmed).toBe(false);
  });
});
