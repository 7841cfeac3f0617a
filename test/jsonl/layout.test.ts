import { describe, expect, it } from "vitest";
import { type LayoutOptions, type ParsedLine, parseLine, readKey } from "../../src/jsonl/layout.ts";

const OPTIONS: LayoutOptions = { providers: new Set(["openai", "anthropic", "gemini", "echo"]) };

function parse(line: string | Uint8Array | object, options: LayoutOptions = OPTIONS): ParsedLine {
  if (line instanceof Uint8Array) return parseLine(line, options);
  return parseLine(Buffer.from(typeof line === "string" ? line : JSON.stringify(line)), options);
}

function item(
  line: string | object,
  options: LayoutOptions = OPTIONS,
): Extract<ParsedLine, { kind: "item" }> {
  const parsed = parse(line, options);
  if (parsed.kind !== "item") throw new Error(`not an item: ${JSON.stringify(parsed)}`);
  return parsed;
}

/** Only `code` for a line without a readable key, `key: code` otherwise. */
function fault(line: string | Uint8Array | object, options: LayoutOptions = OPTIONS): string {
  const parsed = parse(line, options);
  if (parsed.kind !== "rejected") return parsed.kind;
  return parsed.key === null ? parsed.code : `${parsed.key}: ${parsed.code}`;
}

function message(line: string | object): string {
  const parsed = parse(line);
  return parsed.kind === "rejected" ? parsed.message : parsed.kind;
}

function line(request: object = {}, key: unknown = "a"): { key: unknown; request: object } {
  return { key, request: { model: "openai:gpt-test", contents: [{ parts: [{ text: "hi" }] }], ...request } };
}

function config(generation_config: unknown): string {
  return fault(line({ generation_config }));
}

