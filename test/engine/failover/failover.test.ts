/** Items of an alias: which of its models answers them. */
import { describe, expect, it } from "vitest";
import { finish } from "../runs.ts";
import { status } from "../world.ts";
import { answeredBy, counted, failoverWorld } from "./failover_world.ts";

const MINUTE_MS = 60_000;
const RESET = { ok: false, failure: "not_sent", message: "connection refused" } as const;
const QUOTA = status(429, "insufficient_quota");

describe("an alias", () => {
  it("is answered by its first model while that can, and each line names it", async () => {
    const world = failoverWorld(20);
    const summary = await finish(world);
    expect(summary.status).toBe("completed");
    expect(counted(answeredBy(world))).toEqual({ "alpha:m1": 20 });
  });

  it("is answered by the next one from 10 s after the beginning of an outage of 10 minutes", async () => {
    const world = failoverWorld(300, { alpha: (nowMs) => (nowMs < 10 * MINUTE_MS ? RESET : undefined) });
    const startMs = world.clock.nowMs();
    const summary = await finish(world);
    expect(summary.status).toBe("completed");
    expect(world.clock.nowMs() - startMs).toBeLessThan(60_000);
    expect(counted(answeredBy(world))).toEqual({ "beta:m2": 300 });
  });

  it("is answered by the next one at once when the account of the first has no money", async () => {
    const world = failoverWorld(300, { alpha: () => QUOTA });
    await finish(world);
    expect(counted(answeredBy(world))).toEqual({ "beta:m2": 300 });
    expect(world.clock.nowMs()).toBeLessThan(10_000);
  });
});
