import { describe, expect, it } from "vitest";
import type { Provider } from "../../src/providers/index.ts";
import type { GenerationConfig } from "../../src/work/request.ts";
import { bodyOf, droppedBy, provider, request } from "./answers.ts";

const openai = provider("openai");
const anthropic = provider("anthropic");
const gemini = provider("gemini");

const conversation = request({
  system: ["Be brief."],
  turns: [
    { role: "user", parts: ["Hi", " there"] },
    { role: "model", parts: ["Hello"] },
    { role: "user", parts: ["How many?"] },
  ],
});

/** The settings for which a request is refused. */
function refusedBy(codec: Provider, given: ReturnType<typeof request>, model: string): string | undefined {
  const encoded = codec.encode(given, model);
  if (encoded.ok) return undefined;
  return / does not take (.*); leave /.exec(encoded.message)?.[1];
}

function config(given: GenerationConfig): ReturnType<typeof request> {
  return request({ config: given });
}

describe("a conversation", () => {
  it("is a list of messages at OpenAI, with the parts of one message kept apart", () => {
    expect(bodyOf(openai, conversation, "gpt-4o")).toEqual({
      model: "gpt-4o",
      messages: [
        { role: "system", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "text", text: "Hi" },
            { type: "text", text: " there" },
          ],
        },
        { role: "assistant", content: "Hello" },
        { role: "user", content: "How many?" },
      ],
    });
  });

  it("has its parts joined for servers whose templates would put a line break between them", () => {
    expect(bodyOf(provider("vllm"), conversation, "m")["messages"]).toContainEqual({
      role: "user",
      content: "Hi there",
    });
  });

  it("has a developer instead of a system message for OpenAI's reasoning models", () => {
    for (const model of ["o1", "o3-mini", "o4-mini-2025-04-16", "gpt-5", "gpt-5.4-mini", "gpt-6-sol"]) {
      expect(bodyOf(openai, conversation, model)["messages"]).toContainEqual({
        role: "developer",
        content: "Be brief.",
      });
    }
    for (const model of ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest", "ft:gpt-4o:me::1"]) {
      expect(bodyOf(openai, conversation, model)["messages"]).toContainEqual({
        role: "system",
        content: "Be brief.",
      });
    }
    expect(bodyOf(provider("groq"), conversation, "gpt-5")["messages"]).toContainEqual({
      role: "system",
      content: "Be brief.",
    });
  });

  it("has its system text at the top and a token limit at Anthropic", () => {
    expect(bodyOf(anthropic, conversation, "claude-haiku-4-5")).toEqual({
      model: "claude-haiku-4-5",
      max_tokens: 4096,
      system: "Be brief.",
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Hi" },
            { type: "text", text: " there" },
          ],
        },
        { role: "assistant", content: "Hello" },
        { role: "user", content: "How many?" },
      ],
    });
    const patient = provider("anthropic", { defaultMaxOutputTokens: 900 });
    expect(bodyOf(patient, conversation, "claude-haiku-4-5")).toMatchObject({ max_tokens: 900 });
    expect(bodyOf(patient, config({ maxOutputTokens: 7 }), "claude-haiku-4-5")).toMatchObject({
      max_tokens: 7,
    });
  });

  it("is Gemini's own layout at Gemini", () => {
    expect(bodyOf(gemini, conversation, "gemini-3.8-flash")).toEqual({
      contents: [
        { role: "user", parts: [{ text: "Hi" }, { text: " there" }] },
        { role: "model", parts: [{ text: "Hello" }] },
        { role: "user", parts: [{ text: "How many?" }] },
      ],
      systemInstruction: { parts: [{ text: "Be brief." }] },
    });
  });

  it("without a user's message, or with tools, is refused by protocols that would have to translate it", () => {
    for (const codec of [anthropic, gemini, openai]) {
      expect(codec.encode(request({ turns: [] }), "m")).toMatchObject({
        ok: false,
        code: "unsupported_request",
      });
      expect(codec.encode(request({ unknownFields: ["tools"] }), "m")).toMatchObject({
        code: "unsupported_request",
      });
    }
    const lenient = provider("anthropic", { unsupportedConfig: "drop" });
    expect(droppedBy(lenient, request({ unknownFields: ["tools"] }), "m")).toEqual(["tools"]);
    const unheld = request({ openaiBody: {}, unheld: "messages[0].name" });
    for (const codec of [lenient, anthropic])
      expect(codec.encode(unheld, "m")).toMatchObject({
        code: "unsupported_request",
        message: "messages[0].name: anthropic has no counterpart",
      });
    expect(openai.encode(unheld, "m")).toMatchObject({ ok: true });
  });
});

