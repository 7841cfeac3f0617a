/** What the wire of OpenAI's batches asks, and how it reads each answer. */
import { describe, expect, it } from "vitest";
import type { RemoteBatch } from "../../../src/providers/batches/batch_wire.ts";
import { answer } from "../answers.ts";
import { bytesOf, PAYLOAD, shortOf, wireOf } from "./wire_answers.ts";

const wire = wireOf("openai");
const SEARCH = { payload: PAYLOAD, sinceWallMs: 1_000_000 };
const BATCH = {
  id: "batch_1",
  object: "batch",
  endpoint: "/v1/chat/completions",
  errors: null,
  input_file_id: "file-in",
  completion_window: "24h",
  status: "in_progress",
  output_file_id: null,
  error_file_id: null,
  created_at: 1_000,
  expires_at: 87_400,
  request_counts: { total: 2, completed: 1, failed: 0 },
  metadata: { perigee_submission: "01HZTAG000" },
};

function read(more: object): RemoteBatch {
  const found = wire.read(answer(200, { ...BATCH, ...more }));
  if (!found.ok) throw new Error(found.message);
  return found.batch;
}

const resultsOf = (batch: RemoteBatch): unknown => batch.results.map(({ request }) => shortOf(request));

describe("the wire of OpenAI's batches asks", () => {
  it("for an upload that deletes itself a day after the window", () => {
    const step = wire.upload(PAYLOAD);
    const request = step?.request;
    if (request === undefined) throw new Error("no upload");
    expect(request.headers).toEqual({
      accept: "application/json",
      "user-agent": "perigee",
      authorization: "Bearer k",
      "content-type": "multipart/form-data; boundary=----perigee-01HZTAG000-jsonl",
    });
    const text = bytesOf(request, [Buffer.from('{"a":1}'), Buffer.from('{"b":2}')]).toString();
    expect(text.replaceAll("\r\n", "\n")).toBe(
      [
        "------perigee-01HZTAG000-jsonl",
        'Content-Disposition: form-data; name="purpose"',
        "",
        "batch",
        "------perigee-01HZTAG000-jsonl",
        'Content-Disposition: form-data; name="expires_after[anchor]"',
        "",
        "created_at",
        "------perigee-01HZTAG000-jsonl",
        'Content-Disposition: form-data; name="expires_after[seconds]"',
        "",
        "172800",
        "------perigee-01HZTAG000-jsonl",
        'Content-Disposition: form-data; name="file"; filename="perigee-01HZTAG000.jsonl"',
        "Content-Type: application/jsonl",
        "",
        '{"a":1}',
        '{"b":2}',
        "",
        "------perigee-01HZTAG000-jsonl--",
        "",
      ].join("\n"),
    );
    expect(step?.read(answer(200, { id: "file-1", status: "processed" }))).toEqual({
      ok: true,
      file: "file-1",
    });
  });

  it("for a batch with its tag, for its state, its end, the list and the files", () => {
    const base = "https://batches.test/v1";
    expect(shortOf(wire.create(PAYLOAD, "file-1"))).toEqual([
      `POST ${base}/batches`,
      {
        input_file_id: "file-1",
        endpoint: "/v1/chat/completions",
        completion_window: "24h",
        metadata: { perigee_submission: "01HZTAG000" },
        output_expires_after: { anchor: "created_at", seconds: 2_592_000 },
      },
    ]);
    expect(shortOf(wire.get("batch_1"))).toBe(`GET ${base}/batches/batch_1`);
    expect(shortOf(wire.cancel("batch_1"))).toBe(`POST ${base}/batches/batch_1/cancel`);
    expect(shortOf(wire.list(SEARCH))).toBe(`GET ${base}/batches?limit=100`);
    expect(shortOf(wire.findFile?.(PAYLOAD).request)).toBe(
      `GET ${base}/files?purpose=batch&limit=1000&order=desc`,
    );
    expect(wire.remove({ id: "batch_1", files: ["file-1", "file-2"] }).map(shortOf)).toEqual([
      `DELETE ${base}/files/file-1`,
      `DELETE ${base}/files/file-2`,
    ]);
    expect(Buffer.from(wire.line("t-1", Buffer.from('{"n":1}'), PAYLOAD)).toString()).toBe(
      '{"custom_id":"t-1","method":"POST","url":"/v1/chat/completions","body":{"n":1}}',
    );
  });

  it("with the query of the base URL in every request (Azure's api-version)", () => {
    const azure = wireOf("azure", { baseUrl: "https://a.test/openai/v1/?api-version=preview" });
    expect(shortOf(azure.list(SEARCH))).toBe(
      "GET https://a.test/openai/v1/batches?api-version=preview&limit=100",
    );
    expect(shortOf(azure.get("b"))).toBe("GET https://a.test/openai/v1/batches/b?api-version=preview");
  });

  it("never for another path, whatever an id holds", () => {
    expect(shortOf(wire.get("../files?x#y"))).toBe("GET https://batches.test/v1/batches/..%2Ffiles%3Fx%23y");
    expect(wire.read(answer(200, { ...BATCH, id: ".." })).ok).toBe(false);
  });
});

