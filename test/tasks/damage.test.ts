/** Files of a data folder that were changed, cut or removed behind the service: nothing wrong is served, the rest is unharmed. */
import { describe, expect, it } from "vitest";
import type { Files } from "../../src/tasks/files/files.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import { itemLine, ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld, textOf } from "./world.ts";

/** Its answers stand in a file of a lot that is its own. */
const large = (count: number) => Array.from({ length: count }, (_, index) => item(index + 1, 60));

async function outputPath(world: TaskWorld): Promise<string> {
  const names = await world.settle(world.disk.list("/data/tasks"));
  const name = names.find((one) => one.endsWith(".output.jsonl"));
  return `/data/tasks/${name}`;
}

async function linesOf(
  tasks: OpenedTasks,
  id: string,
): Promise<{ key: string | null; error?: { code: string; message: string } }[]> {
  return (await textOf(tasks, id))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

describe.each([["of its own lot", 1_200]])("the answers of a task %s", (_kind, count) => {
  it("are served without the one whose bytes were changed, which is an error that names the file", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, large(count)));
    await world.clock.advance(600_000);
    const path = await outputPath(world);
    world.disk.put(path, (world.disk.text(path) ?? "").replace('answer 7"', 'answer 8"'));

    const found = await world.settle(linesOf(tasks, task.id));
    expect(found).toHaveLength(count);
    const broken = found.filter(({ error }) => error !== undefined);
    expect(broken).toHaveLength(1);
    expect(broken[0]?.error?.code).toBe("output_damaged");
    expect(broken[0]?.error?.message).toContain(path.split("/").at(-1));
    const { items } = await world.settle(tasks.objects(PROJECT, task.id, { limit: 1_000 }));
    expect(items.filter(({ status }) => status === "failed")).toHaveLength(1);
    expect(items[6]).toMatchObject({ status: "failed", error: { code: "output_damaged" } });
    expect(items[7]).toMatchObject({ status: "completed", output: { text: "answer 8" } });
  });

  it("are errors when their file is missing, and the task is shown all the same", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, large(count)));
    await world.clock.advance(600_000);
    await world.settle(world.disk.remove(await outputPath(world)));
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({ status: "completed" });
    const found = await world.settle(linesOf(tasks, task.id));
    expect(found).toHaveLength(count);
    expect(found.every(({ error }) => error?.code === "output_damaged")).toBe(true);
  });
});

/** Three lines of a file, of which only some are answered, and two inline items. */
async function waiting(between = "", answered: readonly number[] = []) {
  const world = new TaskWorld({ answer: (line) => (answered.includes(line) ? ok(line) : "hang") });
  world.hasFileStore = true;
  let tasks = await world.tasks();
  const chunks = async function* () {
    yield Buffer.from([1, 2, 3].map((line) => itemLine(line)).join(between));
  };
  const file = await world.settle(
    (world.fileStore as Files).put(PROJECT, { name: "three.jsonl", purpose: "batch", chunks: chunks() }),
  );
  const mixed = await world.settle(submit(tasks, [{ file_id: file.id, sla: 30 }, ...large(2)]));
  const other = await world.settle(submit(tasks, large(2)));
  await world.clock.advance(1_000);
  world.kill();
  world.answer = ok;
  const restart = async () => {
    tasks = await world.tasks();
    return tasks;
  };
  return { world, restart, file, path: `/data/files/${file.id}`, mixed, other };
}

