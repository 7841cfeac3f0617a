/** The OpenAI fake, by OpenAI's own SDK over a real socket and in virtual time; its time is moved by hand. */
import OpenAI, { toFile } from "openai";
import { afterEach, describe, expect, it } from "vitest";
import { nthCalls } from "./behaviour.ts";
import { always } from "./chance.ts";
import { FakeOpenAiBatches, type FakeOpenAiOptions } from "./openai.ts";
import { answerTo } from "./prompt.ts";
import { type ServedFake, serve } from "./serve.ts";

let served: ServedFake | undefined;

afterEach(async () => {
  await served?.close();
  served = undefined;
});

interface Scene {
  readonly client: OpenAI;
  readonly fake: FakeOpenAiBatches;
  pass(ms: number): void;
  /** A client of another key. */
  other(key: string): OpenAI;
}

const START_MS = Date.UTC(2026, 0, 1);

async function scene(options: Partial<FakeOpenAiOptions> = {}): Promise<Scene> {
  let nowMs = START_MS;
  const fake = new FakeOpenAiBatches({ seed: 1, nowMs: () => nowMs, times: always(60_000), ...options });
  served = await serve(fake);
  const baseURL = `${served.url}/v1`;
  const other = (apiKey: string): OpenAI => new OpenAI({ apiKey, baseURL, maxRetries: 0 });
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  return { client: other("k1"), fake, pass, other };
}

function lineOf(id: string, prompt: string, url = "/v1/chat/completions"): string {
  const body = { model: "gpt-6-luna", messages: [{ role: "user", content: prompt }] };
  return `${JSON.stringify({ custom_id: id, method: "POST", url, body })}\n`;
}

async function submitted(client: OpenAI, prompts: readonly string[]): Promise<OpenAI.Batch> {
  const text = prompts.map((prompt, index) => lineOf(`t-${index}`, prompt)).join("");
  return submittedText(client, text);
}

async function submittedText(client: OpenAI, text: string): Promise<OpenAI.Batch> {
  const file = await client.files.create({
    purpose: "batch",
    file: await toFile(Buffer.from(text), "in.jsonl"),
    expires_after: { anchor: "created_at", seconds: 172_800 },
  });
  return client.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
    metadata: { perigee_submission: "s1" },
  });
}

interface ResultLine {
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly body: OpenAI.ChatCompletion } | null;
  readonly error: { readonly code: string } | null;
}

async function resultLines(client: OpenAI, file: string | null | undefined): Promise<ResultLine[]> {
  if (typeof file !== "string") return [];
  const text = await (await client.files.content(file)).text();
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as ResultLine);
}

