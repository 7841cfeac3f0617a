/** Anthropic's message batches: requests, batches, pages and results. */
import { describe, expect, it } from "vitest";
import { anthropicBatches } from "../../../src/providers/batches/anthropic_batches.ts";
import type { RemoteBatch } from "../../../src/providers/batches/batch_wire.ts";
import { answer, provider } from "../answers.ts";
import {
  anthropic,
  KEY,
  lineOf,
  linesOf,
  sentBody,
  sentJson,
  settingsOf,
  shortResult,
  TAG,
} from "./wires.ts";

const wire = anthropic();
const URL_OF_RESULTS = "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results";
const none = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 };

function object(part: object = {}): object {
  return {
    id: "msgbatch_1",
    type: "message_batch",
    processing_status: "in_progress",
    request_counts: { ...none, processing: 3 },
    created_at: "2026-11-20T10:00:00Z",
    expires_at: "2026-11-21T10:00:00Z",
    ended_at: null,
    archived_at: null,
    cancel_initiated_at: null,
    results_url: null,
    ...part,
  };
}

function read(part: object): RemoteBatch {
  const result = wire.read(answer(200, object(part)));
  if (!result.ok) throw new Error(result.message);
  return result.batch;
}

const ended = (counts: object, more: object = {}): RemoteBatch =>
  read({
    processing_status: "ended",
    request_counts: { ...none, ...counts },
    results_url: URL_OF_RESULTS,
    ...more,
  });

it("a create holds the lines as requests, with the bytes of their bodies", () => {
  const { lines, payload } = linesOf(wire, ['{"model":"m-1","n":1.0}', '{"model":"m-2"}']);
  const request = wire.create(payload, undefined);
  expect(lineOf(request)).toBe("POST https://api.anthropic.com/v1/messages/batches");
  expect(request.headers).toMatchObject({
    "x-api-key": KEY,
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
  });
  expect(sentBody(request, lines)).toBe(
    `{"requests":[{"custom_id":"${TAG}-0","params":{"model":"m-1","n":1.0}},{"custom_id":"${TAG}-1","params":{"model":"m-2"}}]}`,
  );
});

it("the other requests go where Anthropic documents them", () => {
  const { payload } = linesOf(wire, ["{}"]);
  expect(lineOf(wire.get("b1"))).toBe("GET https://api.anthropic.com/v1/messages/batches/b1");
  expect(wire.get("b1").headers).not.toHaveProperty("content-type");
  expect(lineOf(wire.cancel("b1"))).toBe("POST https://api.anthropic.com/v1/messages/batches/b1/cancel");
  expect(lineOf(wire.list({ payload, sinceWallMs: 0 }))).toBe(
    "GET https://api.anthropic.com/v1/messages/batches?limit=100",
  );
  expect(wire.remove({ id: "b1", files: [] }).map(lineOf)).toEqual([
    "DELETE https://api.anthropic.com/v1/messages/batches/b1",
  ]);
  expect(wire.upload(payload)).toBe(undefined);
});

it("the newer version sends the key as a bearer token, as in realtime", () => {
  const newest = anthropicBatches({ ...settingsOf("anthropic"), apiVersion: "2026-10-21" });
  expect(newest.get("b1").headers).toMatchObject({
    authorization: `Bearer ${KEY}`,
    "anthropic-version": "2026-10-21",
  });
  expect(newest.get("b1").headers).not.toHaveProperty("x-api-key");
});

