/** What the wire of Together's batches asks, and how it reads each answer. */
import { describe, expect, it } from "vitest";
import type { RemoteBatch } from "../../../src/providers/batches/batch_wire.ts";
import { answer } from "../answers.ts";
import { bytesOf, PAYLOAD, shortOf, wireOf } from "./wire_answers.ts";

const wire = wireOf("together");
const BASE = "https://batches.test/v1";
const SEARCH = { payload: PAYLOAD, sinceWallMs: 0 };
const JOB = {
  id: "job-1",
  input_file_id: "file-in",
  endpoint: "/v1/chat/completions",
  model_id: "gpt-x",
  status: "IN_PROGRESS",
  progress: 25,
  created_at: "2026-11-20T11:00:00Z",
  job_deadline: "2026-11-21T11:00:00Z",
  output_file_id: "",
  error: "",
};

function read(more: object): RemoteBatch {
  const found = wire.read(answer(200, { ...JOB, ...more }));
  if (!found.ok) throw new Error(found.message);
  return found.batch;
}

describe("an upload to Together", () => {
  const step = wire.upload(PAYLOAD);
  const placed = (status: number, headers: Record<string, string>): unknown =>
    step?.read(answer(status, "", headers));
  const ids = { "x-together-file-id": "file-1" };

  it("asks for a place, and stores the lines there without the key", () => {
    const request = step?.request;
    if (request === undefined) throw new Error("no upload");
    const query = "file_name=perigee-01HZTAG000.jsonl&file_type=jsonl&purpose=batch-api";
    expect(`${request.method} ${request.origin}${request.path}`).toBe(`POST ${BASE}/files?${query}`);
    expect(bytesOf(request, []).toString()).toBe(query);
    expect(request.headers).toMatchObject({
      authorization: "Bearer k",
      "content-type": "application/x-www-form-urlencoded",
    });
    const next = step?.read(answer(302, "", { ...ids, location: "https://store.test/bucket/x?sign=1" }));
    if (next === undefined || !("next" in next)) throw new Error("no next step");
    const { request: put, read: readPut } = next.next;
    expect(`${put.method} ${put.origin}${put.path}`).toBe("PUT https://store.test/bucket/x?sign=1");
    expect(put.headers).toEqual({ "content-type": "application/octet-stream" });
    expect(bytesOf(put, [Buffer.from("{}"), Buffer.from("{}")]).toString()).toBe("{}\n{}\n");
    expect(readPut(answer(200, ""))).toEqual({ ok: true, file: "file-1" });
    expect(readPut(answer(403, "<Error>Request has expired</Error>"))).toMatchObject({
      ok: false,
      is: "gone",
    });
    expect(readPut(answer(400, ""))).toMatchObject({ ok: false, is: "gone" });
    expect(readPut(answer(503, ""))).toMatchObject({ ok: false, is: "unknown" });
    expect(readPut(answer(429, ""))).toMatchObject({ ok: false, is: "refused" });
  });

  it("fails without a place, and with one that is less safe than the provider's", () => {
    const failed = { ok: false, is: "permanent" };
    expect(placed(302, ids)).toMatchObject(failed);
    expect(placed(302, { location: "https://store.test/x" })).toMatchObject(failed);
    expect(placed(302, { ...ids, location: "http://store.test/x" })).toMatchObject(failed);
    expect(placed(302, { ...ids, location: "file:///etc/passwd" })).toMatchObject(failed);
    expect(placed(302, { ...ids, location: "https://[" })).toMatchObject(failed);
    expect(placed(200, { ...ids, location: "https://store.test/x" })).toMatchObject(failed);
    expect(placed(401, {})).toMatchObject({ is: "account" });
    expect(placed(429, {})).toMatchObject({ is: "refused" });
    const local = wireOf("together", { baseUrl: "http://127.0.0.1:9/v1" });
    const stored = local.upload(PAYLOAD)?.read(answer(302, "", { ...ids, location: "/store/x" }));
    expect(stored).toMatchObject({
      ok: true,
      next: { request: { origin: "http://127.0.0.1:9", path: "/store/x" } },
    });
  });

  it("is found again by its name, once the lines are in the file", () => {
    const find = (more: object, list = (files: readonly unknown[]): unknown => ({ data: files })): unknown =>
      wire
        .findFile?.(PAYLOAD)
        .read(
          answer(
            200,
            list([null, { id: "file-1", filename: "perigee-01HZTAG000.jsonl", bytes: 100, ...more }]),
          ),
        );
    expect(find({})).toEqual({ ok: true, file: "file-1" });
    expect(find({ Processed: true }, (files) => files)).toEqual({ ok: true, file: "file-1" });
    expect(find({ Processed: false })).toEqual({ ok: true });
    expect(find({ bytes: 0 })).toEqual({ ok: true });
    expect(find({}, () => 7)).toMatchObject({ ok: false, is: "unknown" });
    expect(wire.findFile?.(PAYLOAD).read(answer(401, ""))).toMatchObject({ ok: false, is: "account" });
  });
});

