/**
 * Executions whose host puts them off: how long they wait, and how they end when their time is over first.
 */
import { describe, expect, it } from "vitest";
import { errorOf } from "../../src/satellites/builtin/exchange/exchange.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { CALLER, ExecutionWorld, satellite } from "./execution_world.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Executions of one host, each attempt of which ends with what `attempt` throws. */
async function hostThat(attempt: (world: ExecutionWorld) => unknown) {
  const world = new ExecutionWorld();
  const tried: number[] = [];
  world.add(
    satellite("host", {
      destination: () => "host.test",
      destinationConcurrency: 4,
      attemptsMax: 1_000_000,
      run: async () => {
        tried.push(world.clock.nowMs());
        throw attempt(world);
      },
    }),
  );
  const executions = await world.clock.runUntilSettled(world.open());
  const submit = (sla: string) =>
    world.clock.runUntilSettled(
      executions.submit(CALLER, {
        satellite: { namespace: "perigee", name: "host" },
        ...{ input: {}, config: {}, sla },
      }),
    );
  return { world, executions, tried, submit };
}

/** An answer of a receiver, as the satellites of this repository read it. */
function answered(world: ExecutionWorld, status: number, headers: Record<string, string> = {}): unknown {
  return errorOf({ status, headers }, { wallMs: world.clock.wallMs() });
}

describe("executions to a host that fails alike", () => {
  const failures: readonly (readonly [string, string, (world: ExecutionWorld) => unknown])[] = [
    ["503", "http_503: the receiver answered 503", (world) => answered(world, 503)],
    [
      "503 with a Retry-After",
      "http_503: the receiver answered 503",
      (world) => answered(world, 503, { "retry-after": "600" }),
    ],
    [
      "429 until after the deadline",
      "http_429: the receiver answered 429",
      (world) => answered(world, 429, { "retry-after": "7201" }),
    ],
    [
      "refused connections",
      "connection_failed: connection refused",
      () => new SatelliteError("not_sent", "connection_failed", "connection refused"),
    ],
    ["500, safe to repeat", "http_500: the receiver answered 500", (world) => answered(world, 500)],
  ];
  for (const [name, last, attempt] of failures)
    it(`all expire at their deadlines, with the last error (${name})`, async () => {
      const { world, submit } = await hostThat(attempt);
      const deadlines = new Map<string, number>();
      for (let n = 0; n < 15; n += 1) {
        const { id, deadlineWallMs } = await submit("2h");
        deadlines.set(id, deadlineWallMs);
        await world.clock.advance(700);
      }
      await world.clock.advance(3 * HOUR);
      expect(world.finished).toHaveLength(15);
      for (const { id, status, error, updatedWallMs } of world.finished) {
        const message = `its sla ended before it was done; the last attempt ended with ${last}`;
        expect([status, error]).toEqual(["expired", { code: "expired", message, retryable: true }]);
        expect(updatedWallMs - (deadlines.get(id) ?? 0)).toBeGreaterThanOrEqual(0);
        expect(updatedWallMs - (deadlines.get(id) ?? 0)).toBeLessThan(1_000);
      }
    });
});

describe("a wait that a host asks for", () => {
  it("is kept up to a day, also by an execution whose deadline is sooner, which says when it would be tried", async () => {
    const { world, executions, tried, submit } = await hostThat((now) =>
      answered(now, 503, { "retry-after": "9".repeat(18) }),
    );
    const { id: short } = await submit("10h");
    await submit("3d");
    await world.clock.advance(9 * HOUR);
    expect(tried).toHaveLength(2);
    const { held } = await world.clock.runUntilSettled(executions.execution(CALLER.project, short));
    expect((held?.nextTryWallMs ?? 0) - world.clock.wallMs()).toBeGreaterThan(14 * HOUR);
    await world.clock.advance(2 * HOUR);
    expect(world.finished).toMatchObject([{ id: short, status: "expired" }]);
    await world.clock.advance(DAY);
    expect(tried).toHaveLength(3);
    expect((tried[2] ?? 0) - (tried[1] ?? 0)).toBeGreaterThanOrEqual(DAY);
    expect((tried[2] ?? 0) - (tried[1] ?? 0)).toBeLessThan(DAY + 1_000);
  });

  it("is kept over a restart", async () => {
    const { world, tried, submit } = await hostThat((now) => answered(now, 503, { "retry-after": "36000" }));
    await submit("8h");
    await submit("24h");
    await world.clock.advance(HOUR);
    world.crash();
    await world.clock.runUntilSettled(world.open());
    await world.clock.advance(8 * HOUR);
    expect(tried).toHaveLength(2);
    expect(world.finished).toMatchObject([{ status: "expired" }]);
    await world.clock.advance(HOUR + 60_000);
    expect(tried).toHaveLength(3);
  });

  it("of a satellite's own code is bounded in the same way, and an impossible one is ignored", async () => {
    const waits = [1e18, Number.POSITIVE_INFINITY, Number.NaN, -5, 0];
    const between: number[] = [];
    for (const retryAfterMs of waits) {
      const { world, tried, submit } = await hostThat(
        () => new SatelliteError("refused", "busy", "later", { retryAfterMs }),
      );
      await submit("30d");
      await world.clock.advance(2 * DAY);
      between.push((tried[1] ?? 0) - (tried[0] ?? 0));
    }
    expect(between.map((ms) => (ms >= DAY && ms < DAY + 1_000 ? "a day" : ms < 1_000))).toEqual([
      ...["a day", "a day"],
      ...[true, true, true],
    ]);
  });
});
