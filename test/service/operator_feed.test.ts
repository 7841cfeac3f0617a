import { describe, expect, it } from "vitest";
import type { LaneStatus } from "../../src/engine/lanes/lane_status.ts";
import type { BatchStatus } from "../../src/engine/shown/batch_status.ts";
import { PerigeeError } from "../../src/errors.ts";
import { Activity } from "../../src/service/operate/activity.ts";
import { History } from "../../src/service/operate/history.ts";
import { type Listener, OperatorFeed } from "../../src/service/operate/operator_feed.ts";
import { TaskFeed } from "../../src/service/operate/task_feed.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
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

function lane(family: string): LaneStatus {
  return {
    provider: "openai",
    tier: "realtime",
    family,
    state: "open",
    requests: { used: 5, limit: 60, share: 1 / 12 },
    inFlight: 2,
    inFlightMax: 8,
    waiting: 3,
    cooldownMs: 0,
    projects: 1,
    oversized: { tokens: 900, limit: 500, waitMs: 3.5 },
  };
}

class World {
  readonly clock = new FakeClock();
  readonly activity = new Activity(this.clock);
  readonly feed: OperatorFeed;
  tasks: TaskView[] = [];
  batches: BatchStatus[] = [];
  lanes: readonly LaneStatus[] = [lane("mine"), lane("theirs")];
  lists = 0;
  isBroken = false;

  constructor() {
    this.feed = new OperatorFeed({
      clock: this.clock,
      activity: this.activity,
      lanes: () => this.lanes,
      batches: () => this.batches,
      history: new History({ clock: this.clock, store: () => undefined }),
      tasks: new TaskFeed({
        clock: this.clock,
        names: { of: async ({ id }) => ({ name: `name of ${id}`, named_by: "metadata" as const }) },
        tasks: {
          list: async (project, { after, limit }) => {
            this.lists += 1;
            if (this.isBroken) throw new PerigeeError("store_failed", "no disk");
            const own = this.tasks.filter((task) => task.project === project);
            const start = after === undefined ? 0 : own.findIndex(({ id }) => id === after) + 1;
            if (after !== undefined && start === 0) throw new PerigeeError("not_found", "no such task");
            return { items: own.slice(start, start + limit), hasMore: own.length > start + limit };
          },
        },
      }),
    });
  }

  task(id: string, more: Partial<TaskView> = {}): TaskView {
    const made: TaskView = {
      id,
      project: "red",
      status: "submitted",
      isCancelled: false,
      retries: 0,
      totalItems: 10,
      models: [],
      fileIds: [],
      counts: { submitted: 4, completed: 6, failed: 0, expired: 0, cancelled: 0 },
      createdWallMs: this.clock.wallMs(),
      held: [],
      hasOutputFile: false,
      usage: { inputTokens: 1, outputTokens: 1, listUsd: 2, usd: 1.5, billedUsd: 2, ambiguousUsd: 0 },
      version: "1",
      ...more,
    };
    this.tasks.push(made);
    return made;
  }

  listen(more: Partial<Listener> = {}) {
    const heard: { event: string; data: Record<string, never> & { [name: string]: never } }[] = [];
    const page = {
      heard,
      isEnded: false,
      isAllowed: true,
      isReady: true,
      snapshots: () => heard.filter(({ event }) => event === "snapshot").map(({ data }) => data),
      leave: () => {},
    };
    page.leave = this.feed.join({
      project: "red",
      seesAllLanes: false,
      seesSatellites: false,
      after: undefined,
      isAllowed: () => page.isAllowed,
      isReady: () => page.isReady,
      send: (event, data) => void heard.push({ event, data: JSON.parse(data) }),
      end: () => {
        page.isEnded = true;
      },
      ...more,
    });
    return page;
  }
}

