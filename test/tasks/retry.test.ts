/**
 * Items of tasks that ended in an error and are run again: their new outcomes replace the errors, through kills.
 */
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { TaskEvent } from "../../src/tasks/shapes/tasks.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { mortal, ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld, textOf } from "./world.ts";

const items = (from: number, count: number, sla = 60) =>
  Array.from({ length: count }, (_, index) => item(from + index, sla));
const bad = status(400, "bad");

interface Line {
  readonly key: string;
  readonly output: { readonly text: string } | null;
  readonly error?: { readonly code: string; readonly line?: number };
}

async function linesOf(
  world: TaskWorld,
  tasks: OpenedTasks,
  id: string,
  view?: "answers" | "errors",
): Promise<Line[]> {
  const text = await world.settle(textOf(tasks, id, view));
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Line]));
}

const ask = (world: TaskWorld, tasks: OpenedTasks, id: string) => world.settle(tasks.task(PROJECT, id));
const again = (
  world: TaskWorld,
  tasks: OpenedTasks,
  id: string,
  codes?: readonly ("invalid_request" | "cancelled" | "empty_output" | "ambiguous")[],
) => world.settle(tasks.retry(PROJECT, id, codes));

/** Every third item is refused. */
const thirds = (line: number) => (line % 3 === 0 ? bad : ok(line));