describe("settings at OpenAI and its family", () => {
  const all: GenerationConfig = {
    temperature: 0.2,
    topP: 0.9,
    topK: 40,
    maxOutputTokens: 100,
    stopSequences: ["\n"],
    seed: 7,
    presencePenalty: 0.5,
    frequencyPenalty: 0.25,
  };

  it.each([
    ["openai", { max_completion_tokens: 100, seed: 7 }, ["top_k"]],
    ["groq", { max_completion_tokens: 100, seed: 7 }, ["top_k"]],
    ["deepseek", { max_tokens: 100 }, ["top_k", "seed"]],
    ["mistral", { max_tokens: 100, random_seed: 7 }, ["top_k"]],
    ["ollama", { max_tokens: 100, seed: 7 }, ["top_k"]],
    ["together", { max_tokens: 100, top_k: 40, seed: 7 }, []],
    ["fireworks", { max_tokens: 100, top_k: 40, seed: 7 }, []],
    ["openrouter", { max_tokens: 100, top_k: 40, seed: 7 }, []],
    ["vllm", { max_tokens: 100, top_k: 40, seed: 7 }, []],
    ["llamacpp", { max_tokens: 100, top_k: 40, seed: 7 }, []],
  ])("have the names that %s knows", (name, own, dropped) => {
    expect(bodyOf(provider(name), config(all), "gpt-4o")).toEqual({
      model: "gpt-4o",
      messages: [{ role: "user", content: "How many?" }],
      temperature: 0.2,
      top_p: 0.9,
      stop: ["\n"],
      presence_penalty: 0.5,
      frequency_penalty: 0.25,
      ...own,
    });
    expect(droppedBy(provider(name), config(all), "gpt-4o")).toEqual(dropped);
  });

  it("that a reasoning model refuses are left out by name, defaults are kept", () => {
    const sampling = ["temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty"];
    expect(droppedBy(openai, config(all), "gpt-5-mini")).toEqual(sampling);
    const { stopSequences: _, ...endless } = all;
    expect(droppedBy(openai, config(endless), "o3")).toEqual(sampling);
    expect(refusedBy(openai, config(all), "o3")).toBe("stop_sequences");
    expect(bodyOf(openai, config({ temperature: 1, topP: 1 }), "o3")).toMatchObject({
      temperature: 1,
      top_p: 1,
    });
    const quiet = { ...all, thinkingConfig: { thinkingLevel: "none" } };
    expect(droppedBy(openai, config(quiet), "gpt-6-sol")).toEqual(["top_k"]);
    expect(droppedBy(openai, config(all), "gpt-6-sol")).toEqual(sampling);
  });

  it("fail the item instead when the policy says so", () => {
    const strict = provider("openai", { unsupportedConfig: "refuse" });
    expect(strict.encode(config(all), "gpt-4o")).toEqual({
      ok: false,
      code: "invalid_config",
      field: "top_k",
      message: "openai:gpt-4o does not take top_k; leave it out",
    });
  });

  it("refuse more stop sequences than the provider takes, since leaving one out changes the answer", () => {
    const many = config({ stopSequences: ["a", "b", "c", "d", "e"] });
    expect(openai.encode(many, "gpt-4o")).toMatchObject({ ok: false, code: "invalid_config" });
    expect(provider("vllm").encode(many, "m")).toMatchObject({ ok: true });
  });

  it("turn a level of thinking into an effort, and a budget of none into no effort", () => {
    const thinking = (given: object): GenerationConfig => ({ thinkingConfig: given });
    expect(bodyOf(openai, config(thinking({ thinkingLevel: "LOW" })), "gpt-5")).toMatchObject({
      reasoning_effort: "low",
    });
    expect(bodyOf(openai, config(thinking({ thinkingBudget: 0 })), "gpt-6-sol")).toMatchObject({
      reasoning_effort: "none",
    });
    expect(droppedBy(openai, config(thinking({ thinkingBudget: -1 })), "gpt-5")).toEqual([]);
    expect(refusedBy(openai, config(thinking({ thinkingBudget: 500, includeThoughts: true })), "gpt-5")).toBe(
      "thinking_budget, include_thoughts",
    );
    expect(refusedBy(provider("deepseek"), config(thinking({ thinkingLevel: "low" })), "m")).toBe(
      "thinking_level",
    );
    expect(droppedBy(provider("deepseek"), config(thinking({ includeThoughts: true })), "m")).toEqual([]);
  });

  it("request log probabilities where the model has them", () => {
    const asked = config({ responseLogprobs: true, logprobs: 3 });
    expect(bodyOf(openai, asked, "gpt-4o")).toMatchObject({ logprobs: true, top_logprobs: 3 });
    expect(bodyOf(openai, config({ responseLogprobs: true }), "gpt-4o")).not.toHaveProperty("top_logprobs");
    expect(bodyOf(gemini, config({ logprobs: 3 }), "g")["generationConfig"]).toEqual({
      responseLogprobs: true,
      logprobs: 3,
    });
    for (const [name, model] of [
      ["openai", "o3"],
      ["groq", "m"],
      ["anthropic", "claude-haiku-4-5"],
    ] as const)
      expect(refusedBy(provider(name), asked, model), name).toBe("logprobs");
  });
});

