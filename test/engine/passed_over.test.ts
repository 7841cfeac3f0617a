/** Runs that a lane passes over while they wait for a cheaper offer: each is tried again when its own wait is over. */
import { describe, expect, it } from "vitest";
import type { ItemCall } from "../../src/engine/items/item_call.ts";
import { PassedOver } from "../../src/engine/offers/passed_over.ts";
import { FakeClock } from "../../src/testing/index.ts";

const callOf = (id: string): ItemCall => ({ owner: { id } }) as ItemCall;

/** Waits of runs in the order in which a lane finds them; when it tries them again. */
async function triedAgain(waits: readonly (readonly [string, number])[]): Promise<readonly number[]> {
  const clock = new FakeClock();
  const at: number[] = [];
  const passedOver = new PassedOver(clock, () => {
    at.push(clock.nowMs());
    passedOver.clear();
  });
  for (const [run, waitMs] of waits) passedOver.forOffer(waitMs, callOf(run));
  await clock.advance(10_000);
  return at;
}

describe("runs that wait for a cheaper offer", () => {
  it.each([
    [[["soon", 100] as const, ["later", 5_000] as const]],
    [[["later", 5_000] as const, ["soon", 100] as const]],
  ])("are tried again when the shortest of their waits is over: %j", async (waits) => {
    expect((await triedAgain(waits))[0]).toBe(100);
  });

  it("are tried again once, after which each says how long it still waits", async () => {
    expect(
      await triedAgain([
        ["soon", 100],
        ["later", 5_000],
      ]),
    ).toEqual([100]);
  });

  it("make nobody try again after the lane has tried all of them for another reason", async () => {
    const clock = new FakeClock();
    let tries = 0;
    const passedOver = new PassedOver(clock, () => {
      tries += 1;
    });
    passedOver.forOffer(100, callOf("soon"));
    passedOver.clear();
    passedOver.forOffer(500, callOf("later"));
    await clock.advance(400);
    expect(tries).toBe(0);
    await clock.advance(100);
    expect(tries).toBe(1);
  });

  it("are tried again at each arrival of another run while they are few", () => {
    const passedOver = new PassedOver(new FakeClock(), () => undefined);
    for (const run of Array(16).keys()) passedOver.forOffer(5_000, callOf(`run-${run}`));
    expect(passedOver.stay()).toBe(false);
  });

  it("stay passed over while others arrive, but for a moment only, when they are many", async () => {
    const clock = new FakeClock();
    let tries = 0;
    const passedOver = new PassedOver(clock, () => {
      tries += 1;
      passedOver.clear();
    });
    for (const run of Array(1_000).keys()) passedOver.forOffer(5_000, callOf(`run-${run}`));
    for (const run of Array(50).keys()) {
      expect(passedOver.stay()).toBe(true);
      passedOver.forOffer(5_000, callOf(`arrived-${run}`));
      await clock.advance(1);
    }
    expect(tries).toBe(0);
    await clock.advance(50);
    expect(tries).toBe(1);
    expect(passedOver.runs.size).toBe(0);
  });

  it("are tried again when a shorter wait than a moment is over, although others arrive", async () => {
    const clock = new FakeClock();
    let tries = 0;
    const passedOver = new PassedOver(clock, () => {
      tries += 1;
    });
    for (const run of Array(1_000).keys()) passedOver.forOffer(run === 0 ? 20 : 5_000, callOf(`run-${run}`));
    passedOver.stay();
    await clock.advance(20);
    expect(tries).toBe(1);
  });
});