describe("a batch at OpenAI", () => {
  it("is read with its counts, times, tag and files", () => {
    expect(read({})).toEqual({
      id: "batch_1",
      rawState: "in_progress",
      end: undefined,
      isCancelling: false,
      counts: { total: 2, succeeded: 1, failed: 0 },
      tag: "01HZTAG000",
      inputFile: "file-in",
      createdWallMs: 1_000_000,
      expiresWallMs: 87_400_000,
      faults: [],
      results: [],
      files: ["file-in"],
    });
  });

  it.each([
    ["validating", undefined, false],
    ["in_progress", undefined, false],
    ["finalizing", undefined, false],
    ["cancelling", undefined, true],
    ["canceling", undefined, true],
    ["paused_for_reasons_of_2027", undefined, false],
    ["", undefined, false],
    [null, undefined, false],
    [7, undefined, false],
    ["completed", "completed", false],
    ["COMPLETED", "completed", false],
    ["JOB_STATE_COMPLETED", "completed", false],
    ["failed", "failed", false],
    ["expired", "expired", false],
    ["cancelled", "cancelled", false],
    ["canceled", "cancelled", false],
  ])("in state %s has the end %s, cancelling %s", (status, end, isCancelling) => {
    expect(read({ status })).toMatchObject({ end, isCancelling });
  });

  it.each(["completed", "failed", "expired", "cancelled"])(
    "that has %s shows both files, one, or none",
    (status) => {
      const output = ["GET https://batches.test/v1/files/out/content"];
      const errors = ["GET https://batches.test/v1/files/err/content"];
      expect(resultsOf(read({ status, output_file_id: "out", error_file_id: "err" }))).toEqual([
        ...output,
        ...errors,
      ]);
      expect(resultsOf(read({ status, output_file_id: null, error_file_id: "err" }))).toEqual(errors);
      expect(resultsOf(read({ status, output_file_id: "out" }))).toEqual(output);
      expect(resultsOf(read({ status, output_file_id: "" }))).toEqual([]);
      expect(read({ status, output_file_id: "out", error_file_id: "err" }).files).toEqual([
        "file-in",
        "out",
        "err",
      ]);
    },
  );

  it("that runs shows no results, even if it names their file", () => {
    expect(read({ output_file_id: "out" })).toMatchObject({ results: [], files: ["file-in", "out"] });
  });

  it("keeps what it knows where members are missing or null", () => {
    const empty = {
      tag: undefined,
      counts: {},
      createdWallMs: undefined,
      expiresWallMs: undefined,
      faults: [],
    };
    const bare = wire.read(answer(200, { id: "batch_1" }));
    expect(bare).toMatchObject({ ok: true, batch: { ...empty, end: undefined, results: [], files: [] } });
    const nulls = Object.fromEntries(Object.keys(BATCH).map((name) => [name, null]));
    expect(wire.read(answer(200, { ...nulls, id: "b" }))).toMatchObject({ ok: true, batch: empty });
    const odd = {
      metadata: { perigee_submission: 7 },
      request_counts: { total: 0, completed: "1", failed: -1 },
    };
    expect(read({ ...odd, errors: { data: null } })).toMatchObject({
      ...empty,
      createdWallMs: 1_000_000,
      expiresWallMs: 87_400_000,
    });
  });

  it("is not asked for a window, which some servers show as a label", () => {
    expect(read({ completion_window: "High (1h)" }).id).toBe("batch_1");
  });
});