describe("a batch", () => {
  it("that runs has no end, no results, and no counts of what is finished", () => {
    expect(read({})).toEqual({
      id: "msgbatch_1",
      rawState: "in_progress",
      end: undefined,
      isCancelling: false,
      counts: { total: 3 },
      tag: undefined,
      createdWallMs: Date.parse("2026-11-20T10:00:00Z"),
      expiresWallMs: Date.parse("2026-11-21T10:00:00Z"),
      faults: [],
      results: [],
      files: [],
    });
    expect(read({ processing_status: "canceling" })).toMatchObject({ end: undefined, isCancelling: true });
  });

  it.each([
    ["completed", { succeeded: 2, errored: 1 }, {}, { total: 3, succeeded: 2, failed: 1 }],
    ["expired", { succeeded: 1, expired: 2 }, {}, { total: 3, succeeded: 1, failed: 2 }],
    [
      "cancelled",
      { canceled: 3 },
      { cancel_initiated_at: "2026-11-20T11:00:00Z" },
      { total: 3, succeeded: 0, failed: 3 },
    ],
    [
      "cancelled",
      { succeeded: 2, canceled: 1 },
      { cancel_initiated_at: "2026-11-20T11:00:00Z" },
      { total: 3, succeeded: 2, failed: 1 },
    ],
  ] as const)("that ended is %s with counts %j", (end, counts, more, expected) => {
    const batch = ended(counts, more);
    expect(batch).toMatchObject({ end, counts: expected });
    expect(batch.results.map(({ request }) => lineOf(request))).toEqual([`GET ${URL_OF_RESULTS}`]);
  });

  it("in a state that nobody knows has not ended", () => {
    for (const state of ["paused", "ENDED", "", null, 7, undefined])
      expect(read({ processing_status: state }), String(state)).toMatchObject({
        end: undefined,
        results: [],
      });
  });

  it("is read although anything but its id is missing or null", () => {
    for (const value of [null, undefined, 7, "x", [], {}]) {
      const names = Object.keys(object()).filter((name) => name !== "id");
      for (const name of names) expect(read({ [name]: value }).id, name).toBe("msgbatch_1");
    }
    expect(wire.read(answer(200, { id: "b1" }))).toMatchObject({ batch: { counts: {}, end: undefined } });
    expect(ended({ succeeded: 1 }, { results_url: null })).toMatchObject({ end: "completed", results: [] });
  });
});

describe("the address of results", () => {
  const headersOf = (address: string, base?: string): [string, Readonly<Record<string, string>>] => {
    const given = answer(200, object({ processing_status: "ended", results_url: address }));
    const result = anthropic(base).read(given);
    const request = result.ok ? result.batch.results[0]?.request : undefined;
    return [lineOf(request), request?.headers ?? {}];
  };

  it("gets the key at the provider's own origin", () => {
    const [line, headers] = headersOf(`${URL_OF_RESULTS}?part=1`);
    expect(line).toBe(`GET ${URL_OF_RESULTS}?part=1`);
    expect(headers).toMatchObject({ "x-api-key": KEY, "anthropic-version": "2023-06-01" });
  });

  it("gets no credentials at any other origin", () => {
    for (const other of [
      "https://storage.test/results",
      "https://api.anthropic.com:8443/results",
      "https://api.anthropic.com.evil.test/results",
    ]) {
      const [line, headers] = headersOf(other);
      expect(line).toBe(`GET ${other}`);
      expect(Object.keys(headers).sort()).toEqual(["accept", "user-agent"]);
    }
  });

  it("is not followed without https, but for a base URL that has none; the documented one is asked instead", () => {
    for (const other of [
      "http://api.anthropic.com/v1/results",
      "http://storage.test/results",
      "https://user:pass@storage.test/results",
      "file:///etc/passwd",
      "/v1/messages/batches/b/results",
      "",
    ])
      expect(headersOf(other)[0], other).toBe(`GET ${URL_OF_RESULTS}`);
    const [line, headers] = headersOf("http://127.0.0.1:81/results", "http://127.0.0.1:80");
    expect(line).toBe("GET http://127.0.0.1:81/results");
    expect(headers).not.toHaveProperty("x-api-key");
  });
});

describe("a page of batches", () => {
  const { payload } = linesOf(wire, ["{}"]);
  const next = (page: object, sinceWallMs = 0): string => {
    const result = wire.readPage(answer(200, page), { payload, sinceWallMs });
    if (!result.ok) throw new Error(result.message);
    return lineOf(result.next);
  };

  it("is followed by the batches after its last one", () => {
    const data = [object(), object({ id: "msgbatch_0" })];
    const after = "GET https://api.anthropic.com/v1/messages/batches?limit=100&after_id=msgbatch_0";
    expect(next({ data, has_more: true, first_id: "msgbatch_1", last_id: "msgbatch_0" })).toBe(after);
    expect(next({ data, has_more: true, last_id: null })).toBe(after);
    expect(next({ data, has_more: false, last_id: "msgbatch_0" })).toBe("none");
    expect(next({ data: [], has_more: true, last_id: "msgbatch_0" })).toBe("none");
  });

  it("is the last one that is asked for when its batches are older than the search", () => {
    const page = { data: [object()], has_more: true, last_id: "msgbatch_1" };
    const createdMs = Date.parse("2026-11-20T10:00:00Z");
    expect(next(page, createdMs)).not.toBe("none");
    expect(next(page, createdMs + 1)).toBe("none");
  });

  it("holds what can be read of it", () => {
    const page = { data: [null, 7, {}, object(), { id: null }], has_more: false };
    const result = wire.readPage(answer(200, page), { payload, sinceWallMs: 0 });
    expect(result.ok && result.batches.map(({ id }) => id)).toEqual(["msgbatch_1"]);
    expect(wire.readPage(answer(200, { data: null }), { payload, sinceWallMs: 0 })).toMatchObject({
      ok: false,
    });
    expect(wire.readPage(answer(401, ""), { payload, sinceWallMs: 0 })).toMatchObject({ is: "account" });
  });
});

