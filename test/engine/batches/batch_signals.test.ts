/**
 * What callers see of open batches, and what a hint to poll does.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { continueLine } from "../../../src/cli/run/continue.ts";
import { BATCHES, readBatch } from "../../../src/engine/batches/batch_record.ts";
import { always } from "../../batch_servers/chance.ts";
import { FakeOpenAiBatches, type FakeOpenAiOptions } from "../../batch_servers/openai.ts";
import { BatchWorld } from "./batch_world.ts";

const DAY = 24 * 60;
const MINUTE_MS = 60_000;
const POLL_MS_MIN = 30_000;

function openaiWorld(options: Partial<FakeOpenAiOptions> = {}) {
  let fake: FakeOpenAiBatches | undefined;
  const polledMs: number[] = [];
  const world = new BatchWorld(
    (nowMs) => {
      fake = new FakeOpenAiBatches({
        ...{ seed: 1, nowMs },
        faults: ({ kind, nowMs: atMs }) => {
          if (kind === "get") polledMs.push(atMs);
          return undefined;
        },
        ...options,
      });
      return { "https://api.openai.test": fake };
    },
    {
      providers: { openai: { baseUrl: "https://api.openai.test/v1", key: "sk-a" } },
      lanes: { deny: ["flex"] },
    },
  );
  return { world, fake: fake as unknown as FakeOpenAiBatches, polledMs };
}

/** A run whose batch is at work for some hours. */
async function started(options: Partial<FakeOpenAiOptions> = {}) {
  const { world, polledMs } = openaiWorld({ waits: always(4 * 60 * MINUTE_MS), ...options });
  world.input(300, "openai:gpt-5-mini");
  const { engine, core } = await world.opened();
  const run = engine.run("/in.jsonl", { out: "/out.jsonl", sla: DAY });
  run.finished.catch(() => undefined);
  await world.clock.advance(10 * MINUTE_MS);
  const [batch] = engine.batches.list();
  return { world, polledMs, engine, run, batch, store: core.storage.store };
}

describe("the batches of an engine", () => {
  it("are listed with what is in them, how far they are and when they are polled next", async () => {
    const { world, engine, run, batch } = await started();
    expect(batch).toMatchObject({
      ...{ provider: "openai", model: "openai:gpt-5-mini", state: "running", items: 300, itemsOpen: 300 },
      ...{ id: expect.stringMatching(/^batch_/), finished: 0, project: "" },
    });
    expect(batch?.enqueuedTokens).toBeGreaterThan(0);
    expect(batch?.ageMs).toBeGreaterThan(9 * MINUTE_MS);
    expect(batch?.nextPollInMs).toBeLessThanOrEqual(5.5 * MINUTE_MS);
    expect(batch?.reason).toBeUndefined();
    const { batched } = run.progress();
    expect(batched).toMatchObject({ items: 300, finished: 0 });
    expect(batched?.nextPollInMs).toBe(batch?.nextPollInMs);
    await world.settle(run.finished);
    expect(engine.batches.list()).toEqual([]);
    const { polls, ends, results } = engine.batches.tally;
    expect(polls.get("openai running")).toBeGreaterThan(5);
    expect(Object.fromEntries([...ends, ...results])).toEqual({ "openai completed": 1, openai: 300 });
    expect(polls.get("openai ended")).toBe(1);
    await world.settle(engine.close());
  });

  it("say why they wait when the provider had too many tokens enqueued", async () => {
    const fails = { code: "token_limit_exceeded", message: "Enqueued token limit reached for gpt-5-mini" };
    const { world, engine, run, batch, store } = await started({
      batchFaults: (nth) => (nth <= 6 ? { fails } : undefined),
    });
    expect(batch).toMatchObject({
      id: null,
      reason: { is: "full", message: expect.stringContaining("Enqueued token limit reached") },
    });
    expect(batch?.nextPollInMs).toBeGreaterThan(0);
    expect(batch?.enqueuedTokens).toBe(0);
    const message = expect.stringContaining("Enqueued token limit reached");
    expect(run.progress().batched).toMatchObject({ items: 300, waits: { items: 300, message } });
    const records = await store.records("", { collection: BATCHES, limit: 10 });
    expect(records.map(readBatch)[0]).toMatchObject({ state: "spooled", failed: { is: "full", message } });
    await world.settle(engine.close());
  });
});

describe("the trace of an item in a batch", () => {
  const waits = {
    event: "waiting",
    detail: expect.stringMatching(/^for batch_\S+ of openai:gpt-5-mini \(running\)$/),
  };

  it("says of an item of a run which batch it waits for", async () => {
    const { world, engine } = await started();
    const { events } = await world.settle(engine.trace("/out.jsonl", "k7"));
    expect(events.at(-1)).toMatchObject(waits);
    await world.settle(engine.close());
  });

  it("says so of an item of a list", async () => {
    const { world } = openaiWorld({ waits: always(4 * 60 * MINUTE_MS) });
    const { engine } = await world.opened();
    const items = Array.from({ length: 300 }, (_, nth) => ({
      model: "openai:gpt-5-mini",
      input: `prompt ${nth}`,
      sla: DAY,
    }));
    const list = await world.settle(Promise.resolve(engine.submit(items)));
    await world.clock.advance(10 * MINUTE_MS);
    const { events } = await world.settle(engine.trace(list.objects[6]?.object_id ?? ""));
    expect(events.at(-1)).toMatchObject(waits);
    await world.settle(engine.close());
  });
});

