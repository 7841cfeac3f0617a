/** The clock's contract. The system's clock waits some tens of milliseconds for it in all. */
import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
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

  it("lets a process end that waits for nothing but a timer that keeps nothing alive", () => {
    const script = `import { systemClock } from ${JSON.stringify(new URL("../../dist/clock.js", import.meta.url).href)};
      systemClock.timer(60_000, () => undefined, { keepsAlive: false });`;
    const child = spawnSync(process.execPath, ["--input-type=module", "-e", script], { timeout: 20_000 });
    expect(child.status).toBe(0);
  });
});
