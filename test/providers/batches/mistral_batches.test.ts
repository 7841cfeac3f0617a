/** What the wire of Mistral's batch jobs asks, and how it reads each answer. */
import { describe, expect, it } from "vitest";
import type { RemoteBatch } from "../../../src/providers/batches/batch_wire.ts";
import { answer } from "../answers.ts";
import { PAYLOAD, shortOf, wireOf } from "./wire_answers.ts";

const wire = wireOf("mistral");
const BASE = "https://batches.test/v1";
const SEARCH = { payload: PAYLOAD, sinceWallMs: 1_795_172_400_000 };
const JOB = {
  id: "job-1",
  object: "batch",
  input_files: ["file-in"],
  metadata: { perigee_submission: "01HZTAG000" },
  endpoint: "/v1/chat/completions",
  model: "gpt-x",
  output_file: null,
  error_file: null,
  errors: [],
  status: "RUNNING",
  created_at: 1_000,
  total_requests: 2,
  completed_requests: 2,
  succeeded_requests: 1,
  failed_requests: 1,
};

function read(more: object): RemoteBatch {
  const found = wire.read(answer(200, { ...JOB, ...more }));
  if (!found.ok) throw new Error(found.message);
  return found.batch;
}

describe("the wire of Mistral's batches asks", () => {
  it("for an upload, a job with its tag, its state, its end, and the files", () => {
    const upload = wire.upload(PAYLOAD);
    expect(JSON.stringify(shortOf(upload?.request))).toContain('name=\\"purpose\\"\\r\\n\\r\\nbatch\\r\\n');
    expect(upload?.read(answer(200, { id: "file-1" }))).toEqual({ ok: true, file: "file-1" });
    expect(upload?.read(answer(200, { id: null }))).toMatchObject({ ok: false, is: "unknown" });
    expect(shortOf(wire.create(PAYLOAD, "file-1"))).toEqual([
      `POST ${BASE}/batch/jobs`,
      {
        input_files: ["file-1"],
        endpoint: "/v1/chat/completions",
        model: "gpt-x",
        metadata: { perigee_submission: "01HZTAG000" },
        timeout_hours: 24,
      },
    ]);
    expect(shortOf(wire.get("job-1"))).toBe(`GET ${BASE}/batch/jobs/job-1`);
    expect(shortOf(wire.cancel("job-1"))).toBe(`POST ${BASE}/batch/jobs/job-1/cancel`);
    expect(wire.remove({ id: "job-1", files: ["file-1"] }).map(shortOf)).toEqual([
      `DELETE ${BASE}/files/file-1`,
      `DELETE ${BASE}/batch/jobs/job-1`,
    ]);
    expect(Buffer.from(wire.line("t-1", Buffer.from("{}"), PAYLOAD)).toString()).toBe(
      '{"custom_id":"t-1","body":{}}',
    );
  });

  it("for as many hours as the window has", () => {
    const long = wireOf("mistral", {}, { windowMs: 7 * 86_400_000 });
    expect(shortOf(long.create(PAYLOAD, "f"))).toMatchObject([expect.anything(), { timeout_hours: 168 }]);
  });
});

