/**
 * Models of the AI SDK as providers of an engine: a real one before a server that checks what it receives, and scripted ones of each version.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, UnsupportedFunctionalityError } from "@ai-sdk/provider";
import { embedMany } from "ai";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type CalledAnswer,
  type CalledEmbeddingModel,
  type CalledModel,
  createPerigee,
  type EmbeddingCall,
  type ModelCall,
  modelProvider,
} from "../../src/ai/index.ts";
import type { Item } from "../../src/index.ts";
import { SdkEngine } from "./sdk_engine.ts";

const SPLIT_USAGE = {
  inputTokens: { total: 10, noCache: 6, cacheRead: 4, cacheWrite: 0 },
  outputTokens: { total: 5, text: 3, reasoning: 2 },
};

/** A model that a test scripts. */
class ScriptedModel implements CalledModel {
  readonly provider = "scripted.chat";
  readonly modelId = "scripted";
  readonly calls: ModelCall[] = [];
  readonly specificationVersion: string;
  readonly #answer: (call: ModelCall) => CalledAnswer;

  constructor(specificationVersion: string, answer: (call: ModelCall) => CalledAnswer) {
    this.specificationVersion = specificationVersion;
    this.#answer = answer;
  }

  async doGenerate(call: ModelCall): Promise<CalledAnswer> {
    this.calls.push(call);
    return this.#answer(call);
  }
}

const said = (text: string): CalledAnswer => ({
  content: [{ type: "text", text }],
  finishReason: { unified: "stop" },
  usage: SPLIT_USAGE,
});

/** The object of one item that a model answers. */
async function objectOf(model: CalledModel, item: Omit<Item, "model">) {
  await using world = new SdkEngine();
  const engine = await world.open({
    providers: { theirs: modelProvider(model) },
  });
  const { objects } = await engine.submit([{ model: "theirs:any", ...item } as Item]).finished;
  return objects[0];
}

const TOOL = {
  type: "function",
  function: { name: "weather", description: "of a city", parameters: { type: "object", properties: {} } },
};

