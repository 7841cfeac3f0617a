/**
 * The official SDK against the front's embeddings, completions and responses, unchanged.
 */
import type { ServerResponse } from "node:http";
import { describe, expect, it, vi } from "vitest";
import { completion, frontOfEachTest, sendJson } from "./front_world.ts";

const front = frontOfEachTest();

const RESPONSE = {
  id: "resp_up",
  object: "response",
  status: "completed",
  model: "gpt-4o-mini-2024",
  output: [
    { type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Rome", annotations: [] }] },
    { type: "function_call", call_id: "call_1", name: "weather", arguments: "{}" },
  ],
  usage: {
    input_tokens: 9,
    input_tokens_details: { cached_tokens: 2 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 1 },
    total_tokens: 14,
  },
};
const ask = { model: "gpt-4o-mini", input: "Which city?" };

describe("embeddings", () => {
  it("are returned in the order of their inputs, as the SDK decodes them", async () => {
    const { client, received } = await front(({ body }, response) => {
      const encoded = (value: number): string =>
        Buffer.from(new Float32Array([value, value / 2]).buffer).toString("base64");
      const data = body.input.map((_: string, index: number) => ({
        ...{ object: "embedding", index },
        embedding: encoded(index + 1),
      }));
      sendJson(response, { object: "list", data, model: "e", usage: { prompt_tokens: 4, total_tokens: 4 } });
    });
    const input = ["one", "two"];
    const { data, usage } = await client.embeddings.create({ model: "text-embedding-3-small", input });
    expect(data.map(({ embedding }) => [...embedding])).toEqual([
      [1, 0.5],
      [2, 1],
    ]);
    expect(usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
    expect(received[0]).toMatchObject({
      path: "/v1/embeddings",
      body: { model: "text-embedding-3-small", input },
    });
  });
});

describe("a completion", () => {
  it("is answered as by OpenAI", async () => {
    const { client, received } = await front((_request, response) =>
      sendJson(response, {
        ...{ id: "cmpl-1", object: "text_completion", model: "m" },
        choices: [{ index: 0, text: " time", finish_reason: "length" }],
        usage: { prompt_tokens: 4, completion_tokens: 1, total_tokens: 5 },
      }),
    );
    const answer = await client.completions.create({
      model: "gpt-3.5-turbo-instruct",
      prompt: "once",
      max_tokens: 1,
    });
    expect(answer).toMatchObject({
      object: "text_completion",
      choices: [{ index: 0, text: " time", finish_reason: "length" }],
      usage: { total_tokens: 5 },
    });
    expect(received[0]).toMatchObject({ path: "/v1/completions", body: { prompt: "once", max_tokens: 1 } });
  });
});

describe("a response", () => {
  it("is answered at once, with thoughts, text and calls", async () => {
    const { client, received } = await front((_request, response) => sendJson(response, RESPONSE));
    const answer = await client.responses.create({ ...ask, instructions: "short", metadata: { run: "a" } });
    expect(answer).toMatchObject({
      object: "response",
      status: "completed",
      output_text: "Rome",
      output: [
        { type: "reasoning", summary: [{ text: "hm" }] },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "Rome" }] },
        { type: "function_call", call_id: "call_1", name: "weather", arguments: "{}" },
      ],
      usage: {
        input_tokens: 9,
        output_tokens: 5,
        total_tokens: 14,
        input_tokens_details: { cached_tokens: 2 },
      },
      metadata: { run: "a" },
    });
    expect(received[0]).toMatchObject({ path: "/v1/responses", body: { ...ask, instructions: "short" } });
    expect(await client.responses.retrieve(answer.id)).toMatchObject({ id: answer.id, output_text: "Rome" });
  });

  it("is refused where a chat could not carry it", async () => {
    const { client, received } = await front((_request, response) => sendJson(response, RESPONSE));
    const body = { ...ask, model: "anthropic:claude-haiku-4-5", tools: [{ type: "web_search" as const }] };
    await expect(client.responses.create(body)).rejects.toMatchObject({ status: 422, param: "tools.0.type" });
    expect(received).toHaveLength(0);
  });

  it("runs in the background and is retrieved", async () => {
    const { client } = await front((_request, response) => sendJson(response, RESPONSE), {
      defaultSla: "1h",
    });
    const begun = await client.responses.create({ ...ask, background: true });
    expect(begun).toMatchObject({ background: true, output: [], usage: null });
    expect(["queued", "in_progress"]).toContain(begun.status);
    await vi.waitFor(
      async () =>
        expect(await client.responses.retrieve(begun.id)).toMatchObject({
          status: "completed",
          output_text: "Rome",
        }),
      { timeout: 10_000, interval: 50 },
    );
  });

  it("is cancelled before it is sent", async () => {
    const open: ServerResponse[] = [];
    const hanging = await front((_request, response) => void open.push(response), {
      limits: { openai: { concurrency: 1 } },
    });
    const { client } = hanging;
    const headers = { "x-perigee-sla": "1h" };
    const first = await client.responses.create({ ...ask, background: true }, { headers });
    await vi.waitFor(() => expect(hanging.received).toHaveLength(1), { timeout: 10_000 });
    const second = await client.responses.create({ ...ask, background: true }, { headers });
    expect((await client.responses.cancel(second.id)).status).toBe("cancelled");
    expect((await client.responses.retrieve(first.id)).status).toBe("in_progress");
    expect(hanging.received).toHaveLength(1);
    for (const response of open) sendJson(response, RESPONSE);
  });

  it("needs an sla in the background, and is not found where it is not a response", async () => {
    const { client } = await front((_request, response) => sendJson(response, completion({ content: "hi" })));
    await expect(client.responses.create({ ...ask, background: true })).rejects.toMatchObject({
      status: 422,
      param: "background",
    });
    const { response } = await client.chat.completions
      .create({ model: "gpt-4o-mini", messages: [{ role: "user", content: "a" }] })
      .withResponse();
    const task = (response.headers.get("x-perigee-task-id") ?? "").replaceAll("-", "");
    await expect(client.responses.retrieve(`resp_${task}`)).rejects.toMatchObject({ status: 404 });
    await expect(client.responses.retrieve("resp_1")).rejects.toMatchObject({ status: 404 });
  });

  it("asks a provider without responses by a chat, and returns its text and calls", async () => {
    const { client, received } = await front((_request, response) =>
      sendJson(response, {
        ...{ id: "msg_1", type: "message", role: "assistant", model: "claude-haiku-4-5" },
        content: [{ type: "text", text: "Rome" }],
        stop_reason: "end_turn",
        usage: { input_tokens: 4, output_tokens: 2 },
      }),
    );
    const input = [
      { role: "user" as const, content: [{ type: "input_text" as const, text: "Which " }] },
      { role: "user" as const, content: "city?" },
    ];
    const body = { model: "anthropic:claude-haiku-4-5", input, instructions: "short", max_output_tokens: 30 };
    const answer = await client.responses.create(body);
    expect(answer).toMatchObject({ status: "completed", output_text: "Rome", usage: { total_tokens: 6 } });
    expect(received[0]).toMatchObject({ path: "/v1/messages", body: { max_tokens: 30 } });
    expect(JSON.stringify(received[0]?.body.system)).toContain("short");
  });
});
