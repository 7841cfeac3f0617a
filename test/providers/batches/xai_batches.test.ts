/** xAI's batches: requests, batches, pages and results. */
import { describe, expect, it } from "vitest";
import type { RemoteBatch } from "../../../src/providers/batches/batch_wire.ts";
import { xaiBatches } from "../../../src/providers/batches/xai_batches.ts";
import { answer, provider, WALL_MS } from "../answers.ts";
import { KEY, lineOf, linesOf, sentBody, sentJson, settingsOf, shortResult, TAG, xai } from "./wires.ts";

const wire = xai();
const BATCHES = "https://api.x.ai/v1/batches";
const { lines, payload } = linesOf(wire, ['{"model":"grok","n":1.0}', '{"b":2}', '{"c":3}']);

function read(part: object): RemoteBatch {
  const result = wire.read(answer(200, { batch_id: "batch_1", name: TAG, ...part }));
  if (!result.ok) throw new Error(result.message);
  return result.batch;
}

it("a batch is created empty under its name, and filled in steps", () => {
  const create = wire.create(payload, undefined);
  expect(lineOf(create)).toBe(`POST ${BATCHES}`);
  expect(sentJson(create)).toEqual({ name: TAG });
  expect(create.headers).toMatchObject({
    authorization: `Bearer ${KEY}`,
    "content-type": "application/json",
  });
  const add = wire.add?.(payload, "batch_1", 0, 1);
  if (add === undefined) throw new Error("no add");
  expect(lineOf(add)).toBe(`POST ${BATCHES}/batch_1/requests`);
  expect(sentBody(add, lines)).toBe(
    `{"batch_requests":[{"batch_request_id":"${TAG}-0","batch_request":{"chat_get_completion":{"model":"grok","n":1.0}}}]}`,
  );
  const rest = wire.add?.(payload, "batch_1", 1, 2);
  expect(rest === undefined ? undefined : sentJson(rest, lines)).toEqual({
    batch_requests: [
      { batch_request_id: `${TAG}-1`, batch_request: { chat_get_completion: { b: 2 } } },
      { batch_request_id: `${TAG}-2`, batch_request: { chat_get_completion: { c: 3 } } },
    ],
  });
});

it("a step that added is any success without an error", () => {
  for (const body of ["", "{}", '{"error":null}', "<html>"])
    expect(wire.readAdded?.(answer(200, body))).toEqual({ ok: true });
  expect(wire.readAdded?.(answer(200, { error: { code: 429 } }))).toMatchObject({ is: "refused" });
  expect(wire.readAdded?.(answer(404, ""))).toMatchObject({ is: "gone" });
  expect(wire.readAdded?.(answer(413, ""))).toMatchObject({ is: "too_large" });
  expect(wire.readAdded?.(answer(503, ""))).toMatchObject({ is: "unknown" });
});

it("the other requests go where xAI documents them", () => {
  expect(lineOf(wire.get("batch_1"))).toBe(`GET ${BATCHES}/batch_1`);
  expect(lineOf(wire.cancel("batch_1"))).toBe(`POST ${BATCHES}/batch_1:cancel`);
  expect(lineOf(wire.list({ payload, sinceWallMs: 0 }))).toBe(`GET ${BATCHES}?limit=100`);
  expect(wire.upload(payload)).toBe(undefined);
  expect(wire.remove({ id: "batch_1", files: [] })).toEqual([]);
});

