/** Gemini's batches: files, requests, batches, pages and results. */
import { describe, expect, it } from "vitest";
import type { RemoteBatch, UploadStep } from "../../../src/providers/batches/batch_wire.ts";
import { answer, provider } from "../answers.ts";
import { gemini, KEY, lineOf, linesOf, sentBody, sentJson, shortResult, TAG } from "./wires.ts";

const HOST = "https://generativelanguage.googleapis.com";
const wire = gemini();
const byFile = gemini({ inlineBytesMax: 0 });
const { lines, payload } = linesOf(wire, ['{"contents":[],"n":1.0}', "{}"], "gemini-3.8-flash");

function read(metadata: object | null, more: object = {}): RemoteBatch {
  const result = wire.read(answer(200, { name: "batches/b1", metadata, ...more }));
  if (!result.ok) throw new Error(result.message);
  return result.batch;
}

describe("a small batch", () => {
  it("is sent in the body of the create, with keys in the metadata", () => {
    expect(wire.upload(payload)).toBe(undefined);
    const request = wire.create(payload, undefined);
    expect(lineOf(request)).toBe(`POST ${HOST}/v1beta/models/gemini-3.8-flash:batchGenerateContent`);
    expect(request.headers).toMatchObject({ "x-goog-api-key": KEY, "content-type": "application/json" });
    expect(sentBody(request, lines)).toContain(
      '{"metadata":{"key":"01ABCDEFGH-0"},"request":{"contents":[],"n":1.0}}',
    );
    expect(sentJson(request, lines)).toEqual({
      batch: {
        displayName: TAG,
        inputConfig: {
          requests: {
            requests: [
              { metadata: { key: `${TAG}-0` }, request: { contents: [], n: 1 } },
              { metadata: { key: `${TAG}-1` }, request: {} },
            ],
          },
        },
      },
    });
  });

  it("is one whose body stays below the setting, to the byte", () => {
    const { body } = wire.create(payload, undefined);
    const frame = body.kind === "lines" ? body.before.length + body.after.length : 0;
    const size = sentBody(wire.create(payload, undefined), lines).length - frame + 1; // the last comma
    expect(gemini({ inlineBytesMax: size }).upload(payload)).toBe(undefined);
    expect(gemini({ inlineBytesMax: size - 1 }).upload(payload)).not.toBe(undefined);
  });
});

describe("a large batch", () => {
  const step = byFile.upload(payload);
  if (step === undefined) throw new Error("no upload");

  it("is uploaded as a file in two steps, and made from it", () => {
    expect(lineOf(step.request)).toBe(`POST ${HOST}/upload/v1beta/files`);
    expect(step.request.headers).toMatchObject({
      "x-goog-api-key": KEY,
      "content-type": "application/json",
      "x-goog-upload-protocol": "resumable",
      "x-goog-upload-command": "start",
      "x-goog-upload-header-content-length": String(payload.bytes),
      "x-goog-upload-header-content-type": "application/jsonl",
    });
    const started = step.read(
      answer(200, "", { "x-goog-upload-url": `${HOST}/upload/v1beta/files?upload_id=u1` }),
    );
    const second = nextOf(started);
    expect(lineOf(second.request)).toBe(`POST ${HOST}/upload/v1beta/files?upload_id=u1`);
    expect(second.request.headers).toMatchObject({
      "x-goog-upload-command": "upload, finalize",
      "x-goog-upload-offset": "0",
    });
    const sent = sentBody(second.request, lines);
    expect(sent).toBe(
      `{"key":"${TAG}-0","request":{"contents":[],"n":1.0}}\n{"key":"${TAG}-1","request":{}}\n`,
    );
    expect(sent.length).toBe(payload.bytes);
    const done = second.read(answer(200, { file: { name: "files/f1", uri: "x", state: "ACTIVE" } }));
    expect(done).toEqual({ ok: true, file: "files/f1" });
    expect(sentJson(byFile.create(payload, "files/f1"))).toEqual({
      batch: { displayName: TAG, inputConfig: { fileName: "files/f1" } },
    });
  });

  it("is uploaded without the key to an address of another host, and not without https", () => {
    const other = step.read(answer(200, "", { "x-goog-upload-url": "https://other.test/up?id=1" }));
    expect(lineOf(nextOf(other).request)).toBe("POST https://other.test/up?id=1");
    expect(JSON.stringify(nextOf(other).request)).not.toContain(KEY);
    for (const address of ["http://other.test/up", "nonsense", ""])
      expect(step.read(answer(200, "", { "x-goog-upload-url": address })), address).toMatchObject({
        is: "permanent",
      });
  });

  it("is not uploaded when the answers do not say where, or which file it is", () => {
    expect(step.read(answer(200, ""))).toMatchObject({ ok: false, is: "unknown" });
    expect(step.read(answer(429, "", { "x-goog-upload-url": HOST }))).toMatchObject({ is: "refused" });
    const second = nextOf(step.read(answer(200, "", { "x-goog-upload-url": `${HOST}/up` })));
    for (const body of ["", "{}", '{"file":null}', '{"file":{"name":"files/../x"}}'])
      expect(second.read(answer(200, body)), body).toMatchObject({ ok: false });
  });

  it("is found again by the name of its file", () => {
    const find = byFile.findFile?.(payload);
    if (find === undefined) throw new Error("no search");
    expect(lineOf(find.request)).toBe(`GET ${HOST}/v1beta/files?pageSize=100`);
    const files = [
      null,
      { name: "files/f0", displayName: "other" },
      { name: "files/f1", displayName: TAG, state: "FAILED" },
      { name: "files/f2", displayName: TAG, state: "ACTIVE" },
    ];
    expect(find.read(answer(200, { files }))).toEqual({ ok: true, file: "files/f2" });
    expect(find.read(answer(200, {}))).toEqual({ ok: true });
    expect(find.read(answer(403, ""))).toMatchObject({ ok: false, is: "account" });
  });
});

