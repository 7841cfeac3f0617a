/** Requests of other endpoints than a chat's: compared with what the official SDKs send, and their answers read. */
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readEndpointRequest } from "../../../src/jsonl/endpoint_item.ts";
import { LineFault } from "../../../src/jsonl/fault.ts";
import type { Provider } from "../../../src/providers/index.ts";
import type { JsonObject } from "../../../src/work/json.ts";
import type { EndpointKind, ModelRequest } from "../../../src/work/request.ts";
import { provider } from "../answers.ts";
import { SdkRecorder } from "../sdk_recorder.ts";

let base: string;
let reply: object = {};
const sdk = new SdkRecorder(() => ({ status: 200, body: JSON.stringify(reply) }));

beforeAll(async () => {
  base = await sdk.open();
});

afterAll(() => sdk.close());

function read(kind: EndpointKind, item: JsonObject): ModelRequest {
  const request = readEndpointRequest(kind, item);
  if (request instanceof LineFault) throw new Error(request.message);
  return request;
}

function codecOf(name: string, kind: EndpointKind, baseUrl: string): Provider {
  const codec = provider(name, { baseUrl, key: "k" }).endpoint?.(kind);
  if (codec === undefined) throw new Error(`${name} has no ${kind}`);
  return codec;
}

function sent(codec: Provider, kind: EndpointKind, item: JsonObject, model: string): object {
  const encoded = codec.encode(read(kind, item), model);
  if (!encoded.ok) throw new Error(encoded.message);
  return { path: codec.head(model).path, body: JSON.parse(encoded.body) };
}

function decoded(codec: Provider, status: number, body: unknown): ReturnType<Provider["decode"]> {
  return codec.decode({ status, headers: {}, body: Buffer.from(JSON.stringify(body)), wallMs: 0 });
}

function bytesOf(...texts: readonly string[]): readonly Uint8Array[] {
  return texts.map((text) => Uint8Array.from(Buffer.from(text)));
}

const EMBEDDINGS = {
  object: "list",
  data: [
    { object: "embedding", index: 1, embedding: [0.25, -1e-7] },
    { object: "embedding", index: 0, embedding: [1, 2.5] },
  ],
  model: "text-embedding-3-small-1",
  usage: { prompt_tokens: 8, total_tokens: 8 },
};

