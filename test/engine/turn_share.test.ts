/** Steps that many take, a few in each turn of the event loop. */
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { TurnShare } from "../../src/engine/lanes/turn_share.ts";

async function takeAll(turns: TurnShare, steps: number, onStep: () => void): Promise<void> {
  let may = 0;
  for (let step = 0; step < steps; step += 1) {
    if (may === 0) may = await turns.take();
    may -= 1;
    onStep();
  }
}

describe("steps of a turn", () => {
  it("never exceed what it bears, however many there are", async () => {
    const seen: number[] = [];
    let steps = 0;
    const soon = (callback: () => void): void => {
      seen.push(steps);
      systemClock.soon(callback);
    };
    await takeAll(new TurnShare({ soon }, 8), 20, () => {
      steps += 1;
    });
    const turns = seen.map((before, index) => (seen[index + 1] ?? steps) - before);
    expect(turns).toEqual([8, 8, 4]);
  });

  it("are shared evenly by all who wait for them, in any order of arrival", async () => {
    const turns = new TurnShare(systemClock, 8);
    const order: string[] = [];
    const first = takeAll(turns, 40, () => order.push("first"));
    const second = takeAll(turns, 8, () => order.push("second"));
    await Promise.all([first, second]);
    const before = order.slice(0, order.lastIndexOf("second")).filter((name) => name === "first");
    expect(before.length).toBeLessThanOrEqual(8 + 2 * 4);
    expect(order).toHaveLength(48);
  });
});
