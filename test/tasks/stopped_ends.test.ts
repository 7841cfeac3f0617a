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
    expect(said(other)).toEqual({ ...GOES_ON, isKnown: false }); // it was never answered, and is not stopped
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

describe("an open task that only its caller can continue", () => {
  const price = { inputUsdPerMillion: 100, outputUsdPerMillion: 100 };
  const prices = { "alpha:m1": price, "beta:m1": price };
  /** Enough for some of the items. */
  const capped = { prices, cap: { name: "all", usd: 0.01 } };
  const alpha = { baseUrl: "http://alpha.test/v1" };
  const tasksOf = {
    "that is posted": items(1, 40, 60),
    "of its own lots": [...items(1, 20, 60), ...items(101, 20, 120)],
  };

  /** Submitted, and looked at after some time. */
  async function shown(world: TaskWorld, given: ReturnType<typeof items>): Promise<TaskView> {
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, given));
    await world.clock.advance(20_000);
    return world.settle(tasks.task(PROJECT, id));
  }

  describe.each(Object.entries(tasksOf))("%s", (_name, given) => {
    const capless = given.map((each) => ({ ...each, max_tokens: 10 }));

    it("has no expected end and its sla is at risk while a cap holds it, and continues when the cap is raised", async () => {
      const world = new TaskWorld({ latencyMs: 100, config: capped });
      const view = await shown(world, capless);
      expect(view.held).toMatchObject([{ reason: "cap_reached" }]);
      expect(view.counts.completed).toBeGreaterThan(0);
      expect(said(view)).toEqual(STOPPED);
      world.kill();
      world.reconfigure({ cap: { name: "all", usd: 10 }, limits: { alpha: { requestsPerMinute: 60 } } });
      const tasks = await world.settle(world.tasks());
      await world.clock.advance(5_000);
      expect(said(await world.settle(tasks.task(PROJECT, view.id)))).toEqual(GOES_ON);
    });

    it("says so while its key is missing", async () => {
      const providers = { alpha: { ...alpha, needsKey: true } };
      const view = await shown(new TaskWorld({ config: { providers } }), given);
      expect(view.held).toMatchObject([{ reason: "key_missing" }]);
      expect(said(view)).toEqual(STOPPED);
    });

    it("says so while its provider is missing", async () => {
      const world = new TaskWorld({ config: { providers: { alpha } }, answer: () => "hang" });
      const { id } = await shown(world, given);
      world.kill();
      world.reconfigure({ providers: { beta: { baseUrl: "http://beta.test/v1" } } });
      const tasks = await world.settle(world.tasks());
      expect(said(await world.settle(tasks.task(PROJECT, id)))).toEqual(STOPPED);
      await world.clock.advance(20_000);
      const view = await world.settle(tasks.task(PROJECT, id));
      expect(view.held).toMatchObject([{ reason: "provider_missing" }]);
      expect(said(view)).toEqual(STOPPED);
    });

    it("says so while its model is unknown to the provider", async () => {
      const world = new TaskWorld({ answer: () => status(404, "model_not_found") });
      const view = await shown(world, given);
      expect(view.held).toMatchObject([{ reason: "model_unavailable" }]);
      expect(said(view)).toEqual(STOPPED);
    });
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
