import { describe, expect, it } from "vitest";
import type { Decoded } from "../../src/providers/index.ts";
import { answer, decodeFixture, provider } from "./answers.ts";

const openai = provider("openai");

/** Class, code, scope, wait and rate limit of a failure, in one line. */
function short(decoded: Decoded): string {
  if (decoded.class === "success") return `success ${decoded.finish}`;
  const wait = decoded.retryAfterMs === undefined ? "" : ` ${decoded.retryAfterMs}ms`;
  return `${decoded.class} ${decoded.code} ${decoded.scope}${wait}${decoded.isRateLimit === true ? " rate" : ""}${decoded.isRampLimit === true ? " ramp" : ""}`;
}

describe("a recorded refusal", () => {
  it.each([
    ["openai/rate_limit", "refused rate_limited item 1532ms rate"],
    ["openai/insufficient_quota", "permanent quota_exceeded provider"],
    ["openai/spend_limit", "permanent quota_exceeded provider"],
    ["openai/request_too_large", "permanent request_too_large item"],
    ["openai/flex_capacity", "refused overloaded item"],
    ["openai/slow_down", "refused rate_limited item 3000ms rate ramp"],
    ["openai/invalid_key", "permanent authentication_failed provider"],
    ["openai/model_not_found", "permanent model_not_found model"],
    ["openai/model_forbidden", "permanent model_not_found model"],
    ["openai/context_length", "permanent context_length_exceeded item"],
    ["openai/bad_request", "permanent invalid_request item"],
    ["openai/server_error", "ambiguous provider_error item"],
    ["anthropic/rate_limit", "refused rate_limited item 17000ms rate"],
    ["anthropic/ramp_limit", "refused rate_limited item 30000ms rate ramp"],
    ["anthropic/spend_limit", "permanent quota_exceeded provider"],
    ["anthropic/contract_spend_limit", "permanent quota_exceeded provider"],
    ["anthropic/own_spend_limit", "permanent quota_exceeded provider"],
    ["anthropic/credit_balance", "permanent quota_exceeded provider"],
    ["anthropic/billing", "permanent quota_exceeded provider"],
    ["anthropic/overloaded", "refused overloaded item"],
    ["anthropic/api_error", "ambiguous provider_error item"],
    ["anthropic/invalid_key", "permanent authentication_failed provider"],
    ["anthropic/prompt_too_long", "permanent context_length_exceeded item"],
    ["anthropic/too_large", "permanent request_too_large item"],
    ["anthropic/not_found", "permanent model_not_found model"],
    ["gemini/per_minute", "refused rate_limited item 37000ms rate"],
    ["gemini/per_day", "permanent quota_exceeded provider 32400000ms"],
    ["gemini/no_tier", "permanent quota_exceeded model 20000ms"],
    ["gemini/invalid_key", "permanent authentication_failed provider"],
    ["gemini/region", "permanent quota_exceeded provider"],
    ["gemini/too_long", "permanent context_length_exceeded item"],
    ["gemini/unavailable", "refused overloaded item"],
    ["gemini/internal", "ambiguous provider_error item"],
    ["deepseek/insufficient_balance", "permanent quota_exceeded provider"],
    ["deepseek/model_not_exist", "permanent model_not_found model"],
    ["deepseek/too_many_in_flight", "refused rate_limited item rate"],
    ["groq/capacity", "refused overloaded item"],
    ["openrouter/credits", "permanent quota_exceeded provider"],
    ["openrouter/moderated", "permanent filtered item"],
    ["openrouter/free_per_day", "refused rate_limited item 900000ms rate"],
    ["mistral/validation", "permanent invalid_request item"],
    ["mistral/detail", "permanent invalid_request item"],
    ["mistral/invalid_model", "permanent model_not_found model"],
    ["llamacpp/context", "permanent context_length_exceeded item"],
    ["llamacpp/loading", "refused overloaded item"],
    ["vllm/context", "permanent context_length_exceeded item"],
    ["vllm/not_found", "permanent model_not_found model"],
    ["ollama/not_found", "permanent model_not_found model"],
  ])("%s means: %s", (path, expected) => {
    expect(short(decodeFixture(path))).toBe(expected);
  });
});

