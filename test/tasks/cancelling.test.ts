/** Whatever holds items, they end at once when their task is cancelled or expires, with what their attempts took. */
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { Answering } from "../engine/world.ts";
import { status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const MINUTE_MS = 60_000;
const ITEMS = 12;
const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };

const items = (from: number, model: string) =>
  Array.from({ length: ITEMS }, (_, index) => ({ ...item(from + index, 30), model, max_tokens: 1_000 }));

/** The first request of each line may be billed; what follows is `then`. */
const onceInDoubt =
  (then: () => ReturnType<Answering>): Answering =>
  (_line, attempt) =>
    attempt === 1 ? status(500) : then();

interface Reason {
  readonly name: string;
  readonly reason: string;
  readonly capUsd?: number;
  readonly model?: string;
  readonly answer: Answering;
  /** Whether some of the items are tried before they are held. */
  readonly isTried: boolean;
}

const REASONS: readonly Reason[] = [
  { name: "a cap", reason: "cap_reached", capUsd: 1.21, answer: () => status(500), isTried: true },
  {
    name: "a cap for two requests",
    reason: "cap_reached",
    capUsd: 0.25,
    answer: () => status(500),
    isTried: true,
  },
  { name: "a cap for none", reason: "cap_reached", capUsd: 0.01, answer: () => status(500), isTried: false },
  {
    name: "a model without a price under a cap",
    reason: "price_unknown",
    model: "alpha:m2",
    capUsd: 1,
    answer: () => status(500),
    isTried: false,
  },
  {
    name: "a provider without its key",
    reason: "key_missing",
    model: "openai:gpt-4o-mini",
    answer: () => status(500),
    isTried: false,
  },
  {
    name: "Retry-After",
    reason: "rate_limited",
    answer: onceInDoubt(() => status(429, "slow", { "retry-after": "600" })),
    isTried: true,
  },
  {
    name: "Retry-After of the first answer",
    reason: "rate_limited",
    answer: () => status(429, "slow", { "retry-after": "600" }),
    isTried: true,
  },
  {
    name: "429 without a time",
    reason: "rate_limited",
    answer: onceInDoubt(() => status(429)),
    isTried: true,
  },
  { name: "an outage", reason: "outage", answer: () => status(503), isTried: true },
  {
    name: "an account without money",
    reason: "quota",
    answer: onceInDoubt(() => status(402, "insufficient_balance")),
    isTried: true,
  },
  { name: "a key that is refused", reason: "authentication", answer: () => status(401), isTried: true },
];

async function held({ answer, capUsd, reason, model = "alpha:m1" }: Reason, isShared: boolean) {
  const world = new TaskWorld({ answer, config: { prices, limits: { alpha: { concurrency: 4 } } } });
  world.capUsd = capUsd === undefined ? undefined : 100; // what is held for the task is more than it may spend
  let tasks = await world.tasks();
  const posted = [submit(tasks, items(1, model)), ...(isShared ? [submit(tasks, items(101, model))] : [])];
  const [task, other] = await world.settle(Promise.all(posted));
  if (capUsd !== undefined) {
    world.kill();
    world.capUsd = capUsd; // a cap is read from the configuration when a process starts
    tasks = await world.tasks();
  }
  const told: string[] = [];
  tasks.onFinished(({ taskId }) => void told.push(taskId));
  await world.clock.advance(20_000);
  const id = task?.id ?? "";
  const before = await world.settle(tasks.task(PROJECT, id));
  expect(before.held.map((hold) => hold.reason)).toContain(reason);
  return { world, tasks, told, id, otherId: other?.id };
}

/** Everything that is said of a task that ended while it was held. */
async function ends(world: TaskWorld, tasks: OpenedTasks, id: string, from: number) {
  const view = await world.settle(tasks.task(PROJECT, id));
  const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 100 }));
  const requests = objects.map((_, index) => world.sent.filter(({ line }) => line === from + index).length);
  const usd = objects.reduce(
    (sum, { cost }) => sum + (cost?.ambiguous_usd ?? 0) + (cost?.billed_usd ?? 0),
    0,
  );
  return { view, objects, requests, usd, takenUsd: view.usage.billedUsd + view.usage.ambiguousUsd };
}