describe("a result", () => {
  const failed = (error: object | null): object => ({
    custom_id: "a-1",
    result: { type: "errored", error: { type: "error", error, request_id: "req_1" } },
  });

  it("that succeeded is the message, byte for byte", () => {
    const message =
      '{"id":"msg_1","content":[{"type":"text","text":"é"}],"big":12345678901234567890, "n":1.0}';
    expect(shortResult(wire, `{"custom_id":"a-1","result":{"type":"succeeded","message":${message}}}`)).toBe(
      `answered a-1 200 ${message}`,
    );
  });

  it.each([
    ["invalid_request_error", 400, "permanent invalid_request"],
    ["authentication_error", 401, "permanent authentication_failed"],
    ["billing_error", 402, "permanent quota_exceeded"],
    ["permission_error", 403, "permanent authentication_failed"],
    ["not_found_error", 404, "permanent model_not_found"],
    ["request_too_large", 413, "permanent request_too_large"],
    ["rate_limit_error", 429, "refused rate_limited"],
    ["api_error", 500, "ambiguous provider_error"],
    ["timeout_error", 504, "ambiguous timeout"],
    ["overloaded_error", 529, "refused overloaded"],
    ["something_new", 500, "ambiguous provider_error"],
  ])("that errored with %s is answered %i, which realtime reads as %s", (type, status, expected) => {
    const result = wire.result(new TextEncoder().encode(JSON.stringify(failed({ type, message: "m" }))));
    if (result.is !== "answered") throw new Error(result.is);
    expect(result).toMatchObject({ id: "a-1", status, headers: { "request-id": "req_1" } });
    const decoded = provider("anthropic").decode({ ...answer(status, ""), ...result });
    expect(`${decoded.class} ${"code" in decoded ? decoded.code : ""}`).toBe(expected);
    expect(decoded.requestId).toBe("req_1");
  });

  it.each([
    ["You have reached your specified API usage limits."],
    ["Your credit balance is too low to access the Anthropic API."],
  ])("that errored for the account's money holds the account: %s", (message) => {
    const element = JSON.stringify(failed({ type: "invalid_request_error", message }));
    const result = wire.result(new TextEncoder().encode(element));
    if (result.is !== "answered") throw new Error(result.is);
    const { status, headers, body } = result;
    expect(provider("anthropic").decode({ ...answer(status, ""), headers, body })).toMatchObject({
      code: "quota_exceeded",
      scope: "provider",
    });
  });

  it.each([
    [{ type: "canceled" }, "unfinished a-1 canceled"],
    [{ type: "expired" }, "unfinished a-1 expired"],
    [{ type: "evaporated" }, "unfinished a-1 unknown"],
    [{ type: "succeeded", message: null }, "answered a-1 200 null"],
    [{ type: "succeeded" }, "answered a-1 200 null"],
    [{ type: "errored", error: null }, "answered a-1 500 null"],
    [
      { type: "errored", error: { type: "invalid_request_error" } },
      'answered a-1 400 {"type":"invalid_request_error"}',
    ],
    [null, "unreadable"],
    [undefined, "unreadable"],
  ])("%j is %s", (result, expected) => {
    expect(shortResult(wire, { custom_id: "a-1", result })).toBe(expected);
  });

  it("of another batch or without an id is what it says", () => {
    expect(shortResult(wire, { custom_id: "not-ours", result: { type: "expired" } })).toBe(
      "unfinished not-ours expired",
    );
    expect(shortResult(wire, { custom_id: null, result: { type: "expired" } })).toBe("unreadable");
  });
});

it("configured limits win over the documented ones", () => {
  expect(anthropicBatches(settingsOf("anthropic"), { itemsMax: 10, openMax: 2 }).limits).toMatchObject({
    itemsMax: 10,
    openMax: 2,
    bytesMax: 256_000_000,
  });
  expect(sentJson(wire.get("b1"))).toBe(undefined);
});
