import { describe, expect, it } from "vitest";
import { goDurationMs } from "../../src/providers/retry_after.ts";
import { fixture, provider } from "./answers.ts";

const learnt = (path: string): unknown => provider(path.split("/")[0] ?? "").limits(fixture(path).headers);

describe("limits in headers", () => {
  it("are OpenAI's two buckets, with resets as Go durations", () => {
    expect(learnt("openai/success")).toEqual({
      requestsPerMinute: 5000,
      remainingRequests: 4999,
      resetRequestsMs: 12,
      tokensPerMinute: 4_000_000,
      remainingTokens: 3_999_871,
      resetTokensMs: 1935,
    });
  });

  it("leave out Groq's requests, which are per day", () => {
    expect(learnt("groq/success")).toEqual({
      tokensPerMinute: 18_000,
      remainingTokens: 17_997,
      resetTokensMs: 7660,
    });
  });

  it("are Fireworks' tokens a second, per minute", () => {
    expect(learnt("fireworks/success")).toEqual({
      inputTokensPerMinute: 3_600_000,
      outputTokensPerMinute: 36_000,
    });
  });

  it("are Anthropic's four buckets, with resets counted from the response's own date", () => {
    expect(learnt("anthropic/success")).toEqual({
      requestsPerMinute: 4000,
      remainingRequests: 3999,
      resetRequestsMs: 1000,
      tokensPerMinute: 480_000,
      remainingTokens: 479_000,
      resetTokensMs: 2500,
      inputTokensPerMinute: 400_000,
      outputTokensPerMinute: 80_000,
    });
  });

  it("do not exist at Gemini and echo, and without such headers", () => {
    expect(learnt("gemini/success")).toBeUndefined();
    expect(provider("echo").limits({})).toBeUndefined();
    expect(provider("openai").limits({ "content-type": "application/json" })).toBeUndefined();
    expect(provider("anthropic").limits({ date: "Fri, 20 Nov 2026 11:00:00 GMT" })).toBeUndefined();
  });

  it("fault 64: lower limits are returned as they are, and nonsense is ignored with all that depends on it", () => {
    const openai = provider("openai");
    expect(openai.limits({ "x-ratelimit-limit-requests": "3", "x-ratelimit-limit-tokens": "100" })).toEqual({
      requestsPerMinute: 3,
      tokensPerMinute: 100,
    });
    for (const nonsense of ["-1", "0", "many", "", "1.5", "5, 5", "1e9", "9".repeat(40)]) {
      const headers = {
        "x-ratelimit-limit-requests": nonsense,
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": nonsense,
        "x-ratelimit-remaining-tokens": "0",
      };
      expect(openai.limits(headers), nonsense).toBeUndefined();
      expect(
        provider("anthropic").limits({ "anthropic-ratelimit-requests-limit": nonsense }),
      ).toBeUndefined();
    }
    expect(
      openai.limits({ "x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "soon" }),
    ).toBeUndefined();
    expect(openai.limits({ "x-ratelimit-remaining-requests": "0" })).toEqual({ remainingRequests: 0 });
  });
});

it.each([
  ["12ms", 12],
  ["1s", 1000],
  ["6m0s", 360_000],
  ["1h2m3.5s", 3_723_500],
  ["7.66s", 7660],
  ["250us", 0.25],
  ["250µs", 0.25],
  ["0", 0],
  ["59", 59_000],
  ["", undefined],
  ["-1s", undefined],
  ["1 s", undefined],
  ["5x", undefined],
  ["1s garbage", undefined],
])("a Go duration %j is %s ms", (text, expected) => {
  expect(goDurationMs(text)).toBe(expected);
});