describe("a batch", () => {
  const past = new Date(WALL_MS - 1).toISOString();
  const later = new Date(WALL_MS + 1).toISOString();

  it.each([
    ["nothing known", {}, undefined, {}],
    ["no requests yet", { state: { num_requests: 0, num_pending: 0 } }, undefined, { total: 0 }],
    [
      "some pending",
      { state: { num_requests: 3, num_pending: 1, num_success: 2 } },
      undefined,
      { total: 3, succeeded: 2 },
    ],
    [
      "none pending",
      { state: { num_requests: 3, num_pending: 0, num_success: 2, num_error: 1, num_cancelled: 0 } },
      "completed",
      { total: 3, succeeded: 2, failed: 1 },
    ],
    [
      "zeros left out",
      { state: { num_requests: 2, num_success: 2 } },
      "completed",
      { total: 2, succeeded: 2 },
    ],
    [
      "zeros left out, some pending",
      { state: { num_requests: 2, num_success: 1 } },
      undefined,
      { total: 2, succeeded: 1 },
    ],
    [
      "strings",
      { state: { num_requests: "2", num_pending: "0", num_error: "2" } },
      "completed",
      { total: 2, failed: 2 },
    ],
    [
      "cancelled, some pending",
      { cancel_time: past, state: { num_requests: 2, num_pending: 1 } },
      undefined,
      { total: 2 },
    ],
    [
      "cancelled",
      { cancel_time: past, state: { num_requests: 2, num_pending: 0, num_success: 1, num_cancelled: 1 } },
      "cancelled",
      { total: 2, succeeded: 1, failed: 1 },
    ],
    [
      "cancelled by xAI while empty",
      { cancel_by_xai_message: "abuse", state: { num_pending: 0 } },
      "cancelled",
      {},
    ],
    ["time over", { expire_time: past, state: { num_requests: 2, num_pending: 1 } }, "expired", { total: 2 }],
    [
      "time not over",
      { expire_time: later, state: { num_requests: 2, num_pending: 1 } },
      undefined,
      { total: 2 },
    ],
    ["all nulls", { state: null, cancel_time: null, expire_time: null, cost_breakdown: null }, undefined, {}],
  ] as const)("with %s: %j", (_, part, end, counts) => {
    expect(read(part)).toMatchObject({ end, counts });
    expect(Object.keys(read(part).counts).sort()).toEqual(Object.keys(counts).sort());
  });

  it("that was cancelled is cancelling while requests are pending", () => {
    const state = { num_requests: 2, num_pending: 1 };
    expect(read({ cancel_time: past, state })).toMatchObject({ isCancelling: true, end: undefined });
    expect(read({ state })).toMatchObject({ isCancelling: false });
  });

  it("shows what is finished while it runs, page by page", () => {
    const batch = read({ state: { num_requests: 3, num_pending: 2, num_success: 1 } });
    expect(batch.results).toMatchObject([{ format: "page", path: ["results"] }]);
    const [source] = batch.results;
    expect(lineOf(source?.request)).toBe(`GET ${BATCHES}/batch_1/results?limit=1000`);
    expect(lineOf(source?.next?.({ pagination_token: "t/1" }))).toBe(
      `GET ${BATCHES}/batch_1/results?limit=1000&pagination_token=t%2F1`,
    );
    for (const pagination_token of [null, "", 7])
      expect(source?.next?.({ pagination_token })).toBe(undefined);
    expect(source?.next?.({})).toBe(undefined);
    expect(read({ state: { num_requests: 3, num_pending: 3 } }).results).toEqual([]);
  });

  it("has its name as its tag, its times, and what it cost in ticks", () => {
    const cost_breakdown = { total_cost_usd_ticks: 123_456_789 };
    const batch = read({
      create_time: "2026-11-20T10:00:00.5Z",
      expire_time: "2026-11-21T10:00:00Z",
      cost_breakdown,
    });
    expect(batch).toMatchObject({
      tag: TAG,
      createdWallMs: Date.parse("2026-11-20T10:00:00.500Z"),
      expiresWallMs: Date.parse("2026-11-21T10:00:00Z"),
      billedUsd: 0.0123456789,
    });
    const other = xaiBatches(settingsOf("xai", "https://api.x.ai/v1"), { ticksPerUsd: 1_000 });
    const result = other.read(
      answer(200, { batch_id: "b", cost_breakdown: { total_cost_usd_ticks: "500" } }),
    );
    expect(result.ok && result.batch.billedUsd).toBe(0.5);
    for (const ticks of [null, -1, "x", {}])
      expect(read({ cost_breakdown: { total_cost_usd_ticks: ticks } })).not.toHaveProperty("billedUsd");
  });

  it("that xAI stopped has a fault", () => {
    expect(read({ cancel_by_xai_message: "broke\nrules" }).faults).toEqual([
      { code: "unknown", message: "broke rules", is: "batch" },
    ]);
    expect(read({ cancel_by_xai_message: "" })).toMatchObject({ faults: [], isCancelling: false });
  });
});

