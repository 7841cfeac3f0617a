/**
 * Which rows are asked: the first ones, or as many as were wanted, the same ones for the same seed.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { firstRows, type RowChoice, sampledRows } from "../../src/tables/row_choice.ts";

describe("a choice of rows", () => {
  it("takes the first rows, and is over after them", () => {
    const choice = firstRows(2);
    expect(taken(choice, 4)).toEqual([1, 2]);
    expect([choice.isOver(2), choice.isOver(3)]).toEqual([false, true]);
  });

  it("draws as many rows as were wanted, or all when there are fewer, the same for the same seed", () => {
    fc.assert(
      fc.property(fc.nat(200), fc.integer({ min: 1, max: 100 }), fc.nat(1e9), (rows, size, seed) => {
        const drawn = taken(sampledRows(rows, size, seed), rows);
        expect(drawn.length).toBe(Math.min(rows, size));
        expect(taken(sampledRows(rows, size, seed), rows)).toEqual(drawn);
        expect(sampledRows(rows, size, seed).isOver((drawn.at(-1) ?? 0) + 1)).toBe(true);
      }),
    );
  });

  it("draws every row about equally often", () => {
    const counts = new Array<number>(20).fill(0);
    for (let seed = 0; seed < 4_000; seed += 1)
      for (const row of taken(sampledRows(20, 5, seed), 20)) counts[row - 1] = (counts[row - 1] ?? 0) + 1;
    for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(150);
  });

  it("draws other rows for another seed", () => {
    expect(taken(sampledRows(1_000, 5, 1), 1_000)).not.toEqual(taken(sampledRows(1_000, 5, 2), 1_000));
  });
});

function taken(choice: RowChoice, rows: number): number[] {
  return Array.from({ length: rows }, (_, index) => index + 1).filter((row) => choice.takes(row));
}
