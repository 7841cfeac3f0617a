import { describe, expect, it } from "vitest";
import { type LayoutOptions, type ParsedLine, parseLine } from "../../src/jsonl/layout.ts";

const OPTIONS: LayoutOptions = { providers: new Set(["openai", "anthropic"]) };

function parse(body: object, line: object = {}, options: LayoutOptions = OPTIONS): ParsedLine {
  const whole = {
    custom_id: "a",
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "gpt-4o-mini", messages: [{ role: "user", content: "hi" }], ...body },
    ...line,
  };
  return parseLine(Buffer.from(JSON.stringify(whole)), options);
}

function item(body: object, line: object = {}): Extract<ParsedLine, { kind: "item" }> {
  const parsed = parse(body, line);
  if (parsed.kind !== "item") throw new Error(`not an item: ${JSON.stringify(parsed)}`);
  return parsed;
}

function fault(body: object, line: object = {}, options: LayoutOptions = OPTIONS): string {
  const parsed = parse(body, line, options);
  return parsed.kind === "rejected" ? `${parsed.key}: ${parsed.code}` : parsed.kind;
}

describe("OpenAI's batch layout", () => {
  it("keeps the body as given and reads it into the neutral request", () => {
    const body = {
      model: "gpt-4o-mini",
      messages: [
        { role: "system", content: "be kind" },
        { role: "developer", content: [{ type: "text", text: "and short" }] },
        { role: "user", content: "one" },
        { role: "assistant", content: "two" },
        {
          role: "user",
          content: [
            { type: "text", text: "three" },
            { type: "text", text: "four" },
          ],
        },
      ],
      temperature: 0,
      top_p: 1,
      max_completion_tokens: 512,
      stop: "END",
      seed: 7,
      presence_penalty: 1,
      frequency_penalty: null,
      response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "object" } } },
      reasoning_effort: "low",
      n: 1,
      stream: false,
      user: "u",
    };
    expect(item(body)).toEqual({
      kind: "item",
      key: "a",
      provider: "openai",
      model: "gpt-4o-mini",
      hasReplacedText: false,
      hasExactNumbers: false,
      request: {
        system: ["be kind", "and short"],
        turns: [
          { role: "user", texts: ["one"] },
          { role: "model", texts: ["two"] },
          { role: "user", texts: ["three", "four"] },
        ],
        config: {
          temperature: 0,
          topP: 1,
          maxOutputTokens: 512,
          stopSequences: ["END"],
          seed: 7,
          presencePenalty: 1,
          responseMimeType: "application/json",
          responseJsonSchema: { type: "object" },
          thinkingConfig: { thinkingLevel: "low" },
        },
        openaiBody: body,
        unknownFields: ["user"],
      },
    });
  });

  it("takes the provider from the model where it names a known one, and else the default", () => {
    expect(item({ model: "anthropic:claude-x" })).toMatchObject({ provider: "anthropic", model: "claude-x" });
    expect(item({ model: "ft:gpt-4o-mini:org::id" })).toMatchObject({
      provider: "openai",
      model: "ft:gpt-4o-mini:org::id",
    });
    const other = { ...OPTIONS, defaultOpenaiProvider: "groq", providers: new Set(["groq"]) };
    expect(parse({}, {}, other)).toMatchObject({ provider: "groq", model: "gpt-4o-mini" });
    expect(fault({}, {}, { providers: new Set(["echo"]) })).toBe("a: provider_missing");
    expect(fault({ model: "opnai:gpt-4o-mini" })).toBe("a: provider_missing"); // one letter from a provider
    for (const model of ["", "openai:", ":x", 5, null]) expect(fault({ model })).toBe("a: unknown_model");
  });

  it("takes lines without method and url, and refuses other methods and endpoints", () => {
    expect(item({}, { method: undefined, url: undefined }).key).toBe("a");
    for (const url of ["/v1/audio", "/v1/chat", 5]) expect(fault({}, { url })).toBe("a: unsupported_request");
    expect(fault({}, { method: "GET" })).toBe("a: unsupported_request");
    expect(fault({ stream: true })).toBe("a: unsupported_request");
  });

  it("refuses a missing key, body or message with the code of the place", () => {
    expect(fault({}, { custom_id: undefined })).toBe("null: invalid_key");
    expect(fault({}, { custom_id: 5 })).toBe("null: invalid_key");
    expect(fault({}, { body: undefined })).toBe("a: invalid_line");
    for (const messages of [
      [],
      "x",
      undefined,
      [5],
      [{ role: "user", content: 5 }],
      [{ content: "x" }],
      [{ role: "x", content: "y" }],
    ])
      expect(fault({ messages }), JSON.stringify(messages)).toBe("a: invalid_contents");
  });

  it("refuses settings that are wrong or multiply the cost", () => {
    for (const body of [
      { n: 2 },
      { temperature: "x" },
      { max_tokens: 0 },
      { max_tokens: 5, max_completion_tokens: 5 },
      { stop: [1] },
      { response_format: { type: "x" } },
      { response_format: "json" },
    ])
      expect(fault(body), JSON.stringify(body)).toBe("a: invalid_config");
  });

  it("refuses answers that cannot be returned", () => {
    for (const body of [{ modalities: ["text", "audio"] }, { audio: { voice: "x" } }])
      expect(fault(body), JSON.stringify(body)).toBe("a: unsupported_request");
    expect(item({ modalities: ["text"] }).request.unknownFields).toEqual([]);
  });

  it("takes the names of other providers, under OpenAI's own", () => {
    const { request } = item({ system: "be kind", max_output_tokens: 7, stop_sequences: ["END"] });
    expect(request).toMatchObject({
      system: ["be kind"],
      config: { maxOutputTokens: 7, stopSequences: ["END"] },
      unknownFields: [],
    });
    const { openaiBody } = request;
    expect(openaiBody).toMatchObject({ max_tokens: 7, stop: ["END"] });
    expect(openaiBody).toMatchObject({
      messages: expect.arrayContaining([{ role: "system", content: "be kind" }]),
    });
    expect(Object.keys(openaiBody ?? {})).not.toContain("system");
    expect(fault({ max_tokens: 1, max_output_tokens: 1 })).toBe("a: invalid_config");
  });

  it("reads log probabilities, which some providers have under other names", () => {
    expect(item({ logprobs: true, top_logprobs: 2 }).request.config).toEqual({
      responseLogprobs: true,
      logprobs: 2,
    });
    expect(item({ logprobs: false }).request.config).toEqual({});
  });

  it("marks what texts cannot hold, for providers that do not take the body as it is", () => {
    const image = [
      { type: "text", text: "look" },
      { type: "image_url", image_url: { url: "https://x" } },
    ];
    expect(item({ messages: [{ role: "user", content: image }] }).request).toMatchObject({
      turns: [{ role: "user", texts: ["look"] }],
      unknownFields: ["messages"],
    });
    const calls = [
      { role: "user", content: "hi" },
      { role: "assistant", content: null, tool_calls: [{}] },
      { role: "tool", content: "42", tool_call_id: "1" },
    ];
    expect(item({ messages: calls, tools: [{}] }).request).toMatchObject({
      unknownFields: ["messages", "tools"],
    });
  });
});

