/** Which lots of earlier processes run while a start still reads others. */
import { describe, expect, it } from "vitest";
import type { Lot } from "../../src/tasks/lots/lot.ts";
import { LotTurns } from "../../src/tasks/lots/lot_turns.ts";

const lotOf = (id: string): Lot =>
  ({ record: { id, project: "acme", slaMinutes: 60 }, deadlineMs: 3_600_000, members: [] }) as unknown as Lot;

describe("lots of earlier processes", () => {
  it("run when all of them are read, and not before", () => {
    const turns = new LotTurns();
    const [first, second] = [lotOf("first"), lotOf("second")];
    turns.add(first);
    expect(turns.take(0)).toEqual({ lots: [], nextMs: Number.POSITIVE_INFINITY });
    turns.add(second);
    turns.start();
    expect(turns.take(0).lots).toEqual([first, second]);
  });
});
