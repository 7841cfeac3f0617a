/** OpenRouter's batches: requests, batches, pages and results. */
import { describe, expect, it } from "vitest";
import type { RemoteBatch } from "../../../src/providers/batches/batch_wire.ts";
import { answer, provider } from "../answers.ts";
import { KEY, lineOf, linesOf, openrouter, sentBody, shortResult, TAG } from "./wires.ts";

const wire = openrouter();
const BATCHES = "https://openrouter.ai/api/v1/batches";
const { lines, payload } = linesOf(wire, ['{"n":1.0}', "{}"], 'a/"b":free');

function read(part: object, status = 200): RemoteBatch {
  const result = wire.read(answer(status, { id: "batch_1", object: "batch", ...part }));
  if (!result.ok) throw new Error(result.message);
  return result.batch;
}

it("endpoint and model come before the requests in the body of the create", () => {
  const request = wire.create(payload, undefined);
  expect(lineOf(request)).toBe(`POST ${BATCHES}`);
  expect(request.headers).toMatchObject({ authorization: `Bearer ${KEY}` });
  expect(sentBody(request, lines)).toBe(
    `{"endpoint":"/v1/chat/completions","model":"a/\\"b\\":free","requests":[{"custom_id":"${TAG}-0","body":{"n":1.0}},{"custom_id":"${TAG}-1","body":{}}]}`,
  );
  const { body } = wire.create({ ...payload, endpoint: "embeddings" }, undefined);
  expect(body.kind === "lines" && body.before).toContain('{"endpoint":"/v1/embeddings",');
});

it("the other requests go where OpenRouter documents them, and none cancels", () => {
  expect(lineOf(wire.get("batch_1"))).toBe(`GET ${BATCHES}/batch_1`);
  expect(wire.cancel("batch_1")).toBe(undefined);
  expect(wire.traits.canCancel).toBe(false);
  expect(lineOf(wire.list({ payload, sinceWallMs: 0 }))).toBe(`GET ${BATCHES}?limit=100`);
  expect(wire.remove({ id: "batch_1", files: [] }).map(lineOf)).toEqual([`DELETE ${BATCHES}/batch_1`]);
  expect(wire.limits).toMatchObject({ itemsMax: 5_000, bytesMax: 200_000_000 });
});

describe("a batch", () => {
  it("is answered to the create with 202, before anything was checked", () => {
    expect(
      read({ status: "validating", created_at: 1_795_172_400, results: null, error: null }, 202),
    ).toEqual({
      id: "batch_1",
      rawState: "validating",
      end: undefined,
      isCancelling: false,
      counts: {},
      tag: undefined,
      createdWallMs: 1_795_172_400_000,
      expiresWallMs: undefined,
      faults: [],
      results: [],
      files: [],
    });
  });

  it.each([
    ["validating", undefined],
    ["in_progress", undefined],
    ["finalizing", undefined],
    ["cancelling", undefined],
    ["evaporated", undefined],
    [null, undefined],
    ["completed", "completed"],
    ["failed", "failed"],
    ["expired", "expired"],
    ["cancelled", "cancelled"],
  ])("in the state %s has the end %s", (status, end) => {
    expect(read({ status })).toMatchObject({ end, isCancelling: status === "cancelling" });
  });

  it("has counts, cost and results inside the answer to a get", () => {
    const batch = read({
      status: "completed",
      request_counts: { total: 3, completed: 2, failed: 1 },
      expires_at: 1_795_258_800,
      usage: { prompt_tokens: 5, cost: 0.0025 },
      results: [{ custom_id: "a-1" }],
    });
    expect(batch).toMatchObject({
      counts: { total: 3, succeeded: 2, failed: 1 },
      billedUsd: 0.0025,
      expiresWallMs: 1_795_258_800_000,
      results: [{ format: "array", path: ["results"] }],
    });
    expect(lineOf(batch.results[0]?.request)).toBe(`GET ${BATCHES}/batch_1`);
  });

  it("has its results in pages where a get leaves them out", () => {
    for (const status of ["completed", "expired", "cancelled"]) {
      const [source] = read({ status, results: null }).results;
      expect(source).toMatchObject({ format: "page", path: ["data"] });
      expect(lineOf(source?.request)).toBe(`GET ${BATCHES}/batch_1/results`);
      const next = source?.next;
      expect(lineOf(next?.({ next_cursor: "c1", has_more: true }))).toBe(
        `GET ${BATCHES}/batch_1/results?cursor=c1`,
      );
      expect(next?.({ next_cursor: "c1", has_more: false })).toBe(undefined);
      expect(next?.({ next_cursor: null, has_more: true })).toBe(undefined);
    }
  });

  it("has no results where there are none: before its end, after failed checks, with nothing finished", () => {
    expect(read({ status: "in_progress", results: [{}] }).results).toEqual([]);
    expect(read({ status: "failed", results: null }).results).toEqual([]);
    expect(read({ status: "completed", results: [] }).results).toEqual([]);
    expect(
      read({ status: "expired", request_counts: { total: 3, completed: 0, failed: 0 } }).results,
    ).toEqual([]);
    expect(read({ status: "failed", results: [{ custom_id: "a-1" }] }).results).toHaveLength(1);
  });

  it("that failed says why", () => {
    const fault = (error: unknown): object | undefined => read({ status: "failed", error }).faults[0];
    expect(fault({ message: "request 3: no body" })).toEqual({
      code: "unknown",
      message: "request 3: no body",
      is: "batch",
    });
    expect(fault({ code: 402, message: "more credits are needed" })).toMatchObject({ is: "account" });
  });

  it("is read although anything but its id is missing or of another kind", () => {
    const names = ["status", "request_counts", "created_at", "expires_at", "usage", "results", "error"];
    for (const value of [null, 7, "x", [], {}, true])
      for (const name of names) expect(read({ status: "completed", [name]: value }).id, name).toBe("batch_1");
    for (const cost of [null, -1, "x", {}]) expect(read({ usage: { cost } })).not.toHaveProperty("billedUsd");
  });

  it("is not an error inside a success", () => {
    expect(wire.read(answer(200, { error: { code: 402, message: "no credits" } }))).toMatchObject({
      is: "account",
    });
    expect(wire.read(answer(400, { error: { code: 400, message: "requests before model" } }))).toMatchObject({
      is: "permanent",
    });
  });
});

