/** Laws of the time that schemas may take that take long. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SlowSchemas } from "../src/slow_schemas.ts";

const HOUR_MS = 3_600_000;

/** A check of one of many schemas: what it would take without a limit, and the pause after it. */
const step = fc.record({
  schema: fc.nat(200),
  wantsMs: fc.oneof(fc.constantFrom(0.5, 99, 150, 990, 999), fc.constant(HOUR_MS)),
  pauseMs: fc.constantFrom(0, 0, 1, 1_000),
});

describe("the time of schemas that take long", () => {
  it("is 20 s and a sixtieth of the time for all together, however many there are and however they are mixed", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 200, maxLength: 1_000 }), (steps) => {
        const all = new SlowSchemas();
        const schemas = new Map<number, ReturnType<SlowSchemas["schema"]>>();
        let [nowMs, longMs] = [0, 0];
        for (const { schema, wantsMs, pauseMs } of steps) {
          const time = schemas.get(schema) ?? all.schema();
          schemas.set(schema, time);
          const mostMs = time.checkMs(nowMs);
          const tookMs = Math.min(wantsMs, mostMs);
          nowMs += tookMs;
          if (mostMs > 0) time.checked(tookMs, nowMs);
          if (tookMs >= 100) longMs += tookMs;
          nowMs += pauseMs;
        }
        // Beyond that, each schema may have one check of 100 ms a minute.
        const briefMs = schemas.size * 100 * Math.ceil(nowMs / 60_000);
        expect(longMs).toBeLessThanOrEqual(21_000 + nowMs / 60 + briefMs);
      }),
      { numRuns: 100 },
    );
  });

  it("leaves a schema unchecked after five checks at their limit, or as much below it, and lets it try again a minute later", () => {
    for (const tookMs of [1_000, 900, 150]) {
      const time = new SlowSchemas().schema();
      let [nowMs, totalMs] = [0, 0];
      while (time.checkMs(nowMs) > 0 && totalMs < 10_000) {
        nowMs += tookMs;
        totalMs += tookMs;
        time.checked(tookMs, nowMs);
      }
      expect(totalMs).toBeGreaterThanOrEqual(4_500);
      expect(totalMs).toBeLessThanOrEqual(5_400);
      expect(time.checkMs(nowMs + 60_000)).toBe(1_000);
    }
  });

  it("never stops a schema whose checks are quick, also beside others that are slow", () => {
    const all = new SlowSchemas();
    const quick = all.schema();
    let nowMs = 0;
    for (let other = 0; other < 100; other += 1) {
      const slow = all.schema();
      for (let time = 0; time < 5; time += 1) {
        const tookMs = slow.checkMs(nowMs);
        nowMs += tookMs;
        if (tookMs > 0) slow.checked(tookMs, nowMs);
        expect(quick.checkMs(nowMs)).toBeGreaterThanOrEqual(100);
        quick.checked(50, nowMs);
      }
    }
    expect(nowMs).toBeLessThan(35_000); // 500,000 without the bound
    expect(all.compileMs(nowMs)).toBe(1_000);
    expect(all.compileMs(nowMs + HOUR_MS)).toBe(5_000);
  });
});
