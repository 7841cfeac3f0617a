/** How a worker of a fleet bounds its heap. */
import { expect, test } from "vitest";
import { boundHeap } from "../../src/cli/heap.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const MIB = 1 << 20;

test("the heap of a worker grows by 75 % a cycle while it is small, and as V8 sees fit while it is large", async () => {
  const clock = new FakeClock();
  let used = 40 * MIB;
  const percents: number[] = [];
  const heap = boundHeap(
    clock,
    () => used,
    (percent) => percents.push(percent),
  );
  expect(percents).toEqual([75]);
  for (const mib of [150, 193, 150, 97]) {
    used = mib * MIB;
    await clock.advance(1_000);
  }
  expect(percents).toEqual([75, 0]);
  used = 95 * MIB;
  await clock.advance(1_000);
  expect(percents).toEqual([75, 0, 75]);
  heap.cancel();
  used = 400 * MIB;
  await clock.advance(10_000);
  expect(percents).toEqual([75, 0, 75]);
});
