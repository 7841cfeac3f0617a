/** The planner in a world of virtual time, against oracles; see tables.ts for what is drawn. */
import { describe, expect, it } from "vitest";
import { type MixRow, runDay, runMixes, runStallTable } from "./tables.ts";

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

describe("batches whose cancel is slower than is known", () => {
  const rows = runStallTable(seeds(3), 6);

  it("make nothing late: what is not known to be finished is sent, and booked as paid twice", () => {
    expect(rows.filter(({ late, open }) => late + open > 0)).toEqual([]);
    const twice = rows.filter(({ wire, twiceUsd }) => wire === "anthropic" && twiceUsd > 0);
    expect(twice.length).toBeGreaterThan(0);
    for (const { bookedTwiceUsd } of twice) expect(bookedTwiceUsd).toBeGreaterThan(0);
  });
});

describe("mixes of work", () => {
  const rows = runMixes(seeds(200));

  it("miss nothing that is feasible", () => {
    expect(rows).toHaveLength(200);
    expect(rows.filter(({ late }) => late > 0)).toEqual([]);
  });

  it("cost at most 2 % more together than with knowledge of when each batch ends, and most of them alone", () => {
    const sum = (read: (row: MixRow) => number): number => rows.reduce((total, row) => total + read(row), 0);
    expect(sum(({ paidUsd }) => paidUsd)).toBeLessThanOrEqual(1.02 * sum((row) => row.oracleUsd));
    expect(sum(({ paidUsd }) => paidUsd)).toBeGreaterThanOrEqual(sum((row) => row.oracleUsd));
    const near = rows.filter(({ paidUsd, oracleUsd }) => paidUsd <= 1.02 * oracleUsd);
    expect(near.length).toBeGreaterThanOrEqual(0.85 * rows.length);
  });

  it("cost at least 45 % less than realtime on a day of traffic", () => {
    const day = runDay(1);
    expect(day.late).toBe(0);
    expect(day.paidUsd).toBeLessThanOrEqual(0.55 * day.realtimeUsd);
  });
});