describe.each(REASONS)("a task that is held by $name", (reason) => {
  it("ends at once when it is cancelled, and its money is settled", async () => {
    const { world, tasks, told, id } = await held(reason, false);
    const sent = world.sent.length;
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(1_000);
    const { view, objects, requests, usd, takenUsd } = await ends(world, tasks, id, 1);
    expect(view).toMatchObject({ status: "completed", held: [], counts: { submitted: 0, cancelled: ITEMS } });
    expect(objects.map(({ error }) => error?.attempts)).toEqual(requests);
    expect(requests.some((count) => count > 0)).toBe(reason.isTried);
    expect(usd).toBeCloseTo(takenUsd, 9);
    const month = await world.spending?.month(PROJECT);
    expect(month?.heldUsd).toBe(0);
    expect(month?.spentUsd).toBeCloseTo(takenUsd, 9);
    expect([world.sent.length, told]).toEqual([sent, [id]]);
    await world.settle(tasks.remove(PROJECT, id));
    await expect(tasks.task(PROJECT, id)).rejects.toMatchObject({ code: "not_found" });
    expect((await world.spending?.month(PROJECT))?.spentUsd).toBeCloseTo(takenUsd, 9);
  });

  it("ends at once beside another task that goes on, with the same figures to its end", async () => {
    const { world, tasks, told, id, otherId = "" } = await held(reason, true);
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(1_000);
    const first = await ends(world, tasks, id, 1);
    expect(first.view).toMatchObject({ status: "completed", counts: { submitted: 0, cancelled: ITEMS } });
    expect(first.objects.map(({ error }) => error?.attempts)).toEqual(first.requests);
    expect(first.usd).toBeCloseTo(first.takenUsd, 9);
    expect(told).toEqual([id]);
    const other = await world.settle(tasks.task(PROJECT, otherId));
    expect(other).toMatchObject({ status: "submitted", counts: { submitted: ITEMS } });
    await world.settle(tasks.cancel(PROJECT, otherId));
    await world.clock.advance(1_000);
    const last = await ends(world, tasks, otherId, 101);
    expect(last.view).toMatchObject({ status: "completed", counts: { cancelled: ITEMS } });
    const month = await world.spending?.month(PROJECT);
    expect(month?.heldUsd).toBe(0);
    expect(month?.spentUsd).toBeCloseTo(first.takenUsd + last.takenUsd, 9);
    expect((await ends(world, tasks, id, 1)).objects).toEqual(first.objects);
  });

  it("ends when its sla is over, with what was tried, and its money is settled", async () => {
    const { world, tasks, told, id } = await held(reason, false);
    await world.clock.advance(31 * MINUTE_MS);
    const { view, objects, requests, usd, takenUsd } = await ends(world, tasks, id, 1);
    expect(view).toMatchObject({ status: "completed", held: [], counts: { submitted: 0 } });
    expect(view.counts.expired + view.counts.failed).toBe(ITEMS);
    expect(objects.map(({ error }) => error?.attempts)).toEqual(requests);
    expect(usd).toBeCloseTo(takenUsd, 9);
    const month = await world.spending?.month(PROJECT);
    expect(month?.heldUsd).toBe(0);
    expect(month?.spentUsd).toBeCloseTo(takenUsd, 9);
    expect(told).toEqual([id]);
  });
});

describe("a task that is cancelled while a request of it is under way", () => {
  /** The first item has failed once and waits, the second is under way; the task is cancelled. */
  async function halfDone() {
    const answer: Answering = (line) => (line === 1 ? status(500) : "hang");
    const world = new TaskWorld({ answer, config: { prices } });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, "alpha:m1").slice(0, 2)));
    await world.clock.advance(500);
    await world.settle(tasks.cancel(PROJECT, id));
    return { world, tasks, id };
  }

  it("shows what its other items took before and after that request has ended, and over a kill", async () => {
    const { world, tasks, id } = await halfDone();
    const before = await ends(world, tasks, id, 1);
    expect(before.objects.map((object) => object.status)).toEqual(["cancelled", "submitted"]);
    expect(before.objects[0]?.error).toMatchObject({ code: "cancelled", attempts: before.requests[0] });
    world.kill();
    const again = await world.tasks();
    await world.clock.advance(1_000);
    const after = await ends(world, again, id, 1);
    expect(after.view).toMatchObject({ status: "completed", counts: { cancelled: 2 } });
    expect(after.objects.map(({ error }) => error?.attempts)).toEqual(after.requests);
    expect(Math.min(...after.requests)).toBeGreaterThan(0);
    expect(after.objects[0]).toEqual(before.objects[0]);
    expect(after.usd).toBeCloseTo(after.takenUsd, 9);
    expect(after.takenUsd).toBeGreaterThan(0.19);
  });

  it("keeps what each item took before when it is retried, once", async () => {
    const { world, id } = await halfDone();
    world.kill();
    const tasks = await world.tasks();
    await world.clock.advance(1_000);
    const { takenUsd, objects: cancelled } = await ends(world, tasks, id, 1);
    const attempts = cancelled.map(({ error }) => error?.attempts ?? 0);
    world.answer = () => status(400);
    await world.settle(tasks.retry(PROJECT, id, ["cancelled"]));
    await world.clock.advance(1_000);
    const { objects, usd, view } = await ends(world, tasks, id, 1);
    expect(objects.map(({ error }) => [error?.code, error?.attempts])).toEqual(
      attempts.map((before) => ["invalid_request", before + 1]),
    );
    expect(usd).toBeCloseTo(takenUsd, 9);
    expect(view.usage.billedUsd + view.usage.ambiguousUsd).toBeCloseTo(takenUsd, 9);
  });
});

describe("a task at work that is cancelled", () => {
  it.each(Array.from({ length: 12 }, (_, index) => 480 + 5 * index))(
    "keeps every answer that was asked for, and its money (after %i ms)",
    async (afterMs) => {
      const world = new TaskWorld({
        latencyMs: 37,
        commitMs: 12,
        config: { prices, limits: { alpha: { concurrency: 8 } } },
      });
      const tasks = await world.tasks();
      const all = Array.from({ length: 200 }, (_, index) => item(1 + index, 30));
      const { id } = await world.settle(submit(tasks, all));
      await world.clock.advance(afterMs);
      await world.settle(tasks.cancel(PROJECT, id));
      await world.clock.advance(1_000);
      const { view } = await ends(world, tasks, id, 1);
      const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 200 }));
      const count = (status: string): number => objects.filter((object) => object.status === status).length;
      expect(view.counts).toMatchObject({
        completed: world.sent.length,
        cancelled: all.length - world.sent.length,
      });
      expect([count("completed"), count("cancelled")]).toEqual([
        view.counts.completed,
        view.counts.cancelled,
      ]);
      expect(view.counts.completed).toBeGreaterThan(0);
      expect(view.counts.cancelled).toBeGreaterThan(0);
    },
  );
});
