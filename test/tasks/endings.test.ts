import { describe, expect, it } from "vitest";
import { openaiAnswer } from "../../src/testing/scripted_transport.ts";
import { ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld, textOf } from "./world.ts";

const items = (from: number, count: number, sla?: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, sla));
const DAYS_20_MS = 20 * 86_400_000;

describe("a cancelled task", () => {
  it("that shares its lot sends nothing more, keeps what was answered, and leaves the others alone", async () => {
    const world = new TaskWorld({ latencyMs: 1_000, config: { limits: { alpha: { concurrency: 2 } } } });
    const tasks = await world.tasks();
    const [first, second] = await world.settle(
      Promise.all([submit(tasks, items(1, 6, 60)), submit(tasks, items(11, 3, 60))]),
    );
    await world.clock.advance(1_400); // two are answered or in flight
    const cancelled = await world.settle(tasks.cancel(PROJECT, first?.id ?? ""));
    expect(cancelled).toMatchObject({ isCancelled: true, totalItems: 6 });
    expect(cancelled.counts.cancelled).toBeGreaterThanOrEqual(2);
    await world.clock.advance(60_000);
    const end = await world.settle(tasks.task(PROJECT, first?.id ?? ""));
    const { completed, cancelled: unsent } = end.counts;
    expect(end.status).toBe("completed");
    expect(completed + unsent).toBe(6);
    expect(world.sent.filter(({ line }) => line < 10).length).toBe(completed);
    const other = await world.settle(tasks.task(PROJECT, second?.id ?? ""));
    expect(other.counts).toMatchObject({ completed: 3 });
    const lines = (await world.settle(textOf(tasks, end.id))).trimEnd().split("\n");
    expect(lines).toHaveLength(6);
    expect(lines.filter((line) => line.includes('"code":"cancelled"'))).toHaveLength(unsent);
    expect((await world.settle(textOf(tasks, end.id, "errors"))).trimEnd().split("\n")).toHaveLength(unsent);
  });

  it("stays cancelled over a kill, and is told as final once", async () => {
    const world = new TaskWorld({ latencyMs: 10, config: { limits: { alpha: { requestsPerMinute: 2 } } } });
    let tasks = await world.tasks();
    const task = await world.settle(submit(tasks, items(1, 5, 60)));
    await world.clock.advance(2_000);
    await world.settle(tasks.cancel(PROJECT, task.id));
    world.kill();
    tasks = await world.settle(world.tasks());
    await world.clock.advance(600_000);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({
      status: "completed",
      isCancelled: true,
    });
    expect(world.sent.length).toBeLessThan(5);
  });

  it("with lots of its own ends them", async () => {
    const world = new TaskWorld({ latencyMs: 1_000, config: { limits: { alpha: { concurrency: 2 } } } });
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, [...items(1, 20, 60), ...items(21, 20, 120)]));
    await world.clock.advance(2_500);
    await world.settle(tasks.cancel(PROJECT, task.id));
    await world.clock.advance(10_000);
    const end = await world.settle(tasks.task(PROJECT, task.id));
    expect(end.status).toBe("completed");
    expect(end.counts.completed + end.counts.cancelled).toBe(40);
    expect(end.counts.cancelled).toBeGreaterThan(20);
    expect((await world.settle(textOf(tasks, task.id))).trimEnd().split("\n")).toHaveLength(40);
  });
});

describe("after a restart", () => {
  it("nothing that was told is taken back, at whatever moment somebody asks", async () => {
    const world = new TaskWorld({ latencyMs: 100, config: { limits: { alpha: { concurrency: 2 } } } });
    let tasks = await world.tasks();
    const both = await world.settle(
      Promise.all([
        submit(tasks, items(1, 30, 60)),
        submit(tasks, [...items(31, 20, 60), ...items(51, 2, 90)]),
      ]),
    );
    await world.clock.advance(1_000);
    const before = await world.settle(Promise.all(both.map(({ id }) => tasks.task(PROJECT, id))));
    world.kill();
    tasks = await world.settle(world.tasks());
    for (const { id, counts } of before) {
      const task = await world.settle(tasks.task(PROJECT, id));
      expect(task.counts.completed).toBeGreaterThanOrEqual(counts.completed);
    }
    expect(before.some(({ counts }) => counts.completed > 0)).toBe(true);
  });
});

