import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AttemptResult } from "../../src/dispatch/attempt.ts";
import { addUsage } from "../../src/dispatch/attempt.ts";
import {
  ATTEMPT_MS_MIN,
  decideRetry,
  decideStart,
  type RetryPolicy,
  type RetryState,
} from "../../src/dispatch/retry.ts";
import { HANG, LOST, NOT_SENT, refused, Stage, type Step, SUCCESS, USAGE } from "../dispatch/scripted.ts";

const results: fc.Arbitrary<AttemptResult> = fc.record(
  {
    class: fc.constantFrom("not_sent", "refused", "ambiguous", "permanent"),
    code: fc.constantFrom("timeout", "connection_lost", "rate_limited", "empty_output", "invalid_request"),
    message: fc.constant("failed"),
    scope: fc.constant("item" as const),
    latencyMs: fc.constant(1),
    retryAfterMs: fc.oneof(fc.double(), fc.integer({ min: -1_000, max: 1_000_000 })),
  },
  { requiredKeys: ["class", "code", "message", "scope", "latencyMs"] },
);

const states: fc.Arbitrary<RetryState> = fc.record({
  attempts: fc.integer({ min: 1, max: 2_000 }),
  uncounted: fc.integer({ min: 0, max: 2_000 }),
  ambiguousAttempts: fc.integer({ min: 0, max: 12 }),
  uncountedAmbiguous: fc.integer({ min: 0, max: 12 }),
  unusableAnswers: fc.integer({ min: 0, max: 4 }),
  remainingMs: fc.oneof(fc.double({ noNaN: true }), fc.constant(Number.POSITIVE_INFINITY)),
});

const policies: fc.Arbitrary<RetryPolicy> = fc.record({
  attemptsMax: fc.integer({ min: 1, max: 12 }),
  ambiguousMax: fc.integer({ min: 0, max: 5 }),
  emptyOutputsMax: fc.integer({ min: 0, max: 3 }),
  backoffFirstMs: fc.integer({ min: 0, max: 5_000 }),
  backoffMaxMs: fc.integer({ min: 0, max: 120_000 }),
});