describe("OpenAI's own SDK runs against the fake", () => {
  it("a whole batch: uploaded, created, polled, listed, fetched, its files deleted", async () => {
    const { client, fake, pass } = await scene();
    const batch = await submitted(client, ["one", "two FAIL-400", "three"]);
    expect(batch).toMatchObject({ status: "validating", metadata: { perigee_submission: "s1" } });
    pass(10_000);
    expect((await client.batches.retrieve(batch.id)).status).toBe("in_progress");
    pass(60_000);
    expect((await client.batches.retrieve(batch.id)).status).toBe("finalizing");
    pass(60_000);
    const ended = await client.batches.retrieve(batch.id);
    expect(ended).toMatchObject({
      status: "completed",
      request_counts: { total: 3, completed: 2, failed: 1 },
      completed_at: (START_MS + 75_000) / 1_000,
    });
    const good = await resultLines(client, ended.output_file_id);
    expect(
      Object.fromEntries(
        good.map(({ custom_id, response }) => [custom_id, response?.body.choices[0]?.message.content]),
      ),
    ).toEqual({ "t-0": answerTo("one"), "t-2": answerTo("three") });
    const bad = await resultLines(client, ended.error_file_id);
    expect(bad).toMatchObject([{ custom_id: "t-1", response: { status_code: 400 } }]);
    const listed: string[] = [];
    for await (const { id } of client.batches.list({ limit: 1 })) listed.push(id);
    expect(listed).toEqual([batch.id]);
    for (const id of [ended.input_file_id, ended.output_file_id, ended.error_file_id])
      expect((await client.files.delete(String(id))).deleted).toBe(true);
    expect(fake.files.count).toBe(0);
    expect(fake.ledger.batches.get(batch.id)).toMatchObject({ items: 3, end: "completed", key: "k1" });
  });

  it("a realtime request and a flex request, priced by their tier", async () => {
    const { client, fake } = await scene({ price: () => ({ inputUsd: 2, outputUsd: 10 }) });
    const request = { model: "gpt-6-sol", messages: [{ role: "user" as const, content: "hi TOKENS-3" }] };
    const answer = await client.chat.completions.create(request);
    expect(answer.choices[0]?.message.content).toBe(answerTo("hi TOKENS-3"));
    expect(answer.usage).toMatchObject({ prompt_tokens: 11, completion_tokens: 3 });
    const flex = await client.chat.completions.create({ ...request, service_tier: "flex" });
    expect(flex.service_tier).toBe("flex");
    expect(fake.ledger.sums("realtime").nanoUsd).toBe(11 * 2_000 + 3 * 10_000);
    expect(fake.ledger.sums("flex").nanoUsd).toBe((11 * 2_000 + 3 * 10_000) / 2);
    expect(fake.ledger.answersTo("hi TOKENS-3").map(({ tier }) => tier)).toEqual(["realtime", "flex"]);
  });

  it("responses and embeddings", async () => {
    const { client } = await scene();
    const answer = await client.responses.create({ model: "gpt-6-sol", input: "hello" });
    expect(answer.output_text).toBe(answerTo("hello"));
    const { data } = await client.embeddings.create({ model: "e", input: "text", encoding_format: "float" });
    expect(data[0]?.embedding).toHaveLength(4);
  });

  it("a cancelled batch, which keeps what was finished", async () => {
    const { client, fake, pass } = await scene({ cancelMs: 120_000 });
    const batch = await submitted(client, ["early AFTER-1000", "late AFTER-999999"]);
    pass(10_000);
    expect((await client.batches.cancel(batch.id)).status).toBe("cancelling");
    pass(3_600_000); // beyond the time at which the other would have been finished
    const ended = await client.batches.retrieve(batch.id);
    expect(ended.status).toBe("cancelled");
    expect(await resultLines(client, ended.output_file_id)).toMatchObject([{ custom_id: "t-0" }]);
    expect(await resultLines(client, ended.error_file_id)).toMatchObject([
      { custom_id: "t-1", response: null, error: { code: "batch_cancelled" } },
    ]);
    expect(fake.ledger.sums("batch")).toMatchObject({ answers: 1, billed: 1 });
    await expect(client.batches.cancel(batch.id)).rejects.toThrow(/409/);
  });
});

