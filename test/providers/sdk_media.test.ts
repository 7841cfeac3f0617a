/** Media, functions, calls and results: what each official SDK puts on the wire, against the translation of both layouts. */
import Anthropic from "@anthropic-ai/sdk";
import {
  FunctionCallingConfigMode,
  GoogleGenAI,
  HarmBlockThreshold,
  HarmCategory,
  MediaResolution,
  PartMediaResolutionLevel,
} from "@google/genai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseLine } from "../../src/jsonl/layout.ts";
import type { ModelRequest } from "../../src/work/request.ts";
import { bodyOf, fixture, provider } from "./answers.ts";
import { SdkRecorder } from "./sdk_recorder.ts";

let base: string;
let reply = fixture("openai/success");
const sdk = new SdkRecorder(() => reply);

beforeAll(async () => {
  base = await sdk.open();
});

afterAll(() => sdk.close());

const MODELS = { openai: "gpt-4o", anthropic: "claude-haiku-4-5", gemini: "gemini-3.8-flash" } as const;
type Name = keyof typeof MODELS;

function read(line: object, name: Name): ModelRequest {
  const parsed = parseLine(Buffer.from(JSON.stringify(line)), { providers: new Set([name]) });
  if (parsed.kind !== "item") throw new Error(JSON.stringify(parsed));
  return parsed.request;
}

/** What is sent for an item in perigee's layout. */
function ofOwn(name: Name, item: object): unknown {
  const request = read({ key: "a", request: { model: `${name}:${MODELS[name]}`, ...item } }, name);
  return bodyOf(provider(name), request, MODELS[name]);
}

/** What is sent for a body in OpenAI's layout. */
function ofChat(name: Name, body: object): unknown {
  const request = read({ custom_id: "a", body: { model: `${name}:${MODELS[name]}`, ...body } }, name);
  return bodyOf(provider(name), request, MODELS[name]);
}

const PNG = "iVBORw0KGgo=";
const PDF = "JVBERi0xLjQ=";
const WAV = "UklGRg==";
const schema = {
  type: "object" as const,
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const weather = { name: "weather", description: "Of a city", parameters: schema };

/** One conversation in both layouts. */
const contents = [
  {
    role: "user",
    parts: [
      { text: "Where is this?" },
      { inline_data: { mime_type: "image/png", data: PNG } },
      { file_data: { file_uri: "https://example.org/b.jpg" } },
    ],
  },
  {
    role: "model",
    parts: [{ text: "Let me see." }, { function_call: { name: "weather", args: { city: "Bonn" } } }],
  },
  { role: "user", parts: [{ function_response: { name: "weather", response: { output: "rain" } } }] },
];
const own = {
  contents,
  tools: [{ function_declarations: [{ ...weather, parameters: undefined, parameters_json_schema: schema }] }],
  tool_config: { function_calling_config: { mode: "ANY", allowed_function_names: ["weather"] } },
  max_output_tokens: 100,
};
const messages = [
  {
    role: "user" as const,
    content: [
      { type: "text" as const, text: "Where is this?" },
      { type: "image_url" as const, image_url: { url: `data:image/png;base64,${PNG}` } },
      { type: "image_url" as const, image_url: { url: "https://example.org/b.jpg" } },
    ],
  },
  {
    role: "assistant" as const,
    content: "Let me see.",
    tool_calls: [
      {
        id: "call_1",
        type: "function" as const,
        function: { name: "weather", arguments: '{"city":"Bonn"}' },
      },
    ],
  },
  { role: "tool" as const, tool_call_id: "call_1", content: "rain" },
];
const chat = {
  messages,
  tools: [{ type: "function" as const, function: weather }],
  tool_choice: { type: "function" as const, function: { name: "weather" } },
  max_completion_tokens: 100,
};

describe("a conversation with images, a function, its call and its result", () => {
  it("is sent to OpenAI as its SDK sends it, from both layouts", async () => {
    reply = fixture("openai/success");
    const client = new OpenAI({ apiKey: "k", baseURL: `${base}/v1`, maxRetries: 0 });
    await client.chat.completions.create({ model: MODELS.openai, ...chat });
    expect(ofOwn("openai", own)).toEqual(sdk.recorded?.body);
    expect(ofChat("openai", chat)).toEqual(sdk.recorded?.body);
  });

  it("is sent to Anthropic as its SDK sends it, from both layouts", async () => {
    reply = fixture("anthropic/success");
    const client = new Anthropic({ apiKey: "k", baseURL: base, maxRetries: 0 });
    await client.messages.create({
      model: MODELS.anthropic,
      max_tokens: 100,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Where is this?" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
            { type: "image", source: { type: "url", url: "https://example.org/b.jpg" } },
          ],
        },
        {
          role: "assistant",
          content: [
            { type: "text", text: "Let me see." },
            { type: "tool_use", id: "call_1", name: "weather", input: { city: "Bonn" } },
          ],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "rain" }] },
      ],
      tools: [{ name: "weather", description: "Of a city", input_schema: schema }],
      tool_choice: { type: "tool", name: "weather", disable_parallel_tool_use: true },
    });
    expect(ofOwn("anthropic", { ...own, parallel_tool_calls: false })).toEqual(sdk.recorded?.body);
    expect(ofChat("anthropic", { ...chat, parallel_tool_calls: false })).toEqual(sdk.recorded?.body);
  });

  it("is sent to Gemini as its SDK sends it, with what only Gemini has", async () => {
    reply = fixture("gemini/success");
    const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: base } });
    const safety = {
      category: HarmCategory.HARM_CATEGORY_HARASSMENT,
      threshold: HarmBlockThreshold.BLOCK_NONE,
    };
    const wire = (id: string | undefined, mimeType: string | undefined) => ({
      model: MODELS.gemini,
      contents: [
        {
          role: "user",
          parts: [
            { text: "Where is this?" },
            { inlineData: { mimeType: "image/png", data: PNG } },
            {
              fileData: {
                ...(mimeType === undefined ? {} : { mimeType }),
                fileUri: "https://example.org/b.jpg",
              },
            },
          ],
        },
        {
          role: "model",
          parts: [
            { text: "Let me see." },
            {
              functionCall: { ...(id === undefined ? {} : { id }), name: "weather", args: { city: "Bonn" } },
            },
          ],
        },
        {
          role: "user",
          parts: [
            {
              functionResponse: {
                ...(id === undefined ? {} : { id }),
                name: "weather",
                response: { output: "rain" },
              },
            },
          ],
        },
      ],
      config: {
        maxOutputTokens: 100,
        candidateCount: 2,
        safetySettings: [safety],
        cachedContent: "cachedContents/1",
        tools: [
          {
            functionDeclarations: [
              { name: "weather", description: "Of a city", parametersJsonSchema: schema },
            ],
          },
        ],
        toolConfig: {
          functionCallingConfig: { mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: ["weather"] },
        },
      },
    });
    const geminis = { safety_settings: [safety], cached_content: "cachedContents/1", candidate_count: 2 };
    await client.models.generateContent(wire(undefined, "image/jpeg"));
    expect(ofOwn("gemini", { ...own, ...geminis })).toEqual(sdk.recorded?.body);
    await client.models.generateContent(wire("call_1", "image/jpeg"));
    const { candidate_count: n, ...others } = geminis;
    const item = { key: "a", model: `gemini:${MODELS.gemini}`, ...chat, n, ...others };
    expect(bodyOf(provider("gemini"), read(item, "gemini"), MODELS.gemini)).toEqual(sdk.recorded?.body);
  });
});