describe("the operator feed", () => {
  it("begins with the past and a snapshot, and sends one a second", async () => {
    const world = new World();
    world.activity.settled({ ...ITEM, project: "red" });
    await world.clock.advance(2_000);
    const page = world.listen();
    await world.clock.advance(0);
    expect(page.heard.map(({ event }) => event)).toEqual(["history", "day", "snapshot"]);
    expect(page.heard[0]?.data).toMatchObject({ items: expect.arrayContaining([1]) });
    await world.clock.advance(3_000);
    expect(page.snapshots()).toHaveLength(4);
  });

  it("shows how the last request of held items failed, without the words of the provider", async () => {
    const world = new World();
    const since = "2026-01-01T00:00:00.000Z";
    const hold = { reason: "outage", since, next_try: null, items: 4, provider: "down" } as const;
    const failure = { code: "overloaded", provider_status: 503 } as const;
    world.task("a", { held: [{ ...hold, ...failure, message: "down answered 503: host 10.0.0.7" }] });
    const page = world.listen();
    await world.clock.advance(0);
    expect(page.snapshots()).toMatchObject([{ tasks: { items: [{ held: [{ ...hold, ...failure }] }] } }]);
    expect(JSON.stringify(page.snapshots())).not.toContain("10.0.0.7");
  });

  it("shows tasks with deadline and slack, errors by code, what providers bill and callers are charged", async () => {
    const world = new World();
    const nowMs = world.clock.wallMs();
    world.task("a", { deadlineWallMs: nowMs + 60_000, expectedEndWallMs: nowMs + 20_000 });
    world.task("b", { deadlineWallMs: nowMs + 60_000 });
    world.task("c", { status: "completed", deadlineWallMs: nowMs, finishedWallMs: nowMs + 5_000 });
    world.task("foreign", { project: "blue" });
    world.activity.settled({ ...ITEM, project: "red" });
    for (const code of ["timeout", "filtered", "filtered"] as const)
      world.activity.settled({ ...ITEM, project: "red", status: "failed", code });
    world.activity.settled({ ...ITEM, project: "blue", status: "failed", code: "overloaded" });
    const page = world.listen();
    await world.clock.advance(0);
    const [snapshot] = page.snapshots();
    expect(snapshot).toMatchObject({
      time: nowMs,
      errors: { filtered: 2, timeout: 1 },
      totals: { completed: 1, failed: 3, billed_usd: 8, ambiguous_usd: 0, list_usd: 8, usd: 4 },
      tasks: {
        has_more: false,
        after: null,
        items: [
          { task_id: "a", slack_ms: 40_000, usd: 1.5, list_usd: 2, billed_usd: 2 },
          { task_id: "b", slack_ms: null },
          { task_id: "c", slack_ms: -5_000 },
        ],
      },
    });
  });

  it("shows a project the lanes that it has used, and an administrator all", async () => {
    const world = new World();
    const attempt = { model: "openai:mine", code: undefined, usage: undefined, latencyMs: 1 };
    world.activity.attempted({ ...attempt, project: "red", lane: "openai:realtime:mine" });
    const pages = [world.listen(), world.listen({ seesAllLanes: true }), world.listen({ project: "blue" })];
    await world.clock.advance(0);
    expect(pages.map((page) => page.snapshots().map(({ lanes }) => lanes))).toEqual([
      [
        [
          expect.objectContaining({
            family: "mine",
            waiting: 3,
            limits: [{ name: "requests", used: 5, limit: 60 }],
            oversized: { tokens: 900, limit: 500, wait_ms: 4 },
          }),
        ],
      ],
      [[expect.objectContaining({ family: "mine" }), expect.objectContaining({ family: "theirs" })]],
      [[]],
    ]);
  });

  it("shows limits that lanes share once, with those that share them, and beside each lane only its own", async () => {
    const world = new World();
    const use = { used: 50, limit: 100, share: 0.5 };
    const own = { used: 5, limit: 10, share: 0.5 };
    world.lanes = ["mine", "theirs"].map((family) => ({
      ...lane(family),
      requests: use,
      shared: {
        limits: { requests: use, tokens: use },
        inFlight: 3,
        inFlightMax: 9,
        own: { inputTokens: own },
      },
    }));
    const attempt = { model: "openai:mine", code: undefined, usage: undefined, latencyMs: 1 };
    world.activity.attempted({ ...attempt, project: "red", lane: "openai:realtime:mine" });
    const [mine, all] = [world.listen(), world.listen({ seesAllLanes: true })];
    await world.clock.advance(0);
    const limits = [
      { name: "requests", used: 50, limit: 100 },
      { name: "tokens", used: 50, limit: 100 },
    ];
    const shared = { provider: "openai", limits, in_flight: 3, in_flight_max: 9 };
    const lanes = [{ tier: "realtime", family: "mine" }];
    expect(mine.snapshots()).toMatchObject([
      {
        lanes: [{ limits: [{ name: "input tokens", used: 5, limit: 10 }] }],
        shared_limits: [{ ...shared, lanes, other_lanes: 1 }],
      },
    ]);
    expect(JSON.stringify(mine.snapshots())).not.toContain("theirs");
    expect(all.snapshots()).toMatchObject([
      {
        shared_limits: [
          { ...shared, lanes: [...lanes, { tier: "realtime", family: "theirs" }], other_lanes: 0 },
        ],
      },
    ]);
  });

  it("shows a project its open batches, the first fifty, without the words of the provider", async () => {
    const world = new World();
    const reason = { is: "full", message: "enqueued at org-secret" } as const;
    world.batches = Array.from({ length: 53 }, (_, index) => ({
      ...{ id: null, tag: `t${index}`, provider: "openai", model: "openai:m", taskId: "x", state: "spooled" },
      ...{ project: index === 52 ? "blue" : "red", items: 10, itemsOpen: 10, enqueuedTokens: 0, reason },
    }));
    const mine = world.listen();
    const admins = world.listen({ seesAllLanes: true });
    await world.clock.advance(0);
    const [snapshot] = mine.snapshots() as unknown as { batches: object[]; batches_more: number }[];
    expect(snapshot?.batches).toHaveLength(50);
    expect(snapshot?.batches_more).toBe(2);
    expect(snapshot?.batches[0]).toEqual({
      ...{ id: null, tag: "t0", provider: "openai", model: "openai:m", state: "spooled", items: 10 },
      ...{ items_open: 10, finished: null, age_ms: null, next_poll_ms: null, reason: "full" },
    });
    expect(admins.snapshots()).toMatchObject([{ batches_more: 3 }]);
    expect(JSON.stringify(mine.snapshots())).not.toContain("secret");
  });

  it("computes a snapshot once for all who look at the same, and none when nobody listens", async () => {
    const world = new World();
    const pages = [world.listen(), world.listen(), world.listen()];
    await world.clock.advance(0);
    const before = world.lists;
    await world.clock.advance(5_000);
    expect(world.lists - before).toBe(6); // and once for the outlook
    for (const page of pages) page.leave();
    const after = world.lists;
    await world.clock.advance(60_000);
    expect(world.lists).toBe(after);
    world.listen();
    await world.clock.advance(1_000);
    expect(world.lists).toBe(after + 3); // two pages of tasks and an outlook
  });

  it("shows 50 tasks after the named one, and the first ones when that does not exist any more", async () => {
    const world = new World();
    for (let index = 0; index < 120; index += 1) world.task(`t${index}`);
    const [second, gone] = [world.listen({ after: "t49" }), world.listen({ after: "no more" })];
    await world.clock.advance(0);
    const page = second.snapshots()[0] as unknown as { tasks: { items: { task_id: string }[] } };
    expect(page.tasks).toMatchObject({ after: "t49", has_more: true });
    expect(page.tasks.items.map((task) => task.task_id)).toEqual(
      Array.from({ length: 50 }, (_, index) => `t${index + 50}`),
    );
    expect(gone.snapshots()[0]).toMatchObject({ tasks: { after: null, items: { length: 50 } } });
  });

  it("ends when the key is not accepted any more", async () => {
    const world = new World();
    const [revoked, other] = [world.listen(), world.listen()];
    await world.clock.advance(1_000);
    revoked.isAllowed = false;
    await world.clock.advance(1_000);
    expect([revoked.isEnded, other.isEnded]).toEqual([true, false]);
    const told = revoked.heard.length;
    await world.clock.advance(2_000);
    expect(revoked.heard).toHaveLength(told);
  });

  it("passes over who does not read, and drops it after ten seconds", async () => {
    const world = new World();
    const [slow, other] = [world.listen(), world.listen()];
    await world.clock.advance(0);
    slow.isReady = false;
    await world.clock.advance(8_000);
    expect([slow.snapshots().length, other.snapshots().length, slow.isEnded]).toEqual([1, 9, false]);
    slow.isReady = true;
    await world.clock.advance(1_000);
    slow.isReady = false;
    await world.clock.advance(10_000);
    expect([slow.snapshots().length, slow.isEnded, other.isEnded]).toEqual([2, true, false]);
  });

  it("takes 16 pages of a project at once", () => {
    const world = new World();
    const pages = Array.from({ length: 16 }, () => world.listen());
    expect(() => world.listen()).toThrow(expect.objectContaining({ code: "too_many" }));
    world.listen({ project: "blue" });
    pages[0]?.leave();
    world.listen();
  });

  it("ends all when the service stops, or its store fails", async () => {
    const world = new World();
    const page = world.listen();
    await world.clock.advance(1_000);
    world.isBroken = true;
    await world.clock.advance(1_000);
    expect(page.isEnded).toBe(true);
    world.isBroken = false;
    const second = world.listen();
    world.feed.close();
    expect(second.isEnded).toBe(true);
    expect(() => world.listen()).toThrow(expect.objectContaining({ code: "closed" }));
  });
});
