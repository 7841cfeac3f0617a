/** A wall time that is carried from start to start, over boots, counts from when it was right, or up to a little later. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { jumpMsSince } from "../../src/work/moment.ts";
import { overAtMs } from "../../src/work/sla.ts";

const SLA_MS = 3_600_000;

it("A deadline is never early, and late by a millisecond or two for each boot, however often it is carried on", async () => {
  const start = fc.record({ runsUs: fc.nat(1_000_000), isBoot: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(start, { maxLength: 20 }), async (starts) => {
      const clock = new FakeClock();
      const deadlineMs = clock.nowMs() + SLA_MS;
      let acceptedMs = clock.moment().wallMs;
      let seen = clock.moment();
      for (const { runsUs, isBoot } of starts) {
        await clock.advance(runsUs / 1_000);
        if (isBoot) clock.reboot();
        acceptedMs += jumpMsSince(seen, clock.moment());
        seen = clock.moment();
        const lateMs = overAtMs(clock, acceptedMs + SLA_MS) - deadlineMs;
        expect(lateMs).toBeGreaterThan(-1e-6);
        expect(lateMs).toBeLessThan(2 + starts.filter((one) => one.isBoot).length * 2);
      }
    }),
  );
});
