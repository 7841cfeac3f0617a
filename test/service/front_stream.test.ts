/**
 * The official SDK reads streams of the front, unchanged, from providers of three protocols and from one without streams.
 */
import type { ServerResponse } from "node:http";
import type OpenAI from "openai";
import { describe, expect, it, vi } from "vitest";
import { type Answers, type FrontWorld, frontOfEachTest, sendJson } from "./front_world.ts";

const front = frontOfEachTest();

const HELLO = { model: "gpt-4o-mini", messages: [{ role: "user" as const, content: "hello" }] };
const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };

function events(response: ServerResponse): (...data: readonly (object | string)[]) => void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  return (...data) => {
    for (const each of data)
      response.write(`data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`);
  };
}

function chunk(delta: object, finish_reason: string | null = null): object {
  const choices = [{ index: 0, delta, finish_reason }];
  return {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "gpt-4o-mini",
    choices,
    usage: null,
  };
}

const USAGE_CHUNK = { ...chunk({}), choices: [], usage: USAGE };

const words: Answers = (_request, response) => {
  const send = events(response);
  send(chunk({ role: "assistant", content: "" }), chunk({ content: "Hel" }), chunk({ content: "lo" }));
  send(chunk({}, "stop"), USAGE_CHUNK, "[DONE]");
  response.end();
};

interface Heard {
  readonly text: string;
  readonly reasoning: string;
  readonly finish: string | null;
  readonly calls: Record<number, { name: string; text: string }>;
  readonly usage: unknown;
  readonly chunks: number;
}

