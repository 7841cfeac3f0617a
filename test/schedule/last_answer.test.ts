/** When the last of many answers comes. */
import { describe, expect, it } from "vitest";
import { lastAnswerMs } from "../../src/queue/last_answer.ts";
import { createRandom } from "../../src/testing/index.ts";

const group = (items: number, meanMs: number, spread: number) => ({
  items,
  meanLn: Math.log(meanMs),
  varianceLn: spread ** 2,
});

describe("the last answer", () => {
  it("comes one latency after the last request when all take alike", () => {
    expect(Math.abs(lastAnswerMs(0, [group(1, 5_000, 0)]) - 5_000)).toBeLessThan(2);
    expect(Math.abs(lastAnswerMs(60_000, [group(10_000, 5_000, 0)]) - 65_000)).toBeLessThan(2_600);
  });

  it("is that of the slowest group, and never comes when requests do not", () => {
    const both = lastAnswerMs(0, [group(100, 1_000, 0), group(1, 9_000, 0)]);
    expect(Math.abs(both - 9_000)).toBeLessThan(2);
    expect(lastAnswerMs(Number.POSITIVE_INFINITY, [group(1, 1, 0)])).toBe(Number.POSITIVE_INFINITY);
    expect(lastAnswerMs(1_000, [group(0, 1, 0)])).toBe(0);
  });

  it("is the median of what is drawn, where some answers take long", () => {
    const random = createRandom(5);
    const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    for (const [items, sentMs] of [
      [50, 0],
      [500, 20_000],
      [2_000, 300_000],
    ] as const) {
      const drawn = Array.from({ length: 1_001 }, () => {
        let lastMs = 0;
        for (let item = 0; item < items; item += 1)
          lastMs = Math.max(lastMs, (sentMs * (item + 0.5)) / items + 4_000 * Math.exp(0.8 * normal()));
        return lastMs;
      }).sort((a, b) => a - b);
      const median = drawn[500] as number;
      expect(Math.abs(lastAnswerMs(sentMs, [group(items, 4_000, 0.8)]) / median - 1)).toBeLessThan(0.04);
    }
  });
});
