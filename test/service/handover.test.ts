/** A service that hands its work over: what is in flight ends, clients are answered meanwhile, and nothing new is sent. */
import type { ServerResponse } from "node:http";
import { afterEach, expect, it } from "vitest";
import type { Handover } from "../../src/service/perigee_service.ts";
import { type FrontWorld, openFront, sendJson } from "./front_world.ts";

let world: FrontWorld | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

interface HandedOver {
  readonly call: FrontWorld["call"];
  readonly handover: Handover;
  /** Resolves when the provider has received so many requests. */
  received(count: number): Promise<void>;
  /** Has the provider answer the oldest request. */
  answer(): void;
}

/** A provider that answers when the test says so, one request at a time. */
async function opened(): Promise<HandedOver> {
  const waiting: ServerResponse[] = [];
  let tell = (): void => undefined;
  let handover: Handover | undefined;
  const opening = openFront(
    (_request, response) => {
      waiting.push(response);
      tell();
    },
    { maxInFlight: 1 },
    {
      onHandover: (given) => {
        handover = given;
      },
    },
  );
  const open = await opening;
  world = open;
  const answer = (): void => {
    const choices = [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }];
    const response = waiting.shift();
    if (response !== undefined)
      sendJson(response, { id: "c", choices, usage: { prompt_tokens: 5, completion_tokens: 1 } });
  };
  const received = async (count: number): Promise<void> => {
    while (open.received.length < count)
      await new Promise<void>((resolve) => {
        tell = resolve;
      });
  };
  return { call: open.call, handover: handover as Handover, received, answer }; // it was received
}

const item = { method: "POST", body: JSON.stringify([{ model: "openai:gpt-4.1-mini", input: "hi" }]) };
const chat = {
  method: "POST",
  body: JSON.stringify({ model: "openai:gpt-4.1-mini", messages: [{ role: "user", content: "hi" }] }),
};
const statusOf = async (answered: Promise<Response>): Promise<unknown> =>
  ((await (await answered).json()) as { status: string }).status;
const openTasks = async (listed: Response): Promise<number> =>
  ((await listed.json()) as { tasks: unknown[] }).tasks.length;

it("ends what is in flight, whose client gets the answer, and accepts what it leaves to the next process", async () => {
  const { call, handover, received, answer } = await opened();
  const first = call("/v0/infer/", item);
  await received(1);
  const queued = call("/v0/infer/", item);
  let isDrained = false;
  const drained = handover.drained(new AbortController().signal).then(() => {
    isDrained = true;
  });
  expect(await statusOf(queued)).toBe("submitted");
  expect(await statusOf(call("/v0/infer/", item))).toBe("submitted");
  expect((await call("/v0/infer/tasks")).status).toBe(200);
  expect(isDrained).toBe(false);
  answer();
  expect(await statusOf(first)).toBe("completed");
  await drained;
  expect(world?.received.length).toBe(1);
});

it("answers every client when it waits no longer: with the task as it is, or with what it may do about its call", async () => {
  const { call, handover, received, answer } = await opened();
  const first = call("/v0/infer/", item);
  await received(1);
  const late = call("/v1/chat/completions", { ...chat, headers: { "x-perigee-sla": "30m" } });
  const unsent = call("/v1/chat/completions", chat);
  const over = new AbortController();
  const drained = handover.drained(over.signal);
  const refused = await unsent; // its item was not sent, and is not
  expect([refused.status, refused.headers.get("retry-after"), refused.headers.get("x-should-retry")]).toEqual(
    [503, "1", null],
  );
  over.abort();
  await drained;
  handover.release();
  expect(await statusOf(first)).toBe("submitted");
  expect((await late).status).toBe(408);
  expect(world?.received.length).toBe(1);
  answer();
});

it("answers every client without being drained first, such as for a store that is lost, and sends nothing more", async () => {
  const { call, handover, received, answer } = await opened();
  const first = call("/v0/infer/", item);
  await received(1);
  const queued = call("/v0/infer/", item);
  const unsent = call("/v1/chat/completions", chat);
  await expect.poll(async () => openTasks(await call("/v0/infer/tasks"))).toBe(3);
  handover.release();
  handover.release();
  const { task_id: id, status } = (await (await first).json()) as { task_id: string; status: string };
  expect([status, await statusOf(queued)]).toEqual(["submitted", "submitted"]);
  expect((await unsent).status).toBe(503);
  answer();
  await expect.poll(() => statusOf(call(`/v0/infer/task/${id}`))).toBe("completed");
  await handover.drained(new AbortController().signal); // else what was sent instead would still be in flight
  expect(world?.received.length).toBe(1);
});