describe("a status without a body", () => {
  it.each([
    [301, "refused provider_error item"],
    [400, "permanent invalid_request item"],
    [401, "permanent authentication_failed provider"],
    [402, "permanent quota_exceeded provider"],
    [403, "permanent authentication_failed model"],
    [404, "permanent model_not_found model"],
    [405, "permanent model_not_found model"],
    [408, "refused timeout item"],
    [409, "refused provider_error item"],
    [413, "permanent request_too_large item"],
    [418, "permanent invalid_request item"],
    [422, "permanent invalid_request item"],
    [424, "ambiguous provider_error item"],
    [425, "refused provider_error item"],
    [429, "refused rate_limited item rate"],
    [498, "refused overloaded item"],
    [499, "ambiguous provider_error item"],
    [500, "ambiguous provider_error item"],
    [502, "ambiguous provider_error item"],
    [503, "refused overloaded item"],
    [504, "ambiguous timeout item"],
    [520, "ambiguous provider_error item"],
    [529, "refused overloaded item"],
  ])("%i means: %s", (status, expected) => {
    expect(short(openai.decode(answer(status, "")))).toBe(expected);
    expect(short(openai.decode(answer(status, "<html>oops</html>")))).toBe(expected);
  });
});

describe("the faults decided by a refusal", () => {
  it("fault 46: an empty account stops the provider and is not repeated", () => {
    for (const path of ["openai/insufficient_quota", "anthropic/spend_limit", "openrouter/credits"]) {
      expect(decodeFixture(path)).toMatchObject({
        class: "permanent",
        scope: "provider",
        code: "quota_exceeded",
      });
    }
    const chaos = {
      error: { message: "insufficient_quota", type: "insufficient_quota", code: "insufficient_quota" },
    };
    expect(short(openai.decode(answer(429, chaos)))).toBe("permanent quota_exceeded provider");
  });

  it("fault 47: a key that is not accepted stops the provider, and the message shows no key", () => {
    const decoded = decodeFixture("openai/invalid_key");
    expect(short(decoded)).toBe("permanent authentication_failed provider");
    expect(JSON.stringify(decoded)).not.toContain("sk-");
    expect(decoded).toMatchObject({
      message:
        "openai answered 401 (invalid_api_key): the key was not accepted (it says: Incorrect API key provided: [key] You can find your API key at https://platform.openai.com/account/api-keys.)",
    });
  });

  it("fault 49: a wait that is nonsense or over a day is ignored, and a long one is cut to 15 minutes", () => {
    const waits = ["-5", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "0", "NaN", "1, 2", "0.001"];
    waits.push("86401", "9999999999", "9".repeat(400), "Fri, 31 Dec 9999 23:59:59 GMT");
    for (const wait of waits) {
      const decoded = openai.decode(answer(429, { error: { type: "rl" } }, { "retry-after": wait }));
      expect(short(decoded), wait).toBe("refused rate_limited item rate");
    }
    const told = (headers: Record<string, string>): string => short(openai.decode(answer(429, "", headers)));
    expect(told({ "retry-after": "0.25" })).toBe("refused rate_limited item 250ms rate");
    for (const long of ["901", "3600", "86400"])
      expect(told({ "retry-after": long })).toBe("refused rate_limited item 900000ms rate");
    expect(told({ "retry-after": "Fri, 20 Nov 2026 11:00:07 GMT" })).toBe(
      "refused rate_limited item 7000ms rate",
    );
    expect(told({ "retry-after": "Friday, 20-Nov-26 11:00:07 GMT" })).toBe(
      "refused rate_limited item 7000ms rate",
    );
    expect(told({ "retry-after": "Fri Nov 20 11:00:07 2026" })).toBe("refused rate_limited item 7000ms rate");
  });

  it("fault 58: an error inside a 200 is classified by its own code", () => {
    expect(short(decodeFixture("openrouter/error_inside_200"))).toBe("ambiguous provider_error item");
    expect(decodeFixture("openrouter/error_in_choice")).toMatchObject({
      class: "refused",
      code: "rate_limited",
      usage: { inputTokens: 80, outputTokens: 2 },
    });
    const inside = (error: unknown): string => short(openai.decode(answer(200, { error })));
    expect(inside({ code: 502, message: "upstream failed" })).toBe("ambiguous provider_error item");
    expect(inside({ code: 429 })).toBe("refused rate_limited item rate");
    expect(inside({ code: "503" })).toBe("refused overloaded item");
    expect(inside({ code: "insufficient_quota" })).toBe("permanent quota_exceeded provider");
    expect(inside({ type: "rate_limit_error" })).toBe("refused rate_limited item rate");
    expect(inside({ type: "invalid_request_error" })).toBe("permanent invalid_request item");
    expect(inside({ code: 401 })).toBe("permanent authentication_failed provider");
    expect(inside("something")).toBe("ambiguous provider_error item");
    expect(inside({ code: "constructor" })).toBe("ambiguous provider_error item");
    const failed = { choices: [{ finish_reason: "error", message: { content: "half" } }] };
    expect(short(openai.decode(answer(200, failed)))).toBe("ambiguous provider_error item");
  });

  it("fault 66: a model that does not exist any more fails only for that model", () => {
    for (const path of ["openai/model_not_found", "anthropic/not_found", "ollama/not_found"]) {
      expect(decodeFixture(path)).toMatchObject({
        class: "permanent",
        scope: "model",
        code: "model_not_found",
      });
    }
  });
});