const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe("the law of retries", () => {
  it("a wait is a number, never negative, never shorter than asked, and leaves time for an attempt", () => {
    fc.assert(
      fc.property(states, results, policies, chances, (state, result, policy, random) => {
        const decision = decideRetry(state, result, policy, random);
        if (!decision.retry) return;
        expect(decision.delayMs).toBeGreaterThanOrEqual(0);
        expect(decision.delayMs + ATTEMPT_MS_MIN).toBeLessThanOrEqual(state.remainingMs);
        const { retryAfterMs: asked = 0 } = result;
        if (asked > 0 && asked < Number.POSITIVE_INFINITY)
          expect(decision.delayMs).toBeGreaterThanOrEqual(asked);
        else expect(decision.delayMs).toBeLessThanOrEqual(policy.backoffMaxMs);
      }),
    );
  });

  it("a permanent failure is never repeated and keeps its code", () => {
    fc.assert(
      fc.property(states, results, policies, chances, (state, result, policy, random) => {
        const decision = decideRetry(state, { ...result, class: "permanent" }, policy, random);
        expect(decision).toEqual({ retry: false, code: result.code });
      }),
    );
  });

  it("more attempts made, or less time left, never turn a no into a yes", () => {
    fc.assert(
      fc.property(
        states,
        results,
        policies,
        chances,
        fc.nat(5),
        fc.nat(5),
        fc.nat(1_000_000),
        (state, result, policy, random, more, ambiguous, less) => {
          if (decideRetry(state, result, policy, random).retry) return;
          const used = {
            ...state,
            attempts: state.attempts + more,
            ambiguousAttempts: state.ambiguousAttempts + ambiguous,
            unusableAnswers: state.unusableAnswers + ambiguous,
          };
          const isForTime =
            state.attempts < policy.attemptsMax && state.ambiguousAttempts <= policy.ambiguousMax;
          if (!isForTime) expect(decideRetry(used, result, policy, random).retry).toBe(false);
          const late = { ...state, remainingMs: state.remainingMs - less };
          expect(decideRetry(late, result, policy, random).retry).toBe(false);
        },
      ),
    );
  });

  it("the bounds of attempts and of the ambiguous budget hold for any answers", async () => {
    const steps: fc.Arbitrary<Step> = fc.oneof(
      fc.constantFrom<Step>(LOST, NOT_SENT, HANG, SUCCESS),
      fc.record({ retryAfterMs: fc.integer({ min: -5, max: 100_000 }) }).map((more) => refused(more)),
      fc.constantFrom("empty_output", "provider_error", "invalid_response").map(
        (code): Step => ({
          class: "ambiguous",
          code: code as "empty_output",
          message: "no",
          scope: "item",
          usage: USAGE,
        }),
      ),
      fc.constant<Step>({ class: "permanent", code: "invalid_request", message: "no", scope: "item" }),
    );
    const deadlines = fc.oneof(
      fc.constant(Number.POSITIVE_INFINITY),
      fc.integer({ min: 1, max: 10_000_000 }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(steps, { minLength: 1, maxLength: 10 }),
        policies,
        deadlines,
        async (script, policy, deadlineMs) => {
          const stage = new Stage(script, policy);
          const result = await stage.run(stage.call({ deadlineMs }));
          if (result.kind !== "outcome") throw new Error("an outcome was expected");
          const { outcome } = result;
          expect(stage.sent.length).toBeLessThanOrEqual(policy.attemptsMax);
          expect(outcome.attempts).toBe(stage.sent.length);
          expect(outcome.ambiguousAttempts).toBeLessThanOrEqual(policy.ambiguousMax + 1);
          expect(
            stage.told.filter((told) => told.class === "permanent" || told.class === "success").length,
          ).toBeLessThanOrEqual(1);
          expect(stage.admitted.length).toBe(Math.max(0, stage.sent.length - 1));
          const billed = stage.told
            .map((told) => told.usage?.inputTokens ?? 0)
            .reduce((sum, tokens) => sum + tokens, 0);
          expect(outcome.usage.inputTokens).toBe(billed);
          if (Number.isFinite(deadlineMs))
            expect(stage.clock.nowMs()).toBeLessThanOrEqual(deadlineMs + ATTEMPT_MS_MIN);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("an item may be sent after a restart exactly while all budgets hold", () => {
    fc.assert(
      fc.property(states, policies, (state, policy) => {
        const free = policy.ambiguousMax === 0 ? 0 : state.uncountedAmbiguous;
        const isOpen =
          state.attempts - state.uncounted < policy.attemptsMax &&
          state.ambiguousAttempts - free <= policy.ambiguousMax &&
          state.unusableAnswers <= policy.ambiguousMax;
        expect(decideStart(state, policy).ok).toBe(isOpen);
      }),
    );
  });

  it("usage sums in any order, and never to something that is not a number", () => {
    const count = fc.nat(1_000_000);
    const usages = fc.record(
      {
        inputTokens: count,
        cachedTokens: count,
        cacheWriteTokens: count,
        outputTokens: count,
        reasoningTokens: count,
        isEstimated: fc.boolean(),
        chargedUsd: fc.integer({ min: 0, max: 1_000 }),
      },
      {
        requiredKeys: [
          "inputTokens",
          "cachedTokens",
          "cacheWriteTokens",
          "outputTokens",
          "reasoningTokens",
          "isEstimated",
        ],
      },
    );
    fc.assert(
      fc.property(usages, usages, (left, right) => {
        expect(addUsage(left, right)).toEqual(addUsage(right, left));
        expect(Object.values(addUsage(left, right)).some((value) => Number.isNaN(value))).toBe(false);
      }),
    );
  });
});
