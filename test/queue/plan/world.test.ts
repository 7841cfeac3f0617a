/** The planner in a world of virtual time, against oracles; see tables.ts for what is drawn. */
import { describe, expect, it } from "vitest";
import { runDay, runMixes, runStallTable } from "./tables.ts";

const seeds = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index + 1);

describe("batches that stall at any share", () => {
  const rows = runStallTable(seeds(3));

  it("make nothing late, because the rest is sent in time", () => {
    expect(rows.filter(({ late, open }) => late + open > 0)).toEqual([]);
    expect(rows.every(({ onTime, items }) => onTime === items)).toBe(true);
  });

  it("cost no request twice where finished lines can be fetched", () => {
    const fetched = rows.filter(({ wire }) => wire !== "gemini");
    expect(fetched.filter(({ paidRequests, items }) => paidRequests !== items)).toEqual([]);
    expect(fetched.filter(({ paidUsd, bestUsd }) => paidUsd > bestUsd * 1.02)).toEqual([]);
  });

  it("are booked as paid twice where they cannot be fetched", () => {
    for (const { twiceUsd, bookedTwiceUsd, paidRequests, items, wire } of rows.filter(
      ({ wire }) => wire === "gemini",
    )) {
      expect({ wire, twiceUsd: bookedTwiceUsd }).toEqual({ wire, twiceUsd: expect.closeTo(twiceUsd, 6) });
      expect(paidRequests >= items).toBe(true);
    }
  });
});

describe("mixes of work", () => {
  it("miss nothing that is feasible", () => {
    expect(runMixes(seeds(50)).filter(({ late }) => late > 0)).toEqual([]);
  });

  it("cost at least 45 % less than realtime on a day of traffic", () => {
    const day = runDay(1);
    expect(day.late).toBe(0);
    expect(day.paidUsd).toBeLessThanOrEqual(0.55 * day.realtimeUsd);
  });
});