describe("a model of the AI SDK as a provider", () => {
  it("is called as its own provider calls its server, and its answer is a line's", async () => {
    const bodies: unknown[] = [];
    const url = await listen(async (request, response) => {
      bodies.push(JSON.parse(await textOf(request)));
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({
          id: "c1",
          choices: [
            {
              index: 0,
              finish_reason: "tool_calls",
              message: {
                role: "assistant",
                content: "let me see",
                tool_calls: [
                  { id: "call_2", type: "function", function: { name: "weather", arguments: '{"a":1}' } },
                ],
              },
            },
          ],
          usage: { prompt_tokens: 20, completion_tokens: 9, total_tokens: 29 },
        }),
      );
    });
    const local = createOpenAICompatible({ name: "local", baseURL: url, supportsStructuredOutputs: true });
    await using world = new SdkEngine();
    const engine = await world.open({ providers: { theirs: modelProvider((name) => local(name)) } });
    const messages = [
      { role: "system", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "How warm?" },
          { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw==" } },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bonn"}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: "21" },
    ];
    const item = {
      model: "theirs:large",
      messages,
      tools: [TOOL],
      tool_choice: "required",
      reasoning_effort: "low",
      temperature: 0.5,
      topP: 0.9,
      maxOutputTokens: 40,
      stop: ["x"],
      seed: 3,
    } as const;
    const task = await engine.submit([item as unknown as Item]).finished;
    expect(task.objects[0]).toMatchObject({
      status: "completed",
      output: { text: "let me see" },
      finishReason: "tool_calls",
      toolCalls: [{ id: "call_2", type: "function", function: { name: "weather", arguments: '{"a":1}' } }],
      usage: { inputTokens: 20, outputTokens: 9 },
    });
    expect(bodies).toEqual([
      {
        model: "large",
        messages,
        tools: [TOOL],
        tool_choice: "required",
        reasoning_effort: "low",
        temperature: 0.5,
        top_p: 0.9,
        max_tokens: 40,
        stop: ["x"],
        seed: 3,
      },
    ]);
  });

  it.each(["v2", "v3", "v4"])("of version %s answers with its usage", async (version) => {
    const flat = { inputTokens: 10, outputTokens: 5, cachedInputTokens: 4, reasoningTokens: 2 };
    const model = new ScriptedModel(version, () => ({
      content: [
        { type: "reasoning", text: "hm" },
        { type: "text", text: "yes" },
      ],
      finishReason: version === "v2" ? "length" : { unified: "length" },
      usage: version === "v2" ? flat : SPLIT_USAGE,
    }));
    expect(await objectOf(model, { input: "?" })).toMatchObject({
      output: { text: "yes" },
      reasoning: "hm",
      finishReason: "length",
      usage: { inputTokens: 10, outputTokens: 5, cachedTokens: 4, reasoningTokens: 2 },
    });
    expect(model.calls[0]).toMatchObject({
      prompt: [{ role: "user", content: [{ type: "text", text: "?" }] }],
      abortSignal: expect.any(AbortSignal),
    });
  });

  it("gets files in the form of its version", async () => {
    const item = {
      messages: [
        { role: "user", content: [{ type: "image_url", image_url: { url: "https://a.test/b.png" } }] },
      ],
    };
    const url = new URL("https://a.test/b.png");
    for (const [version, data] of [
      ["v3", url],
      ["v4", { type: "url", url }],
    ] as const) {
      const model = new ScriptedModel(version, () => said("yes"));
      await objectOf(model, item as never);
      expect(model.calls[0]?.prompt[0]?.content).toEqual([{ type: "file", mediaType: "image/*", data }]);
    }
  });

  it("is asked for the schema of an item", async () => {
    const model = new ScriptedModel("v3", () => said('{"a":1}'));
    const schema = { type: "object", properties: { a: { type: "number" } } };
    const format = { type: "json_schema", json_schema: { name: "a", schema } };
    await objectOf(model, {
      messages: [{ role: "user", content: "?" }],
      response_format: format,
    } as never);
    expect(model.calls[0]?.responseFormat).toMatchObject({ type: "json", schema });
  });

  it("waits as long as a refusal says, and is tried again", async () => {
    const refusals = [429, 503].map(
      (statusCode) =>
        new APICallError({
          message: "no",
          url: "",
          requestBodyValues: {},
          statusCode,
          responseHeaders: { "retry-after-ms": "20" },
        }),
    );
    const model = new ScriptedModel("v3", () => {
      const refusal = refusals.shift();
      if (refusal !== undefined) throw refusal;
      return said("yes");
    });
    expect(await objectOf(model, { input: "?" })).toMatchObject({ output: { text: "yes" } });
    expect(model.calls).toHaveLength(3);
  });

  it.each([
    ["a refusal of the request", 400, "invalid_request"],
    ["a model that does not take it", undefined, "invalid_request"],
  ])("ends an item at once at %s", async (_what, statusCode, code) => {
    const model = new ScriptedModel("v3", () => {
      if (statusCode === undefined) throw new UnsupportedFunctionalityError({ functionality: "seeds" });
      const data = { error: { code: "unknown_parameter", message: "no" } };
      throw new APICallError({ message: "no", url: "", requestBodyValues: {}, statusCode, data });
    });
    expect(await objectOf(model, { input: "?" })).toMatchObject({
      status: "failed",
      error: { code, attempts: 1, message: expect.stringMatching(/unknown_parameter|seeds/) },
    });
  });

  it("tries again what may have been answered, as after a lost connection", async () => {
    let calls = 0;
    const model = new ScriptedModel("v3", () => {
      calls += 1;
      if (calls === 1)
        throw new APICallError({ message: "lost", url: "", requestBodyValues: {}, isRetryable: true });
      return said("yes");
    });
    expect(await objectOf(model, { input: "?" })).toMatchObject({ output: { text: "yes" }, attempts: 2 });
  });

  it.each([
    [{ logit_bias: { "5": 1 } }, "logit_bias"],
    [{ messages: [{ role: "user", content: [{ type: "video_url" }] }] }, "messages[0].content[0]"],
    [{ messages: [{ role: "function", content: "?" }] }, "messages[0].role"],
    [{ tools: [{ type: "web_search" }] }, "tools[0]"],
  ])("is not called with what a call cannot have: %j", async (members, words) => {
    const model = new ScriptedModel("v3", () => said("yes"));
    const item = { messages: [{ role: "user", content: "?" }], ...members };
    expect(await objectOf(model, item as never)).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining(words), attempts: 1 },
    });
    expect(model.calls).toEqual([]);
  });

  it("of an unknown version is not called", async () => {
    const model = new ScriptedModel("v1", () => said("yes"));
    expect(await objectOf(model, { input: "?" })).toMatchObject({
      error: { message: expect.stringContaining('"v1"') },
    });
  });
});

/** An embedding model that a test scripts; the vector of a text begins with its length. */
const embedding = (more: Partial<CalledEmbeddingModel> = {}, length = 2) => {
  const calls: EmbeddingCall[] = [];
  const model: CalledEmbeddingModel = {
    specificationVersion: "v3",
    provider: "scripted.embedding",
    modelId: "e",
    maxEmbeddingsPerCall: undefined,
    doEmbed: async (call) => {
      calls.push(call);
      const vectorOf = (text: string) =>
        Array.from({ length }, (_, index) => (index === 0 ? text.length : 0.5));
      return { embeddings: call.values.map(vectorOf), usage: { tokens: 2 * call.values.length } };
    },
    ...more,
  };
  return { model, calls };
};