describe("what may be wrong with a batch of the OpenAI fake", () => {
  async function ended(
    prompts: readonly string[],
    options: Partial<FakeOpenAiOptions> = {},
    passMs = 24 * 3_600_000,
  ): Promise<
    Scene & { readonly batch: OpenAI.Batch; readonly good: ResultLine[]; readonly bad: ResultLine[] }
  > {
    const made = await scene(options);
    const { id } = await submitted(made.client, prompts);
    made.pass(passMs);
    const batch = await made.client.batches.retrieve(id);
    const good = await resultLines(made.client, batch.output_file_id);
    const bad = await resultLines(made.client, batch.error_file_id);
    return { ...made, batch, good, bad };
  }

  it("a stalled request lets it expire with the results of the others", async () => {
    const { batch, good, bad, fake } = await ended(["one", "two STALL"]);
    expect(batch.status).toBe("expired");
    expect(good).toMatchObject([{ custom_id: "t-0" }]);
    expect(bad).toMatchObject([{ custom_id: "t-1", error: { code: "batch_expired" } }]);
    expect(fake.ledger.sums().billed).toBe(1);
  });

  it("a share of the requests stalls, as the seed says", async () => {
    const prompts = Array.from({ length: 200 }, (_, index) => `prompt ${index}`);
    const { good } = await ended(prompts, { stalledShare: 0.25 });
    expect(good.length).toBeGreaterThan(130);
    expect(good.length).toBeLessThan(170);
  });

  it("lines that are refused are named, or not", async () => {
    const told = await ended(["one", "two INVALID"]);
    expect(told.batch).toMatchObject({ status: "failed", errors: { data: [{ line: 2 }] } });
    expect(told.fake.ledger.sums().answers).toBe(0);
    await served?.close();
    const untold = await ended(["one", "two INVALID"], { tellsLines: false });
    expect(untold.batch).toMatchObject({ status: "failed", errors: { data: [{ line: null }] } });
  });

  it("only an error file, and a status among the good results", async () => {
    const all = await ended(["one", "two"], { batchFaults: () => ({ allFailWith: 500 }) });
    expect(all.batch).toMatchObject({ status: "completed", output_file_id: null });
    expect(all.bad.map(({ response }) => response?.status_code)).toEqual([500, 500]);
    await served?.close();
    const inside = await ended(["one BODY-400"]);
    expect(inside.good).toMatchObject([{ response: { status_code: 400 }, error: null }]);
    expect(inside.batch.error_file_id).toBeNull();
  });

  it("an end without any file, though the work is billed", async () => {
    const { batch, fake } = await ended(["one"], { batchFaults: () => ({ hasNoResults: true }) });
    expect(batch).toMatchObject({ status: "completed", output_file_id: null, error_file_id: null });
    expect(fake.ledger.sums().billed).toBe(1);
  });

  it("results that are missing, twice, without response, under strange ids, in another order", async () => {
    const prompts = ["a", "b MISSING", "c TWICE", "d NULL-RESPONSE", "e", "f", "g"];
    const { good } = await ended(prompts, { batchFaults: () => ({ unknownIds: 1 }) });
    const ids = good.map(({ custom_id }) => custom_id);
    expect([...ids].sort()).toEqual(["stranger-0", "t-0", "t-2", "t-2", "t-3", "t-4", "t-5", "t-6"]);
    expect(ids).not.toEqual([...ids].sort());
    expect(good.find(({ custom_id }) => custom_id === "t-3")).toMatchObject({ response: null, error: null });
  });

  it("a last line that is torn", async () => {
    await expect(ended(["one", "two"], { batchFaults: () => ({ isTorn: true }) })).rejects.toThrow(
      SyntaxError,
    );
  });

  it("a state that no client knows, for a while", async () => {
    const options = { batchFaults: () => ({ stateAtFirst: { name: "warming_up", forMs: 20_000 } }) };
    const { client, batch, pass } = await ended(["one"], options, 10_000);
    expect(batch.status).toBe("warming_up");
    pass(15_000);
    expect((await client.batches.retrieve(batch.id)).status).toBe("in_progress");
  });

  it("more tokens than may be enqueued, which a failed batch holds for a while", async () => {
    const options = { enqueuedTokensMax: 30, failedHoldMs: 60_000 };
    const first = await ended(["one"], options, 10_000);
    expect(first.batch.status).toBe("in_progress");
    const statusOf = async (prompts: readonly string[]): Promise<string> => {
      const { id } = await submitted(first.client, prompts);
      first.pass(6_000);
      const batch = await first.client.batches.retrieve(id);
      if (batch.status === "failed") expect(batch.errors?.data?.[0]?.code).toBe("token_limit_exceeded");
      return batch.status;
    };
    expect(await statusOf(["two", "three", "four"])).toBe("failed");
    expect(await statusOf(["five"])).toBe("failed");
    first.pass(120_000);
    expect(await statusOf(["five"])).toBe("in_progress");
  });

  it("batches and files that are gone after the time for which they are kept", async () => {
    const { client, batch, pass } = await ended(["one"], { keptMs: 48 * 3_600_000 });
    pass(24 * 3_600_000);
    await expect(client.batches.retrieve(batch.id)).rejects.toThrow(/404/);
    pass(3_600_000);
    await expect(client.files.content(String(batch.output_file_id))).rejects.toThrow(/404/);
  });

  it("batches that another key does not see", async () => {
    const { batch, other, fake } = await ended(["one"]);
    await expect(other("k2").batches.retrieve(batch.id)).rejects.toThrow(/404/);
    expect((await other("k2").batches.list()).data).toEqual([]);
    expect(fake.ledger.batches.get(batch.id)?.polls).toEqual(
      new Map([
        ["k1", 1],
        ["k2", 1],
      ]),
    );
  });
});

