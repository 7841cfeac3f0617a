import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type OpenTasks, openTestTasks, temporaryFolder } from "./open.ts";

const folder = { path: "", remove: (): void => undefined };
let opened: OpenTasks;

beforeEach(async () => {
  Object.assign(folder, temporaryFolder());
  opened = await openTestTasks(folder.path);
});

afterEach(async () => {
  await opened.close();
  folder.remove();
});

const inline = (count: number, sla?: number) =>
  Array.from({ length: count }, (_, index) => ({
    model: "echo:test",
    input: `question ${index}`,
    ...(sla === undefined ? {} : { sla }),
  }));

const submit = (items: Iterable<object>, project = "acme", hasOutputFile = false) =>
  opened.tasks.submit(project, { items: items as Iterable<{ model: string; input: string }>, hasOutputFile });

/** Resolves when the task is final. */
async function finished(id: string): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    const stop = opened.tasks.onFinished((event) => {
      if (event.taskId !== id) return;
      stop();
      resolve();
    });
  });
  if ((await opened.tasks.task("acme", id)).status === "submitted") await ended;
}

async function textOf(id: string, view?: "answers" | "errors"): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of (await opened.tasks.output("acme", id, view)).read()) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe("tasks", () => {
  it("answers items without sla before submit resolves", async () => {
    const task = await submit(inline(3));
    expect(task).toMatchObject({
      status: "completed",
      totalItems: 3,
      counts: { completed: 3, submitted: 0 },
    });
    const { items } = await opened.tasks.objects("acme", task.id, { limit: 10 });
    expect(items.map((object) => object.output?.text)).toEqual(["question 0", "question 1", "question 2"]);
    expect(items[0]).toMatchObject({ status: "completed", error: null, usage: { price_factor: 1 } });
  });

  it("takes items with an sla at once and answers them later", async () => {
    const task = await submit(inline(2, 60));
    expect(task).toMatchObject({ status: "submitted", counts: { submitted: 2 } });
    const { items } = await opened.tasks.objects("acme", task.id, { limit: 10 });
    expect(items[0]).toMatchObject({ status: "submitted", usage: { input_tokens: 10 }, error: null });
    expect(items[0]?.usage.price_factor).toBeLessThan(1);
    await finished(task.id);
    const object = await opened.tasks.object("acme", items[1]?.object_id ?? "");
    expect(object).toMatchObject({ status: "completed", output: { text: "question 1" } });
  });

  it("makes no file for small tasks", async () => {
    const before = readdirSync(folder.path, { recursive: true });
    const tasks = await Promise.all(Array.from({ length: 200 }, () => submit(inline(2, 60))));
    await Promise.all(tasks.map(({ id }) => finished(id)));
    expect(readdirSync(folder.path, { recursive: true }).toSorted()).toEqual(before.toSorted());
    for (const { id } of tasks)
      expect(await opened.tasks.task("acme", id)).toMatchObject({
        status: "completed",
        counts: { completed: 2 },
      });
  });

  it("keeps the order of submission over different slas and beyond what fits memory", async () => {
    const mixed = inline(2_500).map((item, index) => ({ ...item, sla: index % 3 === 0 ? 60 : 120 }));
    const task = await submit(mixed);
    await finished(task.id);
    const first = await opened.tasks.objects("acme", task.id, { limit: 1_000 });
    expect(first.hasMore).toBe(true);
    const after = first.items.at(-1)?.object_id ?? "";
    const second = await opened.tasks.objects("acme", task.id, { limit: 1_000, after });
    const texts = [...first.items, ...second.items].map((object) => object.output?.text);
    expect(texts).toEqual(mixed.slice(0, 2_000).map(({ input }) => input));
    expect(new Set([...first.items, ...second.items].map((object) => object.object_id)).size).toBe(2_000);
  });

  it("gives the answers as a file of lines under the objects' ids", async () => {
    const task = await submit(inline(3), "acme", true);
    const lines = (await textOf(task.id))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const { items } = await opened.tasks.objects("acme", task.id, { limit: 10 });
    expect(lines.map(({ key }) => key)).toEqual(items.map((object) => object.object_id));
    const output = await opened.tasks.output("acme", task.id);
    expect(output).toMatchObject({ isComplete: true, bytes: Buffer.byteLength(await textOf(task.id)) });
  });

  it("refuses a model that nobody serves, naming the item", async () => {
    const items = [...inline(1, 60), { model: "nobody:x", input: "hello", sla: 60 }];
    await expect(submit(items)).rejects.toMatchObject({ code: "usage", details: { param: "1.model" } });
    await expect(submit([])).rejects.toMatchObject({ code: "usage" });
    await expect(submit(inline(1_001))).rejects.toMatchObject({ code: "too_many" });
    await expect(submit(inline(1, 0))).rejects.toMatchObject({ code: "usage", details: { param: "0.sla" } });
  });

  it("shows a project its own tasks alone", async () => {
    const task = await submit(inline(1));
    const [object] = (await opened.tasks.objects("acme", task.id, { limit: 1 })).items;
    const own = await opened.tasks.list("acme", { limit: 10 });
    expect(own.items.map(({ id }) => id)).toEqual([task.id]);
    expect((await opened.tasks.list("other", { limit: 10 })).items).toEqual([]);
    const unknown = "11111111-2222-4333-8444-555555555555";
    for (const id of [task.id, unknown]) {
      await expect(opened.tasks.task("other", id)).rejects.toMatchObject({ code: "not_found" });
      await expect(opened.tasks.cancel("other", id)).rejects.toMatchObject({ code: "not_found" });
      await expect(opened.tasks.remove("other", id)).rejects.toMatchObject({ code: "not_found" });
    }
    for (const id of [object?.object_id ?? "", unknown])
      await expect(opened.tasks.object("other", id)).rejects.toMatchObject({ code: "not_found" });
  });

  it("finds tasks, objects and answers again after a restart", async () => {
    const small = await submit(inline(2));
    const large = await submit([...inline(1, 60), ...inline(1, 120)]);
    await finished(large.id);
    const before = await Promise.all(
      [small, large].map(({ id }) => opened.tasks.objects("acme", id, { limit: 5 })),
    );
    await opened.close();
    opened = await openTestTasks(folder.path);
    const after = await Promise.all(
      [small, large].map(({ id }) => opened.tasks.objects("acme", id, { limit: 5 })),
    );
    expect(after).toEqual(before);
    expect(await opened.tasks.task("acme", large.id)).toMatchObject({ status: "completed", totalItems: 2 });
  });

  it("erases the texts of a removed task and leaves those of others", async () => {
    const kept = await submit([{ model: "echo:test", input: "a text that stays" }]);
    const [first, second] = await Promise.all(
      ["secret canary one", "another that stays"].map((input) => submit([{ model: "echo:test", input }])),
    );
    await opened.tasks.remove("acme", first?.id ?? "");
    await expect(opened.tasks.task("acme", first?.id ?? "")).rejects.toMatchObject({ code: "not_found" });
    const { items } = await opened.tasks.objects("acme", second?.id ?? "", { limit: 1 });
    expect(items[0]?.output?.text).toBe("another that stays");
    expect((await opened.tasks.objects("acme", kept.id, { limit: 1 })).items[0]?.output?.text).toBe(
      "a text that stays",
    );
    for (const file of readdirSync(folder.path, { recursive: true, withFileTypes: true }))
      if (file.isFile())
        expect(readFileSync(join(file.parentPath, file.name)).includes("secret canary one")).toBe(false);
  });
});
