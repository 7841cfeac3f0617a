/** The memory of a ramp. */
import { describe, expect, it } from "vitest";
import { Ramp } from "../../src/limits/ramp.ts";

const MINUTE_MS = 60_000;
const rule = { inputTokensPerMinute: 1_000, growth: 0.5, minutes: 15 };
const asked = (): Ramp => new Ramp({ ...rule, isAsked: true });

describe("Ramp", () => {
  it("allows the threshold, then half more than what was used 15 minutes ago", () => {
    const ramp = asked();
    ramp.note(MINUTE_MS, 900);
    expect(ramp.allowed(MINUTE_MS)).toBe(1_000);
    expect(ramp.allowed(16 * MINUTE_MS)).toBe(1_000);
    expect(ramp.allowed(17 * MINUTE_MS)).toBe(1_350);
    expect(ramp.allowed(32 * MINUTE_MS)).toBe(1_000);
  });

  it("keeps a level through a rest, and begins anew after half an hour", () => {
    const ramp = asked();
    ramp.restore(0, 0, 8_000);
    expect(ramp.allowed(14 * MINUTE_MS)).toBe(8_000);
    expect(ramp.allowed(20 * MINUTE_MS)).toBe(12_000);
    expect(ramp.allowed(31 * MINUTE_MS)).toBe(1_000);
  });

  it("goes on with the level of an earlier process for what is left of its time", () => {
    const ramp = asked();
    ramp.restore(0, 10 * MINUTE_MS, 8_000);
    expect(ramp.allowed(0)).toBe(8_000);
    expect(ramp.allowed(21 * MINUTE_MS)).toBe(1_000);
    const late = asked();
    late.restore(0, 24 * 60 * MINUTE_MS, 8_000);
    expect(late.allowed(0)).toBe(1_000);
  });

  it("has a level to pass on above its threshold, or when a refusal was what asked for it", () => {
    const ramp = asked();
    ramp.note(0, 1_000);
    expect(ramp.level(0)).toBeUndefined();
    ramp.restore(0, 0, 1_200);
    expect(ramp.level(0)).toBe(1_200);
    const unasked = new Ramp({ ...rule, isAsked: false });
    expect(unasked.level(0)).toBeUndefined();
    unasked.refused(0, 600);
    expect(unasked.isAsked).toBe(true);
    expect(unasked.level(0)).toBe(600);
  });

  it("is lowered once by the refusals of a minute, and remembers no use that it no longer allows", () => {
    const ramp = asked();
    ramp.restore(0, 0, 9_000);
    for (let each = 0; each < 30; each += 1) ramp.refused(each * 1_000, 9_000);
    expect(ramp.allowed(30_000)).toBe(6_000);
    ramp.note(31_000, 8_500); // what was sent before the refusal still stands in the minute
    expect(ramp.allowed(31_000)).toBe(6_000);
    ramp.refused(61_000, 6_000);
    expect(ramp.allowed(61_000)).toBe(4_000);
  });
});
