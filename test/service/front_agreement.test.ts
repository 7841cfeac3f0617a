/**
 * The same request as a call of the front, as an item of /v0 and as a line of a batch: one request to the provider, one answer.
 */
import { type OpenAI, toFile } from "openai";
import { describe, expect, it } from "vitest";
import { completion, type FrontWorld, frontOfEachTest, sendJson } from "./front_world.ts";
import { ended, jsonLines } from "./openai_world.ts";

type Json = Record<string, unknown>;

const front = frontOfEachTest();

/** The answer as an object of /v0. */
async function posted({ call }: FrontWorld, item: Json): Promise<Json> {
  const answer = await call("/v0/infer/", { method: "POST", body: JSON.stringify([item]) });
  const { objects } = (await answer.json()) as { objects: { object_id: string }[] };
  const read = async (): Promise<Json> =>
    (await (await call(`/v0/infer/object/${objects[0]?.object_id}`)).json()) as Json;
  await expect.poll(async () => (await read())["status"]).toBe("completed");
  return read();
}

/** The body of the answer to a line of a batch. */
async function batched({ client }: FrontWorld, endpoint: "chat/completions" | "embeddings", body: Json) {
  const url = `/v1/${endpoint}` as const;
  const line = JSON.stringify({ custom_id: "r", method: "POST", url, body });
  const file = await toFile(Buffer.from(line), "in.jsonl");
  const { id } = await client.files.create({ file, purpose: "batch" });
  const batch = await client.batches.create({ input_file_id: id, endpoint: url, completion_window: "24h" });
  const { output_file_id } = await ended(client, batch.id);
  const [answer] = (await jsonLines(client, output_file_id)) as { response: { body: Json } }[];
  return answer?.response.body;
}

const messages = [{ role: "user" as const, content: "Name a river" }];

/** Two answers in each provider's form: a text, and one that its filter has cut. */
const TWO: Readonly<
  Record<string, { readonly model: string; readonly body: object; readonly sent: object }>
> = {
  OpenAI: {
    model: "openai:gpt-4o-mini",
    sent: { n: 2 },
    body: completion(
      {},
      {
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: "Po", refusal: null },
            logprobs: null,
            finish_reason: "stop",
          },
          {
            index: 1,
            message: { role: "assistant", content: "Arn", refusal: null },
            logprobs: null,
            finish_reason: "length",
          },
        ],
      },
    ),
  },
  Gemini: {
    model: "gemini:gemini-2.5-flash",
    sent: { generationConfig: { candidateCount: 2 } },
    body: {
      responseId: "g",
      modelVersion: "gemini-2.5-flash",
      candidates: [
        { index: 0, content: { role: "model", parts: [{ text: "Po" }] }, finishReason: "STOP" },
        { index: 1, content: { role: "model", parts: [{ text: "Arn" }] }, finishReason: "MAX_TOKENS" },
      ],
      usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 3, totalTokenCount: 10 },
    },
  },
};

describe("two answers to a request", () => {
  it.each(Object.entries(TWO))(
    "are both in the choices of a call and a batch, and in /v0, from %s",
    async (_name, two) => {
      const { model, body, sent } = two;
      const opened = await front((_request, response) => sendJson(response, body));
      const answer = await opened.client.chat.completions.create({ model, messages, n: 2 });
      const said = { role: "assistant", refusal: null };
      expect(answer.choices).toEqual([
        { index: 0, message: { ...said, content: "Po" }, logprobs: null, finish_reason: "stop" },
        { index: 1, message: { ...said, content: "Arn" }, logprobs: null, finish_reason: "length" },
      ]);
      expect(await posted(opened, { model, messages, n: 2 })).toMatchObject({
        output: { type: "text", text: "Po" },
        finish_reason: "stop",
        other_candidates: [{ text: "Arn", finish_reason: "length" }],
      });
      const line = await batched(opened, "chat/completions", { model, messages, n: 2 });
      expect(line?.["choices"]).toEqual(answer.choices);
      const bodies = opened.received.map((request) => request.body);
      expect(bodies[0]).toMatchObject(sent);
      expect(bodies).toEqual([bodies[0], bodies[0], bodies[0]]);
    },
  );

  it("are refused before anything is sent where the provider has one", async () => {
    const { client, received } = await front((_request, response) => sendJson(response, {}));
    const call = client.chat.completions.create({ model: "anthropic:claude-haiku-4-5", messages, n: 2 });
    const error = await call.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ status: 422, code: "invalid_request" });
    expect(String(error)).toContain("anthropic:claude-haiku-4-5 does not take candidate_count");
    expect(received).toHaveLength(0);
  });
});

