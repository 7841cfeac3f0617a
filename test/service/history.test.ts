/** The last 24 hours of a project: sums a minute, over restarts and kills. */
import { describe, expect, it } from "vitest";
import { History, MINUTES_KEPT } from "../../src/service/operate/history.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { EVERY_PROJECT } from "../../src/store/records.ts";
import { FakeClock } from "../../src/testing/index.ts";

const ITEM = {
  status: "completed",
  code: undefined,
  inputTokens: 10,
  outputTokens: 5,
  listUsd: 2,
  usd: 1,
  billedUsd: 0.25,
  ambiguousUsd: 0,
} as const;
const ATTEMPT = { lane: "openai:realtime:m", model: "openai:m", usage: undefined, latencyMs: 400 } as const;
const MINUTE = 60_000;

function world() {
  const clock = new FakeClock();
  const store = createMemoryStore();
  const open = () => new History({ clock, store: () => store });
  return { clock, store, open };
}

const total = (values: readonly number[] = []) => values.reduce((sum, value) => sum + value, 0);

describe("the history of a day", () => {
  it("sums items, failures, tokens, answers, refusals and cost of each minute by project", async () => {
    const { clock, open } = world();
    const history = open();
    history.settled({ ...ITEM, project: "red" });
    history.attempted({ ...ATTEMPT, project: "red", code: undefined });
    await clock.advance(2 * MINUTE);
    history.settled({ ...ITEM, project: "red", status: "failed", code: "timeout" });
    history.settled({ ...ITEM, project: "red", status: "cancelled", code: "cancelled" });
    history.attempted({ ...ATTEMPT, project: "red", code: "rate_limited" });
    history.settled({ ...ITEM, project: "blue" });
    const day = await history.day("red");
    expect(day.start).toBe(Math.floor(clock.wallMs() / MINUTE) - MINUTES_KEPT + 1);
    const last = (name: "items" | "failed" | "tokens" | "answers" | "answer_ms" | "refused" | "billed_usd") =>
      day[name].slice(-3);
    expect(last("items")).toEqual([1, 0, 0]);
    expect(last("failed")).toEqual([0, 0, 1]);
    expect(last("tokens")).toEqual([15, 0, 15]);
    expect([last("answers"), last("answer_ms")]).toEqual([
      [1, 0, 0],
      [400, 0, 0],
    ]);
    expect(last("refused")).toEqual([0, 0, 1]);
    expect(last("billed_usd")).toEqual([0.25, 0, 0.5]);
    expect(history.recent("red", 3).items).toEqual([1, 0, 0]);
  });

  it("continues after a stop and after a kill, of which at most a minute is lost", async () => {
    const { clock, store, open } = world();
    const first = open();
    first.settled({ ...ITEM, project: "red" });
    await first.close();
    let isAlive = true;
    const second = new History({ clock, store: () => (isAlive ? store : undefined) });
    second.settled({ ...ITEM, project: "red" });
    await clock.advance(MINUTE + 1); // written
    second.settled({ ...ITEM, project: "red" }); // lost
    isAlive = false; // killed
    const third = open();
    expect(total((await third.day("red")).items)).toBe(2);
    third.settled({ ...ITEM, project: "red" });
    expect(total((await third.day("red")).items)).toBe(3); // before the first write, and after it
    await clock.advance(MINUTE + 1);
    expect(total((await third.day("red")).items)).toBe(3);
    expect(total((await open().day("red")).items)).toBe(3);
  });

  it("keeps a day in at most 25 records, and none that is older", async () => {
    const { clock, store, open } = world();
    const history = open();
    for (let hour = 0; hour < 30; hour += 1) {
      history.settled({ ...ITEM, project: "red" });
      await clock.advance(60 * MINUTE);
    }
    const records = await store.records(EVERY_PROJECT, { collection: "activity", limit: 100 });
    expect(records.length).toBeLessThanOrEqual(25);
    expect(records.length).toBeGreaterThan(22);
    const items = total((await history.day("red")).items);
    expect(items).toBeGreaterThanOrEqual(23);
    expect(items).toBeLessThanOrEqual(24);
  });

  it("writes again a minute later what could not be written, and counts nothing twice", async () => {
    const { clock, store } = world();
    let isBroken = true;
    const change: typeof store.change = (changes) =>
      isBroken ? Promise.reject(new Error("no disk")) : store.change(changes);
    const broken = { change, record: store.record.bind(store), records: store.records.bind(store) };
    const history = new History({ clock, store: () => broken });
    history.settled({ ...ITEM, project: "red" });
    await clock.advance(MINUTE + 1);
    isBroken = false;
    await clock.advance(2 * MINUTE);
    expect(total((await new History({ clock, store: () => store }).day("red")).items)).toBe(1);
  });

  it("writes nothing while nothing happens", async () => {
    const { clock, store, open } = world();
    let writes = 0;
    const change: typeof store.change = (changes) => {
      writes += 1;
      return store.change(changes);
    };
    const history = new History({ clock, store: () => ({ ...bound(store), change }) });
    history.settled({ ...ITEM, project: "red" });
    await clock.advance(10 * MINUTE);
    expect(writes).toBe(1);
    expect(total((await open().day("red")).items)).toBe(1);
  });
});

function bound(store: ReturnType<typeof createMemoryStore>) {
  return { record: store.record.bind(store), records: store.records.bind(store) };
}
