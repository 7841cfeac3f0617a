/**
 * Executions whose host is down: one looks whether it is back, the others wait for that.
 */
import { describe, expect, it } from "vitest";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { CALLER, ExecutionWorld, satellite } from "./execution_world.ts";

const COUNT = 200;
const HOUR = 3_600_000;

const request = (name: string, n: number) =>
  ({ satellite: { namespace: "perigee", name }, input: { n }, config: {}, sla: "24h" }) as const;

/** A host that is down until `upMs`; executions of `beside` go somewhere else. */
async function down(upMs: number, isBad: (n: number) => boolean = () => false) {
  const world = new ExecutionWorld();
  const tried: { readonly n: number; readonly atMs: number }[] = [];
  const hostOf = (name: string) =>
    satellite(name, {
      destination: () => `${name}.test`,
      destinationConcurrency: 8,
      run: async ({ input }) => {
        const { n } = input as { n: number };
        tried.push({ n, atMs: world.clock.nowMs() });
        if (name === "away" && (world.clock.nowMs() < upMs || isBad(n)))
          throw new SatelliteError("not_sent", "connection_failed", "connection refused");
        return { n };
      },
    });
  world.add(hostOf("away"));
  world.add(hostOf("beside"));
  const executions = await world.clock.runUntilSettled(world.open());
  const submit = (name: string, n: number) =>
    world.clock.runUntilSettled(executions.submit(CALLER, request(name, n)));
  return { world, executions, tried, submit };
}

describe("executions to a host that is down", () => {
  it("make one attempt at each wait, all together, and go on at once when it is back", async () => {
    const { world, tried, submit } = await down(HOUR);
    for (let n = 0; n < COUNT; n += 1) await submit("away", n);
    await world.clock.advance(600_000);
    const early = tried.filter(({ atMs }) => atMs > 5_000);
    expect(early.length).toBeLessThan(15); // 200 executions by themselves would make some 1,500
    await world.clock.advance(HOUR - 600_000);
    expect(tried.length).toBeLessThan(8 + 40);
    expect(new Set(tried.map(({ n }) => n)).size).toBeGreaterThan(15); // they take turns
    await world.clock.advance(310_000);
    expect(world.finished.filter(({ status }) => status === "completed")).toHaveLength(COUNT);
  });

  it("do not affect others, and an execution that fails by itself keeps nobody waiting for long", async () => {
    const { world, tried, submit } = await down(0, (n) => n === 0);
    for (let n = 0; n < 20; n += 1) await submit("away", n);
    await submit("beside", 1);
    await world.clock.advance(60_000);
    const ended = world.finished.map(({ output }) => (output as { n: number } | null)?.n);
    expect(ended.filter((n) => n !== undefined)).toHaveLength(20); // all but the bad one, and the one beside
    expect(tried.filter(({ n }) => n === 0).length).toBeGreaterThan(1);
  });

  it("go on when the one that looks for them is cancelled while it does, or expires", async () => {
    for (const how of ["cancel", "expire"] as const) {
      let isDown = true;
      const world = new ExecutionWorld();
      const run = async ({ input, signal }: { input: object; signal: AbortSignal }) => {
        if (isDown && Reflect.get(input, "n") === 0 && world.clock.nowMs() > 60_000)
          await new Promise((_resolve, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason)),
          );
        if (isDown) throw new SatelliteError("not_sent", "connection_failed", "connection refused");
        return {};
      };
      world.add(satellite("away", { destination: () => "away.test", run }));
      const executions = await world.clock.runUntilSettled(world.open());
      const ids: string[] = [];
      for (const [n, sla] of (["1h", "24h", "24h"] as const).entries()) {
        const asked = executions.submit(CALLER, { ...request("away", n), sla });
        ids.push((await world.clock.runUntilSettled(asked)).id);
      }
      await world.clock.advance(HOUR / 2); // the first hangs while it looks
      if (how === "cancel")
        await world.clock.runUntilSettled(executions.cancel(CALLER.project, ids[0] ?? ""));
      else await world.clock.advance(HOUR / 2);
      isDown = false;
      await world.clock.advance(HOUR);
      expect(world.finished.map(({ status }) => status)).toEqual([
        how === "cancel" ? "cancelled" : "expired",
        "completed",
        "completed",
      ]);
    }
  });

  it("show what holds them and when it is tried again, and expire at their deadlines", async () => {
    const { world, executions, submit } = await down(Number.POSITIVE_INFINITY);
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.push((await submit("away", n)).id);
    await world.clock.advance(20_000);
    for (const id of ids) {
      const view = await world.clock.runUntilSettled(executions.execution(CALLER.project, id));
      expect(view).toMatchObject({ status: "pending", phase: "retrying" });
      expect(view.held?.nextTryWallMs).toBeGreaterThanOrEqual(world.clock.wallMs());
    }
    await world.clock.advance(25 * HOUR);
    const ends = world.finished.map(({ status, error }) => `${status} ${error?.message}`);
    const last = "the last attempt ended with connection_failed: connection refused";
    expect(ends).toEqual(Array(3).fill(`expired its sla ended before it was done; ${last}`));
  });
});
