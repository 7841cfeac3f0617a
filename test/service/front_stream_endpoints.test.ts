/**
 * The official SDK reads streams of completions and responses, and of several answers, unchanged.
 */
import type { ServerResponse } from "node:http";
import type OpenAI from "openai";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Answers, completion, type FrontWorld, openFront, sendJson } from "./front_world.ts";

let world: FrontWorld | undefined;

afterEach(async () => {
  await world?.close();
  world = undefined;
});

async function front(answers: Answers, options: Parameters<typeof openFront>[1] = {}): Promise<FrontWorld> {
  world = await openFront(answers, options);
  return world;
}

function events(response: ServerResponse): (...data: readonly (object | string)[]) => void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  return (...data) => {
    for (const each of data)
      response.write(`data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`);
  };
}

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const each of stream) found.push(each);
  return found;
}

// biome-ignore lint/suspicious/noExplicitAny: a body of the interface
async function onlyObject({ call }: FrontWorld): Promise<any> {
  const list = (await (await call("/v0/infer/tasks")).json()) as { tasks: { task_id: string }[] };
  expect(list.tasks).toHaveLength(1);
  const task = await (await call(`/v0/infer/task/${list.tasks[0]?.task_id}`)).json();
  return (task as { objects: unknown[] }).objects[0];
}

const ASK = { model: "gpt-4o-mini", input: "Which city?", stream: true as const };
const CHAT = { messages: [{ role: "user" as const, content: "hello" }], stream: true as const };

describe("a streamed completion", () => {
  const PROMPT = { model: "gpt-3.5-turbo-instruct", prompt: "Once", stream: true as const };
  const chunk = (text: string, finish_reason: string | null = null): object => ({
    ...{ id: "cmpl-1", object: "text_completion", created: 1, model: "gpt-3.5-turbo-instruct" },
    choices: [{ index: 0, text, logprobs: null, finish_reason }],
  });
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };

  it("is passed on, asks the provider for the usage, and is accounted by it", async () => {
    const opened = await front((_request, response) => {
      events(response)(chunk(" upon"), chunk(" a", "stop"), { ...chunk(""), choices: [], usage }, "[DONE]");
      response.end();
    });
    const seen = await all(await opened.client.completions.create(PROMPT));
    expect(seen).toEqual([chunk(" upon"), chunk(" a", "stop")]);
    expect(opened.received[0]).toMatchObject({
      path: "/v1/completions",
      body: { stream: true, stream_options: { include_usage: true }, prompt: "Once" },
    });
    const object = await onlyObject(opened);
    expect(object).toMatchObject({
      output: { text: " upon a" },
      usage: { input_tokens: 1, output_tokens: 2 },
      finish_reason: "stop",
    });
    expect(object.cost).not.toHaveProperty("is_estimated");
  });

  it("has the usage for those who ask, also where the answer did not arrive in parts", async () => {
    const opened = await front(({ body }, response) => {
      if (body.prompt === "whole") return sendJson(response, { ...chunk("x", "stop"), usage });
      events(response)(chunk("x", "stop"), { ...chunk(""), choices: [], usage }, "[DONE]");
      response.end();
    });
    for (const prompt of ["whole", "parts"]) {
      const more = { prompt, stream_options: { include_usage: true } };
      const seen = await all(await opened.client.completions.create({ ...PROMPT, ...more }));
      expect(seen.map(({ choices }) => choices[0]?.text).join("")).toBe("x");
      expect(seen.at(-1)).toMatchObject({ choices: [], usage });
    }
  });

  it("ends in an error when it breaks off, and counts what was seen", async () => {
    const opened = await front((_request, response) => {
      events(response)(chunk(" upon a time there was"));
      setTimeout(() => response.destroy(), 20);
    });
    const stream = await opened.client.completions.create(PROMPT);
    await expect(all(stream)).rejects.toMatchObject({ code: "connection_lost" });
    expect((await onlyObject(opened)).usage.output_tokens).toBeGreaterThan(2);
    expect(opened.received).toHaveLength(1);
  });
});