describe("lines that are waited for", () => {
  it.each([
    ["changed", "store it again"],
    ["missing", "it is missing"],
    ["cut", "bytes instead of"],
  ])(
    "of a file that is %s are not sent; they end at their deadline, the rest is answered",
    async (how, _said) => {
      const { world, restart, file, path, mixed, other } = await waiting();
      const text = world.disk.text(path) ?? "";
      if (how === "missing") await world.settle(world.disk.remove(path));
      else world.disk.put(path, how === "cut" ? text.slice(0, 150) : text.replace("[[2]]", "[[9]]"));
      const before = world.sent.length;
      const tasks = await restart();
      await world.clock.advance(5 * 60_000);
      const message = `the lines of files/${file.id} are missing or changed`;
      const held = { reason: "file_damaged", since: expect.any(String), next_try: expect.any(String) };
      expect(await world.settle(tasks.task(PROJECT, mixed.id))).toMatchObject({
        counts: { submitted: 3, completed: 2 },
        held: [{ ...held, items: 3, message }],
      });
      const { items } = await world.settle(tasks.objects(PROJECT, mixed.id, { limit: 10 }));
      expect(items.map((object) => object.held)).toEqual([held, held, held, undefined, undefined]);
      expect(world.notices).toEqual([
        `the lines of files/${file.id} are missing or changed: put them back, or their items expire at their deadline`,
      ]);
      expect(world.sent.slice(before).filter(({ line }) => line === 9)).toEqual([]);
      const reading = (world.fileStore as Files).read(PROJECT, file.id)[Symbol.asyncIterator]().next();
      await expect(world.settle(reading)).rejects.toMatchObject({
        code: "file_damaged",
        message: expect.stringContaining(`file ${file.id} is not what was stored`),
      });
      await world.clock.advance(26 * 60_000);
      expect(await world.settle(tasks.task(PROJECT, mixed.id))).toMatchObject({
        status: "completed",
        counts: { submitted: 0, completed: 2, expired: 3 },
      });
      const lines = await world.settle(linesOf(tasks, mixed.id));
      const late = `the sla passed while the item was held (file_damaged: ${message})`;
      const said = lines.map(({ error }) => error?.message).filter((text) => text !== undefined);
      expect([lines.length, ...said]).toEqual([5, late, late, late]);
      expect(await world.settle(tasks.task(PROJECT, other.id))).toMatchObject({ counts: { completed: 2 } });
    },
  );

  it.each([
    ["a member", '"contents"', '"conuents"'],
    ["a bracket", '{"key":"k2"', '["key":"k2"'],
    ["a line end", '}\n{"key":"k3"', '} {"key":"k3"'],
  ])(
    "of a file with %s changed end with the name of the file, not by what they say now",
    async (_what, from, to) => {
      const { world, restart, file, path, mixed } = await waiting();
      world.disk.put(path, (world.disk.text(path) ?? "").replace(from, to));
      const tasks = await restart();
      await world.clock.advance(31 * 60_000);
      expect(await world.settle(tasks.task(PROJECT, mixed.id))).toMatchObject({
        status: "completed",
        counts: { submitted: 0, completed: 2, failed: 0, expired: 3 },
      });
      const lines = (await world.settle(linesOf(tasks, mixed.id))).filter(({ error }) => error !== undefined);
      const late = `the sla passed while the item was held (file_damaged: the lines of files/${file.id} are missing or changed)`;
      expect(lines.map(({ error }) => [error?.code, error?.message])).toEqual(
        Array(3).fill(["expired", late]),
      );
      expect(new Set(lines.map(({ key }) => key)).size).toBe(3);
      expect(lines.every(({ key }) => key !== null)).toBe(true);
    },
  );

  it.each([
    ["is missing", () => undefined],
    ["was cut", (text: string) => text.slice(0, text.indexOf("}\n") + 2)],
  ])("of a file that %s end without the blank lines among them", async (_how, harm) => {
    const { world, restart, path, mixed } = await waiting("\n", [3]);
    const text = harm(world.disk.text(path) ?? "");
    if (text === undefined) await world.settle(world.disk.remove(path));
    else world.disk.put(path, text);
    const tasks = await restart();
    const seen = async () => {
      await world.settle(tasks.task(PROJECT, mixed.id));
      const { counts } = await world.settle(tasks.task(PROJECT, mixed.id));
      const { items } = await world.settle(tasks.objects(PROJECT, mixed.id, { limit: 10 }));
      return [counts, items.map(({ status }) => status)];
    };
    await world.clock.advance(5 * 60_000);
    const open = ["submitted", "submitted", "completed", "completed", "completed"];
    expect(await seen()).toMatchObject([{ submitted: 2, completed: 3 }, open]);
    await world.clock.advance(26 * 60_000);
    const ended = ["expired", "expired", "completed", "completed", "completed"];
    expect(await seen()).toMatchObject([{ submitted: 0, completed: 3, expired: 2 }, ended]);
    expect(await world.settle(linesOf(tasks, mixed.id))).toHaveLength(5);
  });

  it("are counted as held without the blank lines among them", async () => {
    const { world, restart, path, mixed } = await waiting("\n");
    world.disk.put(path, (world.disk.text(path) ?? "").replace("[[2]]", "[[9]]"));
    const tasks = await restart();
    await world.clock.advance(5 * 60_000);
    expect(await world.settle(tasks.task(PROJECT, mixed.id))).toMatchObject({
      counts: { submitted: 3, completed: 2 },
      held: [{ reason: "file_damaged", items: 3 }],
    });
  });

  it.each([2, -2])("end at their deadline although the wall clock was set by %i hours", async (hours) => {
    const { world, restart, path, mixed } = await waiting();
    await world.settle(world.disk.remove(path));
    world.clock.jumpWall(hours * 3_600_000);
    const tasks = await restart();
    const counts = async () => (await world.settle(tasks.task(PROJECT, mixed.id))).counts;
    await world.clock.advance(25 * 60_000);
    expect(await counts()).toMatchObject({ submitted: 3, completed: 2 });
    await world.clock.advance(6 * 60_000);
    expect(await counts()).toMatchObject({ submitted: 0, completed: 2, expired: 3 });
  });

  it("never hide the answers of the others while they are read again and end", async () => {
    const { world, restart, path, mixed } = await waiting("", [1, 3]);
    world.disk.put(path, (world.disk.text(path) ?? "").replace("[[2]]", "[[9]]"));
    await world.clock.advance(31 * 60_000);
    const open = world.disk.open.bind(world.disk);
    world.disk.open = async (path, mode) => {
      if (mode === "write" && path.endsWith(".output.jsonl")) await world.clock.sleep(50);
      return open(path, mode);
    };
    const tasks = await restart();
    const looks: Promise<string>[] = [];
    const look = async () => {
      const { items } = await tasks.objects(PROJECT, mixed.id, { limit: 3 });
      return items.map(({ status }) => status).join(" ");
    };
    for (let turn = 0; turn < 300; turn += 1) {
      looks.push(look());
      await world.clock.advance(1);
    }
    const seen = new Set(await world.settle(Promise.all(looks)));
    expect([...seen]).toEqual(["completed submitted completed", "completed expired completed"]);
  });

  it("of a file that is put back before their deadline are answered", async () => {
    const { world, restart, path, mixed } = await waiting();
    const text = world.disk.text(path) ?? "";
    await world.settle(world.disk.remove(path));
    const tasks = await restart();
    await world.clock.advance(5 * 60_000);
    world.disk.put(path, text);
    await world.clock.advance(5 * 60_000);
    expect(await world.settle(tasks.task(PROJECT, mixed.id))).toMatchObject({
      counts: { completed: 5 },
      held: [],
    });
  });
});

