/**
 * The official SDK against the front, unchanged: models and chat completions, at once and with a deadline.
 */
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { type Answers, completion, frontOfEachTest, sendJson } from "./front_world.ts";

const front = frontOfEachTest();

const HELLO = { model: "gpt-4o-mini", messages: [{ role: "user" as const, content: "hello" }] };
const echo: Answers = ({ body }, response) =>
  sendJson(response, completion({ content: String(body.messages.at(-1).content).toUpperCase() }));

async function errorOf(call: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof OpenAI.APIError)) throw new Error(`no API error: ${String(error)}`);
  return error;
}

describe("a chat completion at once", () => {
  it("is answered as by OpenAI, with perigee's own facts in headers", async () => {
    const { client, received } = await front(echo);
    const { data, response } = await client.chat.completions
      .create({ ...HELLO, temperature: 0.5 })
      .withResponse();
    expect(data).toMatchObject({
      id: "chatcmpl-9",
      object: "chat.completion",
      model: "openai:gpt-4o-mini-2024",
      choices: [{ index: 0, message: { role: "assistant", content: "HELLO" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
    });
    expect(data.created).toBeGreaterThan(1_700_000_000);
    expect(response.headers.get("x-perigee-task-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(Number(response.headers.get("x-perigee-cost-usd"))).toBeGreaterThan(0);
    expect(received).toHaveLength(1);
    expect(received[0]).toMatchObject({
      path: "/v1/chat/completions",
      headers: { authorization: "Bearer sk-upstream" },
      body: { ...HELLO, temperature: 0.5 },
    });
    expect(received[0]?.body).not.toHaveProperty("stream");
  });

  it("passes tools on and returns tool calls with null content", async () => {
    const tool_calls = [{ id: "call_1", type: "function", function: { name: "weather", arguments: "{}" } }];
    const { client, received } = await front((_request, response) =>
      sendJson(
        response,
        completion(
          {},
          {
            choices: [
              {
                index: 0,
                message: { role: "assistant", content: null, tool_calls },
                finish_reason: "tool_calls",
              },
            ],
          },
        ),
      ),
    );
    const tools = [
      { type: "function" as const, function: { name: "weather", parameters: { type: "object" } } },
    ];
    const answer = await client.chat.completions.create({ ...HELLO, tools });
    expect(answer.choices[0]).toMatchObject({
      message: { content: null, tool_calls },
      finish_reason: "tool_calls",
    });
    expect(received[0]?.body.tools).toEqual(tools);
  });

  it("answers for Anthropic's models in OpenAI's words", async () => {
    const { client, received } = await front((_request, response) =>
      sendJson(response, {
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "claude-haiku-4-5",
        content: [{ type: "text", text: "hi" }],
        stop_reason: "max_tokens",
        usage: { input_tokens: 4, output_tokens: 2 },
      }),
    );
    const answer = await client.chat.completions.create({ ...HELLO, model: "anthropic:claude-haiku-4-5" });
    expect(received[0]?.path).toBe("/v1/messages");
    expect(answer).toMatchObject({
      choices: [{ message: { content: "hi" }, finish_reason: "length" }],
      usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 },
    });
  });

  it("refuses a model that nobody serves as OpenAI does, and names what is wrong", async () => {
    const { client, received } = await front(echo, { providers: {} });
    const error = await errorOf(client.chat.completions.create(HELLO));
    expect(error).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    expect(error.message).toContain("no key for openai");
    const unknown = await errorOf(client.chat.completions.create({ ...HELLO, model: "nope:m1" }));
    expect(unknown).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    expect(unknown.message).toContain('no provider "nope" is configured');
    expect(received).toHaveLength(0);
  });

  it("passes a 4xx of the provider on, and the client does not repeat it", async () => {
    const { clientOf, received } = await front((_request, response) =>
      sendJson(
        response,
        { error: { message: "no such thing", type: "invalid_request_error", code: "bad" } },
        400,
      ),
    );
    const error = await errorOf(clientOf("alpha", { maxRetries: 2 }).chat.completions.create(HELLO));
    expect(error).toMatchObject({ status: 400, code: "invalid_request" });
    expect(received).toHaveLength(1);
  });

  it("answers 402 for a cap, which the client does not repeat", async () => {
    const { clientOf, received } = await front(echo, { projects: { alpha: { maxCostUsd: 0.000_000_1 } } });
    const error = await errorOf(clientOf("alpha", { maxRetries: 2 }).chat.completions.create(HELLO));
    expect(error.status).toBe(402);
    expect(received).toHaveLength(0);
  });

  it("needs a key that may submit", async () => {
    const { clientOf } = await front(echo);
    expect(await errorOf(clientOf("reader").chat.completions.create(HELLO))).toMatchObject({ status: 403 });
    expect(await errorOf(clientOf("not-a-key").chat.completions.create(HELLO))).toMatchObject({
      status: 401,
    });
  });

  it.each(["constructor", "toString", "hasOwnProperty"])(
    "may have a member that is called %s",
    async (name) => {
      const { client } = await front(echo);
      const body = { ...HELLO, [name]: { x: 1 } };
      expect((await client.chat.completions.create(body)).object).toBe("chat.completion");
    },
  );

  it("names what it found in place of a duration", async () => {
    const { client } = await front(echo);
    const body = { ...HELLO, metadata: { sla: null } } as unknown as typeof HELLO;
    const error = await errorOf(client.chat.completions.create(body));
    expect(error).toMatchObject({ status: 422, message: expect.stringContaining("got null") });
  });

  it("is counted in the usage of its project like any other item", async () => {
    const { client, call } = await front(echo);
    await client.chat.completions.create(HELLO);
    const tasks = (await (await call("/v0/infer/tasks")).json()) as { tasks: { status: string }[] };
    expect(tasks.tasks).toMatchObject([{ status: "completed", total_items: 1 }]);
  });
});

describe("a chat completion with a deadline", () => {
  const key = { "Idempotency-Key": "call-1" };

  it.each([
    ["the header", {}, { "x-perigee-sla": "15m" }],
    ["metadata.sla", { metadata: { sla: "15m", run: "a" } }, {}],
    ["service_tier flex", { service_tier: "flex" as const }, {}],
  ])("is waited for and not told to the provider: by %s", async (_name, more, headers) => {
    const { client, received, call } = await front(echo, { defaultSla: "15m" });
    const { data, response } = await client.chat.completions
      .create({ ...HELLO, ...more }, { headers })
      .withResponse();
    expect(data.choices[0]?.message.content).toBe("HELLO");
    expect(received[0]?.body).not.toHaveProperty("service_tier");
    expect(JSON.stringify(received[0]?.body)).not.toContain("15m");
    const id = response.headers.get("x-perigee-task-id") ?? "";
    const task = (await (await call(`/v0/infer/task/${id}`)).json()) as { deadline_at?: string };
    expect(JSON.stringify(task)).toContain("deadline");
  });

  it("is fetched again by its key, and another body under the key is refused", async () => {
    const { client, received } = await front(echo);
    const headers = { ...key, "x-perigee-sla": "1h" };
    const first = await client.chat.completions.create(HELLO, { headers });
    const { data: again, response } = await client.chat.completions.create(HELLO, { headers }).withResponse();
    expect(again).toEqual(first);
    expect(response.headers.get("idempotent-replayed")).toBe("true");
    expect(received).toHaveLength(1);
    const other = { ...HELLO, temperature: 1 };
    expect(await errorOf(client.chat.completions.create(other, { headers }))).toMatchObject({
      status: 409,
      code: "idempotency_mismatch",
    });
  });

  it("goes on when its client's time is over, and the repeated call gets the answer", async () => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { client, received, clientOf } = await front(async (request, response) => {
      await released;
      await echo(request, response);
    });
    const headers = { ...key, "x-perigee-sla": "1h", "x-stainless-timeout": "1" };
    const late = await errorOf(client.chat.completions.create(HELLO, { headers }));
    expect(late).toMatchObject({ status: 408, code: "not_ready" });
    release();
    const again = await clientOf("alpha").chat.completions.create(HELLO, { headers });
    expect(again.choices[0]?.message.content).toBe("HELLO");
    expect(received).toHaveLength(1);
  });

  it("refuses flex without a default sla, an invalid one, a cache that is not there, and a stream of two answers of Claude", async () => {
    const { client } = await front(echo);
    const create = (more: object, headers = {}): Promise<unknown> =>
      client.chat.completions.create({ ...HELLO, ...more }, { headers });
    expect(await errorOf(create({ service_tier: "flex" }))).toMatchObject({
      status: 422,
      param: "service_tier",
    });
    expect(await errorOf(create({}, { "x-perigee-sla": "90s" }))).toMatchObject({
      status: 422,
      param: "x-perigee-sla",
    });
    expect(await errorOf(create({}, { "x-perigee-cache": "1h" }))).toMatchObject({
      status: 422,
      param: "x-perigee-cache",
    });
    expect(await errorOf(create({ n: 9 }))).toMatchObject({ status: 422, param: "n" });
    const two = { model: "anthropic:claude-haiku-4-5", n: 2, stream: true };
    expect(await errorOf(create(two))).toMatchObject({ status: 422, param: "n" });
  });
});

describe("the models", () => {
  it("lists aliases and priced models, and finds any model that calls may name", async () => {
    const { client } = await front(echo, { models: { best: ["openai:gpt-4o-mini"] } });
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toContain("best");
    expect(ids).toContain("openai:gpt-4o-mini");
    expect(ids.some((id) => id.startsWith("anthropic:"))).toBe(true);
    expect(ids.some((id) => id.startsWith("mistral:"))).toBe(false); // no key
    expect(await client.models.retrieve("best")).toMatchObject({ id: "best", owned_by: "perigee" });
    expect(await client.models.retrieve("gpt-9")).toMatchObject({ id: "gpt-9", owned_by: "openai" });
    expect(await errorOf(client.models.retrieve("mistral:small"))).toMatchObject({
      status: 404,
      code: "model_not_found",
    });
  });
});
