/** The Anthropic fake, by Anthropic's own SDK over a real socket; its time is moved by hand. */
import Anthropic from "@anthropic-ai/sdk";
import { afterEach, describe, expect, it } from "vitest";
import { FakeAnthropicBatches, type FakeAnthropicOptions } from "./anthropic.ts";
import { nthCalls } from "./behaviour.ts";
import { always } from "./chance.ts";
import { answerTo } from "./prompt.ts";
import { type ServedFake, serve } from "./serve.ts";

let served: ServedFake | undefined;

afterEach(async () => {
  await served?.close();
  served = undefined;
});

interface Scene {
  readonly client: Anthropic;
  readonly fake: FakeAnthropicBatches;
  pass(ms: number): void;
  other(apiKey: string): Anthropic;
}

const DAY_MS = 86_400_000;

async function scene(options: Partial<FakeAnthropicOptions> = {}): Promise<Scene> {
  let nowMs = Date.UTC(2026, 0, 1);
  const fake = new FakeAnthropicBatches({ seed: 1, nowMs: () => nowMs, times: always(60_000), ...options });
  served = await serve(fake);
  const baseURL = served.url;
  const other = (apiKey: string): Anthropic => new Anthropic({ apiKey, baseURL, maxRetries: 0 });
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  return { client: other("k1"), fake, pass, other };
}

function submit(client: Anthropic, prompts: readonly string[]): Promise<Anthropic.Messages.MessageBatch> {
  return client.messages.batches.create({
    requests: prompts.map((content, index) => ({
      custom_id: `t-${index}`,
      params: { model: "claude-sonnet-5", max_tokens: 100, messages: [{ role: "user", content }] },
    })),
  });
}

async function results(client: Anthropic, id: string): Promise<Record<string, unknown>> {
  const all: Record<string, unknown> = {};
  for await (const { custom_id, result } of await client.messages.batches.results(id))
    all[custom_id] = result;
  return all;
}

describe("Anthropic's own SDK runs against the fake", () => {
  it("a whole batch: created, polled, listed, fetched, deleted", async () => {
    const { client, fake, pass } = await scene();
    const { id } = await submit(client, ["one", "two FAIL-400", "three", "four HOLD"]);
    pass(30_000);
    expect(await client.messages.batches.retrieve(id)).toMatchObject({
      processing_status: "in_progress",
      request_counts: { processing: 4, succeeded: 0 },
      results_url: null,
    });
    await expect(client.messages.batches.delete(id)).rejects.toThrow(/400/);
    pass(3_600_000);
    expect(await client.messages.batches.retrieve(id)).toMatchObject({
      processing_status: "ended",
      request_counts: { processing: 0, succeeded: 2, errored: 2, canceled: 0, expired: 0 },
    });
    expect(await results(client, id)).toMatchObject({
      "t-0": { type: "succeeded", message: { content: [{ text: answerTo("one") }] } },
      "t-1": { type: "errored", error: { error: { type: "invalid_request_error" } } },
      "t-2": { type: "succeeded", message: { usage: { service_tier: "batch" } } },
      "t-3": { type: "errored", error: { error: { type: "billing_error" } } },
    });
    const second = await submit(client, ["five"]);
    const listed: string[] = [];
    for await (const batch of client.messages.batches.list({ limit: 1 })) listed.push(batch.id);
    expect(listed).toEqual([second.id, id]);
    await client.messages.batches.delete(id);
    await expect(client.messages.batches.retrieve(id)).rejects.toThrow(/404/);
    expect(fake.ledger.sums("batch")).toMatchObject({ answers: 4, billed: 2 });
    expect(fake.ledger.answersTo("one")).toMatchObject([
      { id: "t-0", batch: id, tier: "batch", status: 200 },
    ]);
  });

  it("pages of a list that go back to newer batches", async () => {
    const { client } = await scene();
    const ids: string[] = [];
    for (let batch = 0; batch < 3; batch += 1) ids.unshift((await submit(client, ["one"])).id);
    const page = await client.messages.batches.list({ limit: 1, before_id: String(ids[2]) });
    expect(page.data.map(({ id }) => id)).toEqual([ids[1]]);
    expect(page.has_more).toBe(true);
  });

  it("a realtime request, and refuses sampling and requests without a limit", async () => {
    const { client, fake } = await scene();
    const messages = [{ role: "user" as const, content: "hi" }];
    const answer = await client.messages.create({ model: "m", max_tokens: 100, messages });
    expect(answer.content).toMatchObject([{ type: "text", text: answerTo("hi") }]);
    expect(answer.usage.input_tokens).toBe(fake.ledger.charges[0]?.inputTokens);
    const sampled = { model: "m", max_tokens: 100, messages, temperature: 0.5 };
    await expect(client.messages.create(sampled)).rejects.toThrow(/temperature/);
  });

  it("a cancelled batch, which shows what was finished only once it has ended", async () => {
    const { client, fake, pass } = await scene({ cancelMs: 600_000 });
    const { id } = await submit(client, ["early AFTER-1000", "late AFTER-999999"]);
    pass(10_000);
    expect((await client.messages.batches.cancel(id)).processing_status).toBe("canceling");
    await expect(client.messages.batches.results(id)).rejects.toThrow(/No batch/i);
    pass(600_000);
    expect(await results(client, id)).toMatchObject({
      "t-0": { type: "succeeded" },
      "t-1": { type: "canceled" },
    });
    expect(fake.ledger.sums()).toMatchObject({ billed: 1 });
    expect(fake.ledger.keptBatches).toEqual([]);
  });
});

