/** Usage by project and day, and caps by month. */
import { beforeEach, describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { createSpending, type ProjectUsage, type Spending } from "../../src/tasks/usage/spending.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const ONE: ProjectUsage = {
  items: 1,
  inputTokens: 10,
  outputTokens: 5,
  listUsd: 0.5,
  usd: 0.1,
  billedUsd: 0.2,
  ambiguousUsd: 0.05,
};
const NOON = Date.UTC(2026, 10, 21, 12);
const DAY_MS = 86_400_000;

let clock: FakeClock;
let store: Store;

beforeEach(() => {
  clock = new FakeClock({ wallMs: NOON });
  store = createMemoryStore();
});

function open(caps: Record<string, number> = {}): Spending {
  return createSpending({ clock, store, capUsd: (project) => caps[project] });
}

describe("usage", () => {
  it("of days and of the month is of one moment, however fast items end", async () => {
    const spending = open();
    await spending.note({ project: "a", source: "1", wallMs: NOON, usage: ONE });
    let isRead = false;
    const reading = spending.usage("a", "2026-10-25", "2026-11-30").finally(() => {
      isRead = true;
    });
    for (let items = 1; !isRead; items += 1) {
      spending.open.set("2", "a", { ...ONE, items, billedUsd: items });
      await Promise.resolve();
    }
    const { days, month } = await reading;
    expect(days).toHaveLength(1);
    expect(month.spentUsd).toBeCloseTo((days[0]?.billedUsd ?? 0) + (days[0]?.ambiguousUsd ?? 0), 9);
  });

  it("is summed by project and UTC day", async () => {
    const spending = open();
    await spending.note({ project: "a", source: "1", wallMs: NOON - DAY_MS, usage: ONE });
    await spending.note({ project: "a", source: "2", wallMs: NOON, usage: ONE });
    await spending.note({ project: "a", source: "3", wallMs: NOON + 1, usage: ONE });
    await spending.note({ project: "b", source: "4", wallMs: NOON, usage: ONE });
    expect(await spending.days("a", "2026-11-01", "2026-11-30")).toEqual([
      { day: "2026-11-20", ...ONE },
      {
        day: "2026-11-21",
        items: 2,
        inputTokens: 20,
        outputTokens: 10,
        listUsd: 1,
        usd: 0.2,
        billedUsd: 0.4,
        ambiguousUsd: 0.1,
      },
    ]);
    expect(await spending.days("a", "2026-11-21", "2026-11-21")).toHaveLength(1);
    expect(await spending.days("b", "2026-10-01", "2026-12-31")).toEqual([{ day: "2026-11-21", ...ONE }]);
  });

  it("counts a source once, also when it is noted again after a restart", async () => {
    await open().note({ project: "a", source: "task", wallMs: NOON, usage: ONE });
    const spending = open();
    const again = [1, 2, 3].map((n) =>
      spending.note({ project: "a", source: n === 2 ? "other" : "task", wallMs: NOON, usage: ONE }),
    );
    await Promise.all(again);
    const [day] = await spending.days("a", "2026-11-21", "2026-11-21");
    expect(day?.items).toBe(2);
  });

  it("adds up what is noted at once", async () => {
    const spending = open();
    const notes = Array.from({ length: 1_000 }, (_, n) => ({
      project: `p${n % 3}`,
      source: String(n),
      wallMs: NOON,
      usage: ONE,
    }));
    await Promise.all(notes.map((note) => spending.note(note)));
    const sums = await Promise.all(
      ["p0", "p1", "p2"].map((one) => spending.days(one, "2026-11-21", "2026-11-21")),
    );
    expect(sums.map(([day]) => day?.items)).toEqual([334, 333, 333]);
  });

  it("is not counted when it could not be written, and may be noted again", async () => {
    const change = store.change.bind(store);
    let isFull = true;
    store.change = async (changes) => {
      if (isFull) throw new PerigeeError("disk_full", "no room");
      await change(changes);
    };
    const spending = open();
    const note = { project: "a", source: "1", wallMs: NOON, usage: ONE };
    await expect(spending.note(note)).rejects.toMatchObject({ code: "disk_full" });
    isFull = false;
    await spending.note(note);
    expect(await spending.days("a", "2026-11-21", "2026-11-21")).toEqual([{ day: "2026-11-21", ...ONE }]);
  });

  it("is refused for days that are none, and for more than 400 of them", async () => {
    for (const day of ["2026-11-31", "21.11.2026", "2026-11-21T00:00", ""])
      await expect(open().days("a", day, "2026-11-21")).rejects.toMatchObject({ code: "usage" });
    await expect(open().days("a", "2025-01-01", "2026-11-21")).rejects.toMatchObject({
      code: "usage",
    });
  });
});