describe("what may be wrong with calls of the OpenAI fake", () => {
  it("the answer to a create is lost, but the batch exists and a list shows it later", async () => {
    const { client, pass } = await scene({
      faults: nthCalls({ create: { 1: "lost" } }),
      listDelayMs: 120_000,
    });
    await expect(submitted(client, ["one"])).rejects.toThrow(OpenAI.APIConnectionError);
    expect((await client.batches.list()).data).toEqual([]);
    pass(120_000);
    expect((await client.batches.list()).data).toMatchObject([{ metadata: { perigee_submission: "s1" } }]);
  });

  it("the answers to an upload and a cancel are lost, and both had their effect", async () => {
    const { client, fake, pass } = await scene({
      faults: nthCalls({ upload: { 1: "lost" }, cancel: { 1: "lost" } }),
    });
    await expect(submitted(client, ["one"])).rejects.toThrow(OpenAI.APIConnectionError);
    expect((await client.files.list({ purpose: "batch" })).data).toMatchObject([{ filename: "in.jsonl" }]);
    const { id } = await submitted(client, ["one"]);
    pass(6_000);
    await expect(client.batches.cancel(id)).rejects.toThrow(OpenAI.APIConnectionError);
    expect((await client.batches.retrieve(id)).status).toBe("cancelling");
    expect(fake.ledger.keptBatches).toEqual([]);
  });

  it("a request that is lost or refused before it arrives has no effect", async () => {
    const { client, fake } = await scene({
      faults: nthCalls({ create: { 1: "lost_before", 2: "refused_connection", 3: { status: 503 } } }),
    });
    for (let call = 0; call < 3; call += 1) await expect(submitted(client, ["one"])).rejects.toThrow();
    expect(fake.ledger.batches.size).toBe(0);
  });

  it("a refusal has the status, code and headers of the schedule", async () => {
    const headers = { "retry-after": "7" };
    const { client } = await scene({
      faults: nthCalls({ list: { 1: { status: 429, code: "rate_limit_exceeded", headers } } }),
    });
    const error = await client.batches.list().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(error).toMatchObject({ code: "rate_limit_exceeded" });
    expect((error as InstanceType<typeof OpenAI.APIError>).headers?.get("retry-after")).toBe("7");
  });

  it("a download breaks off in its middle", async () => {
    const { client, pass } = await scene({ faults: nthCalls({ results: { 1: { tornAfter: 0.5 } } }) });
    const { id } = await submitted(client, ["one", "two"]);
    pass(3_600_000);
    const { output_file_id } = await client.batches.retrieve(id);
    await expect(resultLines(client, output_file_id)).rejects.toThrow();
    expect(await resultLines(client, output_file_id)).toHaveLength(2);
  });

  it("a key that is not known, and too many requests a minute", async () => {
    const { client, other, pass } = await scene({
      keys: new Set(["k1"]),
      realtime: { requestsPerMinute: 60 },
    });
    const ask = (by: OpenAI): Promise<unknown> =>
      by.chat.completions.create({ model: "m", messages: [{ role: "user", content: "hi" }] });
    await expect(ask(other("k9"))).rejects.toThrow(OpenAI.AuthenticationError);
    await ask(client);
    await expect(ask(client)).rejects.toThrow(OpenAI.RateLimitError);
    pass(1_000);
    await ask(client);
  });

  it("flex without capacity is refused and not billed", async () => {
    const { client, fake } = await scene({ realtime: { flexShedShare: 1 } });
    const request = { model: "m", messages: [{ role: "user" as const, content: "hi" }] };
    await expect(client.chat.completions.create({ ...request, service_tier: "flex" })).rejects.toThrow(/429/);
    expect(fake.ledger.sums().answers).toBe(0);
  });
});