describe("what may be wrong with a batch of the Anthropic fake", () => {
  it("a stalled request lets it expire", async () => {
    const { client, pass } = await scene();
    const { id } = await submit(client, ["one", "two STALL"]);
    pass(DAY_MS);
    expect(await results(client, id)).toMatchObject({
      "t-0": { type: "succeeded" },
      "t-1": { type: "expired" },
    });
  });

  it("results are gone after 29 days, and an end may have none at all", async () => {
    const { client, pass } = await scene({
      batchFaults: (nth) => (nth === 2 ? { hasNoResults: true } : undefined),
    });
    const { id } = await submit(client, ["one"]);
    const second = await submit(client, ["two"]);
    pass(DAY_MS);
    const ended = await client.messages.batches.retrieve(second.id);
    expect(ended).toMatchObject({ processing_status: "ended", results_url: null });
    pass(28 * DAY_MS);
    const archived = await client.messages.batches.retrieve(id);
    expect(archived.results_url).toBeNull();
    expect(archived.archived_at).not.toBeNull();
  });

  it("results that are missing, null, under strange ids, or torn", async () => {
    const { client, pass } = await scene({
      batchFaults: (nth) => (nth === 1 ? { unknownIds: 1 } : { isTorn: true }),
    });
    const { id } = await submit(client, ["one MISSING", "two NULL-RESPONSE", "three"]);
    const torn = await submit(client, ["one"]);
    pass(DAY_MS);
    const all = await results(client, id);
    expect(Object.keys(all).sort()).toEqual(["stranger-0", "t-1", "t-2"]);
    expect(all["t-1"]).toBeNull();
    await expect(results(client, torn.id)).rejects.toThrow(SyntaxError);
  });

  it("the answer to a create is lost, and a list shows the batch", async () => {
    const { client } = await scene({ faults: nthCalls({ create: { 1: "lost" } }) });
    await expect(submit(client, ["one"])).rejects.toThrow(Anthropic.APIConnectionError);
    expect((await client.messages.batches.list()).data).toMatchObject([
      { request_counts: { processing: 1 } },
    ]);
  });

  it("another key sees no batch, ids that are not allowed are refused, and too many open batches are, too", async () => {
    const { client, other } = await scene({ openMax: 1 });
    const { id } = await submit(client, ["one"]);
    await expect(other("k2").messages.batches.retrieve(id)).rejects.toThrow(/404/);
    await expect(submit(client, ["two"])).rejects.toThrow(Anthropic.RateLimitError);
    const params = { model: "m", max_tokens: 1, messages: [{ role: "user" as const, content: "x" }] };
    const create = client.messages.batches.create({ requests: [{ custom_id: "a b", params }] });
    await expect(create).rejects.toThrow(Anthropic.BadRequestError);
  });
});