describe("members of extra_body", () => {
  it("count as members of the body, with any names", () => {
    const more = { temperature: 0.5, max_tokens: 9, guided_json: { a: 1 }, toString: "x" };
    const { request } = item({ user: "u", extra_body: { ...more, user: null } });
    expect(request).toEqual(item({ user: "u", ...more }).request);
    expect(request.config).toEqual({ temperature: 0.5, maxOutputTokens: 9 });
    expect(request.unknownFields).toEqual(["user", "guided_json", "toString"]);
    expect(item({ extra_body: null }).request).toEqual(item({}).request);
    expect(item({ extra_body: { stop_sequences: ["END"] } }).request.openaiBody).toMatchObject({
      stop: ["END"],
    });
  });

  it.each([
    [{ n: 2 }, "invalid_config"],
    [{ stream: true }, "unsupported_request"],
    [{ temperature: 9 }, "invalid_config"],
    [{ max_tokens: -1 }, "invalid_config"],
    [{ response_format: { type: "xml" } }, "invalid_config"],
  ])("that are refused in the body are refused there: %j", (extra, code) => {
    expect(fault(extra)).toBe(`a: ${code}`);
    expect(fault({ extra_body: extra })).toBe(`a: ${code}`);
  });

  it.each([
    [{}, { model: "other" }, "model and extra_body.model"],
    [{}, { messages: [] }, "messages and extra_body.messages"],
    [{ temperature: 0 }, { temperature: 1 }, "temperature and extra_body.temperature"],
    [{ max_tokens: 5 }, { max_completion_tokens: 6 }, "max_tokens and max_completion_tokens"],
    [{ max_tokens: 5 }, { max_output_tokens: 6 }, "max_tokens and max_output_tokens"],
    [{}, { extra_body: {} }, "extra_body and extra_body.extra_body"],
  ])("that are given twice are refused: %j and %j", (body, extra, names) => {
    expect(parse({ ...body, extra_body: extra })).toMatchObject({
      kind: "rejected",
      code: "invalid_config",
      message: `${names} are the same field, set only one`,
    });
  });

  it("are in an object", () => {
    expect(parse({ extra_body: ["n"] })).toMatchObject({
      code: "invalid_config",
      message: "extra_body must be an object, got an array",
    });
  });
});
