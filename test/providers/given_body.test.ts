import { describe, expect, it } from "vitest";
import { bodyOf, droppedBy, provider, request } from "./answers.ts";

const openai = provider("openai");
const anthropic = provider("anthropic");
const gemini = provider("gemini");

describe("an item in OpenAI's layout", () => {
  const given = {
    model: "gpt-4o-mini",
    messages: [{ role: "user", content: "Hi" }],
    max_tokens: 5,
    logit_bias: { "50256": -100 },
    tools: [],
  };

  it("is sent unchanged to servers of OpenAI's protocol, with only the model's name replaced", () => {
    const item = request({ openaiBody: given, unknownFields: ["logit_bias", "tools"] });
    for (const name of ["openai", "mistral", "vllm"]) {
      expect(bodyOf(provider(name), item, "other")).toEqual({ ...given, model: "other" });
      expect(droppedBy(provider(name), item, "other")).toEqual([]);
    }
  });

  it("is translated for all others, naming what is lost, and refused where that would change the answer", () => {
    const item = (more: object): ReturnType<typeof request> =>
      request({
        openaiBody: { ...given, ...more },
        unknownFields: [...Object.keys(more), "tools"],
        config: { maxOutputTokens: 5 },
      });
    const unseen = item({ user: "u", metadata: { a: "b" }, store: false });
    expect(bodyOf(anthropic, unseen, "claude-haiku-4-5")).toEqual({
      model: "claude-haiku-4-5",
      max_tokens: 5,
      messages: [{ role: "user", content: "How many?" }],
    });
    expect(droppedBy(anthropic, unseen, "claude-haiku-4-5")).toEqual(["user", "metadata"]);
    expect(anthropic.encode(item({ logit_bias: { "50256": -100 } }), "claude-haiku-4-5")).toEqual({
      ok: false,
      code: "invalid_config",
      field: "logit_bias",
      message:
        'anthropic:claude-haiku-4-5 does not take logit_bias; leave it out, or set unsupportedConfig to "drop"',
    });
    expect(gemini.encode(item({ verbosity: "low", guided_json: {}, guided_regex: "x" }), "g")).toMatchObject({
      message:
        'gemini:g does not take verbosity, guided_json, guided_regex; leave them out, or set unsupportedConfig to "drop"',
    });
  });

  it("with a name that nobody knows is refused with the one that was meant", () => {
    const item = (name: string): ReturnType<typeof request> =>
      request({ openaiBody: { ...given, [name]: 1 }, unknownFields: [name] });
    for (const name of ["openai", "vllm", "anthropic", "gemini", "echo"])
      expect(provider(name).encode(item("temprature"), "m")).toEqual({
        ok: false,
        code: "invalid_config",
        message: '"temprature" is not a known member of body; did you mean "temperature"?',
      });
    expect(openai.encode(item("guided_json"), "gpt-4o")).toEqual({
      ok: false,
      code: "invalid_config",
      message: '"guided_json" is not a known member of body at api.openai.com',
    });
  });

  it("with members of a vendor is sent unchanged to every server but OpenAI's own", () => {
    const more = {
      guided_json: {},
      top_k: 5,
      min_p: 0.1,
      min_tokens: 2,
      chat_template_kwargs: {},
      route: "x",
    };
    const item = request({ openaiBody: { ...given, ...more }, unknownFields: Object.keys(more) });
    const elsewhere = provider("openai", { baseUrl: "http://10.0.0.7:8000/v1" });
    for (const codec of [provider("vllm"), provider("openrouter"), elsewhere]) {
      expect(bodyOf(codec, item, "m")).toEqual({ ...given, ...more, model: "m" });
    }
    expect(openai.encode(item, "m")).toMatchObject({ ok: false, code: "invalid_config" });
  });

  it("has the sampling settings left out that its model does not take", () => {
    const sampling = { temperature: 0.2, top_p: 1, presence_penalty: 0, frequency_penalty: 0.5 };
    const item = request({ openaiBody: { ...given, ...sampling } });
    expect(droppedBy(openai, item, "gpt-4o")).toEqual([]);
    expect(droppedBy(openai, item, "o3")).toEqual(["temperature", "frequency_penalty"]);
    expect(bodyOf(openai, item, "o3")).toEqual({
      ...given,
      top_p: 1,
      presence_penalty: 0,
      model: "o3",
    });
    const quiet = request({ openaiBody: { ...given, ...sampling, reasoning_effort: "none" } });
    expect(droppedBy(openai, quiet, "gpt-5.4")).toEqual([]);
    const topK = request({ openaiBody: { ...given, top_k: 4 }, unknownFields: ["top_k"] });
    expect(droppedBy(openai, topK, "gpt-4o")).toEqual(["top_k"]);
    const strict = provider("openai", { unsupportedConfig: "refuse" });
    expect(strict.encode(item, "o3")).toMatchObject({
      message: "openai:o3 does not take temperature, frequency_penalty; leave them out",
    });
  });

  it("is refused when it asks for a stream or for more than eight answers", () => {
    for (const more of [{ stream: true }, { n: 9 }]) {
      const item = request({ openaiBody: { ...given, ...more } });
      expect(openai.encode(item, "gpt-4o")).toMatchObject({ ok: false, code: "unsupported_request" });
    }
  });
});

describe("a member of a message that is not known", () => {
  const faultOf = (codec: ReturnType<typeof provider>, messages: unknown, model = "other"): unknown => {
    const encoded = codec.encode(
      request({ openaiBody: { messages } as never, unknownFields: ["messages"] }),
      model,
    );
    return encoded.ok ? undefined : `${encoded.code}: ${encoded.message}`;
  };
  const misspelt = [
    { role: "user", content: "Hi" },
    { role: "user", content: "Hi", nmae: "Ann" },
  ];
  const inPart = [{ role: "user", content: [{ type: "text", text: "Hi", txt: "x" }] }];
  const ofVendors = [{ role: "assistant", content: "Hi", reasoning_content: "hm", prefix: true }];

  it("is refused with the one that was meant, by every codec", () => {
    for (const [name, model] of [
      ["openai", "gpt-4o"],
      ["vllm", "m"],
      ["anthropic", "claude-haiku-4-5"],
      ["gemini", "g"],
      ["echo", "e"],
    ]) {
      const codec = provider(name ?? "");
      expect(faultOf(codec, misspelt, model)).toBe(
        'invalid_config: "nmae" is not a known member of messages[1]; did you mean "name"?',
      );
      expect(faultOf(codec, inPart, model)).toBe(
        'invalid_config: "txt" is not a known member of messages[0].content[0]; did you mean "text"?',
      );
    }
  });

  it("is sent to servers that have their own, and not to OpenAI", () => {
    expect(faultOf(provider("vllm"), ofVendors)).toBe(undefined);
    expect(faultOf(provider("vllm"), [{ role: "user", content: "Hi", guided: 1 }])).toBe(undefined);
    expect(faultOf(openai, ofVendors)).toBe(
      'invalid_config: "reasoning_content" is not a known member of messages[0] at api.openai.com',
    );
  });

  it("is not documented by OpenAI", () => {
    const tool = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
    const messages = [
      { role: "developer", content: "Be brief", name: "dev" },
      {
        role: "user",
        content: [
          { type: "text", text: "?" },
          { type: "image_url", image_url: { url: "data:," } },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [tool],
        refusal: null,
        audio: null,
        function_call: null,
      },
      { role: "tool", tool_call_id: "c1", content: "3" },
    ];
    expect(faultOf(openai, messages)).toBe(undefined);
  });
});