describe("an output schema", () => {
  const responseSchema = {
    type: "OBJECT",
    properties: {
      eggs: { type: "INTEGER", nullable: true },
      tags: { type: "ARRAY", items: { type: "STRING" } },
    },
    required: ["eggs", "tags"],
    propertyOrdering: ["tags", "eggs"],
  };
  const translated = {
    type: "object",
    properties: { eggs: { type: ["integer", "null"] }, tags: { type: "array", items: { type: "string" } } },
    required: ["eggs", "tags"],
    additionalProperties: false,
  };

  it("in Gemini's dialect becomes plain JSON Schema elsewhere, strict where it is complete", () => {
    expect(bodyOf(openai, config({ responseSchema }), "gpt-4o")["response_format"]).toEqual({
      type: "json_schema",
      json_schema: { name: "answer", strict: true, schema: translated },
    });
    expect(bodyOf(anthropic, config({ responseSchema }), "claude-opus-5-5")["output_config"]).toEqual({
      format: { type: "json_schema", schema: translated },
    });
    expect(bodyOf(gemini, config({ responseSchema }), "g")["generationConfig"]).toEqual({
      responseSchema,
      responseMimeType: "application/json",
    });
  });

  it("in JSON Schema is sent unchanged, not strict when it leaves properties open", () => {
    const responseJsonSchema = { type: "object", properties: { type: { type: "string" } } };
    expect(bodyOf(openai, config({ responseJsonSchema }), "gpt-4o")["response_format"]).toEqual({
      type: "json_schema",
      json_schema: { name: "answer", strict: false, schema: responseJsonSchema },
    });
  });

  it("does not touch properties whose names are words of the schema language", () => {
    const odd = { type: "OBJECT", properties: { nullable: { type: "STRING" }, type: { type: "STRING" } } };
    expect(
      bodyOf(anthropic, config({ responseSchema: odd }), "claude-opus-5-5")["output_config"],
    ).toMatchObject({
      format: { schema: { properties: { nullable: { type: "string" }, type: { type: "string" } } } },
    });
  });

  it("is refused where schemas are unknown, or becomes plain JSON where that was requested", () => {
    expect(refusedBy(provider("deepseek"), config({ responseSchema }), "m")).toBe("response_schema");
    const deepseek = provider("deepseek", { unsupportedConfig: "drop" });
    expect(bodyOf(deepseek, config({ responseSchema }), "m")["response_format"]).toEqual({
      type: "json_object",
    });
    expect(droppedBy(deepseek, config({ responseSchema }), "m")).toEqual(["response_schema"]);
  });

  it("that is not an object is refused", () => {
    for (const codec of [openai, anthropic]) {
      expect(codec.encode(config({ responseJsonSchema: "x" }), "m")).toMatchObject({
        ok: false,
        code: "invalid_config",
      });
    }
  });

  it("may be absent while JSON is requested", () => {
    const json = config({ responseMimeType: "application/json" });
    expect(bodyOf(openai, json, "gpt-4o")["response_format"]).toEqual({ type: "json_object" });
    expect(refusedBy(anthropic, json, "claude-opus-5-5")).toBe("response_mime_type");
    expect(droppedBy(anthropic, config({ responseMimeType: "text/plain" }), "claude-opus-5-5")).toEqual([]);
  });
});

