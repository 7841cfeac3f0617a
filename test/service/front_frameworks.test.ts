/**
 * Frameworks that take a base URL, unchanged, against the front: LangChain's ChatOpenAI and the AI SDK's openai-compatible provider.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, jsonSchema, tool as sdkTool, streamText, type ToolSet } from "ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { completion, type FrontWorld, openFront, sendJson } from "./front_world.ts";

let world: FrontWorld;

const CALL = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } };
const WEATHER = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
} as const;

/** Calls its tool if it has one and no result yet; otherwise says the last text in capitals. */
beforeAll(async () => {
  world = await openFront(({ body }, response) => {
    const last = body.messages.at(-1);
    const isCall = body.tools !== undefined && last.role !== "tool";
    const text = typeof last.content === "string" ? last.content : last.content[0].text;
    if (body.stream !== true) {
      if (!isCall) return sendJson(response, completion({ content: text.toUpperCase() }));
      const message = { role: "assistant", content: null, tool_calls: [CALL] };
      const choices = [{ index: 0, message, finish_reason: "tool_calls" }];
      return sendJson(response, completion({}, { choices }));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (delta: object, finish_reason: string | null, more: object = {}): void => {
      const choices = [{ index: 0, delta, finish_reason }];
      const chunk = { id: "c1", object: "chat.completion.chunk", created: 1, model: "m", choices, ...more };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    for (const word of text.toUpperCase().split(/(?<= )/)) send({ role: "assistant", content: word }, null);
    send({}, "stop");
    send({}, null, { choices: [], usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 } });
    response.end("data: [DONE]\n\n");
  });
});

afterAll(() => world.close());

describe("LangChain's ChatOpenAI", () => {
  const model = (): ChatOpenAI =>
    new ChatOpenAI({
      ...{ model: "gpt-4o-mini", apiKey: "alpha", maxRetries: 0 },
      configuration: { baseURL: world.baseURL },
    });

  it("is answered", async () => {
    const answer = await model().invoke("good day");
    expect(answer.content).toBe("GOOD DAY");
    expect(answer.usage_metadata).toMatchObject({ input_tokens: 7, output_tokens: 3 });
  });

  it("streams", async () => {
    let text = "";
    for await (const chunk of await model().stream("good day to you")) text += String(chunk.content);
    expect(text).toBe("GOOD DAY TO YOU");
  });

  it("calls tools", async () => {
    const weather = tool(() => "sunny", { name: "weather", description: "the weather", schema: WEATHER });
    const answer = await model().bindTools([weather]).invoke("weather in Rome?");
    expect(answer.tool_calls).toMatchObject([{ name: "weather", args: { city: "Rome" } }]);
  });
});

describe("the AI SDK's openai-compatible provider", () => {
  const model = () =>
    createOpenAICompatible({ name: "perigee", baseURL: world.baseURL, apiKey: "alpha" })("gpt-4o-mini");

  it("is answered", async () => {
    const { text, usage } = await generateText({ model: model(), prompt: "good day" });
    expect(text).toBe("GOOD DAY");
    expect(usage).toMatchObject({ inputTokens: 7, outputTokens: 3 });
  });

  it("streams", async () => {
    const { textStream, finishReason } = streamText({ model: model(), prompt: "good day to you" });
    let text = "";
    for await (const part of textStream) text += part;
    expect(text).toBe("GOOD DAY TO YOU");
    expect(await finishReason).toBe("stop");
  });

  it("calls tools", async () => {
    const weather = sdkTool({
      description: "the weather",
      inputSchema: jsonSchema<{ city: string }>(WEATHER),
    });
    const tools = { weather } as unknown as ToolSet; // its types are not made for exactOptionalPropertyTypes
    const { toolCalls } = await generateText({ model: model(), prompt: "Rome?", tools });
    expect(toolCalls).toMatchObject([{ toolName: "weather", input: { city: "Rome" } }]);
  });
});
