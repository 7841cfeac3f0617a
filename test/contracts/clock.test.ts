/** The clock's contract. The system's clock waits some tens of milliseconds for it in all. */
import { describe, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { clockContract } from "../../src/testing/clock_contract.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

describe("the fake clock", () => {
  const make = () => {
    const clock = new FakeClock();
    return { clock, pass: (ms: number) => clock.advance(ms) };
  };
  for (const { name, run } of clockContract(make)) it(name, run);
});

describe("the system's clock", () => {
  const make = () => ({ clock: systemClock, pass: (ms: number) => systemClock.sleep(ms + 1) });
  for (const { name, run } of clockContract(make)) it(name, run);
});