describe("settings at Anthropic", () => {
  const sampling = config({ temperature: 0.2, topP: 0.9, topK: 5 });

  it("are sampling settings up to Claude 4.6, without top_p beside temperature from 4 on", () => {
    expect(bodyOf(anthropic, sampling, "claude-3-5-haiku-20241022")).toMatchObject({
      temperature: 0.2,
      top_p: 0.9,
      top_k: 5,
    });
    for (const model of [
      "claude-opus-4-20250514",
      "claude-haiku-4-5-20251001",
      "claude-opus-4-6",
      "claude-sonnet-4-6",
    ]) {
      expect(bodyOf(anthropic, sampling, model)).toMatchObject({ temperature: 0.2, top_k: 5 });
      expect(droppedBy(anthropic, sampling, model)).toEqual(["top_p"]);
    }
  });

  it("do not include sampling settings for later or unknown models, and for any model from version 2026-10-21 on", () => {
    const names = ["temperature", "top_p", "top_k"];
    for (const model of [
      "claude-opus-4-7",
      "claude-sonnet-5-5",
      "claude-opus-5",
      "claude-mythos-preview",
      "next",
    ]) {
      expect(droppedBy(anthropic, sampling, model)).toEqual(names);
      expect(bodyOf(anthropic, sampling, model)).not.toHaveProperty("temperature");
    }
    const newest = provider("anthropic", { apiVersion: "2026-10-21" });
    expect(newest.head("m").headers).toMatchObject({ "anthropic-version": "2026-10-21" });
    expect(droppedBy(newest, sampling, "claude-haiku-4-5")).toEqual(names);
  });

  it("equal to the default are left out without a word", () => {
    expect(droppedBy(anthropic, config({ temperature: 1, topP: 0.99 }), "claude-sonnet-5-5")).toEqual([]);
  });

  it("that do not exist are named, and fail the item when the policy says so", () => {
    const odd = config({ seed: 1, presencePenalty: 1, frequencyPenalty: 1 });
    const names = ["seed", "presence_penalty", "frequency_penalty"];
    expect(droppedBy(anthropic, odd, "claude-haiku-4-5")).toEqual(names);
    const strict = provider("anthropic", { unsupportedConfig: "refuse" });
    expect(strict.encode(odd, "claude-haiku-4-5")).toMatchObject({
      ok: false,
      code: "invalid_config",
      message:
        "anthropic:claude-haiku-4-5 does not take seed, presence_penalty, frequency_penalty; leave them out",
    });
  });

  it("ask newer models to think by effort and older ones by budget", () => {
    const level = config({ thinkingConfig: { thinkingLevel: "HIGH" } });
    expect(bodyOf(anthropic, level, "claude-opus-5-5")).toMatchObject({
      thinking: { type: "adaptive" },
      output_config: { effort: "high" },
    });
    expect(refusedBy(anthropic, level, "claude-haiku-4-5")).toBe("thinking_level");
    const budget = config({ thinkingConfig: { thinkingBudget: 2048 }, temperature: 0.3, topK: 3 });
    expect(bodyOf(anthropic, budget, "claude-haiku-4-5")).toMatchObject({
      thinking: { type: "enabled", budget_tokens: 2048 },
      max_tokens: 6144,
    });
    expect(droppedBy(anthropic, budget, "claude-haiku-4-5")).toEqual(["temperature", "top_k"]);
    expect(refusedBy(anthropic, budget, "claude-opus-5-5")).toBe("thinking_budget");
    const shown = (given: object): ReturnType<typeof request> =>
      config({ thinkingConfig: { ...given, includeThoughts: true } });
    expect(bodyOf(anthropic, shown({}), "claude-opus-5-5")).toMatchObject({
      thinking: { type: "adaptive", display: "summarized" },
    });
    expect(bodyOf(anthropic, shown({ thinkingBudget: 2048 }), "claude-haiku-4-5")).toMatchObject({
      thinking: { type: "enabled", budget_tokens: 2048 },
    });
    expect(refusedBy(anthropic, shown({}), "claude-haiku-4-5")).toBe("include_thoughts");
    for (const off of [{ thinkingBudget: 0 }, { thinkingLevel: "none" }]) {
      expect(bodyOf(anthropic, config({ thinkingConfig: off }), "claude-opus-5-5")).toMatchObject({
        thinking: { type: "disabled" },
      });
    }
  });
});

