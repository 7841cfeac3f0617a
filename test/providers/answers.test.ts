import { describe, expect, it } from "vitest";
import { answer, decodeFixture, provider } from "./answers.ts";

const openai = provider("openai");
const anthropic = provider("anthropic");
const gemini = provider("gemini");
const codecs = [openai, anthropic, gemini];

const chat = (choice: unknown, more: object = {}): ReturnType<typeof answer> =>
  answer(200, { choices: [choice], ...more });

describe("an answer that is not valid", () => {
  it("fault 56: half a body is never parsed as a success", () => {
    const whole = JSON.stringify({ choices: [{ finish_reason: "stop", message: { content: "18" } }] });
    for (let length = 0; length < whole.length; length++) {
      expect(openai.decode(answer(200, whole.slice(0, length)))).toMatchObject({
        class: "ambiguous",
        code: "invalid_response",
      });
    }
  });

  it("fault 57: a web page, a byte order mark and broken JSON are ambiguous, and their text is shown nowhere", () => {
    for (const codec of codecs) {
      for (const body of [
        "<html><body>captcha</body></html>",
        "",
        "null",
        "18",
        '"text"',
        '{"a":',
        "\uFEFF{}",
      ]) {
        const decoded = codec.decode(answer(200, body));
        expect(decoded).toMatchObject({ class: "ambiguous", code: "invalid_response", scope: "item" });
        expect(JSON.stringify(decoded)).not.toContain("captcha");
      }
      expect(
        codec.decode({ ...answer(200, ""), body: Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d) }),
      ).toMatchObject({ code: "invalid_response" });
      const page = answer(
        200,
        { choices: [], content: [], candidates: [] },
        { "content-type": "text/html; charset=utf-8" },
      );
      expect(codec.decode(page)).toMatchObject({ class: "ambiguous", code: "invalid_response" });
    }
  });

  it("fault 57: JSON of another shape is ambiguous", () => {
    for (const codec of codecs) {
      expect(codec.decode(answer(200, { hello: "world" }))).toMatchObject({
        class: "ambiguous",
        code: "invalid_response",
      });
    }
  });

  it("fault 59: no choices, null text and empty text are ambiguous with their usage kept", () => {
    const usage = { prompt_tokens: 10, completion_tokens: 5 };
    const empty = { class: "ambiguous", code: "empty_output", usage: { inputTokens: 10, outputTokens: 5 } };
    expect(openai.decode(answer(200, { choices: [], usage }))).toMatchObject(empty);
    expect(openai.decode(chat(null, { usage }))).toMatchObject(empty);
    expect(openai.decode(chat({ finish_reason: "stop" }, { usage }))).toMatchObject(empty);
    for (const content of [null, "", [], [{ type: "thinking", thinking: "hm" }]]) {
      expect(openai.decode(chat({ finish_reason: "stop", message: { content } }, { usage }))).toMatchObject(
        empty,
      );
    }
    const tokens = { input_tokens: 10, output_tokens: 5 };
    expect(
      anthropic.decode(answer(200, { content: [], stop_reason: "end_turn", usage: tokens })),
    ).toMatchObject(empty);
    const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5 };
    expect(gemini.decode(answer(200, { candidates: [], usageMetadata }))).toMatchObject(empty);
    const parts = [{ text: "hm", thought: true }];
    const candidates = [{ content: { parts }, finishReason: "STOP" }];
    expect(gemini.decode(answer(200, { candidates, usageMetadata }))).toMatchObject(empty);
  });
});

