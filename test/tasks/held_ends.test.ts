/** Tasks and runs follow one rule: while nobody knows when what holds their items is over, neither has an expected end. */
import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, ok, type Reply, status, World } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const ITEMS = 300;

/** It has answered for 5 s, and says or does this until it is well. */
const TROUBLES: Readonly<Record<string, () => Reply>> = {
  "refuses connections": () => ({ ok: false, failure: "not_sent", message: "connection refused" }),
  "answers 503": () => status(503),
  "asks to wait for 30 s": () => status(429, "slow", { "retry-after": "30" }),
  "has no money": () => status(402, "billing_error"),
};

const troubled = (world: World, answer: () => Reply, untilMs: number) => (line: number) => {
  const nowMs = world.clock.nowMs();
  return nowMs < 5_000 || nowMs >= untilMs ? ok(line) : answer();
};

const settings = { latencyMs: 500, config: { maxInFlight: 2 } };
const items = Array.from({ length: ITEMS }, (_, index) => item(index + 1, 600));
const TASKS = {
  "a small task": items,
  "a large task": [...items.slice(1), item(1, 601)],
};

/** The seconds at which an end is known, of the first 30 from the trouble on. */
async function secondsOf(world: World, isKnown: () => Promise<boolean>): Promise<readonly boolean[]> {
  const known: boolean[] = [];
  for (let second = 1; second <= 40; second += 1) {
    await world.clock.advance(1_000);
    known.push(await isKnown());
  }
  return known;
}

async function ofRun(answer: () => Reply): Promise<readonly boolean[]> {
  const world: World = new World({ ...settings, answer: (line) => troubled(world, answer, 22_000)(line) });
  world.input(ITEMS);
  const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 3_600_000, sla: 600 });
  return secondsOf(world, async () => run.progress().etaMs !== undefined);
}

async function ofTask(answer: () => Reply, given: typeof items): Promise<readonly boolean[]> {
  const world: TaskWorld = new TaskWorld({
    ...settings,
    answer: (line) => troubled(world, answer, 22_000)(line),
  });
  const tasks = await world.tasks();
  const { id } = await world.settle(submit(tasks, given));
  return secondsOf(world, async () => {
    const { expectedEndWallMs, isSlaAtRisk } = await world.settle(tasks.task(PROJECT, id));
    expect(isSlaAtRisk).toBe(expectedEndWallMs === undefined);
    return expectedEndWallMs !== undefined;
  });
}

describe.each(Object.entries(TROUBLES))("while a provider %s", (name, answer) => {
  it.each(Object.entries(TASKS))("%s has an expected end when a run has one", async (_name, given) => {
    const [run, task] = [await ofRun(answer), await ofTask(answer, given)];
    expect(run[3]).toBe(true);
    expect(run.slice(12, 21)).toEqual(Array(9).fill(false));
    if (name === "asks to wait for 30 s") expect(run.slice(6, 34)).toEqual(Array(28).fill(false));
    else expect(run[39]).toBe(name !== "has no money");
    const differing = task.filter((isKnown, second) => isKnown !== run[second]);
    expect(differing.length, `${run.map(Number)} and ${task.map(Number)}`).toBeLessThanOrEqual(2);
  });

  it.each(Object.entries(TASKS))(
    "%s that is posted meanwhile has none from its first answer on",
    async (_name, given) => {
      const world: TaskWorld = new TaskWorld({
        ...settings,
        answer: (line) => troubled(world, answer, 1e9)(line),
      });
      const tasks = await world.tasks();
      await world.settle(submit(tasks, items));
      await world.clock.advance(19_700);
      const first = await world.settle(submit(tasks, given));
      expect(first).not.toHaveProperty("expectedEndWallMs");
      for (let second = 0; second < 5; second += 1) {
        await world.clock.advance(100);
        expect(await world.settle(tasks.task(PROJECT, first.id))).not.toHaveProperty("expectedEndWallMs");
      }
    },
  );
});