describe("settings at Gemini", () => {
  it("are sent as they are", () => {
    const given: GenerationConfig = {
      temperature: 0.2,
      topP: 0.9,
      topK: 40,
      maxOutputTokens: 100,
      stopSequences: ["\n"],
      seed: 7,
      presencePenalty: 0.5,
      frequencyPenalty: 0.25,
      thinkingConfig: { thinkingBudget: 128, includeThoughts: true },
    };
    expect(bodyOf(gemini, config(given), "g")["generationConfig"]).toEqual(given);
  });

  it("have thinking levels in capitals", () => {
    const level = (thinkingLevel: string): unknown =>
      bodyOf(gemini, config({ thinkingConfig: { thinkingLevel } }), "g")["generationConfig"];
    expect(level("low")).toEqual({ thinkingConfig: { thinkingLevel: "LOW" } });
    expect(level("none")).toEqual({ thinkingConfig: { thinkingBudget: 0 } });
  });
});

describe("a seed that a double cannot hold", () => {
  const exact = config({ seed: { digits: "12345678901234567890" } });

  it("keeps its digits", () => {
    expect(provider("openai").encode(exact, "m")).toMatchObject({
      body: expect.stringMatching(/,"seed":12345678901234567890\}$/),
    });
    expect(provider("mistral").encode(exact, "m")).toMatchObject({
      body: expect.stringMatching(/,"random_seed":12345678901234567890\}$/),
    });
    expect(gemini.encode(exact, "m")).toMatchObject({
      body: expect.stringMatching(/,"generationConfig":\{"seed":12345678901234567890\}\}$/),
    });
    const beside = config({ temperature: 0, seed: { digits: "-1" } });
    expect(bodyOf(gemini, beside, "m")["generationConfig"]).toEqual({ temperature: 0, seed: -1 });
  });

  it("is dropped where there is no seed, and refused when it is no number", () => {
    expect(droppedBy(anthropic, exact, "claude-haiku-4-5")).toEqual(["seed"]);
    expect(droppedBy(provider("deepseek"), exact, "m")).toEqual(["seed"]);
    expect(openai.encode(config({ seed: { digits: '1,"x":2' } }), "m")).toMatchObject({
      ok: false,
      code: "invalid_config",
    });
  });
});
