/**
 * Account stops: per lane, and per run what they mean.
 */
import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

/** A run without sla gives up after 15 minutes. */
const GIVEN_UP_MS = 900_000;

describe("a run whose key is refused after it had worked", () => {
  it("waits for the key, and ends as paused for authentication", async () => {
    const world = new World({
      config: { maxInFlight: 1 },
      answer: (line) => (line <= 5 ? ok(line) : status(401, "invalid_api_key")),
    });
    world.input(20);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({
      status: "paused",
      reason: "authentication",
      counts: { completed: 5, submitted: 15 },
    });
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(GIVEN_UP_MS);
  });
});

describe("a run that a probe brought back", () => {
  it("is not stopped by the time it has lost, however long it is busy since", async () => {
    const world = new World({
      config: { maxInFlight: 2 },
      answer: (line) =>
        world.clock.nowMs() < 100_000
          ? status(402, "insufficient_balance")
          : { afterMs: 20_000 + line * 10, result: ok(line) },
    });
    world.input(120);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 120 } });
    expect(world.clock.nowMs()).toBeGreaterThan(GIVEN_UP_MS);
  });
});
