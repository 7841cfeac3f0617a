/** What an open task says of its end while the account of its models is stopped (402, 401). */
import { describe, expect, it } from "vitest";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const MINUTE_MS = 60_000;

/** The account of `alpha` has no money from a moment on, until it is paid; that of `beta` always has. */
function unpaid(fromMs = 0): { readonly world: TaskWorld; pay: () => void } {
  let isPaid = false;
  const world: TaskWorld = new TaskWorld({
    latencyMs: 100,
    config: { limits: { alpha: { requestsPerMinute: 60 }, beta: { requestsPerMinute: 60 } } },
    answer: (line) =>
      line < 10_000 && !isPaid && world.clock.nowMs() >= fromMs
        ? status(402, "insufficient_balance")
        : ok(line),
  });
  return {
    world,
    pay: () => {
      isPaid = true;
    },
  };
}

const items = (from: number, count: number, sla: number, model = "alpha:m1") =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, sla), model }));

/** What it says of its end: whether it is known, and at risk. */
function said({ status: state, expectedEndWallMs, isSlaAtRisk }: TaskView): object {
  return { status: state, isKnown: expectedEndWallMs !== undefined, isSlaAtRisk };
}

const GOES_ON = { status: "submitted", isKnown: true, isSlaAtRisk: false };
const STOPPED = { status: "submitted", isKnown: false, isSlaAtRisk: true };

describe("an open task whose account is stopped", () => {
  it.each([
    ["that shares a lot", items(1, 200, 60)],
    ["of its own lots", [...items(1, 100, 60), ...items(101, 100, 120)]],
  ])(
    "%s has no expected end and its sla is at risk, until a request is answered again",
    async (_name, given) => {
      const { world, pay } = unpaid(12_000);
      const tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, given));
      const look = async (): Promise<object> => said(await world.settle(tasks.task(PROJECT, id)));
      await world.clock.advance(10_000);
      expect(await look()).toEqual(GOES_ON);
      await world.clock.advance(15_000);
      expect(await look()).toEqual(STOPPED);
      await world.clock.advance(5 * MINUTE_MS);
      expect(await look()).toEqual(STOPPED);
      pay();
      await world.clock.advance(MINUTE_MS + 2_000);
      expect(await look()).toEqual(GOES_ON);
    },
  );

  it("says so from its submission on, while no run has begun it", async () => {
    const { world } = unpaid();
    const tasks = await world.tasks();
    await world.settle(submit(tasks, items(21, 40, 60)));
    await world.clock.advance(5_000);
    const shared = await world.settle(submit(tasks, items(101, 10, 60)));
    const large = await world.settle(submit(tasks, [...items(201, 5, 60), ...items(301, 5, 90)]));
    expect([shared, large].map(said)).toEqual([STOPPED, STOPPED]);
    const other = await world.settle(submit(tasks, items(10_001, 10, 30, "beta:m1")));
    expect(said(other)).toEqual(GOES_ON);
  });

  it("has none while a part of it is stopped and the rest goes on, when its lots are its own", async () => {
    const { world } = unpaid();
    const tasks = await world.tasks();
    const given = [
      ...items(21, 40, 60),
      ...items(10_001, 300, 60, "beta:m1"),
      ...items(10_401, 1, 90, "beta:m1"),
    ];
    const { id } = await world.settle(submit(tasks, given));
    await world.clock.advance(10_000);
    expect(said(await world.settle(tasks.task(PROJECT, id)))).toEqual(STOPPED);
  });

  it("has one while others of its lot go on, whose models have accounts of their own", async () => {
    const { world } = unpaid();
    const tasks = await world.tasks();
    const [, second] = await world.settle(
      Promise.all([submit(tasks, items(21, 40, 60)), submit(tasks, items(10_001, 60, 60, "beta:m1"))]),
    );
    await world.clock.advance(10_000);
    expect(said(await world.settle(tasks.task(PROJECT, second.id)))).toEqual(GOES_ON);
  });
});

describe("the stop of an account", () => {
  it("is kept when the process is killed at once: the next one sends one request first", async () => {
    const { world, pay } = unpaid();
    world.reconfigure({ limits: {} });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 200, 600)));
    await world.clock.advance(1_000);
    expect(world.sent.length).toBeGreaterThan(1);
    for (const _ of [1, 2]) {
      world.kill();
      const before = world.sent.length;
      await world.settle(world.tasks());
      await world.clock.advance(1_000);
      expect(world.sent.length - before).toBe(1);
    }
    pay();
    world.kill();
    const again = await world.settle(world.tasks());
    await world.clock.advance(10_000);
    expect(await world.settle(again.task(PROJECT, id))).toMatchObject({ counts: { completed: 200 } });
    world.answer = () => "hang";
    world.kill();
    const last = await world.settle(world.tasks());
    const before = world.sent.length;
    await world.settle(submit(last, items(201, 50, 600)));
    await world.clock.advance(5_000);
    expect(world.sent.length - before).toBe(50); // the stop is over
  });
});
