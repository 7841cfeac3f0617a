/** Work that realtime cannot do by its deadline: a provider's limits allow a fraction of it, and its batches have none. */
import { describe, expect, it } from "vitest";
import { FakeOpenAiBatches, type FakeOpenAiOptions } from "../../batch_servers/openai.ts";
import { BatchWorld } from "./batch_world.ts";

const HOUR = 60;
const ITEMS = 2_000;
/** What realtime could do within a day. */
const REALTIME_ITEMS = 1_440;

async function answeredIn(
  sla: number,
  options: Partial<FakeOpenAiOptions>,
  requestsPerMinute = 1,
  items = ITEMS,
) {
  let fake: FakeOpenAiBatches | undefined;
  const world = new BatchWorld(
    (nowMs) => {
      fake = new FakeOpenAiBatches({ seed: 1, nowMs, realtime: { requestsPerMinute }, ...options });
      return { "https://api.openai.test": fake };
    },
    {
      providers: { openai: { baseUrl: "https://api.openai.test/v1", key: "sk-a" } },
      limits: { openai: { requestsPerMinute } },
      lanes: { deny: ["flex"] },
    },
  );
  world.input(items, "openai:gpt-5-mini");
  const summary = await world.run({ sla });
  const tiers = { batch: 0, realtime: 0 };
  for (const { cost, error } of world.lines())
    if (error === undefined) tiers[cost?.tier === "batch" ? "batch" : "realtime"] += 1;
  const { completed } = summary.counts;
  const { batches } = (fake as unknown as FakeOpenAiBatches).ledger;
  const late = world.lines().filter((line) => line.late === true).length;
  return { completed, ...tiers, late, batches: batches.size };
}

describe("work beyond what realtime can do by its deadline", () => {
  it("goes with batches as a whole where the day is long for one, each a piece of it", async () => {
    const { completed, batch, batches } = await answeredIn(24 * HOUR, {});
    expect(completed).toBe(ITEMS);
    expect(batch).toBeGreaterThanOrEqual(ITEMS * 0.99); // a batch among so many may be slow
    expect(batches).toBeLessThanOrEqual(40);
  });

  it("is done in realtime as far as that can, once a batch is slower than most", async () => {
    const { completed, batch } = await answeredIn(24 * HOUR, { batchFaults: () => ({ isStalled: true }) });
    expect(batch).toBe(0);
    expect(completed).toBeGreaterThan(REALTIME_ITEMS * 0.9);
  });

  it("keeps what a slow batch has finished, and does the rest in realtime", async () => {
    const { completed, batch, realtime } = await answeredIn(24 * HOUR, { stalledShare: 0.4 });
    expect(batch).toBeGreaterThan(ITEMS * 0.5);
    expect(realtime).toBeGreaterThan(ITEMS * 0.1);
    expect(completed).toBe(ITEMS);
  });

  it("goes with batches only beyond what fits where a batch may take most of the time", async () => {
    const items = 3_000;
    const { completed, batch, realtime } = await answeredIn(1 * HOUR, {}, 20, items);
    expect(completed).toBe(items);
    expect(batch).toBeGreaterThan(items / 2);
    expect(realtime).toBeGreaterThan(0);
  });
});

describe("batches that stall while realtime has work until the deadline", () => {
  it.each([2, 3])("are cancelled in time to collect what they have finished: seed %i", async (seed) => {
    const { batch, late } = await answeredIn(HOUR / 2, { seed, stalledShare: 0.3 }, 28, 2_400);
    expect(batch).toBeGreaterThan(1_000);
    expect(late).toBeLessThan(30); // if they are cancelled at the deadline: 79 and 70
  });
});

describe("work that realtime can do just in time", () => {
  const perMinute = 18;
  const bursts = { realtime: { requestsPerMinute: 2 * perMinute } }; // the fake's bucket holds one request
  const items = 1_000; // 58 minutes of realtime, with what is kept of its limits

  it("is divided: batches have what realtime could still do behind the rest", async () => {
    const { completed, batch, realtime } = await answeredIn(1 * HOUR, bursts, perMinute, items);
    expect(completed).toBe(items);
    expect(batch).toBeGreaterThan(items / 2);
    expect(realtime).toBeGreaterThan(items / 10);
  });

  it("is answered in time if batches finish nothing", async () => {
    const stalled = { ...bursts, batchFaults: () => ({ isStalled: true }) };
    const { completed, batch } = await answeredIn(1 * HOUR, stalled, perMinute, items);
    expect({ completed, batch }).toEqual({ completed: items, batch: 0 });
  });
});
