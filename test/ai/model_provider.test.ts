/**
 * Models of the AI SDK as providers of an engine: a real one before a server that checks what it receives, and scripted ones of each version.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, UnsupportedFunctionalityError } from "@ai-sdk/provider";
import { describe, expect, it, onTestFinished } from "vitest";
import { type CalledAnswer, type CalledModel, type ModelCall, modelProvider } from "../../src/ai/index.ts";
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