it("a page of batches is followed by the one of its cursor", () => {
  const page = (body: object): string => {
    const result = wire.readPage(answer(200, body), { payload, sinceWallMs: 0 });
    return result.ok ? `${result.batches.map(({ id }) => id)} ${lineOf(result.next)}` : result.is;
  };
  const data = [{ id: "b1" }, null, { id: 7 }, { id: "b2" }];
  expect(page({ data, has_more: true, next_cursor: "c1" })).toBe(`b1,b2 GET ${BATCHES}?limit=100&cursor=c1`);
  expect(page({ data, has_more: true, last_id: "b2" })).toBe(`b1,b2 GET ${BATCHES}?limit=100&after=b2`);
  expect(page({ data, has_more: false, next_cursor: null, last_id: "b2" })).toBe("b1,b2 none");
  expect(page({ data: [], next_cursor: "c1" })).toBe(" none");
  expect(page({})).toBe("unknown");
});

describe("a result", () => {
  it("is the body of its response, byte for byte", () => {
    const body = '{"id":"gen-1","choices":[],"usage":{"cost":0.00010}}';
    expect(
      shortResult(
        wire,
        `{"id":"r1","custom_id":"a-1","response":{"status_code":200,"request_id":"q","body":${body}},"error":null}`,
      ),
    ).toBe(`answered a-1 200 ${body}`);
  });

  it.each([
    [
      { response: { status_code: 400, body: { error: { message: "m" } } }, error: null },
      'answered a-1 400 {"error":{"message":"m"}}',
    ],
    [{ response: { status_code: 170_920, body: { a: 1 } } }, 'answered a-1 200 {"a":1}'],
    [{ response: { body: { a: 1 } } }, 'answered a-1 200 {"a":1}'],
    [{ response: { status_code: 200, body: null } }, "answered a-1 200 null"],
    [
      { response: null, error: { code: 429, message: "m" } },
      'answered a-1 429 {"error":{"code":429,"message":"m"}}',
    ],
    [
      { response: null, error: { type: "invalid_request_error", message: "m", param: null } },
      'answered a-1 200 {"error":{"type":"invalid_request_error","message":"m","param":null}}',
    ],
    [{ response: null, error: { code: "batch_expired" } }, "unfinished a-1 batch_expired"],
    [{ error: { type: "cancelled", message: "m" } }, "unfinished a-1 cancelled"],
    [{ response: null, error: null }, "unfinished a-1 unknown"],
    [{}, "unfinished a-1 unknown"],
  ])("%j is %s", (part, expected) => {
    expect(shortResult(wire, { custom_id: "a-1", ...part })).toBe(expected);
  });

  it("that is an error without a status is read by its own code in realtime", () => {
    const element = {
      custom_id: "a-1",
      response: null,
      error: { type: "invalid_request_error", message: "m" },
    };
    const result = wire.result(new TextEncoder().encode(JSON.stringify(element)));
    if (result.is !== "answered") throw new Error(result.is);
    expect(provider("openrouter").decode({ ...answer(200, ""), ...result })).toMatchObject({
      class: "permanent",
      code: "invalid_request",
      scope: "item",
    });
  });
});