describe("a job at Mistral", () => {
  it("is read with its counts, tag and files", () => {
    expect(read({})).toEqual({
      id: "job-1",
      rawState: "RUNNING",
      end: undefined,
      isCancelling: false,
      counts: { total: 2, succeeded: 1, failed: 1 },
      tag: "01HZTAG000",
      inputFile: "file-in",
      createdWallMs: 1_000_000,
      expiresWallMs: undefined,
      faults: [],
      results: [],
      files: ["file-in"],
    });
  });

  it.each([
    ["QUEUED", undefined, false],
    ["RUNNING", undefined, false],
    ["CANCELLATION_REQUESTED", undefined, true],
    ["SOMETHING_NEW", undefined, false],
    [null, undefined, false],
    ["SUCCESS", "completed", false],
    ["success", "completed", false],
    ["FAILED", "failed", false],
    ["TIMEOUT_EXCEEDED", "expired", false],
    ["CANCELLED", "cancelled", false],
  ])("in state %s has the end %s, cancelling %s", (status, end, isCancelling) => {
    expect(read({ status })).toMatchObject({ end, isCancelling });
  });

  it.each(["SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"])(
    "that ended as %s shows both files, one, or none",
    (status) => {
      const results = (more: object): unknown =>
        read({ status, ...more }).results.map(({ request }) => shortOf(request));
      const [output, errors] = [`GET ${BASE}/files/out/content`, `GET ${BASE}/files/err/content`];
      expect(results({ output_file: "out", error_file: "err" })).toEqual([output, errors]);
      expect(results({ error_file: "err" })).toEqual([errors]);
      expect(results({ output_file: "out" })).toEqual([output]);
      expect(results({})).toEqual([]);
    },
  );

  it("that has failed says why, without lines; one that ran has its errors in its files", () => {
    const errors = [
      { message: "insufficient_quota: no credits", count: 3 },
      { message: "Enqueued tokens: too many" },
      null,
    ];
    expect(read({ status: "FAILED", errors }).faults.map(({ is, line }) => [is, line])).toEqual([
      ["account", undefined],
      ["full", undefined],
      ["batch", undefined],
    ]);
    expect(read({ status: "SUCCESS", errors }).faults).toEqual([]);
  });

  it("that was made from several files is another program's", () => {
    expect(read({ input_files: ["a", "b"] })).not.toHaveProperty("inputFile");
    expect(read({ input_files: null, metadata: null, total_requests: 0 })).toMatchObject({
      tag: undefined,
      files: [],
      counts: { succeeded: 1, failed: 1 },
    });
  });
});

describe("the list of jobs", () => {
  const first = wire.list(SEARCH);
  const query = (page: number): string =>
    `GET ${BASE}/batch/jobs?page=${page}&page_size=100&created_after=2026-11-20T11%3A00%3A00.000Z&perigee_submission=01HZTAG000`;

  it("is filtered by tag and time", () => {
    expect(shortOf(first)).toBe(query(0));
    expect(shortOf(wire.list({ ...SEARCH, sinceWallMs: -1 }))).toContain("created_after=1970-01-01T00");
    expect(shortOf(wire.list({ ...SEARCH, sinceWallMs: 1e300 }))).toContain(
      "created_after=%2B275760-09-13T00",
    );
  });

  it("is read page by page while pages are full, whatever is on them", () => {
    const full = {
      data: Array.from({ length: 100 }, (_, index) => (index === 7 ? null : { ...JOB, id: `job-${index}` })),
    };
    const read = wire.readPage(answer(200, full), SEARCH, first);
    if (!read.ok || read.next === undefined) throw new Error("no next page");
    expect(read.batches).toHaveLength(99);
    expect(shortOf(read.next)).toBe(query(1));
    const next = wire.readPage(answer(200, full), SEARCH, read.next);
    expect(next.ok && shortOf(next.next)).toBe(query(2));
    expect(wire.readPage(answer(200, { data: [JOB] }), SEARCH, read.next)).toMatchObject({ next: undefined });
    expect(wire.readPage(answer(200, { total: 0 }), SEARCH, first)).toMatchObject({
      ok: false,
      is: "unknown",
    });
  });

  it("finds a file by its name", () => {
    const file = wire.findFile?.(PAYLOAD);
    expect(shortOf(file?.request)).toBe(`GET ${BASE}/files?purpose=batch&search=perigee-01HZTAG000.jsonl`);
    const data = [{ id: "file-1", filename: "perigee-01HZTAG000.jsonl", bytes: 100 }];
    expect(file?.read(answer(200, { data }))).toEqual({ ok: true, file: "file-1" });
    expect(file?.read(answer(200, { data: [] }))).toEqual({ ok: true });
    expect(file?.read(answer(500, ""))).toMatchObject({ ok: false, is: "unknown" });
  });
});
