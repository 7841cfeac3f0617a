/** Keys of a task that works on several files: each is there once, so that each has one line in its output. */
import { describe, expect, it } from "vitest";
import { itemLine } from "../engine/world.ts";
import { chunked } from "./files.ts";
import { item, PROJECT, submit, TaskWorld, textOf } from "./world.ts";

async function uploaded(...texts: readonly string[]) {
  const world = new TaskWorld();
  world.hasFileStore = true;
  const tasks = await world.tasks();
  const ids: string[] = [];
  for (const text of texts) {
    const file = { name: "in.jsonl", purpose: "batch", chunks: chunked(text) } as const;
    const put = world.fileStore?.put(PROJECT, file) ?? Promise.reject(new Error("no files"));
    ids.push((await world.settle(put)).id);
  }
  return { world, tasks, ids };
}

const keyed = (line: number, key: string) => itemLine(line, "alpha:m1", key);

describe("a task on two files with a key in common", () => {
  it("is refused with both files and lines, blank ones counted, and leaves nothing behind", async () => {
    const { world, tasks, ids } = await uploaded(
      `${keyed(1, "a")}\n${keyed(2, "b")}`,
      keyed(3, "c").trimEnd(), // without a line end
      `no JSON\n${keyed(4, "d")}${keyed(5, "b")}${keyed(6, "a")}`,
    );
    const list = [...ids.map((file_id) => ({ file_id, sla: 60 })), item(9, 90)];
    const refusal = await world.settle(submit(tasks, list)).catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      code: "duplicate_key",
      message: `line 3 of file ${ids[0]} and line 3 of file ${ids[2]} have the same key; every key of a task must be there once`,
      details: { lines: [3, 3], fileIds: [ids[0], ids[2]] },
    });
    expect(world.disk.paths.filter((path) => path.startsWith("/data/lots/"))).toEqual([]);
    await world.settle(world.fileStore?.remove(PROJECT, ids[0] ?? "") ?? Promise.resolve()); // nothing holds it
    expect((await world.settle(tasks.list(PROJECT, { limit: 10 }))).items).toEqual([]);
  });

  it("is refused when it is one file named twice, with whatever slas", async () => {
    const { world, tasks, ids } = await uploaded(keyed(1, "a"));
    const [file_id = ""] = ids;
    const twice = submit(tasks, [
      { file_id, sla: 60 },
      { file_id, sla: 90 },
    ]);
    await expect(world.settle(twice)).rejects.toMatchObject({
      code: "duplicate_key",
      details: { lines: [1, 1], fileIds: [file_id, file_id] },
    });
  });
});

describe("a task on two files with different keys", () => {
  it("has one line of each in its output", async () => {
    const { world, tasks, ids } = await uploaded(
      keyed(1, "a") + keyed(2, "b"),
      keyed(3, "c") + keyed(4, "d"),
      "",
    );
    const task = await world.settle(
      submit(
        tasks,
        ids.map((file_id) => ({ file_id, sla: 60 })),
      ),
    );
    await world.clock.advance(10_000);
    const lines = (await world.settle(textOf(tasks, task.id))).trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).key).sort()).toEqual(["a", "b", "c", "d"]);
  });
});