async function embeddedBy(
  model: Parameters<typeof modelProvider>[0],
  items: readonly Omit<Extract<Item, { readonly kind: "embedding" }>, "model" | "kind">[],
) {
  await using world = new SdkEngine();
  const engine = await world.open({ providers: { theirs: modelProvider(model) } });
  const asItems = items.map((item): Item => ({ kind: "embedding", model: "theirs:any", ...item }));
  return (await engine.submit(asItems).finished).objects;
}

describe("an embedding model of the AI SDK as a provider", () => {
  it.each(["v2", "v3", "v4"])(
    "of version %s embeds the texts of items, as many at once as it takes",
    async (version) => {
      const { model, calls } = embedding({ specificationVersion: version, maxEmbeddingsPerCall: 4 });
      const texts = Array.from({ length: 10 }, (_, index) => "x".repeat(index + 1));
      const settings = { dimensions: 2, user: "u" };
      const objects = await embeddedBy(
        model,
        texts.map((input) => ({ input, ...settings })),
      );
      expect(objects.map(({ output }) => output)).toEqual(
        texts.map(({ length }) => ({ type: "embedding", embedding: [length, 0.5] })),
      );
      expect(objects.map(({ usage }) => usage.inputTokens)).toEqual(texts.map(() => 2));
      expect(Math.max(...calls.map(({ values }) => values.length))).toBe(4);
      expect(calls[0]).toMatchObject({
        providerOptions: { scripted: { dimensions: 2, user: "u" } },
        abortSignal: expect.any(AbortSignal),
      });
    },
  );

  it("is called several times for a request that has more values than it takes", async () => {
    const { model, calls } = embedding({ maxEmbeddingsPerCall: Promise.resolve(3) });
    const [object] = await embeddedBy(() => model, [{ input: ["a", "bb", "ccc", "dddd"] }]);
    expect(object?.output).toEqual({
      type: "embedding",
      embeddings: [1, 2, 3, 4].map((each) => [each, 0.5]),
    });
    expect(calls.map(({ values }) => values)).toEqual([["a", "bb", "ccc"], ["dddd"]]);
  });

  it("that ignores the dimensions of an item fails it", async () => {
    const [object] = await embeddedBy(embedding({}, 5).model, [{ input: "a", dimensions: 2 }]);
    expect(object?.error).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining('the model "e" answered 5 instead of 2'),
    });
  });

  it("answers no prompt, and a model of language embeds nothing", async () => {
    const { model } = embedding();
    expect(await objectOf(model as never, { input: "?" })).toMatchObject({
      error: { code: "invalid_request", message: expect.stringContaining("it cannot answer a prompt") },
    });
    const language = new ScriptedModel("v3", () => said("yes"));
    const [refused] = await embeddedBy(language, [{ input: "a" }]);
    expect(refused?.error).toMatchObject({ code: "unsupported_request" });
    const [failed] = await embeddedBy(() => language, [{ input: "a" }]);
    expect(failed?.error).toMatchObject({ message: expect.stringContaining("does not embed texts") });
  });

  it("of a real provider calls its server, also through embedMany on perigee", async () => {
    const bodies: { readonly input: readonly string[]; readonly dimensions?: number }[] = [];
    const url = await listen(async (request, response) => {
      const body = JSON.parse(await textOf(request)) as (typeof bodies)[number];
      bodies.push(body);
      const data = body.input.map((text, index) => ({
        object: "embedding",
        index,
        embedding: [text.length, 1],
      }));
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ object: "list", data, usage: { prompt_tokens: 9, total_tokens: 9 } }));
    });
    const theirs = createOpenAICompatible({ name: "theirs", baseURL: `${url}/v1` });
    await using world = new SdkEngine();
    const engine = await world.open({
      providers: { theirs: modelProvider((name) => theirs.textEmbeddingModel(name)) },
    });
    const { embeddings, usage } = await embedMany({
      model: createPerigee(engine).embeddingModel("theirs:e"),
      values: ["a", "bb", "ccc"],
      providerOptions: { theirs: { dimensions: 2 } },
    });
    expect(embeddings).toEqual([1, 2, 3].map((length) => [length, 1]));
    expect(usage).toEqual({ tokens: 9 });
    expect(bodies).toEqual([
      expect.objectContaining({ model: "e", input: ["a", "bb", "ccc"], dimensions: 2 }),
    ]);
  });
});

async function listen(
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<string> {
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}