describe("a streamed response", () => {
  const text = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const begun = { id: "resp_up", object: "response", created_at: 1, model: "gpt-4o-mini-2024", output: [] };
  const whole = {
    ...{ ...begun, status: "completed" },
    output: [
      {
        ...{ type: "message", id: "msg_1", role: "assistant", status: "completed" },
        content: [{ type: "output_text", text: "Rome", annotations: [] }],
      },
    ],
    usage: { input_tokens: 9, output_tokens: 5, total_tokens: 14 },
  };
  const first = [
    {
      type: "response.created",
      sequence_number: 0,
      response: { ...begun, status: "in_progress", usage: null },
    },
    {
      ...{ type: "response.output_item.added", sequence_number: 1, output_index: 0 },
      item: { type: "message", id: "msg_1", role: "assistant", status: "in_progress", content: [] },
    },
    {
      ...{ type: "response.content_part.added", sequence_number: 2, ...text },
      part: { type: "output_text", text: "", annotations: [] },
    },
    { type: "response.output_text.delta", sequence_number: 3, ...text, delta: "Ro" },
  ];

  it("is passed on with the service's id, and ends when it can be retrieved", async () => {
    const opened = await front((_request, response) => {
      const send = events(response);
      send(...first, { type: "response.output_text.delta", sequence_number: 4, ...text, delta: "me" });
      send({ type: "response.completed", sequence_number: 5, response: whole });
      response.end();
    });
    const stream = opened.client.responses.stream({ ...ASK, metadata: { row: "7" } });
    const names: string[] = [];
    stream.on("event", ({ type }) => names.push(type));
    const answer = await stream.finalResponse();
    expect(names).toEqual([
      "response.created",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.completed",
    ]);
    expect(answer).toMatchObject({ output_text: "Rome", status: "completed", metadata: { row: "7" } });
    expect(answer.id).toMatch(/^resp_[0-9a-f]{32}$/);
    expect(await opened.client.responses.retrieve(answer.id)).toMatchObject({
      id: answer.id,
      output_text: "Rome",
      usage: { input_tokens: 9, output_tokens: 5 },
    });
    expect(opened.received[0]).toMatchObject({
      path: "/v1/responses",
      body: { stream: true, input: "Which city?" },
    });
    expect(opened.received[0]?.body).not.toHaveProperty("stream_options");
  });

  it("ends in an error when it breaks off, and counts what was seen", async () => {
    const opened = await front((_request, response) => {
      events(response)(...first, {
        ...{ type: "response.output_text.delta", sequence_number: 4, ...text },
        delta: "me, the capital of Italy",
      });
      setTimeout(() => response.destroy(), 20);
    });
    await expect(all(await opened.client.responses.create(ASK))).rejects.toMatchObject({
      code: "connection_lost",
    });
    const object = await onlyObject(opened);
    expect(object).toMatchObject({ status: "failed", error: { code: "connection_lost" } });
    expect(object.usage.output_tokens).toBeGreaterThan(2);
    expect(opened.received).toHaveLength(1);
  });

  it("is passed on to its end when the provider says that it failed", async () => {
    const opened = await front((_request, response) => {
      const failed = {
        ...begun,
        status: "failed",
        error: { code: "server_error", message: "broken" },
        usage: null,
      };
      events(response)(first[0] as object, {
        type: "response.failed",
        sequence_number: 1,
        response: failed,
      });
      response.end();
    });
    const seen = await all(await opened.client.responses.create(ASK));
    expect(seen.at(-1)).toMatchObject({ type: "response.failed", response: { status: "failed" } });
    expect(await onlyObject(opened)).toMatchObject({ status: "failed", error: { attempts: 1 } });
  });

  it("cuts the provider's stream when its reader leaves, and counts what was seen", async () => {
    let isCut = false;
    const opened = await front((_request, response) => {
      response.on("close", () => {
        isCut = true;
      });
      events(response)(...first);
    });
    for await (const { type } of await opened.client.responses.create(ASK))
      if (type === "response.output_text.delta") break;
    await vi.waitFor(() => expect(isCut).toBe(true), { timeout: 5_000 });
    await vi.waitFor(async () => expect((await onlyObject(opened)).status).not.toBe("submitted"), {
      timeout: 5_000,
    });
    const object = await onlyObject(opened);
    expect(object.error.code).toBe("cancelled");
    expect(object.usage.output_tokens).toBeGreaterThan(0);
  });

  it("is made of Anthropic's chat: thoughts, text and calls in the order in which they arrived", async () => {
    const opened = await front((_request, response) => {
      const send = events(response);
      const start = (index: number, content_block: object): object => ({
        type: "content_block_start",
        index,
        content_block,
      });
      const grow = (index: number, delta: object): object => ({ type: "content_block_delta", index, delta });
      const usage = { input_tokens: 9, output_tokens: 1 };
      send(
        {
          type: "message_start",
          message: {
            id: "msg_1",
            type: "message",
            role: "assistant",
            model: "claude-haiku-4-5",
            content: [],
            usage,
          },
        },
        start(0, { type: "thinking", thinking: "" }),
        grow(0, { type: "thinking_delta", thinking: "hm" }),
        start(1, { type: "tool_use", id: "toolu_1", name: "weather", input: {} }),
        grow(1, { type: "input_json_delta", partial_json: '{"city":' }),
        grow(1, { type: "input_json_delta", partial_json: '"Rome"}' }),
        start(2, { type: "text", text: "" }),
        grow(2, { type: "text_delta", text: "one moment" }),
        {
          type: "message_delta",
          delta: { stop_reason: "tool_use", stop_sequence: null },
          usage: { output_tokens: 12 },
        },
        { type: "message_stop" },
      );
      response.end();
    });
    const tools = [
      {
        type: "function" as const,
        name: "weather",
        parameters: { type: "object", properties: {} },
        strict: false,
      },
    ];
    const call = { ...ASK, model: "anthropic:claude-haiku-4-5", tools };
    const seen = await all(await opened.client.responses.create(call));
    expect(seen.map(({ sequence_number }) => sequence_number)).toEqual(seen.map((_, index) => index));
    expect(seen.map(({ type }) => type.replace("response.", ""))).toEqual([
      ...["created", "in_progress"],
      ...["output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"],
      ...["output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"],
      ...["output_item.added", "content_part.added", "output_text.delta"],
      ...["reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"],
      ...["function_call_arguments.done", "output_item.done"],
      ...["output_text.done", "content_part.done", "output_item.done"],
      "completed",
    ]);
    const last = seen.at(-1) as OpenAI.Responses.ResponseCompletedEvent;
    expect(last.response).toMatchObject({
      output: [
        { type: "reasoning", summary: [{ text: "hm" }] },
        { type: "function_call", call_id: "toolu_1", name: "weather", arguments: '{"city":"Rome"}' },
        { type: "message", content: [{ text: "one moment" }] },
      ],
      usage: { input_tokens: 9, output_tokens: 12 },
    });
    for (const event of seen)
      if (event.type === "response.output_item.done")
        expect(event.item).toEqual(last.response.output[event.output_index]);
  });

  it("is read by the SDK's stream from a provider that does not stream", async () => {
    const opened = await front((_request, response) => sendJson(response, {}));
    const stream = opened.client.responses.stream({ ...ASK, model: "echo:echo" });
    expect((await stream.finalResponse()).output_text).toBe("Which city?");
  });

  it("is refused in the background, with a deadline, and where a chat cannot carry it", async () => {
    const { client, received } = await front((_request, response) => sendJson(response, {}), {
      defaultSla: "15m",
    });
    const create = (more: object, headers = {}): Promise<unknown> =>
      client.responses.create({ ...ASK, ...more }, { headers }) as Promise<unknown>;
    await expect(create({ background: true })).rejects.toMatchObject({ status: 422, param: "background" });
    await expect(create({}, { "x-perigee-sla": "1h" })).rejects.toMatchObject({ status: 422 });
    await expect(
      create({ model: "anthropic:claude-haiku-4-5", tools: [{ type: "web_search" }] }),
    ).rejects.toMatchObject({ status: 422, param: "tools.0.type" });
    expect(received).toHaveLength(0);
  });
});

