/** The Gemini fake, by Google's own SDK over a real socket; its time is moved by hand. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BatchJob, GoogleGenAI, JobState, ServiceTier } from "@google/genai";
import { afterEach, describe, expect, it } from "vitest";
import { nthCalls } from "./behaviour.ts";
import { always } from "./chance.ts";
import { FakeGeminiBatches, type FakeGeminiOptions } from "./gemini.ts";
import { answerTo } from "./prompt.ts";
import { type ServedFake, serve } from "./serve.ts";

let served: ServedFake | undefined;

afterEach(async () => {
  await served?.close();
  served = undefined;
});

interface Scene {
  readonly client: GoogleGenAI;
  readonly fake: FakeGeminiBatches;
  pass(ms: number): void;
  other(apiKey: string): GoogleGenAI;
  /** A plain request. */
  json(path: string, method?: string): Promise<Record<string, unknown>>;
}

const DAY_MS = 86_400_000;

async function scene(options: Partial<FakeGeminiOptions> = {}): Promise<Scene> {
  let nowMs = Date.UTC(2026, 0, 1);
  const fake = new FakeGeminiBatches({ seed: 1, nowMs: () => nowMs, times: always(60_000), ...options });
  const { url } = await serve(fake).then((made) => {
    served = made;
    return made;
  });
  const other = (apiKey: string): GoogleGenAI => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  const json: Scene["json"] = async (path, method = "GET") => {
    const answer = await fetch(`${url}${path}`, { method, headers: { "x-goog-api-key": "k1" } });
    return (await answer.json()) as Record<string, unknown>;
  };
  return { client: other("k1"), fake, pass, other, json };
}

async function upload(client: GoogleGenAI, prompts: readonly string[]): Promise<string> {
  const lines = prompts.map((text, index) =>
    JSON.stringify({ key: `t-${index}`, request: { contents: [{ role: "user", parts: [{ text }] }] } }),
  );
  const file = new Blob([`${lines.join("\n")}\n`]);
  const { name } = await client.files.upload({
    file,
    config: { mimeType: "application/jsonl", displayName: "tag-1.jsonl" },
  });
  return String(name);
}

async function submit(client: GoogleGenAI, prompts: readonly string[]): Promise<BatchJob> {
  const src = await upload(client, prompts);
  return client.batches.create({ model: "gemini-3.8-flash", src, config: { displayName: "tag-1" } });
}

async function resultsOf(client: GoogleGenAI, batch: BatchJob): Promise<Record<string, unknown>> {
  const folder = await mkdtemp(join(tmpdir(), "gemini-"));
  const downloadPath = join(folder, "out.jsonl");
  await client.files.download({ file: String(batch.dest?.fileName), downloadPath });
  let text = "";
  await expect
    .poll(async () => {
      text = await readFile(downloadPath, "utf8").catch(() => "");
      return text;
    })
    .toMatch(/\n$/);
  await rm(folder, { recursive: true });
  const lines = text.split("\n").filter((line) => line !== "");
  return Object.fromEntries(
    lines.map((line) => {
      const { key, ...rest } = JSON.parse(line) as { readonly key: string };
      return [key, rest];
    }),
  );
}