describe("a cap", () => {
  it("refuses work that could overshoot it, and tells what is spent and held", async () => {
    const spending = open({ a: 1 });
    await spending.note({ project: "a", source: "1", wallMs: NOON, usage: ONE });
    await spending.reserve("a", 0.5);
    await expect(spending.reserve("a", 0.26)).rejects.toMatchObject({
      code: "budget_exceeded",
      details: { capUsd: 1, spentUsd: 0.25, heldUsd: 0.5 },
    });
    await spending.reserve("a", 0.25);
    expect((await spending.usage("a", "2026-11-01", "2026-11-30")).month).toEqual({
      capUsd: 1,
      spentUsd: 0.25,
      heldUsd: 0.75,
    });
  });

  it("tells what is held to the nano-dollar, as other amounts", async () => {
    const spending = open({ a: 1 });
    for (const usd of [0.1, 0.2]) spending.hold("a", usd);
    expect((await spending.usage("a", "2026-11-01", "2026-11-30")).month).toEqual({
      capUsd: 1,
      spentUsd: 0,
      heldUsd: 0.3,
    });
    await expect(spending.reserve("a", 0.8)).rejects.toMatchObject({ details: { heldUsd: 0.3 } });
  });

  it("is never overshot by reservations at the same time", async () => {
    const spending = open({ a: 1 });
    const answers = await Promise.allSettled(Array.from({ length: 50 }, () => spending.reserve("a", 0.1)));
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
  });

  it("gets back what a hold did not need", async () => {
    const spending = open({ a: 1 });
    const hold = await spending.reserve("a", 1);
    await spending.note({ project: "a", source: "1", wallMs: NOON, usage: ONE });
    hold.set(0.75);
    await expect(spending.reserve("a", 0.1)).rejects.toMatchObject({ code: "budget_exceeded" });
    hold.release();
    hold.release();
    expect((await spending.usage("a", "2026-11-01", "2026-11-30")).month).toMatchObject({
      spentUsd: 0.25,
      heldUsd: 0,
    });
    await spending.reserve("a", 0.75);
  });

  it("holds over a restart, and counts accepted work again", async () => {
    await open({ a: 1 }).note({ project: "a", source: "1", wallMs: NOON, usage: ONE });
    const spending = open({ a: 1 });
    spending.hold("a", 5);
    await expect(spending.reserve("a", 0)).rejects.toMatchObject({ code: "budget_exceeded" });
  });

  it("begins anew with the UTC month", async () => {
    const spending = open({ a: 0.25 });
    await spending.note({ project: "a", source: "1", wallMs: NOON, usage: ONE });
    await expect(spending.reserve("a", 0.1)).rejects.toMatchObject({ code: "budget_exceeded" });
    clock.jumpWall(10 * DAY_MS);
    await spending.reserve("a", 0.25);
  });

  it("does not touch projects without one", async () => {
    const hold = await open({ a: 0 }).reserve("b", 1e6);
    expect(hold.usd).toBe(1e6);
  });
});