it("a page of batches is followed by the one of its token", () => {
  const page = (body: object): string => {
    const result = wire.readPage(answer(200, body), { payload, sinceWallMs: 0 });
    return result.ok ? `${result.batches.map(({ id }) => id)} ${lineOf(result.next)}` : result.is;
  };
  const batches = [{ batch_id: "b1" }, null, { batch_id: null }, { batch_id: "b2" }];
  expect(page({ batches, pagination_token: "t1" })).toBe(
    `b1,b2 GET ${BATCHES}?limit=100&pagination_token=t1`,
  );
  expect(page({ batches, pagination_token: null })).toBe("b1,b2 none");
  expect(page({ batches: [], pagination_token: "t1" })).toBe(" none");
  expect(page({ batches: null })).toBe("unknown");
});

describe("a result", () => {
  const completion = '{"choices":[{"message":{"content":"hi"}}],"usage":{"cost":1.0}}';

  it("is the completion, byte for byte", () => {
    const element = `{"batch_request_id":"a-1","batch_result":{"response":{"chat_get_completion":${completion}}},"error_message":""}`;
    expect(shortResult(wire, element)).toBe(`answered a-1 200 ${completion}`);
  });

  it.each([
    [
      { batch_result: { error: { code: 3, message: "m" } } },
      'answered a-1 400 {"error":{"code":3,"message":"m"}}',
    ],
    [
      { batch_result: { error: { code: 8, message: "m" } } },
      'answered a-1 429 {"error":{"code":8,"message":"m"}}',
    ],
    [
      { batch_result: { error: { code: "invalid_argument" } } },
      'answered a-1 400 {"error":{"code":"invalid_argument"}}',
    ],
    [{ batch_result: { error: { code: 99 } } }, 'answered a-1 500 {"error":{"code":99}}'],
    [{ batch_result: { error: { message: "m" } } }, 'answered a-1 500 {"error":{"message":"m"}}'],
    [{ error_message: "m" }, 'answered a-1 500 {"error":{"message":"m"}}'],
    [{ batch_result: { error: { code: 1 } } }, "unfinished a-1 cancelled"],
    [{ batch_result: { error: { code: "batch_cancelled" } } }, "unfinished a-1 cancelled"],
    [{ batch_result: { error: { code: 0, message: "" } } }, "unfinished a-1 unknown"],
    [{ batch_result: { response: { chat_get_completion: null } } }, "unfinished a-1 unknown"],
    [{ batch_result: { response: null, error: null } }, "unfinished a-1 unknown"],
    [{ batch_result: null, error_message: null }, "unfinished a-1 unknown"],
    [{}, "unfinished a-1 unknown"],
  ])("%j is %s", (part, expected) => {
    expect(shortResult(wire, { batch_request_id: "a-1", ...part })).toBe(expected);
  });

  it("with code 0 beside a completion is the completion", () => {
    const element = `{"batch_request_id":"a-1","batch_result":{"error":{"code":0},"response":{"chat_get_completion":${completion}}}}`;
    expect(shortResult(wire, element)).toBe(`answered a-1 200 ${completion}`);
  });

  it("is read by the realtime codec", () => {
    const element = JSON.stringify({
      batch_request_id: "a-1",
      batch_result: { response: { chat_get_completion: JSON.parse(completion) } },
    });
    const result = wire.result(new TextEncoder().encode(element));
    if (result.is !== "answered") throw new Error(result.is);
    expect(provider("openai").decode({ ...answer(200, ""), ...result })).toMatchObject({
      class: "success",
      text: "hi",
    });
  });
});