describe("a task on a file", () => {
  const FILE = "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001";

  it("has an object for every line that is not blank, and answers under the file's keys", async () => {
    const world = new TaskWorld();
    world.file(FILE, 1_050);
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, [{ file_id: FILE, sla: 60 }]));
    expect(task.totalItems).toBe(1_050);
    expect(world.holds.get(FILE)).toBe(1);
    await world.clock.advance(60_000);
    const page = await world.settle(tasks.objects(PROJECT, task.id, { limit: 1_000 }));
    const after = page.items.at(-1)?.object_id ?? "";
    const rest = await world.settle(tasks.objects(PROJECT, task.id, { limit: 1_000, after }));
    const texts = [...page.items, ...rest.items].map((object) => object.output?.text);
    expect(texts).toEqual(Array.from({ length: 1_050 }, (_, index) => `answer ${index + 1}`));
    const keys = (await world.settle(textOf(tasks, task.id)))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).key);
    expect(new Set(keys)).toEqual(new Set(Array.from({ length: 1_050 }, (_, index) => `k${index + 1}`)));
    expect(world.holds.get(FILE)).toBe(0);
    const answered = [];
    for await (const line of tasks.answers(PROJECT, task.id)) answered.push(line);
    expect(answered).toHaveLength(1_050);
    expect(answered[0]).toMatchObject({ usage: { input_tokens: 10, output_tokens: 5 }, error: null });
  });

  it("is refused when the file is not the project's", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    await expect(submit(tasks, [{ file_id: FILE, sla: 60 }])).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("an item", () => {
  it("that fails tells why, without the number of a line that its caller never saw", async () => {
    const world = new TaskWorld({ answer: (line) => (line === 2 ? status(400, "bad_request") : ok(line)) });
    const tasks = await world.tasks();
    await world.settle(submit(tasks, items(7, 3)));
    const task = await world.settle(submit(tasks, items(1, 2)));
    const [, failed] = (await world.settle(tasks.objects(PROJECT, task.id, { limit: 5 }))).items;
    expect(failed).toMatchObject({ status: "failed", error: { code: "invalid_request", attempts: 1 } });
    expect(failed?.error).not.toHaveProperty("line");
    expect(await world.settle(textOf(tasks, task.id, "errors"))).not.toContain('"line"');
  });

  it("whose sla passes ends as expired within a second", async () => {
    const world = new TaskWorld({ answer: () => "hang", config: { limits: { alpha: { concurrency: 1 } } } });
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, items(1, 3, 1)));
    await world.clock.advance(61_000);
    const { counts } = await world.settle(tasks.task(PROJECT, task.id));
    expect(counts.expired).toBeGreaterThanOrEqual(2);
  });
});

describe("a project with a cap", () => {
  const config = {
    prices: { "alpha:m1": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 } },
  };

  const short = (from: number, count: number) =>
    items(from, count, 43_200).map((one) => ({ ...one, max_tokens: 512 }));

  it("is refused work that would go beyond it, and its money is free again when work ends cheaper", async () => {
    const world = new TaskWorld({ config });
    world.capUsd = 3; // providers are expected to bill about half a dollar for one item
    const tasks = await world.tasks();
    await world.settle(submit(tasks, short(1, 2)));
    const refused = expect(submit(tasks, short(3, 6))).rejects.toMatchObject({
      code: "budget_exceeded",
    });
    await world.settle(refused);
    await world.clock.advance(60_000); // answered: ten tokens in and five out, each
    const task = await world.settle(submit(tasks, short(11, 4)));
    expect(task.totalItems).toBe(4);
  });

  it("is refused the same by the next process, which counts what was under way as in doubt", async () => {
    const world = new TaskWorld({ config });
    world.capUsd = 3;
    let tasks = await world.tasks();
    await world.settle(submit(tasks, short(1, 2)));
    await world.clock.advance(250); // until they are sent
    world.kill();
    tasks = await world.settle(world.tasks());
    await world.settle(expect(submit(tasks, short(3, 6))).rejects.toMatchObject({ code: "budget_exceeded" }));
    await world.clock.advance(60_000); // answered, after two requests of half a dollar in doubt
    await world.settle(
      expect(submit(tasks, short(11, 4))).rejects.toMatchObject({ code: "budget_exceeded" }),
    );
    const task = await world.settle(submit(tasks, short(11, 2)));
    expect(task.totalItems).toBe(2);
  });
});

describe("a project whose work costs more than was expected", () => {
  const config = {
    prices: { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } },
  };
  const costly = (line: number) => openaiAnswer(`answer ${line}`, { inputTokens: 10, outputTokens: 990 });

  it("is held when its month's cap is used up, visibly, and goes on when the next month begins", async () => {
    const world = new TaskWorld({ config, answer: costly });
    world.capUsd = 3;
    const tasks = await world.tasks();
    await world.clock.advance(DAYS_20_MS);
    const { id } = await world.settle(submit(tasks, items(1, 50, 43_200)));
    await world.clock.advance(3_600_000);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view.held).toMatchObject([
      { reason: "cap_reached", next_try: null, items: view.counts.submitted },
    ]);
    expect(view.usage.billedUsd + view.usage.ambiguousUsd).toBeLessThanOrEqual(3);
    expect(view.usage.billedUsd).toBeGreaterThan(2.5); // a request may take 0.41
    await world.clock.advance(DAYS_20_MS);
    expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({
      counts: { completed: 50 },
      held: [],
    });
    expect(world.sent).toHaveLength(50);
  });
});

