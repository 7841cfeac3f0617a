/**
 * Executions across the end of a process, however it ends, and over disks without room.
 */
import { describe, expect, it } from "vitest";
import type { Executions } from "../../src/satellites/sdk/execution.ts";
import type { SatelliteCall } from "../../src/satellites/sdk/satellite.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { mortal } from "../engine/world.ts";
import { CALLER, ExecutionWorld, requestOf, satellite } from "./execution_world.ts";

const hang = (): Promise<never> => new Promise(() => undefined);

/** Opens, lets `work` happen, kills the process, and opens another. */
async function killed(
  world: ExecutionWorld,
  work: (executions: Executions) => Promise<void>,
): Promise<Executions> {
  const life = mortal(world.clock);
  await work(await world.open(life.clock));
  life.kill();
  world.crash();
  return world.open();
}

describe("after a crash", () => {
  it("pending executions go on, with their notes and the number of their attempts", async () => {
    const world = new ExecutionWorld();
    const calls: [number, unknown][] = [];
    world.add(
      satellite("again", {
        run: async ({ attempt, notes }) => {
          calls.push([attempt, notes.get("reached")]);
          await notes.set("reached", attempt);
          return attempt === 1 ? hang() : { attempt };
        },
      }),
    );
    const ids: string[] = [];
    const executions = await killed(world, async (first) => {
      for (let index = 0; index < 3; index += 1)
        ids.push((await first.submit(CALLER, requestOf("again", { sla: "1h" }))).id);
      await world.clock.advance(1_000);
    });
    await world.clock.advance(1_000);
    for (const id of ids)
      expect(await executions.execution("one", id)).toMatchObject({ status: "completed", retries: 1 });
    expect(calls.slice(3)).toEqual([
      [2, 1],
      [2, 1],
      [2, 1],
    ]);
  });

  it("an attempt that was under way is not repeated where that does harm", async () => {
    const world = new ExecutionWorld();
    let attempts = 0;
    world.add(
      satellite("once", {
        isRepeatable: false,
        run: () => {
          attempts += 1;
          return hang();
        },
      }),
    );
    let id = "";
    const executions = await killed(world, async (first) => {
      id = (await first.submit(CALLER, requestOf("once"))).id;
      await world.clock.advance(100);
    });
    await world.clock.advance(1_000);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "failed",
      error: { code: "ambiguous" },
    });
    expect(attempts).toBe(1);
  });

  it("one that was refused before the crash is repeated, and not before its time", async () => {
    const world = new ExecutionWorld();
    const atMs: number[] = [];
    world.add(
      satellite("once", {
        isRepeatable: false,
        run: async ({ attempt }) => {
          atMs.push(world.clock.nowMs());
          if (attempt === 1) throw new SatelliteError("refused", "busy", "busy", { retryAfterMs: 60_000 });
          return {};
        },
      }),
    );
    let id = "";
    const executions = await killed(world, async (first) => {
      id = (await first.submit(CALLER, requestOf("once"))).id;
      await world.clock.advance(100);
    });
    await world.clock.advance(70_000);
    expect(await executions.execution("one", id)).toMatchObject({ status: "completed", retries: 1 });
    expect((atMs[1] ?? 0) - (atMs[0] ?? 0)).toBeGreaterThanOrEqual(60_000);
  });

  it("those that are held go on, and say since when they are", async () => {
    const world = new ExecutionWorld();
    let isDown = true;
    const run = async () => {
      if (isDown) throw new SatelliteError("not_sent", "connection_failed", "nobody is there");
      return {};
    };
    world.add(satellite("down", { isRepeatable: false, run }));
    let id = "";
    let since: number | undefined;
    const executions = await killed(world, async (first) => {
      id = (await first.submit(CALLER, requestOf("down"))).id;
      await world.clock.advance(1_800_000);
      since = (await first.execution("one", id)).held?.sinceWallMs;
    });
    expect(since).toBeDefined();
    expect((await executions.execution("one", id)).held).toMatchObject({
      ...{ reason: "outage", sinceWallMs: since },
    });
    isDown = false;
    await world.clock.advance(301_000);
    expect(await executions.execution("one", id)).toMatchObject({ status: "completed" });
  });

  it("a satellite that crashes the process each time ends", async () => {
    const world = new ExecutionWorld();
    let attempts = 0;
    world.add(
      satellite("deadly", {
        attemptsMax: 4,
        run: () => {
          attempts += 1;
          return hang();
        },
      }),
    );
    let id = "";
    const life = mortal(world.clock);
    const first = await world.open(life.clock);
    id = (await first.submit(CALLER, requestOf("deadly"))).id;
    await world.clock.advance(100);
    for (let crash = 0; crash < 10; crash += 1) {
      world.crash();
      await world.open(mortal(world.clock).clock);
      await world.clock.advance(1_000);
    }
    world.crash();
    const executions = await world.open();
    expect(await executions.execution("one", id)).toMatchObject({
      status: "failed",
      error: { code: "ambiguous" },
      retries: 3,
    });
    expect(attempts).toBe(4);
  });

  it("those whose sla is over expire, in any state", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("hang", { run: hang }));
    let id = "";
    const executions = await killed(world, async (first) => {
      id = (await first.submit(CALLER, requestOf("hang", { sla: "10s" }))).id;
      await world.clock.advance(9_000);
      world.clock.jumpWall(5_000); // the machine was off
    });
    await world.clock.advance(10);
    expect(await executions.execution("one", id)).toMatchObject({ status: "expired" });
  });
});