async function hear(stream: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<Heard> {
  let [text, reasoning, chunks] = ["", "", 0];
  let finish: string | null = null;
  let usage: unknown;
  const calls: Heard["calls"] = {};
  for await (const each of stream) {
    chunks += 1;
    usage = each.usage ?? usage;
    const [choice] = each.choices;
    text += choice?.delta.content ?? "";
    reasoning += (choice?.delta as { reasoning_content?: string } | undefined)?.reasoning_content ?? "";
    for (const { index, function: called } of choice?.delta.tool_calls ?? []) {
      calls[index] ??= { name: "", text: "" };
      calls[index].name += called?.name ?? "";
      calls[index].text += called?.arguments ?? "";
    }
    finish = choice?.finish_reason ?? finish;
  }
  return { text, reasoning, finish, calls, usage, chunks };
}

// biome-ignore lint/suspicious/noExplicitAny: a body of the interface
async function onlyTask({ call }: FrontWorld): Promise<any> {
  const list = (await (await call("/v0/infer/tasks")).json()) as { tasks: { task_id: string }[] };
  expect(list.tasks).toHaveLength(1);
  return (await call(`/v0/infer/task/${list.tasks[0]?.task_id}`)).json();
}

describe("a streamed chat completion", () => {
  it("is passed on as it arrives, asks the provider for the usage, and is accounted", async () => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const opened = await front(async (_request, response) => {
      const send = events(response);
      send(chunk({ role: "assistant", content: "Hel" }));
      await released;
      send(chunk({ content: "lo" }), chunk({}, "stop"), USAGE_CHUNK, "[DONE]");
      response.end();
    });
    const stream = await opened.client.chat.completions.create({ ...HELLO, stream: true });
    const seen: unknown[] = [];
    for await (const each of stream) {
      seen.push(each);
      release(); // only after the first chunk
    }
    expect(seen).toEqual([
      chunk({ role: "assistant", content: "Hel" }),
      chunk({ content: "lo" }),
      chunk({}, "stop"),
    ]);
    expect(opened.received[0]?.body).toMatchObject({ stream: true, stream_options: { include_usage: true } });
    const task = await onlyTask(opened);
    expect(task.objects[0]).toMatchObject({
      status: "completed",
      output: { text: "Hello" },
      usage: { input_tokens: 7, output_tokens: 3 },
      finish_reason: "stop",
    });
    expect(task.objects[0].cost.billed_usd).toBeGreaterThan(0);
    expect(task.objects[0].cost).not.toHaveProperty("is_estimated");
  });

  it("begins for all of 70 clients that come at once, before the first of them ends", {
    timeout: 60_000,
  }, async () => {
    const open: (() => void)[] = [];
    const atMs: number[] = [];
    const { call, received } = await front((_request, response) => {
      const send = events(response);
      atMs.push(performance.now());
      send(chunk({ role: "assistant", content: "Hel" }));
      open.push(() => {
        send(chunk({}, "stop"), USAGE_CHUNK, "[DONE]");
        response.end();
      });
    });
    const body = JSON.stringify({ ...HELLO, stream: true });
    const streams = Array.from({ length: 70 }, async () => {
      const response = await call("/v1/chat/completions", { method: "POST", body });
      const reader = response.body?.getReader();
      await reader?.read();
      return reader;
    });
    for (const reader of await Promise.all(streams)) expect(reader).toBeDefined();
    expect(received).toHaveLength(70);
    // Without what first chunks say, the 65th would wait until 64 have been silent for 15 s.
    expect((atMs[64] ?? Number.NaN) - (atMs[63] ?? Number.NaN)).toBeLessThan(10_000);
    for (const end of open) end();
  });

  it("ends with the usage for those who ask for it", async () => {
    const { client } = await front(words);
    const more = { stream: true as const, stream_options: { include_usage: true } };
    const heard = await hear(await client.chat.completions.create({ ...HELLO, ...more }));
    expect(heard).toMatchObject({ text: "Hello", finish: "stop", usage: USAGE });
  });

  it("is read from Anthropic's events, with thoughts and tool calls", async () => {
    const opened = await front((_request, response) => {
      const send = events(response);
      const usage = { input_tokens: 9, output_tokens: 1 };
      const start = (index: number, content_block: object) => ({
        type: "content_block_start",
        index,
        content_block,
      });
      const grow = (index: number, delta: object) => ({ type: "content_block_delta", index, delta });
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
        { type: "ping" },
        start(1, { type: "text", text: "" }),
        grow(1, { type: "text_delta", text: "let me " }),
        grow(1, { type: "text_delta", text: "see" }),
        start(2, { type: "tool_use", id: "toolu_1", name: "weather", input: {} }),
        grow(2, { type: "input_json_delta", partial_json: '{"city":' }),
        grow(2, { type: "input_json_delta", partial_json: '"Rome"}' }),
        {
          type: "message_delta",
          delta: { stop_reason: "tool_use", stop_sequence: null },
          usage: { output_tokens: 12 },
        },
        { type: "message_stop" },
      );
      response.end();
    });
    const more = {
      model: "anthropic:claude-haiku-4-5",
      stream: true as const,
      stream_options: { include_usage: true },
    };
    const heard = await hear(await opened.client.chat.completions.create({ ...HELLO, ...more }));
    expect(heard).toMatchObject({
      text: "let me see",
      reasoning: "hm",
      finish: "tool_calls",
      calls: { 0: { name: "weather", text: '{"city":"Rome"}' } },
      usage: { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 },
    });
    expect(opened.received[0]).toMatchObject({ path: "/v1/messages", body: { stream: true } });
    const { objects } = await onlyTask(opened);
    expect(objects[0]).toMatchObject({
      output: { text: "let me see" },
      tool_calls: [{ id: "toolu_1", function: { name: "weather", arguments: '{"city":"Rome"}' } }],
      usage: { input_tokens: 9, output_tokens: 12 },
    });
  });

  it("is read from Gemini's events", async () => {
    const opened = await front((_request, response) => {
      const send = events(response);
      const part = (text: string, more: object = {}) => ({
        candidates: [{ content: { role: "model", parts: [{ text }] }, index: 0, ...more }],
        modelVersion: "gemini-2.5-flash",
        responseId: "r1",
        usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 },
      });
      send(part("good "), part("day", { finishReason: "MAX_TOKENS" }));
      response.end();
    });
    const more = {
      model: "gemini:gemini-2.5-flash",
      stream: true as const,
      stream_options: { include_usage: true },
    };
    const heard = await hear(await opened.client.chat.completions.create({ ...HELLO, ...more }));
    expect(heard).toMatchObject({ text: "good day", finish: "length", usage: { total_tokens: 7 } });
    expect(opened.received[0]?.path).toMatch(/:streamGenerateContent\?alt=sse$/);
    const { objects } = await onlyTask(opened);
    expect(objects[0]).toMatchObject({ output: { text: "good day" }, finish_reason: "length" });
  });

  it("is one piece from a provider that does not stream", async () => {
    const { client } = await front(words);
    const stream = await client.chat.completions.create({ ...HELLO, model: "echo:small", stream: true });
    expect(await hear(stream)).toMatchObject({ text: "hello", finish: "stop", chunks: 2 });
  });

  it("is asked for again while no chunk has arrived", async () => {
    let calls = 0;
    const opened = await front((request, response) => {
      calls += 1;
      if (calls === 1) sendJson(response, { error: { message: "slow down" } }, 429, { "retry-after": "0" });
      else void words(request, response);
    });
    const heard = await hear(await opened.client.chat.completions.create({ ...HELLO, stream: true }));
    expect(heard.text).toBe("Hello");
    expect(calls).toBe(2);
  });

  it("has the status of an error that comes before any chunk", async () => {
    const { client } = await front((_request, response) =>
      sendJson(response, { error: { message: "no", type: "invalid_request_error" } }, 400),
    );
    const call = client.chat.completions.create({ ...HELLO, stream: true });
    await expect(call).rejects.toMatchObject({ status: 400, code: "invalid_request" });
  });

  it("ends in an error when it breaks off, is not sent again, and counts what was seen", async () => {
    const opened = await front((_request, response) => {
      events(response)(chunk({ role: "assistant", content: "Hello, this is" }));
      setTimeout(() => response.destroy(), 20);
    });
    const stream = await opened.client.chat.completions.create({ ...HELLO, stream: true });
    await expect(hear(stream)).rejects.toMatchObject({ code: "connection_lost" });
    expect(opened.received).toHaveLength(1);
    const { objects } = await onlyTask(opened);
    expect(objects[0]).toMatchObject({
      status: "failed",
      error: { code: "connection_lost", ambiguous_attempts: 1 },
    });
    expect(objects[0].usage.output_tokens).toBeGreaterThan(2);
    expect(objects[0].cost.billed_usd + objects[0].cost.ambiguous_usd).toBeGreaterThan(0);
  });

  it("cuts the provider's stream when its reader leaves, and counts what was seen", async () => {
    let isCut = false;
    const opened = await front((_request, response) => {
      response.on("close", () => {
        isCut = true;
      });
      events(response)(chunk({ role: "assistant", content: "Hello, this is" }));
    });
    const stream = await opened.client.chat.completions.create({ ...HELLO, stream: true });
    for await (const _ of stream) break;
    await vi.waitFor(() => expect(isCut).toBe(true), { timeout: 5_000 });
    await vi.waitFor(async () => expect((await onlyTask(opened)).status).toBe("completed"), {
      timeout: 5_000,
    });
    const { objects } = await onlyTask(opened);
    expect(objects[0].error.code).toBe("cancelled");
    expect(objects[0].usage.output_tokens).toBeGreaterThan(2);
    expect(opened.received).toHaveLength(1);
  });

  it("is refused with a deadline, and with a key that could not fetch it again", async () => {
    const { client, received } = await front(words);
    const stream = (headers: Record<string, string>): Promise<unknown> =>
      client.chat.completions.create({ ...HELLO, stream: true }, { headers });
    await expect(stream({ "x-perigee-sla": "1h" })).rejects.toMatchObject({ status: 422, param: "stream" });
    await expect(stream({ "Idempotency-Key": "a" })).rejects.toMatchObject({ status: 422 });
    expect(received).toHaveLength(0);
  });
});
