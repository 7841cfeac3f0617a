import { describe, expect, it } from "vitest";
import { type BatchFaults, type FakeOptions, nthCalls } from "../../batch_servers/behaviour.ts";
import { booksOf, paidTwice, wrongsOf } from "./books.ts";
import { WIRES, type WireCase, wireCase, worldOf } from "./wires.ts";

const ITEMS = 120;
const DAY = 1_440;
const HOUR_MS = 3_600_000;

/** Runs items over a day, with words in some of their prompts (`prompt.ts`). */
async function ran(wire: WireCase, options: Partial<FakeOptions>, word = "", every = 10) {
  const { world, fake } = worldOf(wire, options);
  const isMarked = (line: number): boolean => word !== "" && line % every === 0;
  world.input(ITEMS, wire.model, (line) => (isMarked(line) ? `${word} ${line}` : `prompt ${line}`));
  const summary = await world.run({ sla: DAY });
  const batches = [...fake.ledger.batches.values()];
  const { billed: inRealtime } = fake.ledger.sums("realtime");
  const { ambiguousNanos } = booksOf(world, fake);
  return { world, fake, summary, batches, inRealtime, ambiguousNanos, wrong: wrongsOf(world, fake, ITEMS) };
}

/** Faults of the first batch only. */
function ofFirst(faults: BatchFaults): Partial<FakeOptions> {
  return { batchFaults: (nth) => (nth === 1 ? faults : undefined) };
}

describe.each(WIRES)("results of a batch of $name", (wire) => {
  it("are all kept, in one batch, billed to the nano-dollar", async () => {
    const { wrong, batches, inRealtime, ambiguousNanos } = await ran(wire, {});
    expect(wrong).toEqual([]);
    expect(batches).toHaveLength(1);
    expect({ inRealtime, ambiguousNanos }).toEqual({ inRealtime: 0, ambiguousNanos: 0 });
  });

  it("that are missing are asked for again, and what they may have cost is in doubt", async () => {
    const { wrong, summary, batches, ambiguousNanos } = await ran(wire, {}, "MISSING");
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
    expect(batches.map(({ items }) => items)).toEqual([ITEMS, ITEMS / 10]); // then in realtime
    expect(ambiguousNanos).toBeGreaterThan(0);
  });

  it("that are repeated, unknown, out of order or torn count once, or not at all", async () => {
    const faults = { repeatedShare: 0.3, unknownIds: 5, missingShare: 0.1, isTorn: true };
    const { wrong, summary, world } = await ran(wire, ofFirst(faults));
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
    expect(world.notices.join()).toContain("5 results have ids that are not in it");
  });

  it("are sent again in a second batch where the first one ended without any", async () => {
    const { wrong, summary, batches, ambiguousNanos } = await ran(wire, ofFirst({ hasNoResults: true }));
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
    expect(batches.map(({ items }) => items)).toEqual([ITEMS, ITEMS]);
    expect(ambiguousNanos).toBeGreaterThan(0);
  });

  it("that refuse a request end its item and no other", async () => {
    const { wrong, summary, batches } = await ran(wire, {}, "FAIL-400");
    expect(wrong).toEqual([]);
    expect(summary.errors).toEqual({ invalid_request: ITEMS / 10 });
    expect(batches).toHaveLength(1);
  });

  it("that are a refusal inside a body, beside no error, do the same", async () => {
    const { wrong, summary, batches } = await ran(wire, {}, "BODY-400");
    expect(wrong).toEqual([]);
    expect(summary.errors).toEqual({ invalid_request: ITEMS / 10 });
    expect(batches).toHaveLength(1);
  });

  it("that all failed on the provider's side are tried in a second batch", async () => {
    const { wrong, summary, batches } = await ran(wire, ofFirst({ allFailWith: 503 }));
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
    expect(batches).toHaveLength(2);
  });

  it("that name an account without money end no line: one of them asks in realtime, and the run pauses", async () => {
    const { summary, world } = await ran(wire, {}, "HOLD");
    expect(summary).toMatchObject({ status: "paused", reason: "quota" });
    expect(summary.counts).toMatchObject({ completed: ITEMS - ITEMS / 10, submitted: ITEMS / 10, failed: 0 });
    expect(world.lines()).toHaveLength(ITEMS - ITEMS / 10);
    expect(world.clock.wallMs() - Date.UTC(2026, 10, 1)).toBeLessThan(2 * HOUR_MS);
  });

  it("are read on where their transfer breaks, and settle once", async () => {
    const results = { 1: { tornAfter: 0.5 }, 2: { tornAfter: 0.9 }, 3: "lost" } as const;
    const { wrong, fake, ambiguousNanos } = await ran(wire, { faults: nthCalls({ results }) });
    expect(wrong).toEqual([]);
    expect(paidTwice(fake)).toEqual([]);
    expect(ambiguousNanos).toBe(0);
  });

  it("are waited for while its state is not known", async () => {
    const stateAtFirst = { name: "MYSTERIOUS", forMs: HOUR_MS };
    const { wrong, batches } = await ran(wire, { batchFaults: () => ({ stateAtFirst }) });
    expect(wrong).toEqual([]);
    expect(batches).toHaveLength(1);
  });

  it("that are in doubt because the batch is gone are sent again, and booked", async () => {
    const faults: FakeOptions["faults"] = ({ kind, nth }) =>
      kind === "get" && nth > 1 ? { status: 404, code: "not_found", message: "no such batch" } : undefined;
    const { wrong, summary, world } = await ran(wire, { faults });
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
    expect(world.notices.join()).toContain("the provider does not know it any more");
  });

  it("come by the deadline although a fifth of its requests never ends", async () => {
    const { wrong, summary } = await ran(wire, { stalledShare: 0.2 });
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
  });

  it("come by the deadline although nothing of it is ever finished", async () => {
    const { wrong, summary } = await ran(wire, ofFirst({ isStalled: true }));
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
  });
});