describe("a retry of items that expired because their own stored lines were", () => {
  const mixed = [...Array.from({ length: 2 }, (_, index) => item(index + 1, 30)), item(3, 60)];
  const bent = (text: string) => text.replace("[[2]]", "[[9]]");

  async function expired(harm: (text: string) => string | undefined, ranMs = 60_000) {
    const world = new TaskWorld({ answer: (line) => (line === 3 ? ok(line) : "hang") });
    const submitted = submit(await world.tasks(), mixed);
    if (ranMs === 0) submitted.then(() => world.kill());
    const task = await world.settle(submitted);
    await world.clock.advance(ranMs);
    world.kill();
    world.answer = ok;
    const path = `/data/lots/${task.id}-0.jsonl`;
    const whole = world.disk.text(path) ?? "";
    const text = harm(whole);
    if (text === undefined) await world.settle(world.disk.remove(path));
    else world.disk.put(path, text);
    const tasks = await world.tasks();
    await world.clock.advance(31 * 60_000);
    const counts = async () => (await world.settle(tasks.task(PROJECT, task.id))).counts;
    expect(await counts()).toMatchObject({ submitted: 0, completed: 1, expired: 2 });
    const retry = () => world.settle(tasks.retry(PROJECT, task.id));
    return { world, task, path, whole, retry, counts };
  }

  it.each([
    ["missing", () => undefined, 60_000],
    ["missing before they were first read", () => undefined, 0],
    ["changed", bent, 60_000],
    ["cut", (text: string) => text.slice(0, 40), 60_000],
  ])("%s is refused, and accepted once they are put back", async (_how, harm, ranMs) => {
    const { world, task, path, whole, retry, counts } = await expired(harm, ranMs);
    const before = world.sent.length;
    for (let call = 0; call < 2; call += 1)
      await expect(retry()).rejects.toMatchObject({
        code: "file_damaged",
        message: expect.stringContaining(`lots/${task.id}-0.jsonl is not what was accepted`),
      });
    await world.clock.advance(120_000);
    expect(await counts()).toMatchObject({ submitted: 0, completed: 1, expired: 2 });
    expect(world.sent).toHaveLength(before);
    world.disk.put(path, whole);
    expect(await retry()).toMatchObject({ items: 2 });
    await world.clock.advance(60_000);
    expect(await counts()).toMatchObject({ completed: 3, expired: 0 });
  });
});

