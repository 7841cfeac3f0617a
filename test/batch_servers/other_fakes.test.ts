/** The fakes of Mistral, Together, xAI and OpenRouter; their time is moved by hand. */
import { Buffer } from "node:buffer";
import { describe, expect, it } from "vitest";
import { type FakeOptions, nthCalls } from "./behaviour.ts";
import { always } from "./chance.ts";
import type { BatchFake } from "./fake.ts";
import { FakeMistralBatches } from "./mistral.ts";
import { FakeOpenRouterBatches } from "./openrouter.ts";
import { answerTo } from "./prompt.ts";
import { FakeTogetherBatches } from "./together.ts";
import { FakeXaiBatches } from "./xai.ts";

interface Scene<Fake> {
  readonly fake: Fake;
  pass(ms: number): void;
  /** The JSON of an answer, with its status; `lost` where it is lost. */
  call(method: string, path: string, body?: object): Answered;
  upload(purpose: string, lines: readonly object[], path?: string): string;
  /** The lines of a file. */
  fetch(id: unknown): Line[];
}

// biome-ignore lint/suspicious/noExplicitAny: what a test asks of an answer, it states
type Answered = any;

interface Line {
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly body: Answered } | null;
}

function scene<Fake extends BatchFake>(
  make: (options: FakeOptions) => Fake,
  options: Partial<FakeOptions> = {},
): Scene<Fake> {
  let nowMs = Date.UTC(2026, 0, 1);
  const fake = make({ seed: 1, nowMs: () => nowMs, times: always(60_000), ...options });
  const raw = (method: string, path: string, body: Uint8Array, type = "application/json"): string => {
    const headers = { authorization: "Bearer k1", "content-type": type };
    const answer = fake.handle({ method, path, headers, body });
    return typeof answer === "string" ? JSON.stringify(answer) : Buffer.from(answer.body).toString();
  };
  return {
    fake,
    pass: (ms) => {
      nowMs += ms;
    },
    call: (method, path, body = {}) =>
      JSON.parse(raw(method, path, Buffer.from(JSON.stringify(body)))) as Answered,
    upload: (purpose, lines, path = "/v1/files") => {
      const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
      const part = (name: string, value: string): string =>
        `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
      const form = `${part("purpose", purpose)}${part('file"; filename="x.jsonl', text)}--b--\r\n`;
      return JSON.parse(raw("POST", path, Buffer.from(form), "multipart/form-data; boundary=b")).id;
    },
    fetch: (id) =>
      raw("GET", `/v1/files/${id}/content`, Buffer.from(""))
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Line),
  };
}

const body = (content: string): object => ({ messages: [{ role: "user", content }] });
const entry = (content: string, index: number): object => ({ custom_id: `t-${index}`, body: body(content) });
const modelEntry = (content: string, index: number): object => ({
  custom_id: `t-${index}`,
  body: { model: "m", ...body(content) },
});
const CHAT = "/v1/chat/completions";
const DAY_MS = 86_400_000;

describe("the fake of Mistral", () => {
  const mistral = (options: Partial<FakeOptions> = {}): Scene<FakeMistralBatches> =>
    scene((all) => new FakeMistralBatches(all), options);

  it("runs a job by file, found by its metadata, and gives both files", () => {
    const { call, upload, fetch, pass, fake } = mistral();
    const file = upload("batch", ["one", "two FAIL-400"].map(entry));
    const create = { input_files: [file], endpoint: CHAT, model: "m", metadata: { tag: "s1" } };
    const job = call("POST", "/v1/batch/jobs", create);
    expect(job).toMatchObject({ status: "QUEUED", total_requests: 2 });
    pass(30_000);
    expect(call("GET", `/v1/batch/jobs/${job.id}`).status).toBe("RUNNING");
    pass(DAY_MS / 2);
    const ended = call("GET", `/v1/batch/jobs/${job.id}`);
    expect(ended).toMatchObject({ status: "SUCCESS", succeeded_requests: 1, failed_requests: 1 });
    expect(fetch(ended.output_file)[0]?.response?.body.choices[0].message.content).toBe(answerTo("one"));
    expect(fetch(ended.error_file)).toMatchObject([{ custom_id: "t-1", response: { status_code: 400 } }]);
    const found = (tag: string): unknown[] =>
      call("GET", `/v1/batch/jobs?metadata=${encodeURIComponent(JSON.stringify({ tag }))}`).data;
    expect(found("s1")).toMatchObject([{ id: job.id }]);
    expect(found("s2")).toEqual([]);
    expect(fake.ledger.sums("batch").billed).toBe(1);
  });

  it("runs requests inline, and ends one that takes longer than its time", () => {
    const { call, pass } = mistral();
    const requests = ["one", "two STALL"].map(entry);
    const { id } = call("POST", "/v1/batch/jobs", {
      requests,
      endpoint: CHAT,
      model: "m",
      timeout_hours: 48,
    });
    pass(DAY_MS);
    expect(call("GET", `/v1/batch/jobs/${id}`).status).toBe("RUNNING");
    pass(DAY_MS);
    const { status, outputs } = call("GET", `/v1/batch/jobs/${id}`);
    expect(status).toBe("TIMEOUT_EXCEEDED");
    expect(outputs.map(({ custom_id }: Line) => custom_id).sort()).toEqual(["t-0", "t-1"]);
  });

  it("cancels, and fails a job that is not valid", () => {
    const { call, pass } = mistral();
    const create = (text: string): Answered =>
      call("POST", "/v1/batch/jobs", { requests: [entry(text, 0)], endpoint: CHAT, model: "m" });
    const { id } = create("one");
    const invalid = create("two INVALID");
    expect(call("POST", `/v1/batch/jobs/${id}/cancel`).status).toBe("CANCELLATION_REQUESTED");
    pass(600_000);
    expect(call("GET", `/v1/batch/jobs/${id}`).status).toBe("CANCELLED");
    expect(call("GET", `/v1/batch/jobs/${invalid.id}`)).toMatchObject({
      status: "FAILED",
      output_file: null,
    });
  });
});

describe("the fake of Together", () => {
  const together = (options: Partial<FakeOptions> = {}): Scene<FakeTogetherBatches> =>
    scene((all) => new FakeTogetherBatches(all), options);

  it("runs a batch by file, listed in a plain array without anything that names it", () => {
    const { call, upload, fetch, pass } = together();
    const file = upload("batch-api", ["one", "two"].map(modelEntry), "/v1/files/upload");
    const { job } = call("POST", "/v1/batches", { input_file_id: file, endpoint: CHAT });
    expect(job).toMatchObject({ status: "VALIDATING", progress: 0 });
    pass(DAY_MS / 2);
    const ended = call("GET", `/v1/batches/${job.id}`);
    expect(ended).toMatchObject({ status: "COMPLETED", progress: 100 });
    expect(
      fetch(ended.output_file_id)
        .map(({ custom_id }) => custom_id)
        .sort(),
    ).toEqual(["t-0", "t-1"]);
    expect(call("GET", "/v1/batches")).toMatchObject([{ id: job.id }]);
    expect(call("POST", CHAT, { model: "m", ...body("hi") }).choices[0].message.content).toBe(answerTo("hi"));
  });

  it("keeps a batch of which the answer was lost", () => {
    const { call, upload } = together({ faults: nthCalls({ create: { 1: "lost" } }) });
    const file = upload("batch-api", [modelEntry("one", 0)]);
    expect(call("POST", "/v1/batches", { input_file_id: file, endpoint: CHAT })).toBe("lost");
    expect(call("GET", "/v1/batches")).toMatchObject([{ input_file_id: file }]);
  });
});

describe("the fake of xAI", () => {
  const xai = (options: Partial<FakeOptions> = {}): Scene<FakeXaiBatches> =>
    scene((all) => new FakeXaiBatches(all), options);
  const add = (...texts: readonly string[]): object => ({
    batch_requests: texts.map((text) => ({
      batch_request_id: `t-${text}`,
      batch_request: { chat_get_completion: { model: "m", ...body(text) } },
    })),
  });

  it("takes requests under their ids, once each, and shows results by pages while it runs", () => {
    const { call, pass, fake } = xai({ times: { p50: 60_000, p90: 120_000, p99: 240_000 } });
    const { batch_id } = call("POST", "/v1/batches", { name: "tag-1" });
    call("POST", `/v1/batches/${batch_id}/requests`, add("a", "b FAIL-400"));
    call("POST", `/v1/batches/${batch_id}/requests`, add("b FAIL-400", "c", "d AFTER-9000000"));
    pass(600_000);
    const running = call("GET", `/v1/batches/${batch_id}`);
    expect(running).toMatchObject({
      name: "tag-1",
      state: { num_requests: 4, num_pending: 1, num_success: 2, num_error: 1 },
    });
    const first = call("GET", `/v1/batches/${batch_id}/results?limit=2`);
    const next = `limit=2&pagination_token=${first.pagination_token}`;
    const second = call("GET", `/v1/batches/${batch_id}/results?${next}`);
    const ids = [...first.results, ...second.results].map((result) => result.batch_request_id);
    expect(ids.sort()).toEqual(["t-a", "t-b FAIL-400", "t-c"]);
    pass(DAY_MS / 2);
    const ended = call("GET", `/v1/batches/${batch_id}`);
    expect(ended.state).toMatchObject({ num_pending: 0, num_success: 3 });
    expect(ended.cost_breakdown.total_cost_usd_ticks).toBe(fake.ledger.sums().nanoUsd * 10);
  });

  it("shows what was not finished as cancelled, after what was", () => {
    const { call, pass } = xai();
    const { batch_id } = call("POST", "/v1/batches", { name: "tag-1" });
    call("POST", `/v1/batches/${batch_id}/requests`, add("a AFTER-1000", "b STALL"));
    pass(10_000);
    call("POST", `/v1/batches/${batch_id}:cancel`);
    pass(600_000);
    expect(call("GET", `/v1/batches/${batch_id}`).state).toMatchObject({ num_pending: 0, num_cancelled: 1 });
    const { results } = call("GET", `/v1/batches/${batch_id}/results`);
    expect(results).toMatchObject([
      { batch_request_id: "t-a AFTER-1000", batch_result: { response: {} } },
      { batch_request_id: "t-b STALL", batch_result: { error: { code: 1 } } },
    ]);
    expect(call("POST", `/v1/batches/${batch_id}/requests`, add("c"))).toHaveProperty("error");
  });

  it("refuses to be added to more than so often", () => {
    const { call, pass } = scene((all) => new FakeXaiBatches({ ...all, addsMax: 1 }));
    const { batch_id } = call("POST", "/v1/batches", { name: "tag-1" });
    call("POST", `/v1/batches/${batch_id}/requests`, add("a"));
    expect(call("POST", `/v1/batches/${batch_id}/requests`, add("b"))).toHaveProperty("error");
    pass(30_000);
    expect(call("POST", `/v1/batches/${batch_id}/requests`, add("b"))).toEqual({});
  });
});

describe("the fake of OpenRouter", () => {
  const requests = ["one", "two FAIL-500"].map(entry);

  it("runs a batch with its results inline, and says what it cost", () => {
    const { call, pass, fake } = scene((all) => new FakeOpenRouterBatches(all));
    const { id, status } = call("POST", "/api/v1/batches", { endpoint: CHAT, model: "m", requests });
    expect(status).toBe("validating");
    pass(DAY_MS / 2);
    const ended = call("GET", `/api/v1/batches/${id}`);
    expect(ended).toMatchObject({
      status: "completed",
      request_counts: { total: 2, completed: 1, failed: 1 },
    });
    const good = ended.results.find(({ custom_id }: Line) => custom_id === "t-0");
    expect(good.response.body.choices[0].message.content).toBe(answerTo("one"));
    expect(ended.usage.cost).toBe(fake.ledger.sums().nanoUsd / 1e9);
    expect(call("GET", "/api/v1/batches").data).toMatchObject([{ id }]);
    expect(call("POST", `/api/v1/batches/${id}/cancel`)).toHaveProperty("error");
    expect(call("DELETE", `/api/v1/batches/${id}`)).toMatchObject({ deleted: true });
  });

  it("refuses requests that come before their endpoint and model", () => {
    const { call, fake } = scene((all) => new FakeOpenRouterBatches(all));
    expect(call("POST", "/api/v1/batches", { requests, endpoint: CHAT, model: "m" })).toHaveProperty("error");
    expect(fake.ledger.batches.size).toBe(0);
  });

  it("shows results by pages where a get does not, and the cost of a realtime answer", () => {
    const { call, pass } = scene((all) => new FakeOpenRouterBatches({ ...all, isInline: false }));
    const many = Array.from({ length: 150 }, (_, index) => entry(`prompt ${index}`, index));
    const { id } = call("POST", "/api/v1/batches", { endpoint: CHAT, model: "m", requests: many });
    pass(DAY_MS / 2);
    expect(call("GET", `/api/v1/batches/${id}`)).not.toHaveProperty("results");
    const first = call("GET", `/api/v1/batches/${id}/results`);
    const second = call("GET", `/api/v1/batches/${id}/results?cursor=${first.next_cursor}`);
    expect(first.data.length + second.data.length).toBe(150);
    expect(second.has_more).toBe(false);
    expect(
      call("POST", "/api/v1/chat/completions", { model: "m", ...body("hi") }).usage.cost,
    ).toBeGreaterThan(0);
  });
});