describe("OpenAI's other endpoints are called as its SDK calls them", () => {
  const client = (): OpenAI => new OpenAI({ apiKey: "k", baseURL: `${base}/v1`, maxRetries: 0 });

  it("embeddings, with their vectors in the order of the inputs", async () => {
    reply = EMBEDDINGS;
    const body = { input: ["a", "b"], dimensions: 2, encoding_format: "float" as const, user: "u" };
    await client().embeddings.create({ model: "text-embedding-3-small", ...body });
    const codec = codecOf("openai", "embedding", `${base}/v1`);
    expect(sent(codec, "embedding", body, "text-embedding-3-small")).toEqual({
      path: sdk.recorded?.path,
      body: sdk.recorded?.body,
    });
    expect(sdk.recorded?.headers["authorization"]).toBe(codec.head("").headers["authorization"]);
    expect(decoded(codec, 200, reply)).toMatchObject({
      class: "success",
      text: "",
      output: { type: "embedding", values: bytesOf("[1,2.5]", "[0.25,-1e-7]") },
      model: "text-embedding-3-small-1",
      usage: { inputTokens: 8, outputTokens: 0 },
    });
  });

  it("moderations", async () => {
    reply = {
      id: "modr-1",
      model: "omni-moderation",
      results: [{ flagged: true, categories: { hate: true } }],
    };
    const body = { input: [{ type: "text", text: "a" }] } as const;
    await client().moderations.create({
      model: "omni-moderation-latest",
      input: [{ type: "text", text: "a" }],
    });
    const codec = codecOf("openai", "moderation", `${base}/v1`);
    expect(sent(codec, "moderation", body, "omni-moderation-latest")).toMatchObject({
      path: sdk.recorded?.path,
      body: sdk.recorded?.body,
    });
    expect(decoded(codec, 200, reply)).toMatchObject({
      output: { type: "moderation", values: ['{"flagged":true,"categories":{"hate":true}}'] },
    });
  });

  it("completions", async () => {
    reply = {
      id: "cmpl-1",
      model: "m",
      choices: [{ index: 0, text: " upon", finish_reason: "length", logprobs: null }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    };
    const body = { prompt: "Once", max_tokens: 1, temperature: 0, stop: ["\n"] };
    await client().completions.create({ model: "gpt-3.5-turbo-instruct", ...body });
    const codec = codecOf("openai", "completion", `${base}/v1`);
    expect(sent(codec, "completion", body, "gpt-3.5-turbo-instruct")).toMatchObject({
      path: sdk.recorded?.path,
      body: sdk.recorded?.body,
    });
    expect(decoded(codec, 200, reply)).toMatchObject({ text: " upon", finish: "length" });
  });

  it("responses, with calls, thoughts and a refusal in the form of a chat's", async () => {
    reply = {
      id: "resp_1",
      status: "completed",
      model: "gpt-5-mini",
      output: [
        { type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] },
        {
          type: "message",
          role: "assistant",
          content: [{ type: "output_text", text: "Hi", annotations: [] }],
        },
        { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
      ],
      usage: {
        input_tokens: 9,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens: 7,
        output_tokens_details: { reasoning_tokens: 3 },
      },
    };
    const body = { input: "Hi", instructions: "Be brief.", max_output_tokens: 20, store: false };
    await client().responses.create({ model: "gpt-5-mini", ...body });
    const codec = codecOf("openai", "response", `${base}/v1`);
    expect(sent(codec, "response", body, "gpt-5-mini")).toEqual({
      path: sdk.recorded?.path,
      body: sdk.recorded?.body,
    });
    expect(decoded(codec, 200, reply)).toMatchObject({
      text: "Hi",
      finish: "tool_calls",
      members: {
        reasoning: "hm",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      usage: { inputTokens: 9, cachedTokens: 4, outputTokens: 7, reasoningTokens: 3 },
    });
  });

  it("stores no response at OpenAI unless the item asks for it, and adds nothing elsewhere", () => {
    const at = (name: string, baseUrl: string, item: JsonObject): unknown =>
      (sent(codecOf(name, "response", baseUrl), "response", item, "m") as { body: JsonObject }).body["store"];
    expect(at("openai", "https://api.openai.com/v1", { input: "a" })).toBe(false);
    expect(at("openai", "https://api.openai.com/v1", { input: "a", store: true })).toBe(true);
    expect(at("vllm", `${base}/v1`, { input: "a" })).toBeUndefined();
  });

  it("calls an embedding's length as Mistral does", () => {
    const codec = codecOf("mistral", "embedding", `${base}/v1`);
    expect(sent(codec, "embedding", { input: "a", dimensions: 8 }, "mistral-embed")).toMatchObject({
      body: { input: "a", output_dimension: 8, model: "mistral-embed" },
    });
  });

  it("refuses names that OpenAI does not have, and elsewhere names that are near its own", () => {
    const message = (name: string, baseUrl: string, item: JsonObject): string => {
      const encoded = codecOf(name, "embedding", baseUrl).encode(read("embedding", item), "m");
      return encoded.ok ? "sent" : encoded.message;
    };
    const own = "https://api.openai.com/v1";
    expect(message("openai", own, { input: "a", dimension: 3 })).toBe(
      'dimension is not a known member of an embedding; did you mean "dimensions"?',
    );
    expect(message("openai", own, { input: "a", truncate: "END" })).toMatch(
      /^truncate is not a known member/,
    );
    expect(message("vllm", base, { input: "a", truncate_prompt_tokens: 3 })).toBe("sent");
    expect(message("vllm", base, { input: "a", dimension: 3 })).toMatch(/did you mean "dimensions"/);
  });
});

describe("Gemini's embeddings are called as its SDK calls them", () => {
  it("with one request for each input", async () => {
    reply = { embeddings: [{ values: [0.5] }, { values: [1, 2] }] };
    const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: base } });
    await client.models.embedContent({
      model: "gemini-embedding-001",
      contents: ["a", "b"],
      config: { outputDimensionality: 2, taskType: "RETRIEVAL_DOCUMENT" },
    });
    const codec = codecOf("gemini", "embedding", base);
    const item = { input: ["a", "b"], dimensions: 2, task_type: "RETRIEVAL_DOCUMENT" };
    const ours = sent(codec, "embedding", item, "gemini-embedding-001") as {
      path: string;
      body: { requests: object[] };
    };
    const theirs = sdk.recorded?.body as { requests: { content: object }[] };
    expect(ours.path).toBe(sdk.recorded?.path);
    expect(ours.body.requests).toEqual(
      // The SDK adds a role that the API ignores for embeddings.
      theirs.requests.map(({ content, ...each }) => ({
        ...each,
        content: { parts: (content as { parts: unknown }).parts },
      })),
    );
    expect(decoded(codec, 200, reply)).toMatchObject({
      output: { type: "embedding", values: bytesOf("[0.5]", "[1,2]") },
      usage: undefined,
    });
  });

  it.each([
    [{ input: [1, 2] }, "input: gemini reads texts, not token ids"],
    [{ input: "a", encoding_format: "base64" }, 'encoding_format: gemini answers numbers, got "base64"'],
    [
      { input: "a", dimension: 1 },
      'dimension is not a known member of an embedding; did you mean "dimensions"?',
    ],
  ])("refuses %j", (item, message) => {
    const encoded = codecOf("gemini", "embedding", base).encode(read("embedding", item), "m");
    expect(encoded).toMatchObject({ ok: false, message });
  });
});