describe("a generation that did not simply end", () => {
  it("fault 60: a cut at the token limit is a success that says so", () => {
    for (const path of ["openai/length", "anthropic/max_tokens", "gemini/max_tokens"]) {
      expect(decodeFixture(path)).toMatchObject({ class: "success", text: "Janet sells", finish: "length" });
    }
    expect(decodeFixture("openai/length")).toMatchObject({ servedTier: "flex" });
  });

  it("fault 60: a filter or a refusal without a word is final, with its usage kept", () => {
    for (const path of ["anthropic/refusal", "gemini/safety", "gemini/prompt_blocked"]) {
      expect(decodeFixture(path)).toMatchObject({ class: "permanent", code: "filtered", scope: "item" });
      expect(decodeFixture(path)).toHaveProperty("usage.inputTokens");
    }
  });

  it("thoughts that took the whole budget are final, because the same limit has the same result", () => {
    for (const path of [
      "openai/length_without_text",
      "anthropic/thoughts_only",
      "gemini/max_tokens_without_content",
    ]) {
      expect(decodeFixture(path)).toMatchObject({ class: "permanent", code: "empty_output" });
    }
  });

  it("keeps what was generated before a filter or a refusal, and says so", () => {
    expect(decodeFixture("openai/content_filter")).toMatchObject({
      class: "success",
      text: "Partial",
      finish: "content_filter",
    });
    expect(decodeFixture("openai/refusal")).toMatchObject({
      class: "success",
      text: "",
      finish: "refusal",
      members: { refusal: "I'm sorry, I can't help with that." },
    });
    const content = [{ type: "text", text: "I will" }];
    expect(anthropic.decode(answer(200, { content, stop_reason: "refusal" }))).toMatchObject({
      text: "I will",
      finish: "refusal",
    });
    expect(anthropic.decode(answer(200, { content, stop_reason: "pause_turn" }))).toMatchObject({
      text: "I will",
      finish: "length",
    });
    const candidates = [{ content: { parts: [{ text: "I will" }] }, finishReason: "SAFETY" }];
    expect(gemini.decode(answer(200, { candidates }))).toMatchObject({ finish: "content_filter" });
  });

  it("returns tool calls of every provider in one form", () => {
    const call = (id: string): object => ({
      class: "success",
      text: "",
      finish: "tool_calls",
      members: { tool_calls: [{ id, type: "function", function: { name: "add", arguments: "{}" } }] },
    });
    expect(decodeFixture("openai/tool_calls")).toMatchObject(call("call_1"));
    expect(decodeFixture("anthropic/tool_use")).toMatchObject(call("toolu_1"));
    const parts = [{ text: "Adding." }, { functionCall: { name: "add", args: { a: 1 } } }];
    const candidates = [{ content: { parts }, finishReason: "STOP" }];
    expect(gemini.decode(answer(200, { candidates }))).toMatchObject({
      text: "Adding.",
      finish: "tool_calls",
      members: { tool_calls: [{ type: "function", function: { name: "add", arguments: '{"a":1}' } }] },
    });
    const old = { content: null, function_call: { name: "add", arguments: "{}" } };
    expect(openai.decode(chat({ finish_reason: "function_call", message: old }))).toMatchObject({
      members: { tool_calls: [{ type: "function", function: { name: "add", arguments: "{}" } }] },
    });
    const cut = { content: null, tool_calls: [{ id: "1" }] };
    expect(openai.decode(chat({ finish_reason: "length", message: cut }))).toMatchObject({
      finish: "length",
      members: { tool_calls: [{ id: "1" }] },
    });
  });

  it("is final when it is a tool call that cannot be read", () => {
    expect(decodeFixture("gemini/malformed_function_call")).toMatchObject({
      class: "permanent",
      code: "unsupported_request",
    });
  });

  it("keeps thoughts, log probabilities and citations beside the text", () => {
    const message = { content: "18", reasoning: "hm", annotations: [{ type: "url_citation" }] };
    const logprobs = { content: [{ token: "18", logprob: -0.1 }] };
    expect(openai.decode(chat({ finish_reason: "stop", message, logprobs }))).toMatchObject({
      finish: "stop",
      members: { reasoning: "hm", annotations: [{ type: "url_citation" }], logprobs },
    });
    const logprobsResult = { chosenCandidates: [{ token: "18" }] };
    const candidates = [{ content: { parts: [{ text: "18" }] }, logprobsResult }];
    expect(gemini.decode(answer(200, { candidates }))).toMatchObject({
      members: { logprobs: logprobsResult },
    });
    const nothing = { content: "18", tool_calls: [], reasoning: "", refusal: null, annotations: [] };
    expect(openai.decode(chat({ finish_reason: "stop", message: nothing, logprobs: null }))).toEqual({
      class: "success",
      text: "18",
      finish: "stop",
      usage: undefined,
    });
  });

  it("a generation that broke off may be repeated", () => {
    for (const path of ["gemini/other", "deepseek/system_resource"]) {
      expect(decodeFixture(path)).toMatchObject({ class: "ambiguous", code: "provider_error" });
    }
  });

  it("an unknown or missing finish reason with text is a success", () => {
    for (const finish_reason of [undefined, null, "eos", "constructor", 7]) {
      expect(openai.decode(chat({ finish_reason, message: { content: "18" } }))).toMatchObject({
        class: "success",
        finish: "stop",
      });
    }
  });
});