describe.each(["openai", "anthropic"].map(wireCase))("an expired batch of $name", (wire) => {
  it("keeps what it has finished, and only the rest is sent again", async () => {
    const { wrong, fake, summary, ambiguousNanos } = await ran(wire, {
      stalledShare: 0.3,
      windowMs: HOUR_MS,
    });
    expect(wrong).toEqual([]);
    expect(summary.counts.completed).toBe(ITEMS);
    expect(paidTwice(fake)).toEqual([]);
    expect(ambiguousNanos).toBe(0);
  });
});

describe.each(["openai", "mistral"].map(wireCase))(
  "a result of $name without response and without error",
  (wire) => {
    it("is sent again, and what it may have cost is in doubt", async () => {
      const { wrong, summary, ambiguousNanos } = await ran(wire, {}, "NULL-RESPONSE");
      expect(wrong).toEqual([]);
      expect(summary.counts.completed).toBe(ITEMS);
      expect(ambiguousNanos).toBeGreaterThan(0);
    });
  },
);

describe("a batch that fails when it is validated", () => {
  it("loses the lines that it names, and the rest is a batch again", async () => {
    const { wrong, summary, batches, inRealtime } = await ran(wireCase("openai"), {}, "INVALID");
    expect(wrong).toEqual([]);
    expect(summary.errors).toEqual({ invalid_request: ITEMS / 10 });
    expect(batches.map(({ end }) => end)).toEqual(["failed", "completed"]);
    expect(inRealtime).toBe(0);
  });

  it.each(["gemini", "mistral", "openrouter"].map(wireCase))(
    "without naming lines is sent in realtime: $name",
    async (wire) => {
      const { wrong, summary, batches, inRealtime } = await ran(wire, {}, "INVALID", 60);
      expect(wrong).toEqual([]);
      expect(summary.errors).toEqual({ invalid_request: 2 });
      expect(batches).toHaveLength(1);
      expect(inRealtime).toBe(ITEMS - 2);
    },
  );

  it("for want of money is created again once the account has some, and holds its run meanwhile", async () => {
    const fails = { code: "billing_hard_limit_reached", message: "Billing hard limit has been reached" };
    const options: Partial<FakeOptions> = { batchFaults: (nth) => (nth <= 2 ? { fails } : undefined) };
    const { wrong, batches, inRealtime } = await ran(wireCase("openai"), options);
    expect(wrong).toEqual([]);
    expect(batches.map(({ end }) => end)).toEqual(["failed", "failed", "completed"]);
    expect(inRealtime).toBe(0);
  });

  it("for too many enqueued tokens is made of smaller ones, later, without end in realtime", async () => {
    const { wrong, batches, inRealtime } = await ran(wireCase("openai"), { enqueuedTokensMax: 600 });
    expect(wrong).toEqual([]);
    expect(inRealtime).toBe(0);
    const failed = batches.filter(({ end }) => end === "failed");
    expect(failed.length).toBeLessThanOrEqual(3);
  });
});

describe("a provider without batches at its address", () => {
  it.each([404, 405])("is asked once in six hours after a %i, and works in realtime", async (status) => {
    const wire = wireCase("openai");
    const { world, fake } = worldOf(wire, {
      faults: ({ kind }) => (kind === "upload" ? { status, code: "not_found" } : undefined),
    });
    const { engine } = await world.opened();
    for (const out of ["/one.jsonl", "/two.jsonl"]) {
      world.input(ITEMS, wire.model, (line) => `${out} ${line}`);
      const { counts } = await world.settle(engine.run("/in.jsonl", { out, sla: DAY }).finished);
      expect(counts.completed).toBe(ITEMS);
    }
    await world.settle(engine.close());
    expect(fake.ledger.calls.get("upload")).toBe(1);
    expect(world.notices.join()).toContain("no other batch is tried there for some hours");
  });
});

describe.each(WIRES)("a create of $name whose answer is lost", (wire) => {
  it.each([60_000, 120_000])("makes no second batch where lists are %i ms late", async (listDelayMs) => {
    const options = { listDelayMs, faults: nthCalls({ create: { 1: "lost" } }) };
    const { wrong, batches, ambiguousNanos } = await ran(wire, options);
    expect(wrong).toEqual([]);
    expect(batches).toHaveLength(1);
    expect(ambiguousNanos).toBe(0);
  });

  it("is found as a twin where lists are later than the search, and booked", async () => {
    const options = { listDelayMs: 125_000, faults: nthCalls({ create: { 1: "lost", 2: "lost" } }) };
    const { wrong, batches, ambiguousNanos } = await ran(wire, options);
    expect(wrong).toEqual([]);
    expect(batches).toHaveLength(2);
    expect(ambiguousNanos).toBeGreaterThan(0);
  });
});
