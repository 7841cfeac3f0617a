/** The pace of tokens that are used when the answer comes; what it comes to against a provider is in limit_profiles.test.ts. */
import { expect, it } from "vitest";
import { TokenFlow } from "../../src/limits/token_flow.ts";

it("lets nothing go while its budget is spent, though the rest of a wait rounds to 0", () => {
  const flow = new TokenFlow();
  const load = { inputTokens: 0, outputTokens: 1_000 };
  const limits = { tokens: Number.POSITIVE_INFINITY, outputTokens: 60_000 };
  const [first, evaluated, asked] = [65_310.25, 65_435.251, 65_560.25099999999];
  expect(evaluated + 125 - asked).toBe(0);
  expect(asked - evaluated).toBeLessThan(125);

  expect(flow.waitMs(first, load, limits, 1)).toBe(0);
  flow.sent(first, load);
  expect(flow.waitMs(evaluated, load, limits, 1)).toBeGreaterThan(0);
  expect(flow.waitMs(asked, load, limits, 1)).toBeGreaterThan(0);
});

it.each([
  [1_000, 2_000],
  [10_000, 1_000],
  [30_000, 500],
])(
  "uses a limit evenly with answers of %i ms and %i tokens: 97 to 102 % of each of the minutes 3 to 8",
  (latencyMs, tokens) => {
    const flow = new TokenFlow();
    const load = { inputTokens: 0, outputTokens: tokens };
    const limits = { tokens: Number.POSITIVE_INFINITY, outputTokens: 120_000 };
    const [underWay, perMinute]: [number[], number[]] = [[], Array.from({ length: 8 }, () => 0)];
    for (let nowMs = 0; nowMs < 480_000; nowMs += 25) {
      for (
        let sentMs = underWay[0];
        sentMs !== undefined && sentMs + latencyMs <= nowMs;
        sentMs = underWay[0]
      ) {
        underWay.shift();
        flow.ended(nowMs, sentMs, load, load, true);
        const minute = Math.floor(nowMs / 60_000);
        perMinute[minute] = (perMinute[minute] ?? 0) + tokens;
      }
      while (flow.waitMs(nowMs, load, limits, 1) === 0) {
        flow.sent(nowMs, load);
        underWay.push(nowMs);
      }
    }
    for (const used of perMinute.slice(2)) {
      expect(used / limits.outputTokens).toBeGreaterThan(0.97);
      expect(used / limits.outputTokens).toBeLessThanOrEqual(1.02);
    }
  },
);