describe("closing", () => {
  it("stops what runs without ending it, and does not count that as an attempt used up", async () => {
    const world = new ExecutionWorld();
    const reasons: unknown[] = [];
    world.add(
      satellite("long", {
        attemptsMax: 2,
        run: (call: SatelliteCall) =>
          new Promise((resolve, reject) => {
            if (call.attempt === 6) resolve({ attempt: 6 });
            call.signal.addEventListener("abort", () => {
              reasons.push((call.signal.reason as { code?: string }).code);
              reject(call.signal.reason);
            });
          }),
      }),
    );
    let executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("long"));
    for (let restart = 0; restart < 5; restart += 1) {
      await world.clock.advance(100);
      await executions.close();
      expect(await executions.execution("one", id)).toMatchObject({ status: "pending" });
      world.crash();
      executions = await world.open();
    }
    await world.clock.advance(100);
    expect(reasons).toEqual(Array(5).fill("closed"));
    expect(await executions.execution("one", id)).toMatchObject({
      status: "completed",
      output: { attempt: 6 },
    });
  });

  it("keeps what an attempt returns while it is being stopped", async () => {
    const world = new ExecutionWorld();
    world.add(
      satellite("last", {
        isRepeatable: false,
        run: ({ signal }) =>
          new Promise((resolve) => signal.addEventListener("abort", () => resolve({ done: 1 }))),
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("last"));
    await world.clock.advance(10);
    await executions.close();
    expect(await executions.execution("one", id)).toMatchObject({ status: "completed", output: { done: 1 } });
  });

  it("takes no longer than it may, also if an attempt does not stop", async () => {
    const world = new ExecutionWorld({ bounds: { graceMs: 3_000, closeMs: 2_000 } });
    world.add(satellite("deaf", { run: hang }));
    const executions = await world.open();
    await executions.submit(CALLER, requestOf("deaf"));
    await world.clock.advance(10);
    const beganMs = world.clock.nowMs();
    await world.clock.runUntilSettled(executions.close());
    expect(world.clock.nowMs() - beganMs).toBe(2_000);
  });
});

describe("on a full disk", () => {
  it("submissions and cancels are refused, and nothing of them happens", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("hang", { run: hang }));
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("hang"));
    await world.clock.advance(10);
    world.store.failNext("disk_full");
    await expect(executions.submit(CALLER, requestOf("hang"))).rejects.toMatchObject({ code: "disk_full" });
    expect(executions.counts()).toEqual({ queued: 0, running: 1 });
    world.store.failNext("disk_full", 3);
    const cancelling = executions.cancel("one", id);
    await expect(world.clock.runUntilSettled(cancelling)).rejects.toMatchObject({ code: "disk_full" });
    await world.clock.advance(10_000);
    expect(await executions.cancel("one", id)).toMatchObject({ status: "cancelled" });
  });

  it("what runs is kept and written when there is room, and nothing new begins before that", async () => {
    const world = new ExecutionWorld();
    const begun: number[] = [];
    let finish: (() => void) | undefined;
    world.add(
      satellite("result", {
        isRepeatable: false,
        run: ({ input }) => {
          begun.push(Number(input["n"]));
          return new Promise((resolve) => {
            finish = () => resolve({ n: input["n"] ?? null });
          });
        },
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("result", { input: { n: 1 } }));
    await world.clock.advance(10);
    world.store.failNext("disk_full", 5);
    finish?.();
    await world.clock.settle();
    const later = executions.submit(CALLER, requestOf("result", { input: { n: 2 } }));
    await expect(later).rejects.toMatchObject({ code: "disk_full" });
    await world.clock.advance(2_500);
    expect(await executions.execution("one", id)).toMatchObject({ status: "pending" });
    await world.clock.advance(2_000);
    expect(await executions.execution("one", id)).toMatchObject({ status: "completed", output: { n: 1 } });
    expect(begun).toEqual([1]);
    expect(world.faults).toEqual([]);
  });

  it("a store that has failed is reported once, and every call says so", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("quick", { run: async () => ({}) }));
    const executions = await world.open();
    const submitted = await executions.submit(CALLER, requestOf("quick"));
    world.store.failNext("store_failed");
    await world.clock.advance(100);
    expect(world.faults).toMatchObject([{ code: "store_failed" }]);
    await expect(executions.submit(CALLER, requestOf("quick"))).rejects.toMatchObject({
      code: "store_failed",
    });
    await world.clock.runUntilSettled(executions.close());
    world.crash();
    const next = await world.open();
    await world.clock.advance(100);
    expect(await next.execution("one", submitted.id)).toMatchObject({ status: "completed" });
  });
});