describe("the wire of Together's batches asks", () => {
  it("for a batch, its state, its end, the list and the files", () => {
    expect(shortOf(wire.create(PAYLOAD, "file-1"))).toEqual([
      `POST ${BASE}/batches`,
      { input_file_id: "file-1", endpoint: "/v1/chat/completions", completion_window: "24h" },
    ]);
    expect(shortOf(wire.get("job-1"))).toBe(`GET ${BASE}/batches/job-1`);
    expect(shortOf(wire.cancel("job-1"))).toBe(`POST ${BASE}/batches/job-1/cancel`);
    expect(shortOf(wire.list(SEARCH))).toBe(`GET ${BASE}/batches`);
    expect(wire.remove({ id: "job-1", files: ["f"] }).map(shortOf)).toEqual([`DELETE ${BASE}/files/f`]);
  });
});

describe("a batch at Together", () => {
  it("is read from the answer to create, in which it is a member, and to get", () => {
    const batch = {
      id: "job-1",
      rawState: "IN_PROGRESS",
      end: undefined,
      isCancelling: false,
      counts: { share: 0.25 },
      tag: undefined,
      inputFile: "file-in",
      createdWallMs: 1_795_172_400_000,
      expiresWallMs: 1_795_258_800_000,
      faults: [],
      results: [],
      files: ["file-in"],
    };
    expect(read({})).toEqual(batch);
    expect(wire.read(answer(201, { job: JOB, warning: "no discount" }))).toEqual({ ok: true, batch });
    expect(wire.read(answer(201, { job: null, warning: "x" }))).toMatchObject({ ok: false, is: "unknown" });
    expect(wire.read(answer(408, ""), "create")).toMatchObject({ is: "unknown" });
    expect(wire.read(answer(408, ""), "other")).toMatchObject({ is: "refused" });
  });

  it.each([
    ["VALIDATING", undefined],
    ["IN_PROGRESS", undefined],
    ["QUEUED_SOMEHOW", undefined],
    [null, undefined],
    ["COMPLETED", "completed"],
    ["FAILED", "failed"],
    ["EXPIRED", "expired"],
    ["CANCELLED", "cancelled"],
    ["cancelled", "cancelled"],
  ])("in state %s has the end %s", (status, end) => {
    expect(read({ status })).toMatchObject({ end });
  });

  it("shows both files, one, or none, at every end", () => {
    for (const status of ["COMPLETED", "FAILED", "EXPIRED", "CANCELLED"]) {
      const results = (more: object): unknown =>
        read({ status, ...more }).results.map(({ request }) => shortOf(request));
      const [output, errors] = [`GET ${BASE}/files/out/content`, `GET ${BASE}/files/err/content`];
      expect(results({ output_file_id: "out", error_file_id: "err" })).toEqual([output, errors]);
      expect(results({ error_file_id: "err" })).toEqual([errors]);
      expect(results({})).toEqual([]);
    }
  });

  it("that has failed says why", () => {
    expect(read({ status: "FAILED", error: "enqueued token limit exceeded" }).faults).toMatchObject([
      { is: "full" },
    ]);
    expect(read({ status: "FAILED", error: "bad file" }).faults).toMatchObject([
      { is: "batch", message: "bad file" },
    ]);
    expect(read({ status: "FAILED", error: "Your account is out of credits" }).faults).toMatchObject([
      { is: "account" },
    ]);
    expect(read({ status: "FAILED", error: null }).faults).toEqual([]);
    expect(read({ status: "COMPLETED", error: "1 failed" }).faults).toEqual([]);
  });

  it("has no share of what is finished where the percentage is none", () => {
    for (const progress of [null, "50", -1, 101, undefined]) expect(read({ progress }).counts).toEqual({});
  });

  it("is listed in an array", () => {
    const page = wire.readPage(answer(200, [JOB, null, {}]), SEARCH);
    expect(page).toMatchObject({ ok: true, batches: [{ id: "job-1" }], next: undefined });
    expect(wire.readPage(answer(200, "null"), SEARCH)).toMatchObject({ ok: false, is: "unknown" });
    expect(wire.readPage(answer(404, ""), SEARCH)).toMatchObject({ ok: false, is: "gone" });
  });
});
