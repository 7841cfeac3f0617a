/**
 * Tasks through kills, power cuts, full disks, cancellations and removals: what was acknowledged is there and is answered
 * unless somebody has cancelled or removed it, and nothing that was answered is requested again. A single seed: PERIGEE_SEED=17 npx vitest run test/simulation/tasks
 */
import { beforeAll, describe, expect, it } from "vitest";
import type { PerigeeError } from "../../src/errors.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import { createRandom } from "../../src/testing/random.ts";
import { mortal, ok, status } from "../engine/world.ts";
import { item, PROJECT, TaskWorld } from "../tasks/world.ts";

const FILE = "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001";
const FILE_ITEMS = 30;
const SLAS = [undefined, 60, 60, 120, 1_440] as const;

const given = process.env["PERIGEE_SEED"];
const count = Number(process.env["PERIGEE_SEEDS"] ?? 20);
const seeds = given === undefined ? Array.from({ length: count }, (_, index) => index + 1) : [Number(given)];

interface Acknowledged {
  readonly id: string;
  readonly numbers: readonly number[];
  isCancelled?: boolean;
  /** A removal was asked for; whether it came to be is for the end to tell. */
  isRemoved?: boolean;
}

/** Somebody cancels or removes a task, reads the list, or a disk is full for a moment. */
async function disturb(
  world: TaskWorld,
  tasks: OpenedTasks,
  random: () => number,
  acknowledged: readonly Acknowledged[],
): Promise<void> {
  const task = acknowledged[Math.floor(random() * acknowledged.length)];
  const what = random();
  if (what < 0.1) {
    world.disk.setFull(0);
    world.clock.timer(Math.floor(random() * 2_000), () => world.disk.setFull(Number.POSITIVE_INFINITY));
  }
  if (task === undefined) return;
  if (what > 0.8) {
    task.isCancelled = true;
    await tasks.cancel(PROJECT, task.id);
  } else if (what > 0.6) {
    task.isRemoved = true;
    await tasks.remove(PROJECT, task.id);
  } else if (what > 0.4) await tasks.list(PROJECT, { limit: 100 });
}

/** One life of the process: submits for a while, is killed at some moment. */
async function live(
  world: TaskWorld,
  random: () => number,
  acknowledged: Acknowledged[],
  next: () => number,
) {
  const life = mortal(world.clock);
  const { clock } = life;
  const opening = world.tasks(clock, life);
  await world.clock.advance(Math.floor(random() * 400) + 50);
  const posts = Math.floor(random() * 12);
  void opening
    .then(async (tasks: OpenedTasks) => {
      for (let post = 0; post < posts; post += 1) {
        const isMixed = random() < 0.3;
        const sla = SLAS[Math.floor(random() * SLAS.length)];
        const numbers = Array.from({ length: 1 + Math.floor(random() * 6) }, next);
        const items = numbers.map((number, index) => item(number, isMixed && index % 2 === 1 ? 90 : sla));
        void tasks
          .submit(PROJECT, { items, hasOutputFile: false })
          .then(({ id }) => acknowledged.push({ id, numbers }))
          .catch(() => undefined); // killed before it was acknowledged
        if (random() < 0.5) await clock.sleep(Math.floor(random() * 300));
        void disturb(world, tasks, random, acknowledged).catch(() => undefined); // killed, or at work
      }
    })
    .catch(() => undefined);
  await world.clock.advance(Math.floor(random() * 3_000));
  life.kill();
  world.kill({ powerCut: random() < 0.5, random });
}

async function simulate(seed: number): Promise<void> {
  const random = createRandom(seed);
  const world = new TaskWorld({
    commitMs: 1 + Math.floor(random() * 20),
    latencyMs: 20 + Math.floor(random() * 500),
    config: { limits: { alpha: { concurrency: 4 + Math.floor(random() * 20) } } },
    answer: (line, attempt) => (attempt === 1 && line % 7 === 0 ? status(503) : ok(line)),
  });
  world.file(FILE, FILE_ITEMS);
  const acknowledged: Acknowledged[] = [];
  let number = 1_000;
  const next = (): number => {
    number += 1;
    return number;
  };
  const lives = 2 + Math.floor(random() * 4);
  for (let one = 0; one < lives; one += 1) await live(world, random, acknowledged, next);
  world.disk.setFull(Number.POSITIVE_INFINITY);
  const tasks = await world.settle(world.tasks());
  const request = { items: [{ file_id: FILE, sla: 60 }], hasOutputFile: true };
  const submit = () => world.settle(tasks.submit(PROJECT, request));
  const file = await submit().catch(async (error: PerigeeError) => {
    expect(error.code).toBe("disk_full"); // until perigee has seen that there is space again
    await world.clock.advance(5_000);
    return submit();
  });
  await world.clock.advance(300_000);
  const answersOf = new Map<string, number>();
  const listed = new Set<string>();
  for (const { id } of (await world.settle(tasks.list(PROJECT, { limit: 1_000 }))).items) listed.add(id);
  const left = acknowledged.filter(({ id, isRemoved }) => isRemoved !== true || listed.has(id));
  for (const { id, numbers, isCancelled } of left) {
    const task = await world.settle(tasks.task(PROJECT, id));
    const { items } = await world.settle(tasks.objects(PROJECT, id, { limit: 1_000 }));
    const lost = items.filter(({ error }) => error?.code === "ambiguous").length; // cut off too often
    const unsent = items.filter(({ status }) => status === "cancelled").length;
    if (isCancelled !== true) expect(unsent).toBe(0);
    const counts = { completed: numbers.length - lost - unsent, failed: lost, cancelled: unsent };
    expect(task, `task ${id}`).toMatchObject({ status: "completed", counts });
    if (lives < 3) expect(lost).toBe(0);
    for (const [index, { error, output }] of items.entries())
      if (error === null) expect(output?.text).toBe(`answer ${numbers[index]}`);
    for (const object of items) answersOf.set(object.object_id, 1);
  }
  expect(answersOf.size).toBe(left.reduce((sum, { numbers }) => sum + numbers.length, 0));
  expect(await world.settle(tasks.task(PROJECT, file.id))).toMatchObject({
    counts: { completed: FILE_ITEMS },
  });
  // Of each number: the failed first attempt, and at most one repetition for each life that was cut off.
  const sent = new Map<number, number>();
  for (const { line } of world.sent) sent.set(line, (sent.get(line) ?? 0) + 1);
  for (const [line, times] of sent) expect(times, `number ${line}`).toBeLessThanOrEqual(lives + 2);
}

// What is loaded when it is first needed takes real time, which the clock of a simulation knows nothing of.
beforeAll(async () => {
  await new TaskWorld({ config: { limits: { alpha: { concurrency: 1 } } } }).tasks();
});

describe("tasks keep their promises through kills and power cuts", () => {
  for (const seed of seeds) it(`seed ${seed}`, () => simulate(seed));
});