describe("a retry of a task", () => {
  it("asks what may have been answered, where delivery is at most once, only when its code is named", async () => {
    const world = new TaskWorld({
      config: { delivery: "at_most_once" },
      answer: (line) => (line === 1 ? openaiAnswer("", { inputTokens: 10, outputTokens: 0 }) : status(500)),
    });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 2)));
    await world.clock.advance(30_000);
    expect(await ask(world, tasks, id)).toMatchObject({ counts: { failed: 2 } });
    expect(await again(world, tasks, id)).toMatchObject({ items: 0 });
    expect(await again(world, tasks, id, ["empty_output", "ambiguous"])).toMatchObject({ items: 2 });
  });

  it("that shares its lot runs its failed items alone again, and leaves the others as they are", async () => {
    const world = new TaskWorld({ answer: thirds });
    const tasks = await world.tasks();
    const [one, two] = await world.settle(
      Promise.all([submit(tasks, items(1, 6)), submit(tasks, items(11, 5))]),
    );
    await world.clock.advance(30_000);
    const id = one?.id ?? "";
    const before = await ask(world, tasks, id);
    expect(before).toMatchObject({ status: "completed", counts: { completed: 4, failed: 2 }, retries: 0 });
    const other = await ask(world, tasks, two?.id ?? "");
    const otherText = await world.settle(textOf(tasks, two?.id ?? ""));
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 10 }));
    world.answer = (line) => ok(line);
    const sent = world.sent.length;
    const { task, items: count } = await again(world, tasks, id, ["invalid_request"]);
    expect(count).toBe(2);
    expect(task).toMatchObject({ status: "submitted", counts: { submitted: 2, completed: 4, failed: 0 } });
    await world.clock.advance(30_000);
    expect(
      world.sent
        .slice(sent)
        .map(({ line }) => line)
        .sort(),
    ).toEqual([3, 6]);
    const after = await ask(world, tasks, id);
    expect(after).toMatchObject({ status: "completed", counts: { completed: 6, failed: 0 }, retries: 1 });
    expect(after.version).not.toBe(before.version);
    const { items: anew } = await world.settle(tasks.objects(PROJECT, id, { limit: 10 }));
    expect(anew.map(({ object_id }) => object_id)).toEqual(objects.map(({ object_id }) => object_id));
    expect(anew.map(({ output }) => output?.text)).toEqual(
      [1, 2, 3, 4, 5, 6].map((line) => `answer ${line}`),
    );
    expect((await linesOf(world, tasks, id)).map(({ key }) => key)).toEqual(
      objects.map(({ object_id }) => object_id),
    );
    expect(await linesOf(world, tasks, id, "errors")).toEqual([]);
    expect(await linesOf(world, tasks, id, "answers")).toHaveLength(6);
    expect(await ask(world, tasks, two?.id ?? "")).toEqual(other);
    expect(await world.settle(textOf(tasks, two?.id ?? ""))).toBe(otherText);
  });

  it("without codes runs what is marked retryable and what expired; with none of it, nothing changes", async () => {
    const world = new TaskWorld({ answer: (line) => (line === 1 ? "hang" : thirds(line)) });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 4, 1)));
    await world.clock.advance(120_000);
    expect((await ask(world, tasks, id)).counts).toMatchObject({ completed: 2, failed: 1, expired: 1 });
    world.answer = thirds;
    const { items: count, task } = await again(world, tasks, id);
    expect(count).toBe(1);
    expect(task.deadlineWallMs).toBe(world.clock.wallMs() + 60_000); // its window begins anew
    await world.clock.advance(120_000);
    const end = await ask(world, tasks, id);
    expect(end.counts).toMatchObject({ completed: 3, failed: 1, expired: 0 });
    const sent = world.sent.length;
    expect(await again(world, tasks, id)).toEqual({ task: end, items: 0 });
    await world.clock.advance(120_000);
    expect(world.sent).toHaveLength(sent);
    await expect(again(world, tasks, id, ["invalid_reqest" as "invalid_request"])).rejects.toThrow(
      'codes: "invalid_reqest" is not the code of an error; did you mean "invalid_request"?',
    );
  });

  it("with lots of its own replaces their lines, again and again", async () => {
    const world = new TaskWorld({ answer: thirds });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, [...items(1, 20), ...items(21, 10, 120)]));
    await world.clock.advance(60_000);
    expect((await ask(world, tasks, id)).counts).toMatchObject({ completed: 20, failed: 10 });
    const keys = (await linesOf(world, tasks, id)).map(({ key }) => key).sort();
    world.answer = (line) => (line % 6 === 0 ? bad : ok(line));
    expect((await again(world, tasks, id, ["invalid_request"])).items).toBe(10);
    await world.clock.advance(60_000);
    expect((await ask(world, tasks, id)).counts).toMatchObject({ completed: 25, failed: 5 });
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 100 }));
    expect(objects.filter(({ error }) => error !== null)).toHaveLength(5);
    expect(await linesOf(world, tasks, id, "errors")).toHaveLength(5);
    world.answer = (line) => ok(line);
    expect((await again(world, tasks, id, ["invalid_request"])).items).toBe(5);
    await world.clock.advance(60_000);
    const end = await ask(world, tasks, id);
    expect(end).toMatchObject({ status: "completed", counts: { completed: 30, failed: 0 }, retries: 4 });
    const lines = await linesOf(world, tasks, id);
    expect(lines.map(({ key }) => key).sort()).toEqual(keys);
    expect(lines.every(({ output }) => output !== null)).toBe(true);
    const { bytes } = await world.settle(tasks.output(PROJECT, id));
    expect(bytes).toBe((await world.settle(textOf(tasks, id))).length);
  });

  it("keeps the line numbers of a file, and says that a removed file cannot be read again", async () => {
    const world = new TaskWorld({ answer: thirds });
    world.file("f1", 30); // a blank line before every tenth
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, [{ file_id: "f1", sla: 60 }]));
    await world.clock.advance(60_000);
    const errors = await linesOf(world, tasks, id, "errors");
    expect(errors).toHaveLength(10);
    await again(world, tasks, id, ["invalid_request"]);
    await world.clock.advance(60_000);
    const anew = await linesOf(world, tasks, id, "errors");
    const places = (lines: Line[]) => lines.map(({ key, error }) => `${key} ${error?.line}`).sort();
    expect(places(anew)).toEqual(places(errors));
    expect(new Set((await linesOf(world, tasks, id)).map(({ key }) => key)).size).toBe(30);
    world.unfile("f1");
    await expect(again(world, tasks, id, ["invalid_request"])).rejects.toMatchObject({
      code: "conflict",
      message: "the file f1 of the task was removed: upload its lines again and submit them",
    });
  });

  it("runs again what was cancelled only where that is asked for by its code; it is then cancelled no more", async () => {
    const world = new TaskWorld({ config: { limits: { alpha: { requestsPerMinute: 2 } } } });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 5)));
    await world.clock.advance(2_000);
    await world.settle(tasks.cancel(PROJECT, id));
    const cancelled = await ask(world, tasks, id);
    expect(cancelled.isCancelled).toBe(true);
    const sent = world.sent.length;
    expect(await again(world, tasks, id)).toEqual({ task: cancelled, items: 0 });
    await world.clock.advance(600_000);
    expect(world.sent).toHaveLength(sent);
    const { task, items: count } = await again(world, tasks, id, ["cancelled"]);
    expect(count).toBeGreaterThanOrEqual(2);
    expect(task).toMatchObject({ status: "submitted", isCancelled: false, totalItems: 5 });
    await world.clock.advance(600_000);
    expect(await ask(world, tasks, id)).toMatchObject({ status: "completed", counts: { completed: 5 } });
    expect((await linesOf(world, tasks, id)).map(({ output }) => output?.text).sort()).toEqual(
      [1, 2, 3, 4, 5].map((line) => `answer ${line}`),
    );
  });

  it("may be asked for while other items are at work, can be cancelled, and is told at its end", async () => {
    const events: TaskEvent[] = [];
    const world = new TaskWorld({
      answer: (line) => (line === 1 ? bad : { afterMs: 40_000, result: ok(line) }),
    });
    const tasks = await world.tasks();
    tasks.onFinished((event) => void events.push(event));
    const { id } = await world.settle(submit(tasks, items(1, 3)));
    await world.clock.advance(5_000);
    world.answer = () => "hang";
    expect((await again(world, tasks, id, ["invalid_request"])).items).toBe(1);
    expect((await again(world, tasks, id, ["invalid_request"])).items).toBe(0); // it is at work
    await world.clock.advance(60_000);
    expect(events).toEqual([]); // the other two are answered, the first is not
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(3_600_000);
    expect(await ask(world, tasks, id)).toMatchObject({ isCancelled: true, counts: { completed: 2 } });
    expect(events.map(({ taskId }) => taskId)).toEqual([id]);
  });

  it("has the deadline of the items that are still open, over a restart too, and shows it", async () => {
    const world = new TaskWorld({ answer: (line) => (line === 1 ? bad : "hang") });
    const tasks = await world.tasks();
    const { id, deadlineWallMs = 0 } = await world.settle(submit(tasks, items(1, 3, 10)));
    await world.clock.advance(300_000);
    world.answer = () => "hang";
    const { task, items: count } = await again(world, tasks, id, ["invalid_request"]);
    expect({ count, deadlineWallMs: task.deadlineWallMs }).toEqual({ count: 1, deadlineWallMs });
    world.kill();
    const later = await world.tasks();
    await world.clock.advance(deadlineWallMs - world.clock.wallMs() - 10_000);
    expect(await ask(world, later, id)).toMatchObject({ deadlineWallMs, counts: { submitted: 3 } });
    await world.clock.advance(60_000);
    const end = await ask(world, later, id);
    expect(end).toMatchObject({ deadlineWallMs, counts: { expired: 3 } });
    expect((await again(world, later, id)).task.deadlineWallMs).toBe(world.clock.wallMs() + 600_000);
  });

  it.each([
    ["that is final", false, false],
    ["whose other items are at work", true, false],
    ["that is final, over a restart", false, true],
    ["whose other items are at work, over a restart", true, true],
  ])("of a small task %s keeps what earlier attempts took, once", async (_, isOpen, isRestarted) => {
    const world = new TaskWorld({
      config: {
        prices: { "*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 2_000, asOf: "2026-11-01" } },
      },
      answer: (line, attempt) => {
        if (line === 1) return attempt === 1 ? status(500) : bad;
        return isOpen ? { afterMs: 1_200_000, result: ok(line) } : ok(line);
      },
    });
    let tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 2)));
    await world.clock.advance(60_000);
    const first = async () => (await world.settle(tasks.objects(PROJECT, id, { limit: 1 }))).items[0];
    const before = await first();
    expect(before).toMatchObject({ error: { attempts: 2, ambiguous_attempts: 1 } });
    const doubtUsd = before?.cost?.ambiguous_usd ?? 0;
    expect(doubtUsd).toBeGreaterThan(0);
    const { usage } = await ask(world, tasks, id);
    world.answer = (line) => ({ afterMs: 5_000, result: ok(line) });
    await again(world, tasks, id, ["invalid_request"]);
    expect((await ask(world, tasks, id)).usage).toEqual(usage);
    if (isRestarted) {
      world.kill();
      tasks = await world.settle(world.tasks());
      expect((await ask(world, tasks, id)).usage).toEqual(usage);
    }
    await world.clock.advance(1_800_000);
    const view = await ask(world, tasks, id);
    expect(view).toMatchObject({ status: "completed", counts: { completed: 2 } });
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 2 }));
    const costOf = (name: "billed_usd" | "ambiguous_usd"): number =>
      objects.reduce((sum, { cost }) => sum + (cost?.[name] ?? 0), 0);
    expect(view.usage.ambiguousUsd).toBeCloseTo(costOf("ambiguous_usd"), 9);
    expect(view.usage.billedUsd).toBeCloseTo(costOf("billed_usd"), 9);
    expect(objects[0]?.cost?.ambiguous_usd).toBeGreaterThanOrEqual(doubtUsd);
    expect(objects[0]?.attempts).toBeGreaterThanOrEqual(3);
    const text = await world.settle(textOf(tasks, id));
    const line = JSON.parse(text.split("\n").find((each) => each.includes("answer 1")) ?? "{}");
    expect(line).toMatchObject({ attempts: objects[0]?.attempts, cost: objects[0]?.cost });
  });

  it("gives an item as many requests as a new one, beside those that it had", async () => {
    const empty = openaiAnswer("", { inputTokens: 10, outputTokens: 0 });
    const world = new TaskWorld({ answer: () => empty });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 1)));
    await world.clock.advance(60_000);
    const only = async () => (await world.settle(tasks.objects(PROJECT, id, { limit: 1 }))).items[0];
    expect(await only()).toMatchObject({ error: { code: "empty_output", attempts: 2 } });
    world.answer = (line) => (world.sent.length < 4 ? empty : ok(line));
    await again(world, tasks, id, ["empty_output"]);
    expect((await only())?.phase).not.toBe("retrying");
    await world.clock.advance(60_000);
    expect(await only()).toMatchObject({ status: "completed", attempts: 4 });
  });

  it.each(["expired", "cancelled"] as const)(
    "of some items ends when these do, whatever the window of items is that had %s before",
    async (ending) => {
      const world = new TaskWorld({ answer: (line) => (line === 1 ? bad : "hang") });
      const tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, items(1, 3, 1)));
      await world.clock.advance(5_000);
      if (ending === "cancelled") await world.settle(tasks.cancel(PROJECT, id));
      await world.clock.advance(1_800_000);
      const first = await ask(world, tasks, id);
      expect(first).toMatchObject({ status: "completed", counts: { failed: 1 } });
      expect(first.finishedWallMs).toBeLessThanOrEqual(world.clock.wallMs());
      for (let round = 0; round < 2; round += 1) {
        const sinceMs = world.clock.wallMs();
        await again(world, tasks, id, ["invalid_request"]);
        await world.clock.advance(3_000);
        const { status: end, finishedWallMs = 0 } = await ask(world, tasks, id);
        expect(end).toBe("completed");
        expect(finishedWallMs).toBeGreaterThanOrEqual(sinceMs);
        expect(finishedWallMs).toBeLessThanOrEqual(world.clock.wallMs());
      }
    },
  );

  it("leaves nothing of it when the task is removed", async () => {
    const world = new TaskWorld({ answer: thirds });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, [...items(1, 5), ...items(6, 4, 120)]));
    await world.clock.advance(60_000);
    await again(world, tasks, id, ["invalid_request"]);
    await world.clock.advance(60_000);
    await world.settle(tasks.remove(PROJECT, id));
    expect(world.disk.paths.filter((path) => /\/(lots|tasks)\//.test(path))).toEqual([]);
  });
});

