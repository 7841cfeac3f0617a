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
