/** What is learnt about token counts. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InputRatios, OutputLengths } from "../../src/queue/output_lengths.ts";

describe("OutputLengths", () => {
  it("reserves after a restart what answers took before", () => {
    const before = new OutputLengths();
    for (let each = 0; each < 300; each++) before.observe("m", 50);
    const after = new OutputLengths();
    for (const [model, kept] of before.changes()) after.restore(model, kept);
    expect([...before.changes()]).toEqual([]);
    expect(after.reserve("m", 0)).toBe(51);
    expect(after.expect("m", 0)).toBe(before.expect("m", 0));
    after.restore("other", [[3, -1, 4]]);
    expect(after.reserve("other", 0)).toBe(4_096);
  });

  it("expects 512, or the request's own limit, before 20 observations", () => {
    const lengths = new OutputLengths();
    for (let each = 0; each < 19; each++) lengths.observe("m", 16);
    expect(lengths.expect("m", 0)).toBe(512);
    expect(lengths.expect("m", 100)).toBe(100);
    lengths.observe("m", 16);
    expect(lengths.expect("m", 0)).toBe(16);
    expect(lengths.expect("other", 0)).toBe(512);
  });

  it("expects what at least 90 % of outputs fit in, at most 10 % more, capped by the request", () => {
    const drawn = fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 20, maxLength: 500 });
    fc.assert(
      fc.property(drawn, (outputs) => {
        const lengths = new OutputLengths();
        for (const output of outputs) lengths.observe("m", output);
        const expected = lengths.expect("m", 0);
        const fitting = outputs.filter((output) => output <= expected).length;
        expect(fitting).toBeGreaterThanOrEqual(outputs.length * 0.9);
        const sorted = [...outputs].sort((left, right) => left - right);
        const exact = sorted[Math.min(outputs.length - 1, Math.floor(outputs.length * 0.9))]!;
        expect(expected).toBeLessThanOrEqual(exact * 1.1 + 1);
        expect(lengths.expect("m", 7)).toBeLessThanOrEqual(7);
      }),
    );
  });

  it("follows when outputs become shorter", () => {
    const lengths = new OutputLengths();
    for (let each = 0; each < 10_000; each++) lengths.observe("m", 5_000);
    for (let each = 0; each < 10_000; each++) lengths.observe("m", 50);
    expect(lengths.expect("m", 0)).toBeLessThan(60);
  });

  it("ignores nonsense and survives zero and the enormous", () => {
    const lengths = new OutputLengths();
    for (let each = 0; each < 30; each++) {
      lengths.observe("m", Number.NaN);
      lengths.observe("m", -1);
    }
    expect(lengths.expect("m", 0)).toBe(512);
    for (let each = 0; each < 30; each++) lengths.observe("m", 0);
    expect(lengths.expect("m", 0)).toBe(1);
    for (let each = 0; each < 300; each++) lengths.observe("m", 1e15);
    expect(lengths.expect("m", 0)).toBe(2 ** 24);
  });

  it("keeps a bounded number of models", () => {
    const lengths = new OutputLengths();
    for (let model = 0; model <= 1_000; model++)
      for (let each = 0; each < 20; each++) lengths.observe(String(model), 16);
    expect(lengths.expect("0", 0)).toBe(512);
    expect(lengths.expect("1000", 0)).toBe(16);
  });
});

describe("InputRatios", () => {
  it("moves to what providers count, within 0.5 and 3", () => {
    const ratios = new InputRatios();
    expect(ratios.ratio("m", true)).toBe(1);
    for (let each = 0; each < 200; each++) ratios.observe("m", 100, 140);
    expect(ratios.ratio("m", true)).toBeCloseTo(1.4, 2);
    for (let each = 0; each < 200; each++) ratios.observe("m", 1, 1_000_000);
    expect(ratios.ratio("m", true)).toBeCloseTo(3, 2);
    for (let each = 0; each < 500; each++) ratios.observe("m", 1_000_000, 1);
    expect(ratios.ratio("m", true)).toBeCloseTo(0.5, 2);
  });

  it("never lowers an exact count, and ignores nonsense", () => {
    const ratios = new InputRatios();
    for (let each = 0; each < 200; each++) ratios.observe("m", 100, 50);
    ratios.observe("m", 0, 50);
    ratios.observe("m", 100, Number.NaN);
    expect(ratios.ratio("m", false)).toBe(1);
    expect(ratios.ratio("m", true)).toBeLessThan(0.6);
  });
});

describe("OutputLengths.mean", () => {
  it("is known after 20 answers, and at most 9 % high", () => {
    const lengths = new OutputLengths();
    for (let each = 0; each < 19; each++) lengths.observe("m", each % 2 === 0 ? 100 : 300);
    expect(lengths.mean("m")).toBeUndefined();
    lengths.observe("m", 300);
    expect(lengths.mean("m")).toBeGreaterThanOrEqual(200);
    expect(lengths.mean("m")).toBeLessThan(218.1);
    expect(lengths.mean("other")).toBeUndefined();
  });
});
