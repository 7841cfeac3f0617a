/** Each row of `npm run lanes:check`, with few trials. */
import { describe, expect, it } from "vitest";
import { runStalledEngines } from "./planned_rows.ts";
import { ROWS } from "./rows.ts";

/** Rows with so few trials that shares of them say little have more; whole engines with 10,000 items are for the script. */
const TRIALS: Readonly<Record<string, number>> = { quote: 0, prefixes: 4, "the same": 0, "200 random": 20 };
const FEW = 3;

function trialsOf(name: string): number {
  const known = Object.keys(TRIALS).find((start) => name.startsWith(start));
  return known === undefined ? FEW : (TRIALS[known] ?? FEW);
}

describe("a row of the check of lanes holds for its first seeds", () => {
  const rows = ROWS.filter(({ name }) => trialsOf(name) > 0);
  it.each(rows)("$name", { timeout: 120_000 }, async (row) => {
    const { faults, figures, seeds } = await row.run({ trials: trialsOf(row.name), isOver: () => false });
    expect({ faults, figures, seeds }).toMatchObject({ faults: [] });
  });

  it("whole engines whose batches stall, with 300 items", { timeout: 120_000 }, async () => {
    const { faults } = await runStalledEngines({ trials: 9, isOver: () => false }, 300);
    expect(faults).toEqual([]);
  });
});
