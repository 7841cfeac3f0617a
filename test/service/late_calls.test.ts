/** Calls of OpenAI's clients, without sla and key, whose ten minutes are over: what they are answered once their task is cancelled. */
import { expect, it } from "vitest";
import { answeredOf } from "../../src/service/front/calls.ts";
import { StatedError } from "../../src/service/http/errors.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { openaiError } from "../../src/testing/index.ts";
import { ok, type Reply } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "../tasks/world.ts";

const MINUTE = 60_000;
const LATE =
  "the call was not answered in time, so it was cancelled; send calls with an Idempotency-Key to fetch late answers";

interface Late {
  readonly world: TaskWorld;
  readonly tasks: OpenedTasks;
  /** Of the call, after its ten minutes. */
  readonly view: TaskView;
}

/** The provider takes one request at a time, and is answering another one if `isQueued`. */
async function late(reply: (line: number) => Reply, isQueued = false): Promise<Late> {
  const world = new TaskWorld({ config: { attemptMsMax: 60 * MINUTE, maxInFlight: 1 }, answer: reply });
  const tasks = await world.tasks();
  const other = isQueued ? submit(tasks, [item(1)]) : undefined;
  await world.clock.advance(1_000);
  const view = await world.settle(submit(tasks, [item(2)]));
  await other;
  expect(view).toMatchObject({ status: "submitted", held: [] });
  return { world, tasks, view };
}

interface Answering {
  readonly isStopping?: boolean;
  /** Passes once the task is cancelled, before its object is read. */
  readonly betweenMs?: number;
}

/** How the call ends: with its text, or with status, code, message and whether and when it is to be repeated. */
async function endOf(
  { world, tasks, view }: Late,
  { isStopping = false, betweenMs = 0 }: Answering = {},
): Promise<unknown> {
  const seen: Pick<OpenedTasks, "cancel" | "objects"> = {
    cancel: async (project, id) => {
      const cancelled = await tasks.cancel(project, id);
      await world.clock.advance(betweenMs);
      return cancelled;
    },
    objects: (...given) => tasks.objects(...given),
  };
  const context = { tasks: seen as OpenedTasks, clock: world.clock, isStopping: () => isStopping }; // no more is used
  try {
    return (await answeredOf(context, view)).object.output.text;
  } catch (error) {
    if (!(error instanceof StatedError)) throw error;
    const { status, headers, error: body } = error.answer;
    return [status, body.code, body.message, headers];
  }
}

const hang = (): Reply => "hang";
const NO_RETRY = { "x-should-retry": "false" };

it("is refused with 408 where its item was still in the queue, because the service is overloaded and goes on", async () => {
  expect(await endOf(await late(hang, true))).toEqual([408, "not_ready", LATE, NO_RETRY]);
});

it("is refused with 503 and repeated where its item was still in the queue, and the service stops", async () => {
  const call = await late(hang, true);
  const unsent = "the call was cancelled before it was sent; repeat it";
  expect(await endOf(call, { isStopping: true })).toEqual([
    503,
    "unavailable",
    unsent,
    { "retry-after": "1" },
  ]);
});

it("is not repeated where its item was sent, says that it was cancelled, and its task says the same", async () => {
  for (const isStopping of [false, true]) {
    const call = await late(hang);
    expect(await endOf(call, { isStopping })).toEqual([408, "not_ready", LATE, NO_RETRY]);
    expect(await call.world.settle(call.tasks.task(PROJECT, call.view.id))).toMatchObject({
      isCancelled: true,
    });
  }
});

it("gets the answer that arrives while its task is cancelled", async () => {
  const call = await late((line) => ({ afterMs: 11 * MINUTE, result: ok(line) }));
  expect(await endOf(call, { betweenMs: 2 * MINUTE })).toBe("answer 2");
});

it("gets the refusal of the provider that arrives while its task is cancelled", async () => {
  const refused = openaiError(400, { code: "invalid_value", message: "no such voice" });
  const call = await late(() => ({ afterMs: 11 * MINUTE, result: refused }));
  expect(await endOf(call, { betweenMs: 2 * MINUTE })).toEqual([
    400,
    "invalid_request",
    "alpha answered 400 (invalid_value): the request was refused",
    NO_RETRY,
  ]);
});