function nextOf(read: ReturnType<UploadStep["read"]>): UploadStep {
  if (!read.ok || !("next" in read)) throw new Error("no next step");
  return read.next;
}

it("the other requests go where Google documents them", () => {
  expect(lineOf(wire.get("batches/b1"))).toBe(`GET ${HOST}/v1beta/batches/b1`);
  expect(lineOf(wire.cancel("batches/b1"))).toBe(`POST ${HOST}/v1beta/batches/b1:cancel`);
  expect(lineOf(wire.list({ payload, sinceWallMs: 0 }))).toBe(`GET ${HOST}/v1beta/batches?pageSize=100`);
  expect(wire.remove({ id: "batches/b1", files: ["files/f1", "files/../x"] }).map(lineOf)).toEqual([
    `DELETE ${HOST}/v1beta/batches/b1`,
    `DELETE ${HOST}/v1beta/files/f1`,
  ]);
});

it("a configured version and path stay in front of uploads and downloads", () => {
  const proxied = gemini({ inlineBytesMax: 0 }, "https://proxy.test/google/v1");
  expect(lineOf(proxied.upload(payload)?.request)).toBe("POST https://proxy.test/google/upload/v1/files");
  const read = proxied.read(answer(200, done({ responsesFile: "files/r1" })));
  expect(read.ok && read.batch.results.map(({ request }) => lineOf(request))).toEqual([
    "GET https://proxy.test/google/download/v1/files/r1:download?alt=media",
  ]);
});

it("Gemini is told whom to notify, in both ways", () => {
  const webhook = { uris: ["https://me.test/hook"], userMetadata: { tag: TAG } };
  const notified = gemini({ webhook });
  const inline = sentJson(notified.create(payload, undefined), lines);
  const file = sentJson(notified.create(payload, "files/f1"));
  for (const body of [inline, file])
    expect(body).toMatchObject({ batch: { webhookConfig: webhook, displayName: TAG } });
});

function done(output: object, state = "BATCH_STATE_SUCCEEDED"): object {
  return { name: "batches/b1", done: true, metadata: { state }, response: output };
}