it("keeps showing the answers of a task whose lines were cut while they were read", async () => {
  const world = new TaskWorld({ config: { maxInFlight: 2 } });
  const open = world.disk.open.bind(world.disk);
  world.disk.open = async (path, mode) => {
    const file = await open(path, mode);
    const read = async (into: Uint8Array, position: number): Promise<number> => {
      await world.clock.sleep(50);
      return file.read(into.subarray(0, 4_096), position);
    };
    return path.startsWith("/data/lots/") && mode === "read" ? { ...file, read } : file;
  };
  const tasks = await world.tasks();
  const task = await world.settle(submit(tasks, large(1_200)));
  const counts = async () => (await world.settle(tasks.task(PROJECT, task.id))).counts;
  while ((await counts()).completed < 20) await world.clock.advance(50);
  await (await open(`/data/lots/${task.id}-0.jsonl`, "write")).truncate(60_000);
  await world.clock.advance(30_000);
  const { completed, submitted } = await counts();
  expect([completed >= 20, completed + submitted]).toEqual([true, 1_200]);
  await world.clock.advance(3_600_000);
  expect(await counts()).toMatchObject({ submitted: 0, failed: 0 });
});

describe("the answers of a task at work", () => {
  /** The third of 1,200 items is open. */
  async function atWork() {
    const world = new TaskWorld({ answer: (line) => (line === 3 ? "hang" : ok(line)) });
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, large(1_200)));
    await world.clock.advance(60_000);
    return { world, tasks, task, path: await outputPath(world) };
  }

  it.each([
    ["changed", (text: string) => text.replace('answer 7"', 'answer 8"'), 1],
    ["cut", (text: string) => text.slice(0, text.indexOf("\n") + 1), 1_198],
    ["emptied", () => "", 1_199],
    ["missing", () => undefined, 1_199],
  ])(
    "that are %s after a stop are errors and are not requested again; the rest is answered",
    async (_how, harm, count) => {
      const { world, task, path } = await atWork();
      world.kill();
      const text = harm(world.disk.text(path) ?? "");
      if (text === undefined) await world.settle(world.disk.remove(path));
      else world.disk.put(path, text);
      world.answer = ok;
      const before = world.sent.length;
      for (let start = 0; start < 2; start += 1) {
        const tasks = await world.tasks();
        await world.clock.advance(5_000);
        const broken = (await world.settle(linesOf(tasks, task.id))).filter(
          ({ error }) => error !== undefined,
        );
        expect(broken).toHaveLength(count);
        expect(broken.every(({ error }) => error?.code === "output_damaged")).toBe(true);
        expect(broken[0]?.error?.message).toContain(path.split("/").at(-1));
        const page = await world.settle(tasks.objects(PROJECT, task.id, { limit: 10 }));
        expect(page.items[2]).toMatchObject({ status: "completed", output: { text: "answer 3" } });
        expect(page.items[6]).toMatchObject({ status: "failed", error: { code: "output_damaged" } });
        expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({
          status: "completed",
          counts: { submitted: 0, completed: 1_200 },
        });
        world.kill();
      }
      expect(world.sent.slice(before).map(({ line }) => line)).toEqual([3]);
      expect(world.notices.filter((notice) => notice.includes(path.split("/").at(-1) ?? ""))).toHaveLength(1);
    },
  );

  it("are requested again by a retry, and only those", async () => {
    const { world, task, path } = await atWork();
    world.kill();
    world.disk.put(path, (world.disk.text(path) ?? "").replace('answer 7"', 'answer 8"'));
    world.answer = ok;
    const tasks = await world.tasks();
    await world.clock.advance(5_000);
    const before = world.sent.length;
    expect(await world.settle(tasks.retry(PROJECT, task.id))).toMatchObject({
      items: 1,
      task: { status: "submitted", counts: { submitted: 1, completed: 1_199 } },
    });
    await world.clock.advance(60_000);
    expect(world.sent.slice(before).map(({ line }) => line)).toEqual([7]);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({
      status: "completed",
      counts: { submitted: 0, completed: 1_200, failed: 0 },
    });
    const lines = await world.settle(linesOf(tasks, task.id));
    expect(lines.filter(({ error }) => error !== undefined)).toEqual([]);
    expect(lines).toHaveLength(1_200);
    expect(await world.settle(tasks.retry(PROJECT, task.id, ["output_damaged"]))).toMatchObject({ items: 0 });
  });

  it("are not requested again when their file is removed under the service", async () => {
    const { world, tasks, task, path } = await atWork();
    await world.settle(world.disk.remove(path));
    const before = world.sent.length;
    await world.clock.advance(2 * 3_600_000);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({
      status: "completed",
      counts: { submitted: 0, completed: 1_199, expired: 1 },
    });
    expect(world.sent.slice(before).filter(({ line }) => line !== 3)).toEqual([]);
    const lines = await world.settle(linesOf(tasks, task.id));
    expect(lines.map(({ error }) => error?.code)).toEqual(Array(1_200).fill("output_damaged"));
  });
});

it("counts answers once when their file was removed while another line was open", async () => {
  const world = new TaskWorld({ answer: (line) => (line === 3 ? "hang" : ok(line)) });
  const task = await world.settle(submit(await world.tasks(), large(1_200)));
  await world.clock.advance(60_000);
  world.kill();
  await world.settle(world.disk.remove(await outputPath(world)));
  const tasks = await world.tasks();
  await world.clock.advance(1_000);
  const seen = async () => (await world.settle(tasks.task(PROJECT, task.id))).counts;
  await seen();
  expect(await seen()).toMatchObject({ submitted: 1, completed: 1_199 });
  await world.clock.advance(3_600_000);
  const { submitted, completed, failed, expired, cancelled } = await seen();
  expect([submitted, completed + failed + expired + cancelled]).toEqual([0, 1_200]);
});
