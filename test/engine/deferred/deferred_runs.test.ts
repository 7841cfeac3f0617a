import { describe, expect, it } from "vitest";
import { nthCalls } from "../../batch_servers/behaviour.ts";
import { booksOf, paidTwice, wrongsOf } from "../batches/books.ts";
import { billedIn, DAY_MINUTES, deferredWorld, MODEL } from "./deferred_world.ts";

describe("a run whose deadline leaves time for deferred requests", () => {
  it("submits each item once, and is billed the configured share of the list price", async () => {
    const { world, fake } = deferredWorld();
    world.input(40, MODEL);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 40 });
    expect(wrongsOf(world, fake, 40)).toEqual([]);
    expect(booksOf(world, fake)).toMatchObject({ ambiguousNanos: 0 });
    expect(summary.cost.billed_usd).toBeCloseTo(0.3 * summary.cost.list_usd, 6);
    expect(new Set(world.lines().map(({ cost }) => cost?.tier))).toEqual(new Set(["deferred"]));
    expect(Object.fromEntries(fake.ledger.calls)).toMatchObject({ create: 40, delete: 40 });
    expect(billedIn(fake, "deferred")).toBe(40);
  });

  it("says in its receipts which interaction answered an item", async () => {
    const { world } = deferredWorld();
    world.input(2, MODEL);
    const { engine } = await world.opened();
    const run = engine.run("/in.jsonl", { out: "/out.jsonl", receipts: "/receipts.jsonl", sla: DAY_MINUTES });
    await world.settle(run.finished);
    await world.settle(engine.close());
    const [receipt] = (world.disk.text("/receipts.jsonl") ?? "").split("\n");
    expect(JSON.parse(receipt ?? "")).toMatchObject({
      ...{ lane: "deferred", tier_asked: "deferred", tier: "deferred" },
      batch: expect.stringMatching(/^v1_/),
    });
  });

  it("is billed by the tier that an answer names", async () => {
    const { world, fake } = deferredWorld({ interactions: { servedTier: "standard" } });
    world.input(5, MODEL);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(wrongsOf(world, fake, 5)).toEqual([]);
    expect(summary.cost.billed_usd).toBeCloseTo(summary.cost.list_usd, 9);
    expect(new Set(world.lines().map(({ cost }) => cost?.tier))).toEqual(new Set(["standard"]));
  });

  it("sends stalled requests in realtime before the deadline, and books what they may cost", async () => {
    const { world, fake } = deferredWorld();
    world.input(12, MODEL, (line) => (line % 3 === 0 ? `STALL ${line}` : `prompt ${line}`));
    const summary = await world.run({ sla: 2 * 60 });
    expect(summary.counts).toMatchObject({ completed: 12, expired: 0 });
    expect(world.lines().filter(({ late }) => late)).toEqual([]);
    expect(wrongsOf(world, fake, 12)).toEqual([]);
    expect(billedIn(fake, "realtime")).toBe(4);
    expect(booksOf(world, fake).ambiguousNanos).toBeGreaterThan(0);
    expect(fake.ledger.keptBatches).toHaveLength(8);
  });

  it("never has more open than may be, and waits while realtime could still do the rest", async () => {
    const { world, fake } = deferredWorld({}, { deferred: { priceFactor: 0.3, openMax: 5 } });
    world.input(30, MODEL);
    await world.run({ sla: DAY_MINUTES });
    expect(billedIn(fake, "deferred")).toBe(30);
    const batches = [...fake.ledger.batches.values()];
    const openAt = (ms: number): number =>
      batches.filter(({ createdMs, deletedMs = Infinity }) => createdMs <= ms && ms < deletedMs).length;
    expect(Math.max(...batches.map(({ createdMs }) => openAt(createdMs)))).toBe(5);
  });

  it("keeps the answer of lines with the provider's own body as realtime would have given it", async () => {
    const { world } = deferredWorld();
    world.input(1, MODEL);
    await world.run({ sla: DAY_MINUTES, format: "raw" });
    const [line] = world.lines() as readonly { readonly body?: unknown }[];
    expect(line?.body).toMatchObject({ candidates: [{ content: { role: "model" }, finishReason: "STOP" }] });
  });

  it("can be left, and is collected by the next call", async () => {
    const { world, fake } = deferredWorld();
    world.input(10, MODEL);
    const left = await world.run({ sla: DAY_MINUTES, detach: true });
    expect(left.counts).toMatchObject({ completed: 0 });
    expect(left.batches).toHaveLength(10);
    await world.clock.advance(3_600_000);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 10 });
    expect(wrongsOf(world, fake, 10)).toEqual([]);
    expect(fake.ledger.calls.get("create")).toBe(10);
  });
});