describe("a batch", () => {
  it.each([
    ["PENDING", undefined],
    ["QUEUED", undefined],
    ["RUNNING", undefined],
    ["PAUSED", undefined],
    ["CANCELLING", undefined],
    ["UPDATING", undefined],
    ["UNSPECIFIED", undefined],
    ["EVAPORATED", undefined],
    ["SUCCEEDED", "completed"],
    ["PARTIALLY_SUCCEEDED", "completed"],
    ["FAILED", "failed"],
    ["CANCELLED", "cancelled"],
    ["EXPIRED", "expired"],
  ])("in the state %s has the end %s, in either spelling", (state, end) => {
    for (const prefix of ["BATCH_STATE_", "JOB_STATE_", ""]) {
      const batch = read({ state: `${prefix}${state}` });
      expect(batch).toMatchObject({
        end,
        rawState: `${prefix}${state}`,
        isCancelling: state === "CANCELLING",
      });
    }
  });

  it("that is done without a state that is known ends as its operation did", () => {
    expect(read({}, { done: true, response: {} }).end).toBe("completed");
    expect(read({ state: "NEW" }, { done: true, error: { code: 13 } }).end).toBe("failed");
    expect(read({}, { done: true, error: { code: 1 } }).end).toBe("cancelled");
    expect(read({}, { done: true, error: { code: 4 } }).end).toBe("expired");
    expect(read(null, { done: false }).end).toBe(undefined);
  });

  it("has counts that are strings or numbers, its name, its time and its files", () => {
    const metadata = {
      state: "BATCH_STATE_RUNNING",
      displayName: TAG,
      createTime: "2026-11-20T10:00:00.123456789Z",
      batchStats: {
        requestCount: "3",
        successfulRequestCount: "1",
        failedRequestCount: 1,
        pendingRequestCount: "1",
      },
      inputConfig: { fileName: "files/in1" },
    };
    expect(read(metadata)).toMatchObject({
      counts: { total: 3, succeeded: 1, failed: 1 },
      tag: TAG,
      createdWallMs: Date.parse("2026-11-20T10:00:00.123Z"),
      files: ["files/in1"],
      results: [],
    });
    for (const requestCount of ["-1", "1.5", "x", null, -1, 1.5, {}])
      expect(read({ batchStats: { requestCount } }).counts).toEqual({});
  });

  it.each([
    ["the response", { response: { responsesFile: "files/out1" } }],
    [
      "metadata.output",
      { metadata: { state: "JOB_STATE_SUCCEEDED", output: { responsesFile: "files/out1" } } },
    ],
    [
      "both",
      {
        response: { responsesFile: "files/out1" },
        metadata: { state: "JOB_STATE_SUCCEEDED", output: { responsesFile: "files/out1" } },
      },
    ],
  ])("has the file of its results from %s", (_, part) => {
    const batch = read({ state: "BATCH_STATE_SUCCEEDED" }, part);
    expect(batch.results.map(({ request, format }) => [lineOf(request), format])).toEqual([
      [`GET ${HOST}/download/v1beta/files/out1:download?alt=media`, "lines"],
    ]);
    expect(batch.results[0]?.request.headers).toMatchObject({ "x-goog-api-key": KEY });
    expect(batch.files).toEqual(["files/out1"]);
  });

  it("has inline results where they are in the answer to a get", () => {
    const inlinedResponses = { inlinedResponses: [{ metadata: { key: "a-1" }, response: {} }] };
    const places = [
      [done({ inlinedResponses }), ["response", "inlinedResponses", "inlinedResponses"]],
      [
        { name: "batches/b1", metadata: { state: "JOB_STATE_SUCCEEDED", output: { inlinedResponses } } },
        ["metadata", "output", "inlinedResponses", "inlinedResponses"],
      ],
    ] as const;
    for (const [body, path] of places) {
      const result = wire.read(answer(200, body));
      expect(result.ok && result.batch.results).toMatchObject([{ format: "array", path }]);
      expect(result.ok && lineOf(result.batch.results[0]?.request)).toBe(`GET ${HOST}/v1beta/batches/b1`);
    }
  });

  it("keeps what it made whatever its end is, and has nothing to show where nothing is", () => {
    for (const state of ["FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"])
      expect(
        read({ state: `JOB_STATE_${state}`, output: { responsesFile: "files/out1" } }).results,
      ).toHaveLength(1);
    for (const output of [
      null,
      {},
      { responsesFile: null },
      { inlinedResponses: null },
      { inlinedResponses: {} },
    ])
      expect(read({ state: "BATCH_STATE_SUCCEEDED", output }, { response: output })).toMatchObject({
        end: "completed",
        results: [],
      });
  });

  it("that failed says whose fault it was", () => {
    const fault = (error: unknown): object | undefined =>
      read({ state: "BATCH_STATE_FAILED" }, { error }).faults[0];
    expect(fault({ code: 3, message: "line 2 is not JSON" })).toEqual({
      code: "invalid_argument",
      message: "line 2 is not JSON",
      is: "batch",
    });
    expect(fault({ code: 16, message: "no key" })).toMatchObject({ is: "account" });
    expect(fault({ code: 8, message: "Too many enqueued tokens" })).toMatchObject({ is: "full" });
    expect(fault("words")).toMatchObject({ is: "batch", code: "unknown" });
    expect(read({ state: "BATCH_STATE_FAILED" }, { error: null }).faults).toEqual([]);
  });
});