describe("documents and sounds", () => {
  const parts = (mime_type: string, data: string, display_name?: string) => ({
    contents: [{ parts: [{ text: "Sum up." }, { inline_data: { mime_type, data, display_name } }] }],
    max_output_tokens: 100,
  });

  it("are sent to OpenAI as its SDK sends them", async () => {
    reply = fixture("openai/success");
    const client = new OpenAI({ apiKey: "k", baseURL: `${base}/v1`, maxRetries: 0 });
    const create = (part: OpenAI.ChatCompletionContentPart) =>
      client.chat.completions.create({
        model: MODELS.openai,
        max_completion_tokens: 100,
        messages: [{ role: "user", content: [{ type: "text", text: "Sum up." }, part] }],
      });
    await create({
      type: "file",
      file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` },
    });
    expect(ofOwn("openai", parts("application/pdf", PDF, "a.pdf"))).toEqual(sdk.recorded?.body);
    await create({ type: "input_audio", input_audio: { data: WAV, format: "wav" } });
    expect(ofOwn("openai", parts("audio/wav", WAV))).toEqual(sdk.recorded?.body);
  });

  it("are sent to Anthropic as its SDK sends them, a text decoded", async () => {
    reply = fixture("anthropic/success");
    const client = new Anthropic({ apiKey: "k", baseURL: base, maxRetries: 0 });
    const create = (block: Anthropic.DocumentBlockParam) =>
      client.messages.create({
        model: MODELS.anthropic,
        max_tokens: 100,
        messages: [{ role: "user", content: [{ type: "text", text: "Sum up." }, block] }],
      });
    await create({
      type: "document",
      source: { type: "base64", media_type: "application/pdf", data: PDF },
      title: "a.pdf",
    });
    expect(ofOwn("anthropic", parts("application/pdf", PDF, "a.pdf"))).toEqual(sdk.recorded?.body);
    await create({ type: "document", source: { type: "text", media_type: "text/plain", data: "grüße" } });
    const text = Buffer.from("grüße").toString("base64");
    expect(ofOwn("anthropic", parts("text/markdown", text))).toEqual(sdk.recorded?.body);
  });
});

describe("the resolution of a part and media inside a result", () => {
  const level = PartMediaResolutionLevel.MEDIA_RESOLUTION_ULTRA_HIGH;
  const chart = { mimeType: "image/png", data: PNG, displayName: "chart.png" };
  const given = {
    contents: [
      {
        role: "user",
        parts: [{ inline_data: { mime_type: "image/png", data: PNG }, media_resolution: { level } }],
      },
      { role: "model", parts: [{ function_call: { name: "draw", args: {} } }] },
      {
        role: "user",
        parts: [
          {
            function_response: {
              name: "draw",
              response: { image: { $ref: "chart.png" } },
              parts: [
                { inline_data: { mime_type: "image/png", data: PNG, display_name: "chart.png" } },
                { file_data: { file_uri: "gs://b/a.pdf", mime_type: "application/pdf" } },
              ],
            },
          },
        ],
      },
    ],
    max_output_tokens: 100,
  };

  it("are sent to Gemini as its SDK sends them", async () => {
    reply = fixture("gemini/success");
    const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: base } });
    const fileData = { fileUri: "gs://b/a.pdf", mimeType: "application/pdf" };
    const functionResponse = {
      name: "draw",
      response: { image: { $ref: "chart.png" } },
      parts: [{ inlineData: chart }, { fileData }],
    };
    await client.models.generateContent({
      model: MODELS.gemini,
      contents: [
        {
          role: "user",
          parts: [{ inlineData: { mimeType: "image/png", data: PNG }, mediaResolution: { level } }],
        },
        { role: "model", parts: [{ functionCall: { name: "draw", args: {} } }] },
        { role: "user", parts: [{ functionResponse }] },
      ],
      config: { maxOutputTokens: 100 },
    });
    expect(ofOwn("gemini", given)).toEqual(sdk.recorded?.body);
  });

  it("are blocks of the result at Anthropic, with the resolution named, and refused by OpenAI's family", () => {
    const [first, call] = given.contents;
    const parts = [{ inline_data: { mime_type: "image/png", data: PNG, display_name: "chart.png" } }];
    const result = { function_response: { name: "draw", response: { image: 1 }, parts } };
    const contents = [first, call, { role: "user", parts: [result] }];
    const encoded = (name: Name) => {
      const line = {
        key: "a",
        request: { model: `${name}:${MODELS[name]}`, contents, max_output_tokens: 9 },
      };
      return provider(name).encode(read(line, name), MODELS[name]);
    };
    const claude = encoded("anthropic");
    if (!claude.ok) throw new Error(claude.message);
    expect(claude.dropped).toEqual(["media_resolution", "file_name"]);
    expect(JSON.parse(claude.body)).toMatchObject({
      messages: [
        {},
        {},
        {
          content: [
            {
              type: "tool_result",
              content: [
                { type: "text", text: '{"image":1}' },
                { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
              ],
            },
          ],
        },
      ],
    });
    expect(encoded("openai")).toMatchObject({
      ok: false,
      code: "unsupported_request",
      message: "contents[2].parts[0]: openai takes only text as the result of a tool",
    });
  });

  it.each([
    [{ parts: {} }, /functionResponse\.parts/],
    [{ parts: [{ text: "a" }] }, /functionResponse\.parts\[0\]/],
    [{ parts: [{}] }, /functionResponse\.parts\[0\] must have inline_data or file_data/],
    [{ parts: [{ inline_data: {} }] }, /functionResponse\.parts\[0\]\.inlineData\.data/],
  ])("are refused by their place where they are not media: %j", (more, message) => {
    const response = { function_response: { name: "f", response: {}, ...more } };
    const line = { key: "a", model: "gemini:m", contents: [{ parts: [response] }] };
    const parsed = parseLine(Buffer.from(JSON.stringify(line)), { providers: new Set(["gemini"]) });
    expect(parsed).toMatchObject({ kind: "rejected", message: expect.stringMatching(message) });
  });
});

describe("the resolution of all media", () => {
  const item = {
    contents: [{ role: "user", parts: [{ inline_data: { mime_type: "image/png", data: PNG } }] }],
    generation_config: { media_resolution: "MEDIA_RESOLUTION_LOW", max_output_tokens: 100 },
  };

  it("is sent to Gemini as its SDK sends it", async () => {
    reply = fixture("gemini/success");
    await new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: base } }).models.generateContent({
      model: MODELS.gemini,
      contents: [{ role: "user", parts: [{ inlineData: { mimeType: "image/png", data: PNG } }] }],
      config: { mediaResolution: MediaResolution.MEDIA_RESOLUTION_LOW, maxOutputTokens: 100 },
    });
    expect(ofOwn("gemini", item)).toEqual(sdk.recorded?.body);
  });

  it.each(["openai", "anthropic"] as const)(
    "is left out and named for %s, and refused where it says so",
    (name) => {
      const request = read({ key: "a", request: { model: `${name}:${MODELS[name]}`, ...item } }, name);
      expect(provider(name).encode(request, MODELS[name])).toMatchObject({
        ok: true,
        dropped: ["media_resolution"],
      });
      const strict = provider(name, { unsupportedConfig: "refuse" }).encode(request, MODELS[name]);
      expect(strict).toMatchObject({ ok: false, message: expect.stringContaining("media_resolution") });
    },
  );
});
