/** Receipts of the objects of tasks add up to the usage of their task and of their project, to the nano-dollar, over retries and restarts. */
import { describe, expect, it } from "vitest";
import type { Receipt } from "../../src/jsonl/receipts.ts";
import { nanoOf } from "../../src/price/nano.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { RequestItem } from "../../src/tasks/shapes/requests.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const CODES = ["empty_output", "ambiguous", "invalid_request"] as const;
const prices = { "alpha:m1": { inputUsdPerMillion: 0.0375, outputUsdPerMillion: 0.0615 } };

const items = (from: number, count: number, sla = 600) =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, sla), max_tokens: 10 }));

async function receiptsOf(world: TaskWorld, tasks: OpenedTasks, id: string): Promise<Receipt[]> {
  const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 1_000 }));
  const receipts: Receipt[] = [];
  for (const { object_id } of objects) receipts.push(await world.settle(tasks.receipt(PROJECT, object_id)));
  expect(receipts.map(({ keyJson }) => JSON.parse(keyJson))).toEqual(
    objects.map(({ object_id }) => object_id),
  );
  return receipts;
}

async function expectSums(world: TaskWorld, tasks: OpenedTasks, id: string): Promise<void> {
  const { usage } = await world.settle(tasks.task(PROJECT, id));
  const receipts = await receiptsOf(world, tasks, id);
  const sum = (of: (receipt: Receipt) => number): number => receipts.reduce((all, one) => all + of(one), 0);
  const sums = {
    billed: sum((one) => one.billedNano),
    ambiguous: sum((one) => one.ambiguousNano),
    list: sum((one) => one.listNano),
  };
  expect(sums).toEqual({
    billed: nanoOf(usage.billedUsd),
    ambiguous: nanoOf(usage.ambiguousUsd),
    list: nanoOf(usage.listUsd),
  });
  expect(sum((one) => one.attempts)).toBe(world.sent.length);
  const { days } = await world.settle(daysOf(world));
  expect({
    billed: days.reduce((all, day) => all + nanoOf(day.billedUsd), 0),
    ambiguous: days.reduce((all, day) => all + nanoOf(day.ambiguousUsd), 0),
    list: days.reduce((all, day) => all + nanoOf(day.listUsd), 0),
  }).toEqual(sums);
}

function daysOf(world: TaskWorld): ReturnType<NonNullable<TaskWorld["spending"]>["usage"]> {
  const day = new Date(world.clock.wallMs()).toISOString().slice(0, 10);
  return world.spending?.usage(PROJECT, day, day) ?? Promise.reject(new Error("no tasks"));
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

describe.each(kinds)("receipts of %s", (_, itemsOf) => {
  it("sum up to its usage, also when items were run again, and in the next process", async () => {
    const world = new TaskWorld({
      config: { prices },
      answer: (line, attempt) => {
        if (line <= 2) return openaiAnswer("", { inputTokens: 13, outputTokens: 0 });
        if (line === 3) return attempt === 1 ? status(500) : status(400);
        return openaiAnswer(`answer ${line}`, { inputTokens: 11 + line, outputTokens: 5 });
      },
    });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf(world)));
    await world.clock.advance(120_000);
    await expectSums(world, tasks, id);
    world.answer = (line) => ok(line);
    await world.settle(tasks.retry(PROJECT, id, CODES));
    await world.clock.advance(120_000);
    await expectSums(world, tasks, id);
    const [first, , , last] = await receiptsOf(world, tasks, id);
    expect(first?.attempts).toBeGreaterThan(1);
    expect(last).toMatchObject({ lane: "realtime", provider: "alpha", model: "alpha:m1", isMet: true });
    expect((last?.endedWallMs ?? 0) - (last?.startedWallMs ?? 0)).toBe(10);
    expect((last?.deadlineWallMs ?? 0) > (last?.endedWallMs ?? 0)).toBe(true);
    world.kill();
    const again = await world.tasks();
    expect((await receiptsOf(world, again, id))[3]).toEqual(last);
    await expectSums(world, again, id);
  });
});

describe("a receipt", () => {
  it("does not exist before its object has ended, nor for another project", async () => {
    const world = new TaskWorld({ config: { prices }, answer: () => "hang" });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 2)));
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 10 }));
    const object = objects[0]?.object_id ?? "";
    await expect(world.settle(tasks.receipt(PROJECT, object))).rejects.toMatchObject({ code: "conflict" });
    await expect(world.settle(tasks.receipt("beta", object))).rejects.toMatchObject({ code: "not_found" });
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(900_000);
    const receipts = await receiptsOf(world, tasks, id);
    expect(receipts.map(({ isMet, lane }) => [isMet, lane])).toEqual(
      receipts.map(() => [expect.any(Boolean), null]),
    );
    await expectSums(world, tasks, id);
  });
});
