/**
 * Lists of a caller: what was passed counts, whatever the caller does with the list or its items afterwards.
 */
import { describe, expect, it } from "vitest";
import { submittedPath } from "../../src/engine/files/task_files.ts";
import { itemLine } from "../../src/jsonl/items.ts";
import { stemOf } from "../../src/work/object_id.ts";
import { OUTPUT, World } from "./world.ts";

interface Listed {
  model: string;
  input: string;
  sla?: number;
}

const listOf = (count: number, sla?: number): Listed[] =>
  Array.from({ length: count }, (_, index) => ({
    model: "alpha:m1",
    input: `[[${index + 1}]] hello`,
    ...(sla === undefined ? {} : { sla }),
  }));

const CHANGES: readonly (readonly [string, (list: Listed[]) => void])[] = [
  ["is emptied", (list) => void list.splice(0)],
  ["is cut", (list) => void list.splice(5)],
  ["grows", (list) => void list.push({ model: "alpha:m1", input: "[[21]] late" })],
  [
    "is refilled",
    (list) => list.splice(0, 20, ...listOf(20).map((one) => ({ ...one, input: "[[99]] later" }))),
  ],
];
const ITEM_CHANGES: typeof CHANGES = [
  ["has other texts", (list) => void list.map((one) => Object.assign(one, { input: "[[99]] later" }))],
  ["has other slas", (list) => void list.map((one, index) => Object.assign(one, { sla: 1 + (index % 3) }))],
  ["has invalid items", (list) => void list.map((one) => Object.assign(one, { input: 5n }))],
];
const LINES = Array.from({ length: 20 }, (_, index) => index + 1);
const sentLines = (world: World): number[] => world.sent.map(({ line }) => line).sort((a, b) => a - b);

describe("a list that was submitted and then", () => {
  for (const [sla, kept, options] of [
    [undefined, "a row", {}],
    [60, "a row", {}],
    [undefined, "runs", { onProgress: () => undefined }],
    [60, "runs", { onProgress: () => undefined }],
  ] as const)
    it.each([...CHANGES, ...ITEM_CHANGES])(
      `%s is answered as it was passed, with sla ${sla}, as ${kept}`,
      async (_, change) => {
        const world = new World();
        const engine = await world.engine();
        const list = listOf(20, sla);
        const submitted = engine.submit(list, options);
        change(list);
        const task = await world.settle(submitted.finished);
        expect(task).toMatchObject({ status: "completed", total_items: 20, counts: { completed: 20 } });
        expect(sentLines(world)).toEqual(LINES);
      },
    );
});

describe("a list that was passed to run and then", () => {
  it.each(CHANGES)("%s is answered as it was passed", async (_, change) => {
    const world = new World();
    const engine = await world.engine();
    const list = listOf(20);
    const run = engine.run(list, { out: OUTPUT });
    change(list);
    expect((await world.settle(run.finished)).counts.completed).toBe(20);
    expect(sentLines(world)).toEqual(LINES);
  });

  it.each(CHANGES)("%s is quoted as it was passed", async (_, change) => {
    const world = new World();
    const engine = await world.engine();
    const list = listOf(20);
    const quoted = engine.quote(list);
    change(list);
    expect((await world.settle(quoted)).items).toBe(20);
  });
});

describe("a stored list whose file has fewer lines than the task has items", () => {
  const id = "0b6f0c0e-3a3f-4a55-9f0b-2f3a9d000000";

  it.each([
    ["without sla", null],
    ["with one", 60],
  ])("%s ends at the next start: what is missing has failed", async (_, sla) => {
    const world = new World();
    const { engine, core } = await world.opened();
    await world.settle(
      core.storage.store.putTask({
        id,
        name: `submission:${stemOf(id)}`,
        createdWallMs: core.storage.clock.wallMs(),
        body: JSON.stringify({ kind: "submission", parts: [{ sla, items: 4 }], isDone: false }),
      }),
    );
    const lines = listOf(3).map((one, index) => `${itemLine({ ...one, key: String(index) })}\n`);
    world.disk.put(submittedPath(core.storage, id, 0), lines.join(""));
    await world.settle(engine.close());

    const later = await world.settle(world.engine());
    await world.clock.advance(10_000);
    const task = await world.settle(later.task(id));
    expect(task).toMatchObject({ status: "completed", counts: { submitted: 0, completed: 3, failed: 1 } });
    expect(task.objects[3]).toMatchObject({
      status: "failed",
      error: { code: "input_changed", message: "the file of the task has 3 lines, and this item is line 4" },
    });
    expect(await world.settle(later.object(task.objects[3]?.object_id ?? ""))).toEqual(task.objects[3]);
  });
});