describe("a page of batches", () => {
  const page = (body: object): [readonly string[], string] => {
    const result = wire.readPage(answer(200, body), { payload, sinceWallMs: 0 });
    if (!result.ok) throw new Error(result.message);
    return [result.batches.map(({ id }) => id), lineOf(result.next)];
  };

  it("is followed by the one of its token", () => {
    const operations = [
      null,
      {},
      { name: "batches/b1" },
      { name: "models/m/operations/o1" },
      { name: "batches/b2" },
    ];
    expect(page({ operations, nextPageToken: "a/b+c=" })).toEqual([
      ["batches/b1", "batches/b2"],
      `GET ${HOST}/v1beta/batches?pageSize=100&pageToken=a%2Fb%2Bc%3D`,
    ]);
    expect(page({ operations, nextPageToken: "" })[1]).toBe("none");
    expect(page({ nextPageToken: "t".repeat(2_000) })[1]).toContain("t".repeat(2_000));
  });

  it("without batches is an empty object", () => {
    expect(page({})).toEqual([[], "none"]);
  });

  it("that is an error is a failure", () => {
    const failure = wire.readPage(answer(200, { error: { code: 403 } }), { payload, sinceWallMs: 0 });
    expect(failure).toMatchObject({ ok: false, is: "account" });
  });
});

describe("a result", () => {
  it("is the response, byte for byte, in a file and inline", () => {
    const response = '{"candidates":[{"avgLogprobs":-0.10}],"n":12345678901234567890}';
    const expected = `answered a-1 200 ${response}`;
    expect(shortResult(wire, `{"key":"a-1","response":${response}}`)).toBe(expected);
    expect(shortResult(wire, `{"metadata":{"key":"a-1"},"response":${response}}`)).toBe(expected);
    expect(shortResult(wire, `{"key":"a-1","response":${response},"error":null}`)).toBe(expected);
  });

  it.each([
    [3, 400, "permanent invalid_request"],
    [5, 404, "permanent model_not_found"],
    [7, 403, "permanent authentication_failed"],
    [8, 429, "refused rate_limited"],
    [13, 500, "ambiguous provider_error"],
    [14, 503, "refused overloaded"],
    [16, 401, "permanent authentication_failed"],
    [4, 504, "ambiguous timeout"],
    [9, 400, "permanent invalid_request"],
    [400, 400, "permanent invalid_request"],
    ["RESOURCE_EXHAUSTED", 429, "refused rate_limited"],
    [99, 500, "ambiguous provider_error"],
  ])("with the code %s is answered %i, which realtime reads as %s", (code, status, expected) => {
    const element = `{"key":"a-1","error":{"code":${JSON.stringify(code)},"message":"m","details":[1.0]}}`;
    const result = wire.result(new TextEncoder().encode(element));
    if (result.is !== "answered") throw new Error(result.is);
    expect(result).toMatchObject({ id: "a-1", status });
    expect(new TextDecoder().decode(result.body)).toBe(
      `{"error":{"code":${JSON.stringify(code)},"message":"m","details":[1.0]}}`,
    );
    const decoded = provider("gemini").decode({ ...answer(status, ""), ...result });
    expect(`${decoded.class} ${"code" in decoded ? decoded.code : ""}`).toBe(expected);
  });

  it.each([
    [{ error: { code: 1, message: "cancelled" } }, "unfinished a-1 cancelled"],
    [{ error: { status: "CANCELLED" } }, "unfinished a-1 cancelled"],
    [{ error: { message: "m" } }, 'answered a-1 500 {"error":{"message":"m"}}'],
    [{ error: "text" }, 'answered a-1 500 {"error":"text"}'],
    [{ response: null }, "unfinished a-1 unknown"],
    [{ response: null, error: null }, "unfinished a-1 unknown"],
    [{}, "unfinished a-1 unknown"],
  ])("%j is %s", (part, expected) => {
    expect(shortResult(wire, { key: "a-1", ...part })).toBe(expected);
  });

  it("without a key is unreadable", () => {
    for (const key of [null, undefined, 7, "", {}])
      expect(shortResult(wire, { key, response: {} })).toBe("unreadable");
  });
});
