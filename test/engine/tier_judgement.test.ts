/** Whether a cheaper tier or the item is to blame for the end of an attempt. */
import { describe, expect, it } from "vitest";
import type { AttemptResult } from "../../src/dispatch/attempt.ts";
import { blamedOnTier, tierFailureOf } from "../../src/engine/offers/judgement.ts";

const base = {
  message: "openai answered 429 (x): the rate limit is reached",
  scope: "item",
  latencyMs: 5,
} as const;
const refused = (parts: Partial<AttemptResult>): AttemptResult => ({
  ...base,
  class: "refused",
  code: "rate_limited",
  isRateLimit: true,
  ...parts,
});

describe("an attempt in a cheaper tier", () => {
  it.each<[string, AttemptResult, string | undefined]>([
    ["a rate limit without a name", refused({}), "shed"],
    ["a rate limit that is named", refused({ isLimitNamed: true }), undefined],
    ["an overload", refused({ code: "overloaded", isRateLimit: false }), "shed"],
    ["no answer in its time", { ...base, class: "ambiguous", code: "timeout" }, "slow"],
    ["a bad request", { ...base, class: "permanent", code: "invalid_request" }, "unknown"],
    [
      "a model that is not there",
      { ...base, class: "permanent", code: "model_not_found", scope: "model" },
      "unknown",
    ],
    [
      "a key that is refused",
      { ...base, class: "permanent", code: "authentication_failed", scope: "provider" },
      undefined,
    ],
    ["a filter", { ...base, class: "permanent", code: "filtered" }, undefined],
    ["a server error", { ...base, class: "ambiguous", code: "provider_error" }, undefined],
    ["no connection", { ...base, class: "not_sent", code: "connection_failed" }, undefined],
    ["its own end", { ...base, class: "ambiguous", code: "cancelled" }, undefined],
  ])("that ends with %s", (_name, result, failure) => {
    expect(tierFailureOf(result)).toBe(failure);
  });

  it("that is blamed on the tier asks for no wait, limits nothing and is free to repeat", () => {
    const shed = blamedOnTier(refused({ retryAfterMs: 60_000 }), "shed", "flex");
    expect(shed).toMatchObject({ class: "refused", ofTier: "shed", isOverload: true });
    expect(shed.message).toBe(
      "openai answered 429 (x): the tier flex has no capacity now, which costs nothing",
    );
    expect([shed.retryAfterMs, shed.isRateLimit]).toEqual([undefined, undefined]);
    const slow = blamedOnTier({ ...base, class: "ambiguous", code: "timeout" }, "slow", "flex");
    expect(slow).toMatchObject({ class: "ambiguous", code: "timeout" });
    const unknown = blamedOnTier({ ...base, class: "permanent", code: "invalid_request" }, "unknown", "flex");
    expect(unknown).toMatchObject({ class: "refused", code: "overloaded", ofTier: "unknown" });
  });
});