describe("lines that are not records", () => {
  it("fault 1: what is not JSON, not an object, or two objects fails by itself, with its code", () => {
    const good = JSON.stringify(line());
    for (const text of [
      "{",
      `${good} xyz`,
      `${good}${good}`,
      `${good}\r${good}`,
      "\0\0",
      good.replace("hi", "h\0i"),
    ])
      expect(fault(text)).toBe("invalid_json");
    for (const text of ["[1,2]", "null", "42", '"s"', "true", "12345678901234567890"])
      expect(fault(text)).toBe("invalid_line");
    expect(message('"secret prompt"')).toBe("the line must be a JSON object, got a string");
  });

  it("fault 2: invalid and overlong UTF-8 is invalid_utf8, never replaced", () => {
    for (const bytes of [
      [0xff, 0xfe],
      [0xc0, 0xaf],
      [0xed, 0xa0, 0x80],
      [0xe4, 0xb8],
    ])
      expect(fault(Buffer.concat([Buffer.from('{"key":"'), Buffer.from(bytes), Buffer.from('"}')]))).toBe(
        "invalid_utf8",
      );
  });

  it("fault 3: blank lines are blank, with any line end", () => {
    for (const text of ["", " ", "\t \r\n", "\r"]) expect(parse(text)).toEqual({ kind: "blank" });
    expect(item(`${JSON.stringify(line())}\r\n`).key).toBe("a");
  });

  it("fault 3: a byte order mark in the middle of the input is invalid_json", () => {
    expect(fault(`\ufeff${JSON.stringify(line())}`)).toBe("invalid_json");
  });

  it("fault 6: more than 64 levels are too_deep before anything is parsed; brackets in strings do not count", () => {
    const nested = (levels: number): string => `{"key":"a","x":${"[".repeat(levels)}${"]".repeat(levels)}}`;
    expect(fault(nested(63))).toBe("a: invalid_line");
    expect(fault(nested(64))).toBe("too_deep");
    expect(fault("[".repeat(10_000_000))).toBe("too_deep");
    expect(fault(`{"a":`.repeat(100_000))).toBe("too_deep");
    expect(item(line({ contents: [{ parts: [{ text: `"\\${"[{".repeat(100)}` }] }] })).kind).toBe("item");
  });

  it("fault 8: a member that occurs twice is duplicate_member, also when one is escaped, at any level", () => {
    const request = JSON.stringify(line().request);
    expect(fault(`{"key":"a","key":"b","request":${request}}`)).toBe("duplicate_member");
    expect(fault(`{"key":"a","\\u006bey":"b","request":${request}}`)).toBe("duplicate_member");
    expect(fault(`{"key":"a","request":{"model":"openai:m","model":"openai:m"}}`)).toBe("duplicate_member");
    expect(fault(`{"key":"a","request":{"generation_config":{"seed":1,"seed":1}}}`)).toBe("duplicate_member");
    expect(fault(`{"key":"a","1":1,"1":2}`)).toBe("duplicate_member");
    expect(fault(`{"__proto__":1,"__proto__":2,"key":"a"}`)).toBe("duplicate_member");
    expect(message(`{"k\\"1":1,"k\\"1":2}`)).toBe('the member "k\\"1" occurs twice in one object');
  });

  it("fault 8: 200,000 members are counted, not compared with each other", () => {
    const members = Array.from({ length: 200_000 }, (_, index) => `"k${index}":1`).join(",");
    expect(fault(`{"key":"a",${members}}`)).toBe("a: invalid_line");
    expect(fault(`{"key":"a",${members},"k7":1}`)).toBe("duplicate_member");
  });

  it("fault 9: __proto__, constructor and toString are keys and members like any other", () => {
    for (const key of ["__proto__", "constructor", "toString"]) expect(item(line({}, key)).key).toBe(key);
    const polluting = `{"__proto__":{"polluted":1},${JSON.stringify(line()).slice(1)}`;
    expect(item(polluting).key).toBe("a");
    expect(item(polluting.replace('"hi"', '"hi\\ud800"')).hasReplacedText).toBe(true);
    for (const name of ["__proto__", "constructor", "toString"])
      expect(message(line({ generation_config: JSON.parse(`{"${name}":{"seed":1}}`) }))).toBe(
        `"${name}" is not a known member of generation_config`,
      );
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("keys", () => {
  it("fault 10: half of a surrogate pair in a key is invalid_key, in text it is replaced with a warning", () => {
    const text = JSON.stringify(line());
    for (const half of ["\\ud800", "\\uDFFF"]) {
      expect(fault(text.replace('"a"', `"${half}"`))).toBe("invalid_key");
      const parsed = item(text.replace('"hi"', `"x${half}y"`));
      expect(parsed.request.turns).toEqual([{ role: "user", parts: ["x\ufffdy"] }]);
      expect(parsed.hasReplacedText).toBe(true);
    }
    const pair = item(text.replace('"hi"', '"\\ud83d\\ude00"').replace('"a"', '"\\ud83d\\ude00"'));
    expect(pair).toMatchObject({
      key: "😀",
      hasReplacedText: false,
      request: { turns: [{ parts: ["😀"] }] },
    });
  });

  it("fault 11: NUL, U+2028, U+2029 and U+0085 in text are kept; control characters in a key are refused", () => {
    const odd = "a\u0000b\u2028c\u2029d\u0085e";
    expect(item(line({ contents: [{ parts: [{ text: odd }] }] })).request.turns[0]?.parts).toEqual([odd]);
    for (const key of ["a\u0000b", "\n", "a\u001f", "\u007f"])
      expect(fault(line({}, key))).toBe("invalid_key");
    expect(item(line({}, 'a,b"c\td')).key).toBe('a,b"c\td');
    expect(message(line({}, "a\u0000b"))).toBe("key holds the control character U+0000");
  });

  it("fault 12: a key that is missing, no string, empty or above 512 bytes is invalid_key", () => {
    for (const key of [1, null, "", [], {}, true, "k".repeat(513), "中".repeat(171)])
      expect(fault(line({}, key))).toBe("invalid_key");
    expect(fault({ request: line().request })).toBe("invalid_key");
    expect(fault(`{"key":12345678901234567890,"request":{}}`)).toBe("invalid_key");
    for (const key of ["k".repeat(512), "中".repeat(170), "=cmd|calc", "../../etc/passwd"])
      expect(item(line({}, key)).key).toBe(key);
  });

  it("fault 12: NFC and NFD are different keys, returned unchanged", () => {
    expect(item(line({}, "é".normalize("NFC"))).key).not.toBe(item(line({}, "é".normalize("NFD"))).key);
  });

  it("readKey finds the key of every line that has a readable one, also if the line is wrong later", () => {
    expect(readKey(Buffer.from('{"request":5,"key":"a"}'))).toEqual({ ok: true, key: "a" });
    expect(readKey(Buffer.from('{"custom_id":"b"}'))).toEqual({ ok: true, key: "b" });
    for (const text of ["", '{"key":"a"', '{"key":5}', '{"key":"a","custom_id":"b"}'])
      expect(readKey(Buffer.from(text))).toEqual({ ok: false });
  });
});

describe("the interface's layout", () => {
  it("reads contents, system instruction, settings and model", () => {
    const parsed = item({
      key: "a",
      request: {
        model: "gemini:models/x:free",
        contents: [
          { role: "user", parts: [{ text: "one" }, { text: "two" }] },
          { role: "model", parts: [{ text: "three" }] },
          { parts: [{ text: "four" }] },
        ],
        system_instruction: { parts: [{ text: "be kind" }] },
        generation_config: { temperature: 0, max_output_tokens: 5, stop_sequences: "END" },
      },
    });
    expect(parsed).toEqual({
      kind: "item",
      key: "a",
      provider: "gemini",
      model: "models/x:free",
      hasReplacedText: false,
      hasExactNumbers: false,
      request: {
        system: ["be kind"],
        turns: [
          { role: "user", parts: ["one", "two"] },
          { role: "model", parts: ["three"] },
          { role: "user", parts: ["four"] },
        ],
        config: { temperature: 0, maxOutputTokens: 5, stopSequences: ["END"] },
        unknownFields: [],
      },
    });
  });

  it("reads every setting under both spellings alike", () => {
    const settings = {
      temperature: 1.5,
      topP: 0.9,
      topK: 40,
      maxOutputTokens: 100,
      stopSequences: ["a", "b"],
      seed: 7,
      presencePenalty: -2,
      frequencyPenalty: 2,
      responseMimeType: "application/json",
      responseSchema: { type: "OBJECT" },
      responseJsonSchema: { type: "object" },
      thinkingConfig: { thinkingBudget: -1, thinkingLevel: "low", includeThoughts: true },
    };
    const snake = (value: unknown): unknown =>
      typeof value === "object" && value !== null && !Array.isArray(value)
        ? Object.fromEntries(
            Object.entries(value).map(([name, inner]) => [
              name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`),
              snake(inner),
            ]),
          )
        : value;
    const extra = { candidateCount: 1 };
    const camel = item(line({ generationConfig: { ...settings, ...extra }, systemInstruction: "s" }));
    const snaked = item(
      line({ generation_config: snake({ ...settings, ...extra }), system_instruction: "s" }),
    );
    expect(camel.request).toEqual(snaked.request);
    expect(camel.request.config).toEqual(settings);
    expect(camel.request.system).toEqual(["s"]);
  });

  it("refuses one field under both spellings", () => {
    expect(config({ top_p: 1, topP: 1 })).toBe("a: invalid_config");
    expect(fault(line({ generation_config: {}, generationConfig: {} }))).toBe("a: invalid_config");
    expect(fault(line({ system_instruction: "a", systemInstruction: "a" }))).toBe("a: invalid_config");
    expect(message(line({ generation_config: { topK: 1, top_k: 1 } }))).toBe(
      "topK and top_k are the same field, set only one",
    );
  });

  it("takes null for absent, as proto3 JSON does", () => {
    const parsed = item(
      line({ generation_config: { temperature: null, topP: 1 }, systemInstruction: null, tools: [] }),
    );
    expect(parsed.request).toMatchObject({ system: [], config: { topP: 1 }, unknownFields: [] });
  });

  it("fault 13: an unknown model is unknown_model under the line's key, a provider that is not configured provider_missing", () => {
    for (const model of ["nope", "openai:", ":x", 7, null, "", `openai:${"m".repeat(300)}`, "openai:a\nb"])
      expect(fault(line({ model }))).toBe("a: unknown_model");
    expect(fault(line({ model: "mars:x" }))).toBe("a: provider_missing");
    expect(message(line({ model: "opneai:gpt" }))).toBe(
      'provider "opneai" is not configured; did you mean "openai"?',
    );
    expect(message(line({ model: "gpt" }))).toBe('model must be "<provider>:<name>", got "gpt"');
    expect(message(line({ model: "x".repeat(50) }))).toContain(`"${"x".repeat(40)}..."`);
  });

  it("fault 13: settings of the wrong type or out of range are invalid_config, naming the field", () => {
    for (const temperature of ["hot", -1, 2.1, [], {}, true])
      expect(config({ temperature })).toBe("a: invalid_config");
    expect(
      fault(JSON.stringify(line({ generation_config: { temperature: 0 } })).replace(":0", ":1e400")),
    ).toBe("a: invalid_config");
    for (const bad of [
      { top_p: 1.1 },
      { top_k: 0 },
      { top_k: 1.5 },
      { max_output_tokens: 0 },
      { max_output_tokens: 2 ** 31 },
      { stop_sequences: [1] },
      { seed: 1.5 },
      { seed: "1" },
      { presence_penalty: 3 },
      { candidate_count: 9 },
      { candidate_count: 0 },
      { response_mime_type: 1 },
      { response_schema: [] },
      { thinking_config: { thinking_budget: -2 } },
      "x",
      [],
    ])
      expect(config(bad), JSON.stringify(bad)).toBe("a: invalid_config");
    expect(message(line({ generation_config: { max_output_tokens: -3 } }))).toBe(
      "max_output_tokens must be a whole number, 1 or more, got -3",
    );
  });

  it("fault 13: contents that are empty or hold anything but text are invalid_contents, and not quoted", () => {
    for (const contents of [
      [],
      "x",
      undefined,
      [5],
      [{}],
      [{ parts: [] }],
      [{ parts: [{ text: 5 }] }],
      [{ parts: ["x"] }],
      [{ parts: [{ text: "x", inline_data: {} }] }],
      [{ role: "system", parts: [{ text: "x" }] }],
    ])
      expect(fault(line({ contents })), JSON.stringify(contents)).toBe("a: invalid_contents");
    expect(fault(line({ system_instruction: 5 }))).toBe("a: invalid_contents");
    expect(message(line({ contents: "secret" }))).toBe("contents must be an array, got a string");
    expect(message(line({ contents: [{ parts: [{ text: "a" }, { text: 5 }] }] }))).toBe(
      "contents[0].parts[1].text must be a string, got 5",
    );
  });

  it("takes a system instruction with one part that is not a list, as Google's samples write it", () => {
    expect(item(line({ system_instruction: { parts: { text: "s" } } })).request.system).toEqual(["s"]);
  });

  it("refuses tools, cached content and safety settings of another form, naming the place", () => {
    expect(message(line({ tools: [{ googleSearch: {} }] }))).toBe(
      "tools[0].googleSearch is not supported; tools are functions",
    );
    expect(fault(line({ tools: [{}] }))).toBe("a: invalid_config");
    expect(fault(line({ cachedContent: 1 }))).toBe("a: invalid_config");
    expect(fault(line({ safety_settings: [1] }))).toBe("a: invalid_config");
  });

  it("keeps a member called __proto__ of a body in OpenAI's layout", () => {
    const text = `{"key":"a","request":{"model":"openai:m","messages":[{"role":"user","content":"x"}],"__proto__":{"x":1}}}`;
    const parsed = parseLine(Buffer.from(text), { providers: new Set(["openai"]) });
    const body = parsed.kind === "item" ? parsed.request.openaiBody : undefined;
    expect(JSON.stringify(body)).toContain('"__proto__":{"x":1}');
  });

  it("refuses data that is not base64, by its first and last 4,096 characters", () => {
    const of = (data: string): string | undefined =>
      message(line({ contents: [{ parts: [{ inline_data: { mime_type: "image/png", data } }] }] }));
    const long = "A".repeat(20_000);
    for (const data of ["iVBORw0KGgo=", "_-__", `${long}AA==`, "AAAA\r\nAAAA\n", long])
      expect(of(data), data.slice(0, 20)).toBe("item");
    expect(of("data:image/png;base64,AAAA")).toBe(
      "contents[0].parts[0].inlineData.data must be base64, got another character at place 5; leave out what is before the comma",
    );
    expect(of("photos/cat.png")).toBe(
      "contents[0].parts[0].inlineData.data must be base64, got another character at place 11; a file has its path in file_data",
    );
    expect(of(`${long}!AA`)).toContain("at place 20001;");
    expect(of(`${"A".repeat(4_000)}!`)).toContain("at place 4001;");
    expect(of(`${"A".repeat(5_000)}!${"A".repeat(5_000)}`)).toBe("item");
  });

  it("refuses what cannot be returned", () => {
    for (const asked of [{ response_modalities: ["TEXT", "IMAGE"] }, { speech_config: {} }])
      expect(config(asked), JSON.stringify(asked)).toBe("a: unsupported_request");
    expect(item(line({ generation_config: { response_modalities: ["TEXT"] } })).request.config).toEqual({});
  });

  it("refuses members that are not known, with their place and the one that was meant", () => {
    const refused = (request: Record<string, unknown>): string | undefined => message(line(request));
    expect(message({ ...line(), requset: {} })).toBe(
      '"requset" is not a known member of the line; did you mean "request"?',
    );
    expect(fault({ ...line(), extra: {} })).toBe("a: invalid_line");
    expect(message({ ...line(), sla: 60 })).toBe(
      '"sla" is not a known member of the line; set it for the whole run',
    );
    expect(refused({ generaton_config: {} })).toBe(
      '"generaton_config" is not a known member of request; did you mean "generation_config"?',
    );
    expect(refused({ temprature: 1 })).toBe(
      '"temprature" is not a known member of request; did you mean "temperature"?',
    );
    expect(refused({ messages: [{}] })).toBe("contents and messages are the same field, set only one");
    expect(refused({ generation_config: { temprature: 1 } })).toBe(
      '"temprature" is not a known member of generation_config; did you mean "temperature"?',
    );
    expect(refused({ generation_config: { maxOutputToken: 1 } })).toBe(
      '"maxOutputToken" is not a known member of generation_config; did you mean "maxOutputTokens"?',
    );
    expect(refused({ generation_config: { thinking_config: { budget: 1 } } })).toBe(
      '"budget" is not a known member of generation_config.thinking_config; expected one of thinking_budget, thinkingBudget, thinking_level, thinkingLevel, include_thoughts, includeThoughts',
    );
    expect(refused({ contents: [{ rol: "user", parts: [{ text: "x" }] }] })).toBe(
      '"rol" is not a known member of contents[0]; did you mean "role"?',
    );
    expect(refused({ contents: [{ parts: [{ text: "x" }, { path: "cat.png" }] }] })).toBe(
      '"path" of contents[0].parts[1] belongs in file_data: {"file_data": {"path": ...}}',
    );
    expect(refused({ system_instruction: { text: "x" } })).toBe(
      '"text" is not a known member of system_instruction; expected one of role, parts',
    );
    expect(fault(line({ generation_config: { temprature: 1 } }))).toBe("a: invalid_config");
    expect(fault({ ...line(), note: null })).toBe("a: invalid_line");
  });

  it("takes OpenAI's and Anthropic's names for what they mean", () => {
    const settings = { maxOutputTokens: 7, stopSequences: ["END"] };
    const named = [
      { generation_config: { max_tokens: 7, stop: "END" } },
      { generation_config: { max_completion_tokens: 7, stop: ["END"] } },
      { generation_config: { maxTokens: 7 }, stop: ["END"] },
      { max_tokens: 7, stop: "END" },
    ];
    for (const request of named) expect(item(line(request)).request.config).toEqual(settings);
    expect(item(line({ system: "be kind" })).request.system).toEqual(["be kind"]);
    expect(item(line({ system: [{ type: "text", text: "be kind" }] })).request.system).toEqual(["be kind"]);
    expect(message(line({ generation_config: { max_tokens: 1, max_output_tokens: 1 } }))).toBe(
      "max_tokens and max_output_tokens are the same field, set only one",
    );
    expect(message(line({ generation_config: { max_tokens: 1 }, max_tokens: 1 }))).toBe(
      "generation_config.max_tokens and max_tokens are the same field, set only one",
    );
    expect(message(line({ system: "a", system_instruction: "b" }))).toContain("are the same field");
    expect(fault(line({ system: [{ type: "image" }] }))).toBe("a: invalid_contents");
  });

  it("takes one model for all lines when it is set", () => {
    const parsed = item(line({ model: 5 }), { ...OPTIONS, modelOverride: "echo:any:thing" });
    expect(parsed).toMatchObject({ provider: "echo", model: "any:thing" });
    expect(fault(line(), { ...OPTIONS, modelOverride: "mars:x" })).toBe("a: provider_missing");
  });

  it("is invalid_line without a request, and with both kinds of key", () => {
    expect(fault({ key: "a" })).toBe("a: invalid_line");
    expect(fault({ key: "a", request: "x" })).toBe("a: invalid_line");
    expect(fault({ ...line(), custom_id: "b" })).toBe("invalid_line");
  });
});
