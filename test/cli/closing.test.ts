/** How long `perigee serve` waits for its service to close. */
import { expect, it } from "vitest";
import { closeInTime } from "../../src/cli/serve.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

it("waits for a service that closes, and leaves no timer behind", async () => {
  const clock = new FakeClock();
  await clock.runUntilSettled(closeInTime({ close: () => clock.sleep(30_500) }, clock));
  expect([clock.nowMs(), clock.pendingTimers]).toEqual([30_500, 0]);
});

it("waits 35 s for a service that never closes", async () => {
  const clock = new FakeClock();
  await clock.runUntilSettled(closeInTime({ close: () => new Promise(() => undefined) }, clock));
  expect(clock.nowMs()).toBe(35_000);
});

it("fails with a service that cannot close", async () => {
  const close = (): Promise<void> => Promise.reject(new Error("no"));
  await expect(closeInTime({ close }, new FakeClock())).rejects.toThrow("no");
});