describe("x-should-retry", () => {
  const told = (status: number, header: string): string =>
    short(openai.decode(answer(status, "", { "x-should-retry": header })));

  it("true makes a permanent refusal one that may be repeated", () => {
    expect(told(400, "true")).toBe("refused invalid_request item");
    expect(told(401, "true")).toBe("refused authentication_failed item");
    expect(told(500, "true")).toBe("ambiguous provider_error item");
  });

  it("false ends an item, and stops the provider where the status is a rate limit", () => {
    expect(told(500, "false")).toBe("permanent provider_error item");
    expect(told(503, "false")).toBe("permanent overloaded item");
    expect(told(429, "false")).toBe("permanent quota_exceeded provider");
    expect(told(404, "false")).toBe("permanent model_not_found model");
  });
});

it("a message holds the provider's code only when it looks like one", () => {
  const secret = { error: { code: "the prompt was: my secret", type: "t".repeat(65), message: "my secret" } };
  expect(openai.decode(answer(400, secret))).toMatchObject({
    message: "openai answered 400: the request was refused",
  });
});

it("a message holds no key, wherever the provider put it", () => {
  const said = (status: number, error: object, key?: string): string => {
    const decoded = provider("openai", key === undefined ? {} : { key }).decode(answer(status, { error }));
    return decoded.class === "success" ? "" : decoded.message;
  };
  const refused = "openai answered 400: the request was refused";
  for (const code of ["sk-secret-canary-abc", "AIzaSyB-1234_x", "d41d8cd98f00b204e9800998ecf8427e"])
    for (const member of ["code", "type", "status"]) expect(said(400, { [member]: code })).toBe(refused);
  expect(said(400, { code: "sk-secret-canary", type: "invalid_request_error" })).toBe(
    "openai answered 400 (invalid_request_error): the request was refused",
  );
  expect(said(400, { code: "x.Plain-Words.y" }, "plain-words")).toBe(
    "openai answered 400 (x.[key].y): the request was refused",
  );
  expect(said(401, { message: "no account has plain.words+here" }, "plain.words+here")).toBe(
    "openai answered 401: the key was not accepted (it says: no account has [key])",
  );
  const gateway = provider("openai", { headers: { "api-key": "hidden-words" } });
  expect(gateway.decode(answer(400, { error: { code: "hidden-words" } }))).toMatchObject({
    message: "openai answered 400 ([key]): the request was refused",
  });
  const long = "linked_organization_billing_unavailable";
  expect(said(429, { code: long })).toContain(`(${long})`);
});

it("an error body over 1 MiB is not read", () => {
  const body = { error: { code: "insufficient_quota", pad: "x".repeat(1_100_000) } };
  expect(short(openai.decode(answer(429, body)))).toBe("refused rate_limited item rate");
});