describe("faults of a batch that has failed", () => {
  const faults = (...data: readonly unknown[]): unknown =>
    read({ status: "failed", errors: { object: "list", data } }).faults.map(({ is, line, code }) => [
      is,
      line,
      code,
    ]);

  it("name lines from 0, where OpenAI counts from 1", () => {
    const torn = { code: "invalid_json_line", line: 1, message: "This line is not parseable.", param: null };
    expect(faults(torn, { ...torn, line: 50_000 })).toEqual([
      ["item", 0, "invalid_json_line"],
      ["item", 49_999, "invalid_json_line"],
    ]);
    const from0 = wireOf("compatible", {}, { firstLine: 0 }).read(
      answer(200, { ...BATCH, status: "failed", errors: { data: [{ ...torn, line: 0 }] } }),
    );
    expect(from0).toMatchObject({ batch: { faults: [{ line: 0, is: "item" }] } });
  });

  it("are full where too many tokens are enqueued, and the account's where it has no money", () => {
    const full = {
      code: "token_limit_exceeded",
      line: null,
      message: "Enqueued token limit reached for gpt-x",
    };
    expect(faults(full)).toEqual([["full", undefined, "token_limit_exceeded"]]);
    expect(faults({ ...full, code: "something_new" })).toEqual([["full", undefined, "something_new"]]);
    const money = {
      code: "billing_hard_limit_reached",
      line: null,
      message: "Billing hard limit has been reached",
    };
    expect(faults(money)).toEqual([["account", undefined, "billing_hard_limit_reached"]]);
  });

  it("are the batch's without a line, with a line that no payload has, and for a model that takes no batches", () => {
    const model = {
      code: "model_not_found",
      line: 1,
      message: "The provided model is not supported by the Batch API.",
    };
    expect(faults(model)).toEqual([["batch", undefined, "model_not_found"]]);
    expect(
      faults({ code: "too_many_tasks" }, { code: "empty_file", line: 0 }, { line: "3" }, null, "x"),
    ).toEqual([
      ["batch", undefined, "too_many_tasks"],
      ["batch", undefined, "empty_file"],
      ["batch", undefined, "unknown"],
      ["batch", undefined, "unknown"],
      ["batch", undefined, "unknown"],
    ]);
  });

  it("do not quote what a provider says of a line", () => {
    const shown = read({
      status: "failed",
      errors: { data: [{ code: "bad", line: 3, message: "my secret prompt" }] },
    });
    expect(JSON.stringify(shown)).not.toContain("secret");
  });
});

describe("the list of batches", () => {
  const page = (more: object, asked = wire.list(SEARCH)): unknown => {
    const found = wire.readPage(answer(200, { object: "list", ...more }), SEARCH, asked);
    return found.ok ? [found.batches.map(({ id }) => id), shortOf(found.next)] : found;
  };
  const at = (id: string, created_at: number): object => ({ ...BATCH, id, created_at });
  const following = (id: string): string => `GET https://batches.test/v1/batches?limit=100&after=${id}`;

  it("goes on after the last batch while there are more", () => {
    const data = [at("b2", 1_200), at("b1", 1_100)];
    expect(page({ data, has_more: true })).toEqual([["b2", "b1"], following("b1")]);
    expect(page({ data, has_more: true, last_id: "b0" })).toEqual([["b2", "b1"], following("b0")]);
    expect(page({ data, has_more: false })).toEqual([["b2", "b1"], undefined]);
    expect(page({ data })).toEqual([["b2", "b1"], undefined]);
    expect(page({ data: [], has_more: true })).toEqual([[], undefined]);
  });

  it("ends at batches that are older than ours, if it is sorted", () => {
    expect(page({ data: [at("b2", 1_200), at("b1", 999)], has_more: true })).toEqual([
      ["b2", "b1"],
      undefined,
    ]);
    expect(page({ data: [at("b1", 900), at("b2", 999)], has_more: true })).toEqual([
      ["b1", "b2"],
      following("b2"),
    ]);
    expect(page({ data: [at("b1", 900), { id: "b2" }], has_more: true })).toEqual([
      ["b1", "b2"],
      following("b2"),
    ]);
  });

  it("ends where a server repeats its page", () => {
    const asked = { ...wire.list(SEARCH), path: "/v1/batches?limit=100&after=b1" };
    expect(page({ data: [at("b2", 1_200), at("b1", 1_100)], has_more: true }, asked)).toEqual([
      ["b2", "b1"],
      undefined,
    ]);
  });

  it("leaves out what is no batch, and is a failure where there is no list", () => {
    expect(page({ data: [null, 3, { id: 7 }, at("b1", 1_000)] })).toEqual([["b1"], undefined]);
    expect(page({ data: null })).toMatchObject({ is: "unknown" });
    expect(wire.readPage(answer(401, ""), SEARCH)).toMatchObject({ ok: false, is: "account" });
  });

  it("has one page at a server without pages", () => {
    const groq = wireOf("groq", { baseUrl: "https://g.test/openai/v1" });
    expect(shortOf(groq.list(SEARCH))).toBe("GET https://g.test/openai/v1/batches");
    const found = groq.readPage(answer(200, { data: [BATCH], has_more: true }), SEARCH);
    expect(found).toMatchObject({ ok: true, next: undefined, batches: [{ tag: "01HZTAG000" }] });
  });
});

