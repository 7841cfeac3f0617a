/** How many attempts may be given up: few until waiting has proved that they hang. */
import { describe, expect, it } from "vitest";
import { GiveUps } from "../../src/queue/give_ups.ts";

const SOON_MS = 5_000;
const LEFT_MS = 600_000;

/** How many of so many further items may be given up after `elapsedMs`. */
function taken(giveUps: GiveUps, of: number, elapsedMs = SOON_MS, leftMs = LEFT_MS): object[] {
  return Array.from({ length: of }, () => ({})).filter((item) => giveUps.take(item, elapsedMs, leftMs));
}

function answers(giveUps: GiveUps, count: number): void {
  for (let each = 0; each < count; each += 1) giveUps.answered({}, 1_000);
}

describe("attempts that look as if they hang", () => {
  it("are given up soon once at first, and once more after each 200 answers", () => {
    const giveUps = new GiveUps();
    expect(taken(giveUps, 9)).toHaveLength(1);
    answers(giveUps, 190);
    expect(taken(giveUps, 9)).toHaveLength(0);
    answers(giveUps, 11);
    expect(taken(giveUps, 9)).toHaveLength(1);
    answers(giveUps, 5_000);
    expect(taken(giveUps, 9)).toHaveLength(1);
  });

  it("are given up four times more when they were waited for: two minutes, or half of their time, or longer", () => {
    for (const [elapsedMs, leftMs] of [
      [120_000, LEFT_MS],
      [30_000, 30_000],
    ] as const) {
      const giveUps = new GiveUps();
      expect(taken(giveUps, 9)).toHaveLength(1);
      expect(taken(giveUps, 9, elapsedMs - 1, leftMs + 1)).toHaveLength(0);
      expect(taken(giveUps, 9, elapsedMs, leftMs)).toHaveLength(1);
      const moreMs = elapsedMs / 4;
      expect(taken(giveUps, 9, elapsedMs + moreMs, leftMs - moreMs)).toHaveLength(1);
      expect(taken(giveUps, 9, elapsedMs * 1.9, leftMs - elapsedMs * 0.9)).toHaveLength(2);
      expect(taken(giveUps, 9, elapsedMs * 2, leftMs - elapsedMs)).toHaveLength(0);
    }
  });

  it("earn 32 more where one that was waited for is answered at once when it is sent again", () => {
    const giveUps = new GiveUps();
    const [first] = taken(giveUps, 1, 120_000);
    giveUps.answered(first as object, 119_000);
    expect(taken(giveUps, 99)).toHaveLength(32);
  });

  it("earn nothing where the next attempt takes as long, or where nothing was waited for", () => {
    const slow = new GiveUps();
    const [waited] = taken(slow, 1, 120_000);
    slow.answered(waited as object, 120_000);
    expect(taken(slow, 9)).toHaveLength(0);
    expect(taken(slow, 9, 120_000)).toHaveLength(1);
    const quick = new GiveUps();
    const [soon] = taken(quick, 1);
    quick.answered(soon as object, 1_000);
    expect(taken(quick, 9)).toHaveLength(0);
  });

  it("are given up again at no cost where no other attempt could be sent", () => {
    const giveUps = new GiveUps();
    const item = {};
    expect([1, 2, 3].map(() => giveUps.take(item, SOON_MS, LEFT_MS))).toEqual([true, true, true]);
    expect(taken(giveUps, 1)).toHaveLength(0);
  });
});