describe("work that cannot be done in time", () => {
  const config = { limits: { alpha: { requestsPerMinute: 60 } } };

  it("is refused with the earliest sla that can be kept, which then is accepted and kept", async () => {
    const world = new TaskWorld({ config });
    const tasks = await world.tasks();
    const many = (sla: number) => submit(tasks, items(1, 600, sla));
    const error = await world.settle(many(5).catch((reason: unknown) => reason));
    expect(error).toMatchObject({
      code: "sla_infeasible",
      details: { earliestSlaMinutes: expect.any(Number) },
    });
    const { earliestSlaMinutes } = (error as { details: { earliestSlaMinutes: number } }).details;
    expect(earliestSlaMinutes).toBeGreaterThanOrEqual(10);
    expect(earliestSlaMinutes).toBeLessThanOrEqual(12);
    const task = await world.settle(many(earliestSlaMinutes));
    await world.clock.advance(earliestSlaMinutes * 60_000);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({ counts: { completed: 600 } });
  });

  it("counts what was accepted a moment ago and nobody has read yet", async () => {
    const world = new TaskWorld({ config });
    const tasks = await world.tasks();
    const posts = Array.from({ length: 5 }, (_, post) =>
      world.clock.sleep(post * 120).then(() => submit(tasks, items(1 + post * 100, 100, 5))),
    );
    const ends = await world.settle(Promise.allSettled(posts));
    expect(ends.filter(({ status: end }) => end === "fulfilled")).toHaveLength(2); // of nearly 300 in five minutes
  });

  it("counts a file that is being submitted once", async () => {
    const id = "00000000-0000-4000-8000-000000000001";
    const world = new TaskWorld({ config });
    world.file(id, 600);
    const tasks = await world.tasks();
    const submitFile = (sla: number) =>
      tasks.submit(PROJECT, { items: [{ file_id: id, sla }], hasOutputFile: true });
    const task = await world.settle(submitFile(15));
    expect(task.totalItems).toBe(600);
    await world.settle(expect(submitFile(15)).rejects.toMatchObject({ code: "sla_infeasible" }));
    await world.clock.advance(15 * 60_000);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({ counts: { completed: 600 } });
  });

  it("is not waited for when it wants to be done at once", async () => {
    const world = new TaskWorld({ config });
    const tasks = await world.tasks();
    await world.settle(
      expect(submit(tasks, items(1, 300))).rejects.toMatchObject({ code: "sla_infeasible" }),
    );
  });
});

describe("an answer without text", () => {
  it("is asked for twice in all, also when the process ends in between", async () => {
    const world = new TaskWorld({ answer: () => openaiAnswer("", { inputTokens: 10, outputTokens: 20 }) });
    let tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 1, 60)));
    await world.clock.advance(300);
    expect(world.sent).toHaveLength(1);
    world.kill();
    tasks = await world.settle(world.tasks());
    await world.clock.advance(60_000);
    expect(world.sent).toHaveLength(2);
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 10 }));
    expect(objects[0]?.error).toMatchObject({ code: "empty_output", attempts: 2 });
  });
});

describe("an item that is tried again", () => {
  it("says that its key was refused", async () => {
    const world = new TaskWorld({ answer: () => status(401, "invalid_api_key") });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 1, 60)));
    await world.clock.advance(5_000);
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 1 }));
    const last_error = { code: "authentication_failed", provider_status: 401 };
    expect(objects[0]).toMatchObject({ status: "submitted", phase: "retrying", last_error });
  });

  it("says how its last request failed until the next one is sent, also after a restart", async () => {
    const world = new TaskWorld({
      answer: (_line, attempt) => (attempt === 1 ? status(429, "slow", { "retry-after": "600" }) : "hang"),
    });
    let tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 1, 60)));
    const look = async () => (await world.settle(tasks.objects(PROJECT, id, { limit: 1 }))).items[0];
    await world.clock.advance(5_000);
    const last_error = { code: "rate_limited", provider_status: 429 };
    expect(await look()).toMatchObject({ status: "submitted", phase: "retrying", last_error });
    world.kill();
    tasks = await world.settle(world.tasks());
    expect(await look()).toMatchObject({ status: "submitted", phase: "retrying", last_error });
    for (let round = 0; round < 100 && world.sent.length < 2; round += 1) await world.clock.advance(10_000);
    const running = await look();
    expect(running).toMatchObject({ status: "submitted", phase: "running" });
    expect(running).not.toHaveProperty("last_error");
  });
});

describe("an item that expires while it waits to be tried again", () => {
  it("says how its last request failed, and one that was never sent does not", async () => {
    const world = new TaskWorld({
      answer: () => status(503),
      config: { limits: { alpha: { concurrency: 1 } } },
    });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 40, 1)));
    await world.clock.advance(120_000);
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 40 }));
    const passed = "the sla passed before the item was answered";
    const failed = `${passed}; its last request failed (overloaded, HTTP 503)`;
    const errors = objects.map(({ error }) => error);
    const tried = errors.filter((error) => error !== null && error.attempts > 0);
    expect(tried.length).toBeGreaterThan(0);
    expect(tried.length).toBeLessThan(40);
    for (const error of tried)
      expect(error).toMatchObject({ code: "expired", message: failed, provider_status: 503 });
    for (const error of errors.filter((each) => each?.attempts === 0))
      expect(error).toMatchObject({ code: "expired", message: passed });
  });
});