describe("embeddings of two texts", () => {
  it("are the same list in a call and a batch, and the same vectors in /v0", async () => {
    const data = [0.5, 0.25].map((value, index) => ({
      object: "embedding",
      index,
      embedding: [value, -value],
    }));
    const usage = { prompt_tokens: 4, total_tokens: 4 };
    const opened = await front((_request, response) =>
      sendJson(response, { object: "list", data, model: "e", usage }),
    );
    const body = {
      model: "openai:text-embedding-3-small",
      input: ["one", "two"],
      encoding_format: "float" as const,
    };
    const answer = await opened.client.embeddings.create(body);
    expect(answer).toMatchObject({ object: "list", data, usage });
    expect(await posted(opened, { kind: "embedding", ...body })).toMatchObject({
      output: { type: "embedding", embeddings: data.map(({ embedding }) => embedding) },
      usage: { input_tokens: 4 },
    });
    expect(await batched(opened, "embeddings", body)).toMatchObject({ object: "list", data, usage });
    const bodies = opened.received.map((request) => request.body);
    expect(bodies).toEqual([bodies[0], bodies[0], bodies[0]]);
  });
});

describe("images and tools for Anthropic", () => {
  const model = "anthropic:claude-haiku-4-5";
  const image = "iVBORw0KGgo=";
  const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const body = {
    model,
    max_tokens: 50,
    messages: [
      { role: "system", content: "Be short." },
      {
        role: "user",
        content: [
          { type: "text", text: "Where is this, and how warm?" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
          { type: "image_url", image_url: { url: "https://example.com/a.jpg" } },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: "31 degrees" },
    ],
    tools: [{ type: "function", function: { name: "weather", description: "Of a city.", parameters } }],
    tool_choice: "required",
    parallel_tool_calls: false,
  } satisfies OpenAI.ChatCompletionCreateParamsNonStreaming;

  it("arrive as Messages has them, from a call, /v0 and a batch, and its calls return as OpenAI's", async () => {
    const opened = await front((_request, response) =>
      sendJson(response, {
        ...{ id: "msg_1", type: "message", role: "assistant", model: "claude-haiku-4-5" },
        content: [{ type: "tool_use", id: "toolu_2", name: "weather", input: { city: "Ostia" } }],
        stop_reason: "tool_use",
        usage: { input_tokens: 40, output_tokens: 9 },
      }),
    );
    const answer = await opened.client.chat.completions.create(body);
    const { path, headers, body: sent } = opened.received[0] ?? {};
    expect(path).toBe("/v1/messages");
    expect(headers).toMatchObject({ "x-api-key": "sk-ant", "anthropic-version": "2023-06-01" });
    expect(sent).toEqual({
      model: "claude-haiku-4-5",
      max_tokens: 50,
      system: "Be short.",
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Where is this, and how warm?" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: image } },
            { type: "image", source: { type: "url", url: "https://example.com/a.jpg" } },
          ],
        },
        {
          role: "assistant",
          content: [{ type: "tool_use", id: "call_1", name: "weather", input: { city: "Rome" } }],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "31 degrees" }] },
      ],
      tools: [{ name: "weather", description: "Of a city.", input_schema: parameters }],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
    });
    const called = {
      id: "toolu_2",
      type: "function",
      function: { name: "weather", arguments: '{"city":"Ostia"}' },
    };
    expect(answer.choices).toEqual([
      {
        index: 0,
        message: { role: "assistant", content: null, refusal: null, tool_calls: [called] },
        logprobs: null,
        finish_reason: "tool_calls",
      },
    ]);
    expect(await posted(opened, body)).toMatchObject({ tool_calls: [called], finish_reason: "tool_calls" });
    expect((await batched(opened, "chat/completions", body))?.["choices"]).toEqual(answer.choices);
    expect(opened.received.map((request) => request.body)).toEqual([sent, sent, sent]);
  });
});
