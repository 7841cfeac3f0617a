/** What each official SDK puts on the wire for a request, recorded on loopback, against what the codec would send. */
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI, ThinkingLevel } from "@google/genai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Provider } from "../../src/providers/index.ts";
import type { ModelRequest } from "../../src/work/request.ts";
import { fixture, provider, request } from "./answers.ts";
import { type RecordedRequest, SdkRecorder } from "./sdk_recorder.ts";

let base: string;
let reply = fixture("openai/success");
const sdk = new SdkRecorder(() => reply);

beforeAll(async () => {
  base = await sdk.open();
});

afterAll(() => sdk.close());

const schema = {
  type: "object",
  properties: { eggs: { type: "integer" } },
  required: ["eggs"],
  additionalProperties: false,
};

/** The codec's request, in the shape of a recording; only headers that it sends. */
function ours(codec: Provider, given: ModelRequest, model: string): RecordedRequest {
  const encoded = codec.encode(given, model);
  if (!encoded.ok) throw new Error(encoded.message);
  const head = codec.head(model);
  return { method: "POST", path: head.path, headers: head.headers, body: JSON.parse(encoded.body) };
}

function expectSame(given: RecordedRequest, headerNames: readonly string[]): void {
  expect(sdk.recorded).toMatchObject({ method: given.method, path: given.path });
  expect(sdk.recorded?.body).toEqual(given.body);
  for (const name of headerNames) expect(sdk.recorded?.headers[name], name).toBe(given.headers[name]);
}

describe("the codec sends what the official SDK sends", () => {
  it("for OpenAI", async () => {
    reply = fixture("openai/success");
    const client = new OpenAI({ apiKey: "k", baseURL: `${base}/v1`, maxRetries: 0 });
    const answer = await client.chat.completions.create({
      model: "gpt-5.4-mini",
      messages: [
        { role: "developer", content: "Be brief." },
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
        {
          role: "user",
          content: [
            { type: "text", text: "How " },
            { type: "text", text: "many?" },
          ],
        },
      ],
      max_completion_tokens: 100,
      reasoning_effort: "none",
      temperature: 0.2,
      top_p: 0.9,
      stop: ["\n"],
      seed: 7,
      presence_penalty: 0.5,
      frequency_penalty: 0.25,
      response_format: { type: "json_schema", json_schema: { name: "answer", strict: true, schema } },
    });
    const given = request({
      system: ["Be brief."],
      turns: [
        { role: "user", parts: ["Hi"] },
        { role: "model", parts: ["Hello"] },
        { role: "user", parts: ["How ", "many?"] },
      ],
      config: {
        maxOutputTokens: 100,
        thinkingConfig: { thinkingLevel: "none" },
        temperature: 0.2,
        topP: 0.9,
        stopSequences: ["\n"],
        seed: 7,
        presencePenalty: 0.5,
        frequencyPenalty: 0.25,
        responseJsonSchema: schema,
      },
    });
    const codec = provider("openai", { baseUrl: `${base}/v1`, key: "k" });
    expectSame(ours(codec, given, "gpt-5.4-mini"), ["content-type", "accept", "authorization"]);
    const decoded = codec.decode(reply);
    expect(decoded).toMatchObject({
      text: answer.choices[0]?.message.content,
      servedTier: answer.service_tier,
    });
    expect(decoded.usage?.inputTokens).toBe(answer.usage?.prompt_tokens);
  });

  it("for Anthropic at the SDK's version, and the same body at ours, in which older models take a temperature", async () => {
    reply = fixture("anthropic/success");
    const client = new Anthropic({ apiKey: "k", baseURL: base, maxRetries: 0 });
    const answer = await client.messages.create({
      model: "claude-opus-5-5",
      max_tokens: 1000,
      system: "Be brief.",
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
        {
          role: "user",
          content: [
            { type: "text", text: "How " },
            { type: "text", text: "many?" },
          ],
        },
      ],
      stop_sequences: ["\n"],
      thinking: { type: "adaptive" },
      output_config: { effort: "low", format: { type: "json_schema", schema } },
    });
    const given = request({
      system: ["Be brief."],
      turns: [
        { role: "user", parts: ["Hi"] },
        { role: "model", parts: ["Hello"] },
        { role: "user", parts: ["How ", "many?"] },
      ],
      config: {
        maxOutputTokens: 1000,
        stopSequences: ["\n"],
        thinkingConfig: { thinkingLevel: "LOW" },
        responseJsonSchema: schema,
      },
    });
    const newest = provider("anthropic", { baseUrl: base, key: "k", apiVersion: "2026-10-21" });
    expectSame(ours(newest, given, "claude-opus-5-5"), [
      "content-type",
      "accept",
      "authorization",
      "anthropic-version",
    ]);
    const codec = provider("anthropic", { baseUrl: base, key: "k" });
    expectSame(ours(codec, given, "claude-opus-5-5"), ["content-type", "accept"]);
    expect(codec.head("claude-opus-5-5").headers).toMatchObject({
      "anthropic-version": "2023-06-01",
      "x-api-key": "k",
    });
    expect(codec.head("claude-opus-5-5").headers).not.toHaveProperty("authorization");
    const text = answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    expect(codec.decode(reply)).toMatchObject({ text, usage: { outputTokens: answer.usage.output_tokens } });
  });

  it("for Gemini", async () => {
    reply = fixture("gemini/success");
    const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: base } });
    const answer = await client.models.generateContent({
      model: "gemini-3.8-flash",
      contents: [
        { role: "user", parts: [{ text: "Hi" }] },
        { role: "model", parts: [{ text: "Hello" }] },
        { role: "user", parts: [{ text: "How " }, { text: "many?" }] },
      ],
      config: {
        systemInstruction: { parts: [{ text: "Be brief." }] },
        temperature: 0.2,
        topP: 0.9,
        topK: 40,
        maxOutputTokens: 100,
        stopSequences: ["\n"],
        seed: 7,
        presencePenalty: 0.5,
        frequencyPenalty: 0.25,
        responseMimeType: "application/json",
        responseJsonSchema: schema,
        thinkingConfig: { thinkingLevel: ThinkingLevel.LOW, includeThoughts: true },
      },
    });
    const given = request({
      system: ["Be brief."],
      turns: [
        { role: "user", parts: ["Hi"] },
        { role: "model", parts: ["Hello"] },
        { role: "user", parts: ["How ", "many?"] },
      ],
      config: {
        temperature: 0.2,
        topP: 0.9,
        topK: 40,
        maxOutputTokens: 100,
        stopSequences: ["\n"],
        seed: 7,
        presencePenalty: 0.5,
        frequencyPenalty: 0.25,
        responseMimeType: "application/json",
        responseJsonSchema: schema,
        thinkingConfig: { thinkingLevel: "low", includeThoughts: true },
      },
    });
    const codec = provider("gemini", { baseUrl: base, key: "k" });
    expectSame(ours(codec, given, "gemini-3.8-flash"), ["content-type", "x-goog-api-key"]);
    expect(codec.decode(reply)).toMatchObject({ text: answer.text });
  });
});
