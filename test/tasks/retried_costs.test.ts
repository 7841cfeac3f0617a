/** What items took before they were run again is in their attempts and cost, as it is in their task's usage. */
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { RequestItem } from "../../src/tasks/shapes/requests.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld, textOf } from "./world.ts";

const CODES = ["empty_output", "ambiguous", "invalid_request"] as const;
/** It costs, and is sent for twice. */
const empty = openaiAnswer("", { inputTokens: 10, outputTokens: 0 });
const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };

const items = (from: number, count: number, sla = 600) =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, sla), max_tokens: 10 }));

interface Told {
  readonly attempts?: number;
  readonly error?: { readonly attempts: number; readonly ambiguous_attempts: number } | null;
  readonly cost?: { readonly billed_usd: number; readonly ambiguous_usd: number };
  readonly usage?: { readonly input_tokens?: number; readonly output_tokens?: number };
}

const attemptsOf = ({ attempts, error }: Told): number => error?.attempts ?? attempts ?? 0;
const sumOf = (all: readonly Told[], of: (told: Told) => number): number =>
  all.reduce((sum, each) => sum + of(each), 0);

/** Objects and output lines say the same, and add up to the requests that were sent and to the usage of the task. */
async function expectSums(world: TaskWorld, tasks: OpenedTasks, id: string): Promise<void> {
  const { usage, totalItems } = await world.settle(tasks.task(PROJECT, id));
  const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 1_000 }));
  const text = await world.settle(textOf(tasks, id));
  const lines = text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Told]));
  expect([objects.length, lines.length]).toEqual([totalItems, totalItems]);
  for (const all of [objects as readonly Told[], lines]) {
    expect(sumOf(all, attemptsOf)).toBe(world.sent.length);
    expect(sumOf(all, ({ cost }) => cost?.billed_usd ?? 0)).toBeCloseTo(usage.billedUsd, 9);
    expect(sumOf(all, ({ cost }) => cost?.ambiguous_usd ?? 0)).toBeCloseTo(usage.ambiguousUsd, 9);
  }
  expect(sumOf(lines, (line) => line.usage?.output_tokens ?? 0)).toBe(usage.outputTokens);
  const { spentUsd, heldUsd } = await world.settle(
    world.spending?.month(PROJECT) ?? Promise.reject(new Error("no tasks")),
  );
  expect([spentUsd, heldUsd]).toEqual([expect.closeTo(usage.billedUsd + usage.ambiguousUsd, 9), 0]);
}

const kinds: readonly (readonly [string, (world: TaskWorld) => readonly RequestItem[]])[] = [
  ["a small task", () => items(1, 8)],
  ["a task of several slas", () => [...items(1, 7), ...items(8, 1, 900)]],
  [
    "a file",
    (world) => {
      world.file("f1", 8);
      return [{ file_id: "f1", sla: 600 } as unknown as RequestItem];
    },
  ],
];

describe.each(kinds)("items of %s that are run again", (_, itemsOf) => {
  it("keep what they took in each round", async () => {
    const world = new TaskWorld({
      config: { prices },
      answer: (line, attempt) => {
        if (line <= 2) return empty;
        if (line === 3) return attempt === 1 ? status(500) : status(400);
        return ok(line);
      },
    });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf(world)));
    await world.clock.advance(120_000);
    await expectSums(world, tasks, id);
    for (let round = 0; round < 2; round += 1) {
      await world.settle(tasks.retry(PROJECT, id, CODES));
      await world.clock.advance(120_000);
      await expectSums(world, tasks, id);
    }
    world.answer = (line) => ok(line);
    await world.settle(tasks.retry(PROJECT, id, CODES));
    await world.clock.advance(120_000);
    const { counts } = await world.settle(tasks.task(PROJECT, id));
    expect(counts.completed).toBe(8);
    await expectSums(world, tasks, id);
  });

  it("keep it whatever is killed when", async () => {
    for (let seed = 1; seed <= 4; seed += 1) {
      const random = createRandom(seed);
      const world = new TaskWorld({
        config: { prices },
        latencyMs: 500,
        answer: (line) => (random() < 0.4 ? empty : random() < 0.2 ? status(400) : ok(line)),
      });
      let tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, itemsOf(world)));
      for (let step = 0; step < 6; step += 1) {
        await world.clock.advance(Math.floor(random() * 2_000));
        if (random() < 0.5) {
          world.kill();
          tasks = await world.settle(world.tasks());
        }
        await world.settle(tasks.retry(PROJECT, id, CODES));
      }
      await world.clock.advance(600_000);
      await expectSums(world, tasks, id);
    }
  });
});

describe.each(kinds)(
  "items of %s that may have been answered, where delivery is at most once",
  (_, itemsOf) => {
    /** The first two may have been answered. */
    async function doubted(answer: () => "hang" | ReturnType<typeof status>) {
      const world = new TaskWorld({
        config: { prices, delivery: "at_most_once" },
        answer: (line) => (line <= 2 ? answer() : ok(line)),
      });
      const tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, itemsOf(world)));
      await world.clock.advance(60_000);
      return { world, tasks, id };
    }

    const counts = { completed: 8, failed: 0 };

    it("are sent once more when their code is named, and that does not count as their own doubt", async () => {
      const { world, tasks, id } = await doubted(() => status(500));
      world.answer = (line) => (line === 1 ? status(400) : ok(line));
      expect(await world.settle(tasks.retry(PROJECT, id, ["ambiguous"]))).toMatchObject({ items: 2 });
      await world.clock.advance(60_000);
      const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 2 }));
      expect(objects[0]).toMatchObject({
        error: { code: "invalid_request", attempts: 2, ambiguous_attempts: 0 },
      });
      expect(objects[1]).toMatchObject({ status: "completed", attempts: 2 });
      expect(world.sent).toHaveLength(10);
      await expectSums(world, tasks, id);
    });

    it("are sent once more each time that a process died over them", async () => {
      const { world, id } = await doubted(() => "hang");
      for (let kill = 0; kill < 2; kill += 1) {
        world.kill();
        const tasks = await world.settle(world.tasks());
        await world.clock.advance(60_000);
        const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 2 }));
        expect(objects.map(({ error }) => error?.code)).toEqual(["ambiguous", "ambiguous"]);
        if (kill === 1) world.answer = ok;
        expect(await world.settle(tasks.retry(PROJECT, id, ["ambiguous"]))).toMatchObject({ items: 2 });
        await world.clock.advance(60_000);
        expect(world.sent).toHaveLength(10 + 2 * kill);
        if (kill === 1) expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ counts });
      }
    });

    it("are sent by the next process when this one ends before it has", async () => {
      const { world, tasks: first, id } = await doubted(() => status(500));
      world.answer = ok;
      await first.retry(PROJECT, id, ["ambiguous"]);
      world.kill();
      const tasks = await world.settle(world.tasks());
      await world.clock.advance(60_000);
      expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ counts });
      expect(world.sent).toHaveLength(10);
    });
  },
);