describe("Google's own SDK runs against the fake", () => {
  it("a whole batch by file: uploaded, created, polled, listed, fetched, deleted", async () => {
    const { client, fake, pass } = await scene();
    const { name = "", state } = await submit(client, ["one", "two FAIL-400", "three"]);
    expect(state).toBe(JobState.JOB_STATE_PENDING);
    pass(30_000);
    expect((await client.batches.get({ name })).state).toBe(JobState.JOB_STATE_RUNNING);
    pass(3_600_000);
    const ended = await client.batches.get({ name });
    expect(ended).toMatchObject({ state: JobState.JOB_STATE_SUCCEEDED, displayName: "tag-1" });
    expect(await resultsOf(client, ended)).toMatchObject({
      "t-0": { response: { candidates: [{ content: { parts: [{ text: answerTo("one") }] } }] } },
      "t-1": { error: { code: 3 } },
      "t-2": { response: { candidates: [{ finishReason: "STOP" }] } },
    });
    await submit(client, ["four"]);
    const listed: (string | undefined)[] = [];
    for await (const batch of await client.batches.list({ config: { pageSize: 1 } })) listed.push(batch.name);
    expect(listed).toHaveLength(2);
    expect(listed[1]).toBe(name);
    await client.batches.delete({ name });
    await expect(client.batches.get({ name })).rejects.toThrow(/404/);
    await client.files.delete({ name: String(ended.dest?.fileName) });
    expect(fake.files.count).toBe(2);
    expect(fake.ledger.sums("batch")).toMatchObject({ answers: 3, billed: 2 });
  });

  it("a batch with its requests inline", async () => {
    const { client, pass } = await scene();
    const { name = "" } = await client.batches.create({
      model: "gemini-3.8-flash",
      src: [{ contents: [{ role: "user", parts: [{ text: "one" }] }], metadata: { key: "t-0" } }],
      config: { displayName: "tag-2" },
    });
    pass(3_600_000);
    const ended = await client.batches.get({ name });
    expect(ended.dest?.inlinedResponses?.[0]?.response?.candidates?.[0]?.content?.parts?.[0]?.text).toBe(
      answerTo("one"),
    );
  });

  it("a realtime request and a flex request, whose output is thoughts and candidates", async () => {
    const { client, fake } = await scene();
    const request = { model: "gemini-3.8-flash", contents: "hi TOKENS-8" };
    const answer = await client.models.generateContent(request);
    expect(answer.text).toBe(answerTo("hi TOKENS-8"));
    expect(answer.usageMetadata).toMatchObject({ candidatesTokenCount: 6, thoughtsTokenCount: 2 });
    const flex = { ...request, config: { serviceTier: ServiceTier.FLEX } };
    expect((await client.models.generateContent(flex)).text).toBe(answerTo("hi TOKENS-8"));
    expect(fake.ledger.charges).toMatchObject([
      { outputTokens: 8, tier: "realtime" },
      { outputTokens: 8, tier: "flex" },
    ]);
  });

  it("a cancelled batch, which shows nothing of what was finished and bills it", async () => {
    const { client, fake, pass } = await scene({ cancelMs: 60_000 });
    const { name = "" } = await submit(client, ["early AFTER-1000", "late AFTER-999999"]);
    pass(10_000);
    await client.batches.cancel({ name });
    expect((await client.batches.get({ name })).state).toBe(JobState.JOB_STATE_RUNNING);
    pass(60_000);
    const ended = await client.batches.get({ name });
    expect(ended.state).toBe(JobState.JOB_STATE_CANCELLED);
    expect(ended.dest).toBeUndefined();
    expect(fake.ledger.sums().billed).toBe(1);
  });
});

describe("what may be wrong with a batch of the Gemini fake", () => {
  it("a stalled request lets it expire after 48 h, with results of the others or without", async () => {
    for (const keepsPartialResults of [true, false]) {
      const { client, pass } = await scene({ keepsPartialResults, filesKeptMs: 9 * DAY_MS });
      const { name = "" } = await submit(client, ["one", "two STALL"]);
      pass(2 * DAY_MS);
      const ended = await client.batches.get({ name });
      expect(ended.state).toBe(JobState.JOB_STATE_EXPIRED);
      if (keepsPartialResults) expect(Object.keys(await resultsOf(client, ended))).toEqual(["t-0"]);
      else expect(ended.dest).toBeUndefined();
      await served?.close();
    }
  });

  it("states are spelt both ways, and counts are texts", async () => {
    const { client, json, pass } = await scene({ spelling: "both", outputIn: "response" });
    const { name = "" } = await submit(client, ["one"]);
    pass(3_600_000);
    const seen = new Set<unknown>();
    for (let call = 0; call < 2; call += 1) {
      const { metadata, response } = await json(`/v1beta/${name}`);
      expect(response).toHaveProperty("responsesFile");
      expect(metadata).toMatchObject({ batchStats: { requestCount: "1", successfulRequestCount: "1" } });
      seen.add((metadata as { readonly state: string }).state);
    }
    expect([...seen].sort()).toEqual(["BATCH_STATE_SUCCEEDED", "JOB_STATE_SUCCEEDED"]);
  });

  it("a request that is not valid fails the whole batch, without a line", async () => {
    const { client, json, pass } = await scene();
    const { name = "" } = await submit(client, ["one", "two INVALID"]);
    pass(10_000);
    const failed = await json(`/v1beta/${name}`);
    expect(failed).toMatchObject({ done: true, metadata: { state: "BATCH_STATE_FAILED" } });
    expect(failed).toHaveProperty("error");
    expect(JSON.stringify(failed)).not.toContain('"line":');
  });

  it("files are gone after 48 h", async () => {
    const { client, pass } = await scene();
    const name = await upload(client, ["one"]);
    pass(2 * DAY_MS);
    await expect(client.files.get({ name })).rejects.toThrow(/403/);
  });

  it("the answer to a create is lost, and a list shows the batch by its name", async () => {
    const { client } = await scene({ faults: nthCalls({ create: { 1: "lost" } }) });
    await expect(submit(client, ["one"])).rejects.toThrow();
    const names: (string | undefined)[] = [];
    for await (const batch of await client.batches.list()) names.push(batch.displayName);
    expect(names).toEqual(["tag-1"]);
  });

  it("a key that is not valid is a 400, and another key sees no batch", async () => {
    const { client, other } = await scene({ keys: new Set(["k1", "k2"]) });
    const { name = "" } = await submit(client, ["one"]);
    await expect(other("k2").batches.get({ name })).rejects.toThrow(/404/);
    await expect(other("k9").batches.get({ name })).rejects.toThrow(/API_KEY_INVALID/);
  });
});