describe("a run that is cancelled while its provider takes its time", () => {
  it("shows which batches it waits for until they are cancelled", async () => {
    const { world, engine, run, batch } = await started({ cancelMs: 8 * MINUTE_MS });
    void run.cancel();
    await world.clock.advance(5 * MINUTE_MS);
    expect(engine.batches.list()).toMatchObject([{ id: batch?.id, state: "cancelling" }]);
    expect(run.progress().batched).toMatchObject({ items: 300 });
    const summary = await world.settle(run.finished);
    expect(summary.counts).toMatchObject({ cancelled: 300 });
    await world.settle(engine.close());
  });
});

describe("a batch whose key is not accepted any more", () => {
  it("holds its run with the provider's address, so that the advice names the variable of the key", async () => {
    const denied = { status: 401, code: "invalid_api_key", message: "Incorrect API key" };
    const { world, engine, run } = await started({
      faults: ({ kind }) => (kind === "get" ? denied : undefined),
    });
    const [hold] = run.holds;
    expect(hold).toMatchObject({
      reason: "authentication",
      provider: "openai",
      address: "https://api.openai.test",
    });
    expect(continueLine({ words: ["run"], held: hold === undefined ? [] : [hold] })).toContain(
      "set a key that openai accepts (OPENAI_API_KEY)",
    );
    await world.settle(engine.close());
  });
});

describe("a key that is refused at polls of the batch that it has made", () => {
  const denied = { status: 401, code: "invalid_api_key", message: "Incorrect API key" };

  it("is asked again within seconds, and a refusal by chance ends no run", async () => {
    let refusals = 0;
    const { world, engine, run } = await started({
      faults: ({ kind, nowMs }) => {
        if (kind !== "get" || nowMs < Date.UTC(2026, 10, 1) + 20 * MINUTE_MS || refusals === 3)
          return undefined;
        refusals += 1;
        return denied;
      },
    });
    const { status, counts } = await world.settle(run.finished);
    expect([status, counts.completed, refusals]).toEqual(["completed", 300, 3]);
    await world.settle(engine.close());
  });

  it("is asked for once a minute where it stays refused, and the hold says that it was accepted", async () => {
    const askedMs: number[] = [];
    const { world, engine, run } = await started({
      faults: ({ kind, nowMs }) => {
        if (kind === "get") askedMs.push(nowMs);
        return kind === "get" ? denied : undefined;
      },
    });
    expect(run.holds).toMatchObject([{ reason: "authentication", was_accepted: true }]);
    const waitsMs = askedMs.slice(1, 6).map((atMs, index) => atMs - (askedMs[index] ?? 0));
    expect(waitsMs.slice(0, 4)).toEqual([520, 1_020, 2_020, MINUTE_MS + 20]); // an answer takes 20 ms
    await world.settle(engine.close());
  });
});

describe("a hint that a batch may have ended", () => {
  it("polls it at once where the last poll is long enough ago, and only that batch", async () => {
    const { world, polledMs, engine, batch } = await started();
    await world.clock.advance(batch?.nextPollInMs ?? 0);
    await world.clock.advance(40_000); // the next regular poll is more than a minute away
    const before = polledMs.length;
    expect(engine.batches.pollNow("openai", "batch_other")).toBe(false);
    expect(engine.batches.pollNow("gemini", batch?.id ?? "")).toBe(false);
    await world.clock.advance(1_000);
    expect(polledMs).toHaveLength(before);
    expect(engine.batches.pollNow("openai", batch?.id ?? "")).toBe(true);
    await world.clock.advance(1_000);
    expect(polledMs).toHaveLength(before + 1);
    await world.settle(engine.close());
  });

  it("that comes soon after a poll takes effect half a minute after it, once", async () => {
    const { world, polledMs, engine, batch } = await started();
    await world.clock.advance((batch?.nextPollInMs ?? 0) + 1_000);
    const before = polledMs.length;
    for (let hint = 0; hint < 50; hint += 1) engine.batches.pollNow("openai", batch?.id ?? "");
    await world.clock.advance(28_000);
    expect(polledMs).toHaveLength(before);
    await world.clock.advance(2_000);
    expect(polledMs).toHaveLength(before + 1);
    await world.clock.advance(25_000);
    expect(polledMs).toHaveLength(before + 1);
    await world.settle(engine.close());
  });

  it("is refused where it names no batch in words", async () => {
    const { world, engine } = await started();
    expect(() => engine.batches.pollNow("openai", 7 as unknown as string)).toThrow(
      "batches.pollNow: the id of the batch must be a text, got 7",
    );
    await world.settle(engine.close());
  });

  it("costs at most one poll each `pollSeconds.min`, however many there are", async () => {
    const gaps = fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 20, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(gaps, async (gapsMs) => {
        const { world, polledMs, engine, batch } = await started();
        const first = polledMs.length;
        for (const gapMs of gapsMs) {
          await world.clock.advance(gapMs);
          for (let hint = 0; hint < 5; hint += 1) engine.batches.pollNow("openai", batch?.id ?? "");
        }
        const polls = polledMs.slice(first - 1);
        const between = polls.slice(1).map((atMs, index) => atMs - (polls[index] ?? 0));
        expect(between.filter((ms) => ms < POLL_MS_MIN)).toEqual([]);
        await world.settle(engine.close());
      }),
      { numRuns: 15 },
    );
  });
});