describe("usage", () => {
  it("fault 63: counts that are missing, negative, fractional or text make no usage", () => {
    const wrong = [undefined, null, -1, 1.5, "10", Number.MAX_SAFE_INTEGER + 1, {}, []];
    for (const prompt_tokens of wrong) {
      const decoded = openai.decode(
        chat({ message: { content: "18" } }, { usage: { prompt_tokens, completion_tokens: 5 } }),
      );
      expect(decoded).toMatchObject({ class: "success", usage: undefined });
    }
    for (const input_tokens of wrong) {
      const content = [{ type: "text", text: "18" }];
      const decoded = anthropic.decode(answer(200, { content, usage: { input_tokens, output_tokens: 5 } }));
      expect(decoded).toMatchObject({ class: "success", usage: undefined });
    }
    for (const promptTokenCount of wrong) {
      const candidates = [{ content: { parts: [{ text: "18" }] } }];
      const decoded = gemini.decode(answer(200, { candidates, usageMetadata: { promptTokenCount } }));
      expect(decoded).toMatchObject({ class: "success", usage: undefined });
    }
  });

  it("fault 63: details that are null, missing or larger than their total never spoil the totals", () => {
    const decode = (more: object): unknown => {
      const usage = { prompt_tokens: 10, completion_tokens: 5, ...more };
      const decoded = openai.decode(chat({ message: { content: "18" } }, { usage }));
      return decoded.usage;
    };
    expect(decode({ prompt_tokens_details: null, completion_tokens_details: null })).toMatchObject({
      cachedTokens: 0,
      reasoningTokens: 0,
    });
    expect(
      decode({
        prompt_tokens_details: { cached_tokens: 11, cache_write_tokens: 9 },
        completion_tokens_details: { reasoning_tokens: 6 },
      }),
    ).toMatchObject({ cachedTokens: 0, cacheWriteTokens: 0, reasoningTokens: 5, isEstimated: true });
    for (const details of [{ cached_tokens: 11 }, { cache_write_tokens: 11 }])
      expect(decode({ prompt_tokens_details: details })).toMatchObject({
        inputTokens: 10,
        cachedTokens: 0,
        cacheWriteTokens: 0,
        isEstimated: true,
      });
    const whole = { cached_tokens: 6, cache_write_tokens: 4 };
    expect(decode({ prompt_tokens_details: whole })).toMatchObject({
      cachedTokens: 6,
      cacheWriteTokens: 4,
      isEstimated: false,
    });
    const gemini11 = { promptTokenCount: 10, candidatesTokenCount: 5, cachedContentTokenCount: 11 };
    const parts = { content: { parts: [{ text: "18" }] }, finishReason: "STOP" };
    expect(gemini.decode(answer(200, { candidates: [parts], usageMetadata: gemini11 })).usage).toMatchObject({
      cachedTokens: 0,
      isEstimated: true,
    });
  });

  it("a charge in USD is believed only from OpenRouter", () => {
    const body = {
      choices: [{ message: { content: "18" } }],
      usage: { prompt_tokens: 1, completion_tokens: 1, cost: 3 },
    };
    expect(openai.decode(answer(200, body)).usage).not.toHaveProperty("chargedUsd");
    expect(provider("openrouter").decode(answer(200, body)).usage).toMatchObject({ chargedUsd: 3 });
  });
});

it("DeepSeek's blank lines before the answer are skipped", () => {
  const body = `\n\n\n${JSON.stringify({ choices: [{ message: { content: "18" }, finish_reason: "stop" }] })}`;
  expect(provider("deepseek").decode(answer(200, body))).toMatchObject({ class: "success", text: "18" });
});

it("a replacement character that the model wrote is kept", () => {
  expect(openai.decode(chat({ message: { content: "a\uFFFDb" } }))).toMatchObject({ text: "a\uFFFDb" });
});

describe("an answer without text whose thoughts were paid for", () => {
  const thoughts = "Let me think";

  it.each([
    [
      "openai",
      { choices: [{ finish_reason: "length", message: { content: "", reasoning_content: thoughts } }] },
      "empty_output",
    ],
    [
      "anthropic",
      { content: [{ type: "thinking", thinking: thoughts }], stop_reason: "max_tokens" },
      "empty_output",
    ],
    [
      "gemini",
      { candidates: [{ finishReason: "SAFETY", content: { parts: [{ text: thoughts, thought: true }] } }] },
      "filtered",
    ],
  ])("of %s keeps them in the failure", (name, body, code) => {
    expect(provider(name).decode(answer(200, body))).toMatchObject({ code, reasoning: thoughts });
  });
});

it("of several choices the one at index 0 is the answer, at any position", () => {
  const choice = (index: number | undefined, content: string): object => ({
    ...(index === undefined ? {} : { index }),
    finish_reason: "stop",
    message: { content },
  });
  const text = (...choices: object[]): unknown => openai.decode(answer(200, { choices }));
  expect(text(choice(1, "second"), choice(0, "first"))).toMatchObject({ text: "first" });
  expect(text(choice(undefined, "first"), choice(undefined, "second"))).toMatchObject({ text: "first" });
  expect(text(choice(3, "alone"))).toMatchObject({ text: "alone" });
  const candidate = (index: number, said: string): object => ({
    ...(index === 0 ? {} : { index }), // proto3 leaves 0 out
    finishReason: "STOP",
    content: { parts: [{ text: said }] },
  });
  expect(
    gemini.decode(answer(200, { candidates: [candidate(1, "second"), candidate(0, "first")] })),
  ).toMatchObject({
    text: "first",
  });
});