describe("a stream of several answers", () => {
  const chunk = (index: number, content: string, finish_reason: string | null = null): object => ({
    ...{ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "gpt-4o-mini" },
    choices: [{ index, delta: content === "" ? {} : { content }, finish_reason }],
  });
  const usage = { prompt_tokens: 7, completion_tokens: 4, total_tokens: 11 };

  it("is passed on from OpenAI's providers, and all its answers are kept", async () => {
    const opened = await front((_request, response) => {
      const send = events(response);
      send(
        chunk(1, "Ar"),
        chunk(0, "Po"),
        chunk(1, "", "length"),
        chunk(1, ""),
        chunk(0, "!"),
        chunk(0, "", "stop"),
      );
      send({ ...chunk(0, ""), choices: [], usage }, "[DONE]");
      response.end();
    });
    const seen = await all(
      await opened.client.chat.completions.create({ ...CHAT, model: "gpt-4o-mini", n: 2 }),
    );
    const texts = ["", ""];
    for (const { choices } of seen)
      for (const { index, delta } of choices) texts[index] += delta.content ?? "";
    expect(texts).toEqual(["Po!", "Ar"]);
    expect(opened.received[0]?.body).toMatchObject({ n: 2, stream: true });
    expect(await onlyObject(opened)).toMatchObject({
      output: { text: "Po!" },
      other_candidates: [{ text: "Ar", finish_reason: "length" }],
      usage: { output_tokens: 4 },
    });
  });

  it("has them all when the provider's answer did not arrive in parts", async () => {
    const second = { index: 1, message: { role: "assistant", content: "Arno" }, finish_reason: "stop" };
    const { client } = await front((_request, response) => {
      const { choices = [], ...body } = completion({ content: "Po" }) as { choices?: object[] };
      sendJson(response, { ...body, choices: [...choices, second] });
    });
    const seen = await all(await client.chat.completions.create({ ...CHAT, model: "gpt-4o-mini", n: 2 }));
    const texts = seen.flatMap(({ choices }) =>
      choices.map(({ index, delta }) => [index, delta.content ?? ""]),
    );
    expect(texts.filter(([, text]) => text !== "")).toEqual([
      [0, "Po"],
      [1, "Arno"],
    ]);
  });

  it("is refused where a provider that may answer streams one", async () => {
    const { client, received } = await front((_request, response) => sendJson(response, {}), {
      models: { mixed: ["openai:gpt-4o-mini", "gemini:gemini-2.5-flash"] },
    });
    for (const model of ["gemini:gemini-2.5-flash", "anthropic:claude-haiku-4-5", "mixed"])
      await expect(client.chat.completions.create({ ...CHAT, model, n: 2 })).rejects.toMatchObject({
        status: 422,
        param: "n",
      });
    expect(received).toHaveLength(0);
  });
});
