/**
 * Executions from their submission to their end.
 */
import { describe, expect, it } from "vitest";
import type { SatelliteCall } from "../../src/satellites/sdk/satellite.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { CALLER, ExecutionWorld, requestOf, satellite } from "./execution_world.ts";

describe("executions", () => {
  it("are pending when they are accepted and completed with what run returns", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("echo", { run: async ({ input }) => ({ response: input["text"] ?? null }) }));
    const executions = await world.open();
    const view = await executions.submit(CALLER, requestOf("echo", { input: { text: "hi" }, sla: "90s" }));
    expect(view).toMatchObject({ status: "pending", sla: "90s", output: null, error: null, retries: 0 });
    await world.clock.advance(10);
    const done = await executions.execution("one", view.id);
    expect(done).toMatchObject({ status: "completed", output: { response: "hi" }, error: null, retries: 0 });
    expect(done.deadlineWallMs - done.createdWallMs).toBe(90_000);
    expect(world.finished).toEqual([done]);
    expect(executions.counts()).toEqual({ queued: 0, running: 0 });
  });

  it("are listed without their outputs when a list shows none", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("large", { run: async () => ({ text: "x".repeat(900_000) }) }));
    const executions = await world.open();
    for (let index = 0; index < 12; index += 1) await executions.submit(CALLER, requestOf("large"));
    await world.clock.advance(1_000);
    const whole = await executions.list("one", { limit: 100 });
    expect([whole.hasMore, whole.items.length]).toEqual([true, 10]);
    const brief = await executions.list("one", { limit: 100, isBrief: true });
    expect([brief.hasMore, brief.items.length]).toEqual([false, 12]);
    for (const { status, output } of brief.items) expect([status, output]).toEqual(["completed", null]);
  });

  it("pass run their id, project, attempt, deadline and the parsed input and config", async () => {
    const calls: SatelliteCall[] = [];
    const world = new ExecutionWorld();
    world.add(
      satellite("look", {
        run: async (call) => {
          calls.push(call);
          return {};
        },
      }),
      { mode: "fixed" },
    );
    const executions = await world.open();
    const request = requestOf("look", { input: { n: 1 }, config: { mode: "own", rest: true } });
    const { id, deadlineWallMs } = await executions.submit(CALLER, request);
    await world.clock.advance(10);
    expect(calls).toHaveLength(1);
    expect(calls[0]).toMatchObject({ executionId: id, project: "one", attempt: 1, deadlineWallMs });
    expect(calls[0]?.input).toEqual({ n: 1 });
    expect(calls[0]?.config).toEqual({ mode: "fixed", rest: true });
  });

  it("repeat what may be repeated, wait as long as they are asked to, and count the retries", async () => {
    const world = new ExecutionWorld();
    const atMs: number[] = [];
    world.add(
      satellite("flaky", {
        run: async ({ attempt }) => {
          atMs.push(world.clock.nowMs());
          if (attempt < 3) throw new SatelliteError("refused", "busy", "come later", { retryAfterMs: 7_000 });
          return { attempt };
        },
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("flaky"));
    await world.clock.advance(100);
    expect(await executions.execution("one", id)).toMatchObject({ status: "pending", phase: "retrying" });
    await world.clock.advance(60_000);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "completed",
      output: { attempt: 3 },
      retries: 2,
    });
    expect((atMs[1] ?? 0) - (atMs[0] ?? 0)).toBeGreaterThanOrEqual(7_000);
  });

  it("end with the last failure when attempts are used up, at once when it is permanent", async () => {
    const world = new ExecutionWorld();
    const fails = (failure: "ambiguous" | "permanent") => async () => {
      throw new SatelliteError(failure, "smtp_550", "no such mailbox");
    };
    world.add(satellite("tired", { attemptsMax: 3, run: fails("ambiguous") }));
    world.add(satellite("dead", { run: fails("permanent") }));
    const executions = await world.open();
    const tired = await executions.submit(CALLER, requestOf("tired"));
    const dead = await executions.submit(CALLER, requestOf("dead"));
    await world.clock.advance(600_000);
    const error = { code: "smtp_550", message: "no such mailbox" };
    expect(await executions.execution("one", tired.id)).toMatchObject({
      status: "failed",
      error: { ...error, retryable: true },
      retries: 2,
    });
    expect(await executions.execution("one", dead.id)).toMatchObject({
      status: "failed",
      error: { ...error, retryable: false },
      retries: 0,
    });
  });

  it.each([
    ["not_sent", "connection_failed", "outage"],
    ["refused", "http_429", "rate_limited"],
    ["refused", "http_503", "overloaded"],
  ] as const)(
    "are tried again until their deadline while nothing was done: %s with %s",
    async (failure, code, reason) => {
      const world = new ExecutionWorld();
      let isDown = true;
      let attempts = 0;
      const run = async () => {
        attempts += 1;
        if (isDown) throw new SatelliteError(failure, code, "the host is down");
        return { attempts };
      };
      world.add(satellite("down", { attemptsMax: 1, isRepeatable: false, run }));
      const executions = await world.open();
      const { id, createdWallMs } = await executions.submit(CALLER, requestOf("down", { sla: "24h" }));
      await world.clock.advance(12 * 3_600_000);
      const held = await executions.execution("one", id);
      const nowMs = world.clock.wallMs();
      expect(held).toMatchObject({ status: "pending", phase: "retrying", error: null });
      expect(held.held).toMatchObject({ reason, code, message: "the host is down" });
      expect((held.held?.sinceWallMs ?? 0) - createdWallMs).toBeLessThan(1_000);
      expect((held.held?.nextTryWallMs ?? 0) - nowMs).toBeLessThanOrEqual(300_000);
      expect(attempts).toBeGreaterThan(12 * 12);
      expect(attempts).toBeLessThan(12 * 60);
      isDown = false;
      await world.clock.advance(300_000);
      const done = await executions.execution("one", id);
      expect(done).toMatchObject({ status: "completed", retries: attempts - 1 });
      expect(done.held).toBeUndefined();
    },
  );

  it("end at their deadline with the reason that held them", async () => {
    const world = new ExecutionWorld();
    const run = async (): Promise<never> => {
      throw new SatelliteError("not_sent", "connection_failed", "the host is down");
    };
    world.add(satellite("down", { run }));
    const executions = await world.open();
    const { id, deadlineWallMs } = await executions.submit(CALLER, requestOf("down", { sla: "1h" }));
    await world.clock.advance(3_590_000);
    expect(await executions.execution("one", id)).toMatchObject({ status: "pending" });
    await world.clock.advance(11_000);
    const ended = await executions.execution("one", id);
    expect(ended.updatedWallMs).toBeGreaterThan(deadlineWallMs - 5_000);
    expect(JSON.stringify(ended.error)).toContain("the host is down");
  });

  it("repeat an ambiguous attempt only of a satellite whose repetition does no harm", async () => {
    const world = new ExecutionWorld();
    const lost = async ({ attempt }: SatelliteCall) => {
      if (attempt === 1) throw new Error("anything");
      return { attempt };
    };
    world.add(satellite("safe", { isRepeatable: ({ input }) => input["safe"] === true, run: lost }));
    const executions = await world.open();
    const safe = await executions.submit(CALLER, requestOf("safe", { input: { safe: true } }));
    const harmful = await executions.submit(CALLER, requestOf("safe", { input: { safe: false } }));
    await world.clock.advance(60_000);
    expect(await executions.execution("one", safe.id)).toMatchObject({ status: "completed", retries: 1 });
    const failed = await executions.execution("one", harmful.id);
    expect(failed).toMatchObject({ status: "failed", error: { code: "ambiguous" }, retries: 0 });
    expect(failed.error?.message).not.toContain("anything");
  });

  it.each([2, -2])(
    "expire with their sla when the wall clock has jumped %i hours before they come",
    async (hours) => {
      const world = new ExecutionWorld();
      world.add(satellite("hang", { run: () => new Promise<never>(() => undefined) }));
      const executions = await world.open();
      world.clock.jumpWall(hours * 3_600_000);
      const { id } = await executions.submit(CALLER, requestOf("hang", { sla: "10s" }));
      await world.clock.advance(9_999);
      expect(await executions.execution("one", id)).toMatchObject({ status: "pending" });
      await world.clock.advance(5_000);
      expect(await executions.execution("one", id)).toMatchObject({ status: "expired" });
    },
  );

  it("expire with their sla, whether queued, retrying or running", async () => {
    const world = new ExecutionWorld({ bounds: { places: 1 } });
    let signal: AbortSignal | undefined;
    const hang = (call: SatelliteCall) =>
      new Promise<never>((_resolve, reject) => {
        signal = call.signal;
        call.signal.addEventListener("abort", () => reject(call.signal.reason));
      });
    world.add(satellite("hang", { run: hang }));
    world.add(
      satellite("later", {
        run: async () => {
          throw new SatelliteError("refused", "busy", "later", { retryAfterMs: 5_000 });
        },
      }),
    );
    const executions = await world.open();
    const retrying = await executions.submit(CALLER, requestOf("later", { sla: "25s" }));
    await world.clock.advance(100);
    const running = await executions.submit(CALLER, requestOf("hang", { sla: "30s" }));
    const queued = await executions.submit(CALLER, requestOf("hang", { sla: "10s" }));
    await world.clock.advance(10_000);
    expect(await executions.execution("one", queued.id)).toMatchObject({ status: "pending" });
    await world.clock.advance(2);
    expect(await executions.execution("one", queued.id)).toMatchObject({ status: "expired", retries: 0 });
    expect(await executions.execution("one", running.id)).toMatchObject({ phase: "running" });
    expect(await executions.execution("one", retrying.id)).toMatchObject({ phase: "retrying" });
    await world.clock.advance(15_000);
    const expired = { status: "expired", output: null, error: { code: "expired", retryable: true } };
    expect(await executions.execution("one", retrying.id)).toMatchObject(expired);
    expect(signal?.aborted).toBe(false);
    await world.clock.advance(5_000);
    expect(await executions.execution("one", running.id)).toMatchObject(expired);
    expect(signal?.aborted).toBe(true);
    expect(executions.counts()).toEqual({ queued: 0, running: 0 });
  });

  it("are cancelled once and for all; what the attempt returns then is dropped", async () => {
    const world = new ExecutionWorld({ bounds: { graceMs: 1_000 } });
    let give: ((output: { late: true }) => void) | undefined;
    world.add(
      satellite("deaf", {
        run: () =>
          new Promise((resolve) => {
            give = resolve;
          }),
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("deaf"));
    await world.clock.advance(10);
    const cancelled = await executions.cancel("one", id);
    expect(cancelled).toMatchObject({ status: "cancelled", error: { code: "cancelled" }, output: null });
    expect(executions.counts().running).toBe(1);
    await world.clock.advance(1_000);
    expect(executions.counts().running).toBe(0);
    give?.({ late: true });
    await world.clock.advance(10);
    expect(await executions.cancel("one", id)).toEqual(cancelled);
    expect(world.finished).toEqual([cancelled]);
  });

  it("end an attempt that takes too long, and leave behind one that ignores it", async () => {
    const world = new ExecutionWorld({ bounds: { graceMs: 2_000 } });
    let attempts = 0;
    world.add(
      satellite("slow", {
        attemptMsMax: 5_000,
        attemptsMax: 2,
        run: () => {
          attempts += 1;
          return new Promise(() => undefined);
        },
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("slow"));
    await world.clock.advance(60_000);
    expect(attempts).toBe(2);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "failed",
      error: { code: "timeout" },
      retries: 1,
    });
  });

  it("show what the attempt says of its progress while it runs", async () => {
    const world = new ExecutionWorld();
    let call: SatelliteCall | undefined;
    world.add(
      satellite("long", {
        run: (given) => {
          call = given;
          return new Promise(() => undefined);
        },
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("long"));
    await world.clock.advance(10);
    call?.progress(3, 10);
    expect(await executions.execution("one", id)).toMatchObject({ progress: { done: 3, total: 10 } });
  });

  it("hold no place while they only wait, up to 2,048 of a project", async () => {
    const world = new ExecutionWorld({ bounds: { places: 6 } });
    let begun = 0;
    let finish: () => void = () => undefined;
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    world.add(
      satellite("wait", {
        run: async (call) => {
          begun += 1;
          call.releasePlace?.();
          call.releasePlace?.(); // once is enough
          await finished;
          return {};
        },
      }),
    );
    const executions = await world.open();
    for (let count = 0; count < 2_100; count += 1) await executions.submit(CALLER, requestOf("wait"));
    await world.clock.advance(1_000);
    expect(begun).toBe(2_048 + 4); // a single project has two thirds of the places
    expect(executions.counts()).toEqual({ queued: 48, running: 2_052 });
    finish();
    await world.clock.advance(1_000);
    expect(executions.counts()).toEqual({ queued: 0, running: 0 });
    expect(world.finished).toHaveLength(2_100);
  });

  it("keep notes from one attempt to the next, and no more than 64 KiB", async () => {
    const world = new ExecutionWorld();
    const seen: unknown[] = [];
    world.add(
      satellite("notes", {
        run: async ({ notes, attempt }) => {
          seen.push(notes.get("reached"));
          await notes.set("reached", { attempt });
          if (attempt === 1) throw new SatelliteError("not_sent", "down", "down");
          const refusal = await notes.set("more", "x".repeat(65_536)).catch((error: unknown) => error);
          seen.push((refusal as { code?: string }).code);
          return {};
        },
      }),
    );
    const executions = await world.open();
    await executions.submit(CALLER, requestOf("notes"));
    await world.clock.advance(60_000);
    expect(seen).toEqual([undefined, { attempt: 1 }, "too_large"]);
  });

  it.each([
    ["no object", [1, 2], "satellite_error"],
    ["a cycle", circular(), "satellite_error"],
    ["a date", { at: new Date(0) }, "satellite_error"],
    ["no number of JSON", { n: Number.NaN }, "satellite_error"],
    ["more than 1 MiB", { text: "x".repeat(1 << 20) }, "output_too_large"],
  ])("fail when run returns %s", async (_what, output, code) => {
    const world = new ExecutionWorld();
    world.add(satellite("odd", { run: async () => output as never }));
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("odd"));
    await world.clock.advance(10);
    expect(await executions.execution("one", id)).toMatchObject({ status: "failed", error: { code } });
  });
});

function circular(): object {
  const one: Record<string, unknown> = {};
  one["self"] = one;
  return one;
}