describe("an answer that is not one", () => {
  const codec = codecOf("openai", "embedding", "http://127.0.0.1/v1");

  it.each([
    [200, {}, "ambiguous", "invalid_response"],
    [200, { data: [] }, "ambiguous", "invalid_response"],
    [200, { data: [{ index: 0, embedding: ["x"] }] }, "ambiguous", "invalid_response"],
    [200, { data: [{ index: 1, embedding: [1] }] }, "ambiguous", "invalid_response"],
    [200, { data: [{ index: 0 }, { index: 1, embedding: [1] }] }, "ambiguous", "invalid_response"],
    [400, { error: { message: "bad", code: "invalid_input" } }, "permanent", "invalid_request"],
    [429, { error: { message: "slow down", code: "rate_limit_exceeded" } }, "refused", "rate_limited"],
  ])("%d %j is %s", (status, body, kind, code) => {
    expect(decoded(codec, status, body)).toMatchObject({ class: kind, code });
  });

  it("of a response that did not end is ambiguous, and of one that was cut off is kept", () => {
    const responses = codecOf("openai", "response", "http://127.0.0.1/v1");
    const output = [{ type: "message", content: [{ type: "output_text", text: "Hi" }] }];
    expect(
      decoded(responses, 200, { status: "failed", output: [], error: { code: "server_error" } }).class,
    ).not.toBe("success");
    expect(decoded(responses, 200, { status: "in_progress", output })).toMatchObject({ class: "ambiguous" });
    expect(
      decoded(responses, 200, {
        status: "incomplete",
        incomplete_details: { reason: "max_output_tokens" },
        output,
      }),
    ).toMatchObject({ class: "success", finish: "length", text: "Hi" });
  });
});

describe("providers without the endpoint", () => {
  it("have no codec for it", () => {
    expect(provider("anthropic", { key: "k" }).endpoint?.("embedding")).toBeUndefined();
    expect(provider("gemini", { key: "k" }).endpoint?.("response")).toBeUndefined();
  });
});