describe("a retry through kills", () => {
  it("has exactly one line for each item at every moment, and answers each that failed once", async () => {
    for (let seed = 1; seed <= 8; seed += 1) {
      const random = createRandom(seed);
      const world = new TaskWorld({ answer: thirds, latencyMs: 40 });
      let process = mortal(world.clock);
      let tasks = await world.tasks(process.clock, process);
      const small = await world.settle(submit(tasks, items(1, 9)));
      const large = await world.settle(submit(tasks, [...items(11, 20), ...items(31, 9, 120)]));
      await world.clock.advance(60_000);
      const ids = [small.id, large.id];
      const keys: string[][] = [];
      for (const id of ids) keys.push((await linesOf(world, tasks, id)).map(({ key }) => key).sort());
      const sent = world.sent.length;
      world.answer = (line) => ok(line);
      const asked = ids.map((id) => tasks.retry(PROJECT, id, ["invalid_request"]).catch(() => undefined));
      for (let kill = 0; kill < 5; kill += 1) {
        await world.clock.advance(Math.floor(random() * 60));
        process.kill();
        world.kill({ powerCut: random() < 0.5, random });
        process = mortal(world.clock);
        tasks = await world.settle(world.tasks(process.clock, process));
        for (const [index, id] of ids.entries()) {
          const { counts, totalItems } = await ask(world, tasks, id);
          expect(Object.values(counts).reduce((sum, each) => sum + each, 0)).toBe(totalItems);
          expect(counts.completed).toBeGreaterThanOrEqual((totalItems * 2) / 3 - 1);
          const now = (await linesOf(world, tasks, id)).map(({ key }) => key);
          expect(new Set(now).size).toBe(now.length);
          expect(now.every((key) => keys[index]?.includes(key))).toBe(true);
        }
      }
      void asked;
      for (const id of ids) await again(world, tasks, id, ["invalid_request"]); // asked again where it was not durable
      await world.clock.advance(120_000);
      for (const [index, id] of ids.entries()) {
        expect(await ask(world, tasks, id)).toMatchObject({ status: "completed", counts: { failed: 0 } });
        const lines = await linesOf(world, tasks, id);
        expect(lines.map(({ key }) => key).sort()).toEqual(keys[index]);
        expect(lines.every(({ output }) => output !== null)).toBe(true);
      }
      const lines = new Set(world.sent.slice(sent).map(({ line }) => line));
      expect([...lines].every((line) => line % 3 === 0)).toBe(true);
    }
  });
});
