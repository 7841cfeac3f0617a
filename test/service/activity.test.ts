import { describe, expect, it } from "vitest";
import { Activity, SECONDS_KEPT } from "../../src/service/operate/activity.ts";
import { FakeClock } from "../../src/testing/index.ts";

const ITEM = {
  status: "completed",
  code: undefined,
  inputTokens: 10,
  outputTokens: 5,
  listUsd: 2,
  usd: 1,
  billedUsd: 2,
  ambiguousUsd: 0,
} as const;

function fresh() {
  const clock = new FakeClock();
  return { clock, activity: new Activity(clock) };
}

describe("activity", () => {
  it("sums the results of each project's items, and of all together", () => {
    const { activity } = fresh();
    activity.settled({ ...ITEM, project: "red" });
    activity.settled({ ...ITEM, project: "red", status: "failed", code: "timeout", usd: 0 });
    activity.settled({ ...ITEM, project: "blue" });
    activity.settled({ ...ITEM, project: "" });
    expect([...(activity.project("red")?.outcomes ?? [])]).toEqual([
      ["completed", 1],
      ["timeout", 1],
    ]);
    expect(activity.project("red")).toMatchObject({
      inputTokens: 20,
      outputTokens: 10,
      listUsd: 4,
      usd: 1,
      billedUsd: 4,
      ambiguousUsd: 0,
    });
    expect(activity.project("blue")).toMatchObject({ inputTokens: 10, usd: 1 });
    expect(activity.total).toMatchObject({ inputTokens: 40, listUsd: 8 });
    expect(activity.project("green")).toBeUndefined();
  });

  it("tells the last seconds, those without work as 0", async () => {
    const { clock, activity } = fresh();
    const start = activity.second();
    activity.settled({ ...ITEM, project: "red" });
    activity.settled({ ...ITEM, project: "red" });
    await clock.advance(3_000);
    activity.settled({ ...ITEM, project: "red" });
    await clock.advance(1_000);
    expect(activity.project("red")?.recent(activity.second(), 5)).toEqual({
      startSeconds: start - 1,
      items: [0, 2, 0, 0, 1],
      tokens: [0, 30, 0, 0, 15],
    });
  });

  it("does not count as done what was cancelled or arrived too late", async () => {
    const { clock, activity } = fresh();
    activity.settled({ ...ITEM, project: "red", status: "cancelled", code: "cancelled" });
    activity.settled({ ...ITEM, project: "red", status: "expired", code: "expired" });
    await clock.advance(1_000);
    expect(activity.project("red")?.recent(activity.second(), 2).items).toEqual([0, 0]);
    expect(activity.project("red")?.outcomes.get("expired")).toBe(1);
  });

  it("forgets seconds that are longer ago than it keeps", async () => {
    const { clock, activity } = fresh();
    activity.settled({ ...ITEM, project: "red" });
    await clock.advance(SECONDS_KEPT * 1_000);
    const tally = activity.project("red");
    expect(tally?.recent(activity.second(), SECONDS_KEPT).items[0]).toBe(1);
    activity.settled({ ...ITEM, project: "red" });
    await clock.advance(1_000);
    const { items } = tally?.recent(activity.second(), SECONDS_KEPT) ?? { items: [] };
    expect(items.reduce((sum, count) => sum + count, 0)).toBe(1);
    expect(items.at(-1)).toBe(1);
  });

  it("knows the lanes that a project has used, and no other's", () => {
    const { activity } = fresh();
    const attempt = { model: "openai:gpt", latencyMs: 1, code: undefined, usage: undefined };
    activity.attempted({ ...attempt, project: "red", lane: "openai:realtime:gpt" });
    activity.attempted({ ...attempt, project: "blue", lane: "echo:realtime:x", code: "timeout" });
    expect([...(activity.project("red")?.lanes ?? [])]).toEqual(["openai:realtime:gpt"]);
    expect([...activity.attempts]).toEqual([
      ["openai completed", 1],
      ["echo timeout", 1],
    ]);
  });
});