describe("an uploaded file", () => {
  it("that is not processed yet is asked for again, until a batch can be made from it (Azure)", () => {
    const azure = wireOf("azure");
    const first = azure.upload(PAYLOAD)?.read(answer(201, { id: "file-1", status: "pending" }));
    if (first === undefined || !("next" in first)) throw new Error("no next step");
    expect(shortOf(first.next.request)).toBe("GET https://batches.test/v1/files/file-1");
    const again = (status: string): unknown => first.next.read(answer(200, { id: "file-1", status }));
    expect(again("running")).toMatchObject({ ok: false, is: "refused", retryAfterMs: 2_000 });
    expect(again("processed")).toEqual({ ok: true, file: "file-1" });
    expect(again("error")).toMatchObject({ ok: false, is: "permanent" });
    expect(first.next.read(answer(404, ""))).toMatchObject({ ok: false, is: "gone" });
  });

  it("is found again by its name and size", () => {
    const find = (...data: readonly unknown[]): unknown =>
      wire.findFile?.(PAYLOAD).read(answer(200, { data }));
    const ours = { id: "file-1", filename: "perigee-01HZTAG000.jsonl", bytes: 100, status: "processed" };
    expect(find({ id: "x", filename: "perigee-other.jsonl" }, ours)).toEqual({ ok: true, file: "file-1" });
    expect(find({ ...ours, bytes: undefined })).toEqual({ ok: true, file: "file-1" });
    expect(find({ ...ours, bytes: 99 }, null, "x")).toEqual({ ok: true });
    expect(find({ ...ours, status: "error" })).toEqual({ ok: true });
    expect(find({ ...ours, status: "pending" })).toMatchObject({ ok: false, is: "refused" });
    expect(wire.findFile?.(PAYLOAD).read(answer(200, {}))).toMatchObject({ ok: false, is: "unknown" });
  });
});

describe("a step that fails", () => {
  const quota = { error: { type: "insufficient_quota", code: "insufficient_quota", message: "no" } };
  it.each([
    [429, quota, "account"],
    [402, "", "account"],
    [401, "", "account"],
    [403, "", "account"],
    [404, "", "gone"],
    [413, "", "too_large"],
    [400, { error: { message: "File is too large.", type: "invalid_request_error" } }, "too_large"],
    [429, { error: { code: "token_limit_exceeded", message: "Enqueued token limit reached" } }, "full"],
    [400, { error: { message: "Too many batches are in progress" } }, "full"],
    [400, { error: { message: "Invalid file format" } }, "permanent"],
    [500, "<html>oops</html>", "unknown"],
    [503, "", "unknown"],
    [200, "<html>hello</html>", "unknown"],
    [200, { object: "batch" }, "unknown"],
    [200, { error: { code: 429 } }, "refused"],
  ])("with %i %j is %s", (status, body, is) => {
    expect(wire.read(answer(status, body), "create")).toMatchObject({ ok: false, is, status });
    expect(wire.upload(PAYLOAD)?.read(answer(status, body))).toMatchObject({ ok: false, is, status });
  });

  it("says how long to wait, and shows no key", () => {
    const limited = wire.read(answer(429, "", { "retry-after": "7" }));
    expect(limited).toMatchObject({ is: "refused", retryAfterMs: 7_000 });
    const secret = wireOf("openai", { key: "plain-words-of-a-key" });
    const code = { error: { code: "x.plain-words-of-a-key" } };
    for (const read of [secret.read, secret.upload(PAYLOAD)?.read, secret.findFile?.(PAYLOAD).read])
      expect(JSON.stringify(read?.(answer(400, code)))).toContain("[key]");
    expect(JSON.stringify(secret.readPage(answer(400, code), SEARCH))).not.toContain("plain");
    const failed = { ...BATCH, status: "failed", errors: { data: [{ code: "plain-words-of-a-key" }] } };
    expect(JSON.stringify(secret.readPage(answer(200, { data: [failed] }), SEARCH))).not.toContain("plain");
    expect(JSON.stringify(secret.read(answer(200, failed)))).not.toContain("plain");
    const line = { custom_id: "t-1", response: null, error: { code: "plain-words-of-a-key" } };
    expect(secret.result(Buffer.from(JSON.stringify(line)))).toMatchObject({ code: "[key]" });
  });
});
