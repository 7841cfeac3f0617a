/** A small run of the simulation of `npm run fleet:simulate`: what the whole fleet promises, over a modelled database. */
import { describe, expect, it } from "vitest";
import { type FleetTerms, simulateFleet } from "./simulate_fleet.ts";

const TERMS: FleetTerms = {
  ...{
    seed: 1,
    workers: 40,
    itemsPerSecond: 120,
    postedShare: 0.2,
    projects: 20,
    runLines: 20_000,
    providers: 2,
  },
  ...{ allowedPerSecond: 60, answerMs: 500, warmUpSeconds: 10, seconds: 5 },
  server: { cores: 8, roundTripMs: 0.4, callerMs: 1, syncMs: 1 },
};

describe("a fleet of 36 workers in virtual time", () => {
  it("uses what its providers allow, and waits for no row of its database", async () => {
    const figures = await simulateFleet(TERMS);
    expect(figures.usedShare).toBeGreaterThan(0.8); // 0.85 to 1.01 in ten runs of 5 s, as their order varies; 0.31 when draws waited for the row
    expect(figures.usedShare).toBeLessThan(1.1);
    expect(figures.quotaLockedShare).toBeLessThan(0.9);
    expect(figures.drawsPerSecond).toBeLessThan(180);
    expect(figures.postMs[1]).toBeLessThan(100);
    expect(figures.lostLeases).toBe(0);
    expect(figures.sessions).toBeLessThanOrEqual(108);
  });

  it("loses leases, and counts them, when the disk of the database takes seconds", async () => {
    const server = { ...TERMS.server, syncMs: 3_500 };
    const figures = await simulateFleet({ ...TERMS, workers: 3, server, warmUpSeconds: 30, seconds: 30 });
    expect(figures.lostLeases).toBeGreaterThan(0);
  });
});