describe("nothing is deferred", () => {
  it.each([
    ["without a configured price", {}, { deferred: null, lanes: { deny: ["flex", "batch"] } }],
    ["where the lane is denied", {}, { lanes: { deny: ["flex", "batch", "deferred"] } }],
    ["where it is denied at the provider", {}, { lanes: { deny: ["flex", "batch", "gemini:deferred"] } }],
    ["where other lanes are allowed only", {}, { lanes: { allow: ["slow"] } }],
    ["where batches cost less", {}, { lanes: { deny: ["flex"] }, deferred: { priceFactor: 0.7 } }],
    [
      "where batches cost as much and are quicker",
      {},
      { lanes: { deny: ["flex"] }, deferred: { priceFactor: 0.5 } },
    ],
  ] as const)("%s", async (_, options, config) => {
    const { world, fake } = deferredWorld(options, config as Parameters<typeof deferredWorld>[1]);
    world.input(5, MODEL);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 5 });
    expect(billedIn(fake, "deferred")).toBe(0);
  });

  it("that has no place in an interaction", async () => {
    const { world, fake } = deferredWorld();
    const request = {
      model: MODEL,
      contents: [{ role: "user", parts: [{ text: "prompt" }] }],
      generation_config: { top_k: 3 },
    };
    world.disk.put("/in.jsonl", `${JSON.stringify({ key: "k1", request })}\n`);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 1 });
    expect(billedIn(fake, "deferred")).toBe(0);
  });
});

describe("a request whose creation fails", () => {
  it("is answered in realtime if its answer is lost, and is in doubt", async () => {
    const { world, fake } = deferredWorld({ faults: nthCalls({ create: { 2: "lost" } }) });
    world.input(3, MODEL);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 3 });
    expect(fake.ledger.calls.get("create")).toBe(3);
    expect(wrongsOf(world, fake, 3)).toEqual([]);
    expect(paidTwice(fake)).toHaveLength(1);
    expect(booksOf(world, fake).ambiguousNanos).toBeGreaterThan(0);
    expect(world.notices.join()).toContain("nothing lists what was submitted");
  });

  it("is tried again after a 429, and counts once", async () => {
    const refused = { status: 429, code: "rate_limit" };
    const { world, fake } = deferredWorld({ faults: nthCalls({ create: { 1: refused } }) });
    world.input(3, MODEL);
    await world.run({ sla: DAY_MINUTES });
    expect(billedIn(fake, "deferred")).toBe(3);
    expect(booksOf(world, fake).ambiguousNanos).toBe(0);
  });

  it("turns the lane off for its model after three in a row, and everything is answered otherwise", async () => {
    const refused = { status: 400, code: "invalid_request_error", message: "no such tier" };
    const { world, fake } = deferredWorld({
      faults: ({ kind }) => (kind === "create" ? refused : undefined),
    });
    world.input(30, MODEL);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 30 });
    expect(fake.ledger.calls.get("create")).toBe(3);
    expect(booksOf(world, fake).ambiguousNanos).toBe(0);
    expect(world.notices.join()).toContain("no other batch is tried there for some hours");
  });

  it("is answered in realtime if only it is refused, and others are deferred", async () => {
    const { world, fake } = deferredWorld({ faults: nthCalls({ create: { 5: { status: 400 } } }) });
    world.input(20, MODEL);
    await world.run({ sla: DAY_MINUTES });
    expect(billedIn(fake, "deferred")).toBe(19);
    expect(billedIn(fake, "realtime")).toBe(1);
  });
});

describe("an interaction", () => {
  it.each(["requires_action", "requires_continuation", "budget_exceeded"])(
    "that ends as %s is billed, and its item is sent another way",
    async (status) => {
      const { world, fake } = deferredWorld({
        interactions: { statusOf: (prompt) => (prompt === "prompt 2" ? status : undefined) },
      });
      world.input(3, MODEL);
      const summary = await world.run({ sla: DAY_MINUTES });
      expect(summary.counts).toMatchObject({ completed: 3 });
      expect(wrongsOf(world, fake, 3)).toEqual([]);
      expect(paidTwice(fake)).toEqual(["prompt 2"]);
    },
  );

  it("that was cut off at its limit has a finish reason that says so", async () => {
    const { world } = deferredWorld();
    world.input(1, MODEL, () => "TOKENS-900");
    await world.run({ sla: DAY_MINUTES });
    expect(world.lines()).toMatchObject([{ finish_reason: "length", cost: { tier: "deferred" } }]);
  });

  it("that failed is free, and its item is sent in realtime", async () => {
    const { world, fake } = deferredWorld({
      batchFaults: (nth) => (nth === 2 ? { allFailWith: 500 } : undefined),
    });
    world.input(3, MODEL);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 3 });
    expect(booksOf(world, fake).ambiguousNanos).toBe(0);
    expect(billedIn(fake, "realtime")).toBe(1);
  });

  it("in a state that nobody knows is polled until it ends", async () => {
    const stateAtFirst = { name: "warming_up", forMs: 1_800_000 };
    const { world, fake } = deferredWorld({ batchFaults: () => ({ stateAtFirst }) });
    world.input(2, MODEL);
    await world.run({ sla: DAY_MINUTES });
    expect(billedIn(fake, "deferred")).toBe(2);
    expect(billedIn(fake, "realtime")).toBe(0);
  });

  it("that its provider does not know any more is in doubt, and its item is sent in realtime", async () => {
    const { world, fake } = deferredWorld({ keptMs: 600_000, times: { p50: 5e6, p90: 6e6, p99: 7e6 } });
    world.input(3, MODEL);
    const summary = await world.run({ sla: DAY_MINUTES });
    expect(summary.counts).toMatchObject({ completed: 3 });
    expect(wrongsOf(world, fake, 3)).toEqual([]);
    expect(fake.ledger.calls.get("create")).toBe(3);
    expect(billedIn(fake, "realtime")).toBe(3);
    expect(booksOf(world, fake).ambiguousNanos).toBeGreaterThan(0);
  });
});
