/** What answers other than the expected one mean for a step of a batch. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { failureOf, faultOf } from "../../../src/providers/batches/batch_failure.ts";
import { answer, fixture } from "../answers.ts";

const is = (status: number, body: unknown = "", what: "create" | "other" = "create"): string =>
  failureOf(answer(status, body), what).is;

describe("a status without a body", () => {
  it.each([
    [200, "unknown", "unknown"],
    [302, "refused", "refused"],
    [400, "permanent", "permanent"],
    [401, "account", "account"],
    [402, "account", "account"],
    [403, "account", "account"],
    [404, "gone", "gone"],
    [408, "unknown", "refused"],
    [409, "unknown", "refused"],
    [410, "gone", "gone"],
    [413, "too_large", "too_large"],
    [422, "permanent", "permanent"],
    [425, "unknown", "refused"],
    [429, "refused", "refused"],
    [498, "refused", "refused"],
    [499, "unknown", "unknown"],
    [500, "unknown", "unknown"],
    [502, "unknown", "unknown"],
    [503, "unknown", "unknown"],
    [504, "unknown", "unknown"],
    [529, "unknown", "unknown"],
  ])("%i of a create means %s, of another step %s", (status, ofCreate, ofOther) => {
    expect(is(status, "<html>oops</html>")).toBe(ofCreate);
    expect(is(status, "<html>oops</html>", "other")).toBe(ofOther);
  });
});

describe("a recorded refusal, as the answer to a create", () => {
  it.each([
    ["openai/insufficient_quota", "account"],
    ["openai/spend_limit", "account"],
    ["openai/invalid_key", "account"],
    ["openai/rate_limit", "refused"],
    ["openai/model_not_found", "permanent"],
    ["openai/bad_request", "permanent"],
    ["openai/server_error", "unknown"],
    ["anthropic/own_spend_limit", "account"],
    ["anthropic/credit_balance", "account"],
    ["anthropic/spend_limit", "account"],
    ["anthropic/billing", "account"],
    ["anthropic/too_large", "too_large"],
    ["anthropic/overloaded", "unknown"],
    ["gemini/invalid_key", "account"],
    ["gemini/region", "account"],
    ["gemini/per_minute", "refused"],
    ["gemini/per_day", "account"],
    ["openrouter/credits", "account"],
    ["openrouter/error_inside_200", "unknown"],
    ["mistral/validation", "permanent"],
  ])("%s means %s", (path, expected) => {
    expect(failureOf(fixture(path), "create").is).toBe(expected);
  });
});

it("a wait that the provider asked for is kept with the refusal", () => {
  expect(failureOf(fixture("anthropic/rate_limit"), "create")).toMatchObject({
    is: "refused",
    retryAfterMs: 17_000,
  });
  expect(failureOf(answer(503, "", { "retry-after": "7" }), "create")).toMatchObject({
    is: "unknown",
    retryAfterMs: 7_000,
  });
});

it("what is enqueued at the provider is full, whatever the status", () => {
  const openai = {
    error: {
      code: "token_limit_exceeded",
      message: "Enqueued token limit reached for gpt-4o in organization org-x.",
    },
  };
  const gemini = {
    error: {
      code: 429,
      status: "RESOURCE_EXHAUSTED",
      message: "Quota exceeded.",
      details: [{ violations: [{ quotaId: "BatchEnqueuedTokensPerModel" }] }],
    },
  };
  const anthropic = {
    type: "error",
    error: { type: "rate_limit_error", message: "Too many requests in the batch queue." },
  };
  for (const status of [400, 403, 429]) expect(is(status, openai)).toBe("full");
  expect(is(429, gemini)).toBe("full");
  expect(is(429, anthropic)).toBe("full");
  expect(is(400, { error: { message: "too many concurrent batches" } })).toBe("full");
  expect(is(400, { error: { message: "the batch has no requests" } })).toBe("permanent");
});

it("a model that is not there is a create's own fault, and a batch that is not there is gone", () => {
  const model = { error: { code: 404, status: "NOT_FOUND", message: "models/none is not found" } };
  const file = { error: { code: 404, status: "NOT_FOUND", message: "file file-1 not found" } };
  expect(is(404, model)).toBe("permanent");
  expect(is(404, file)).toBe("gone");
  expect(is(404, model, "other")).toBe("gone");
  expect(is(403, { error: { code: "model_not_found", message: "no access" } })).toBe("permanent");
});

it("Gemini says that a file may not exist where it has been deleted", () => {
  const message = "You do not have permission to access the File abc or it may not exist.";
  expect(is(403, { error: { code: 403, message, status: "PERMISSION_DENIED" } })).toBe("gone");
});

it("Gemini refuses a body that is too large with a 400", () => {
  const message = "Request payload size exceeds the limit: 20971520 bytes.";
  expect(is(400, { error: { code: 400, message, status: "INVALID_ARGUMENT" } })).toBe("too_large");
});

it("an error inside a success is read by its own code", () => {
  expect(is(200, { error: { code: 402, message: "no credits" } })).toBe("account");
  expect(is(200, { error: { code: 429 } })).toBe("refused");
  expect(is(202, { error: { code: 400 } })).toBe("permanent");
  expect(is(200, { id: "b1", status: "failed", error: null })).toBe("unknown");
});

it("a message holds none of the provider's words", () => {
  const { message } = failureOf(
    answer(401, { error: { message: "my secret", code: "my secret" } }),
    "create",
  );
  expect(message).toBe("the provider answered 401: the key was not accepted");
  expect(failureOf(answer(400, { error: { type: "invalid_request_error" } }), "other").message).toBe(
    "the provider answered 400 (invalid_request_error): the request was refused",
  );
});

it("a fault of a batch is the account's, the queue's, the batch's or of a line", () => {
  expect(faultOf({ code: "insufficient_quota", message: "no money" })).toMatchObject({ is: "account" });
  expect(faultOf({ code: "token_limit_exceeded", message: "x" })).toMatchObject({ is: "full" });
  expect(faultOf({ code: "invalid_json_line", message: "secret" }, 4)).toEqual({
    line: 4,
    code: "invalid_json_line",
    message: "line 5 of the batch was refused",
    is: "item",
  });
  expect(faultOf({ code: "duplicate_ids", message: "two  lines\nhave one id" })).toEqual({
    code: "duplicate_ids",
    message: "two lines have one id",
    is: "batch",
  });
  expect(faultOf("Your credit balance is too low to access the Anthropic API.")).toMatchObject({
    is: "account",
  });
  expect(faultOf(null)).toEqual({ code: "unknown", message: "the batch failed", is: "batch" });
});

it("any bytes and any JSON have a meaning", () => {
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.json().map((text) => new TextEncoder().encode(text)),
    fc.json().map((text) => new TextEncoder().encode(`{"error":${text}}`)),
  );
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 599 }), body, fc.jsonValue(), (status, bytes, error) => {
      const failure = failureOf({ ...answer(status, ""), body: bytes }, "create");
      expect(failure.ok).toBe(false);
      expect(["item", "account", "full", "batch"]).toContain(faultOf(error).is);
    }),
  );
});
