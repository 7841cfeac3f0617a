import { describe, expect, it } from "vitest";
import { parseLine } from "../../src/jsonl/layout.ts";
import type { Provider } from "../../src/providers/index.ts";
import { provider } from "./answers.ts";

/** One of each protocol, a server of OpenAI's protocol that is not OpenAI's, and the embedded one. */
const CODECS: readonly (readonly [string, string])[] = [
  ["openai", "gpt-4o"],
  ["vllm", "m"],
  ["anthropic", "claude-opus-5-5"],
  ["anthropic", "claude-haiku-4-5"],
  ["gemini", "gemini-3.8-flash"],
  ["echo", "e"],
];
const OTHERS = CODECS.filter(([name]) => name !== "openai" && name !== "vllm");
const MARK = "zzq_member";

/** What becomes of a line: why it is refused, or its body and what was left out of it. */
function fate(
  line: object,
  codec: Provider,
  model: string,
): { refused: string } | { sent: string; dropped: string } {
  const bytes = new TextEncoder().encode(JSON.stringify(line));
  const parsed = parseLine(bytes, { providers: new Set([codec.settings.name]) });
  if (parsed.kind === "rejected") return { refused: parsed.message };
  if (parsed.kind !== "item") throw new Error("blank");
  const encoded = codec.encode(parsed.request, model);
  return encoded.ok ? { sent: encoded.body, dropped: encoded.dropped.join() } : { refused: encoded.message };
}

function chat(name: string, model: string, body: object): object {
  return {
    custom_id: "a",
    body: { model: `${name}:${model}`, messages: [{ role: "user", content: "Hi" }], ...body },
  };
}

function own(name: string, model: string, request: object): object {
  return {
    key: "a",
    request: { model: `${name}:${model}`, contents: [{ parts: [{ text: "Hi" }] }], ...request },
  };
}

const VALUES: readonly unknown[] = [1, 0, "x", "", true, false, [], {}, [1], { a: 1 }];
const VALUES_OR_NULL = [...VALUES, null];

/** Lines that hold a member which no layout has, one for each place of a member. */
function linesWith(name: string, model: string, member: object): Readonly<Record<string, object>> {
  const part = { type: "text", text: "Hi" };
  const format = {
    type: "json_schema",
    json_schema: { name: "n", strict: true, schema: { type: "object" } },
  };
  const tool = { type: "function", function: { name: "f", parameters: {} } };
  return {
    "line (chat)": { ...chat(name, model, {}), ...member },
    body: chat(name, model, member),
    extra_body: chat(name, model, { extra_body: member }),
    message: chat(name, model, { messages: [{ role: "user", content: "Hi", ...member }] }),
    "system message": chat(name, model, {
      messages: [
        { role: "system", content: "Be", ...member },
        { role: "user", content: "Hi" },
      ],
    }),
    part: chat(name, model, { messages: [{ role: "user", content: [{ ...part, ...member }] }] }),
    "system block": chat(name, model, { system: [{ ...part, ...member }] }),
    tool: chat(name, model, { tools: [{ ...tool, ...member }] }),
    "function of a tool": chat(name, model, {
      tools: [{ ...tool, function: { ...tool.function, ...member } }],
    }),
    response_format: chat(name, model, { response_format: { ...format, ...member } }),
    "text format": chat(name, model, { response_format: { type: "text", ...member } }),
    json_schema: chat(name, model, {
      response_format: { ...format, json_schema: { ...format.json_schema, ...member } },
    }),
    "line (own)": { ...own(name, model, {}), ...member },
    request: own(name, model, member),
    generation_config: own(name, model, { generation_config: member }),
    thinking_config: own(name, model, { generation_config: { thinking_config: member } }),
    content: own(name, model, { contents: [{ parts: [{ text: "Hi" }], ...member }] }),
    "part (own)": own(name, model, { contents: [{ parts: [{ text: "Hi", ...member }] }] }),
    system_instruction: own(name, model, { system_instruction: { parts: [{ text: "Be" }], ...member } }),
    "part of system_instruction": own(name, model, {
      system_instruction: { parts: [{ text: "Be", ...member }] },
    }),
    "block of system": own(name, model, { system: [{ ...part, ...member }] }),
  };
}

describe("a member that no layout has", () => {
  it.each(CODECS)("is refused by its path, or sent, wherever it is, by %s (%s)", (name, model) => {
    const codec = provider(name);
    for (const value of VALUES_OR_NULL) {
      for (const [place, line] of Object.entries(linesWith(name, model, { [MARK]: value }))) {
        const found = fate(line, codec, model);
        const text = "refused" in found ? found.refused : found.sent;
        const isToldByParent = "refused" in found && /tools/.test(text); // tools as a whole are not taken
        expect(text.includes(MARK) || isToldByParent, `${place} ${JSON.stringify(value)}: ${text}`).toBe(
          true,
        );
      }
    }
  });

  it("is refused even where unsupported settings are left out, but for settings of the body", () => {
    for (const [name, model] of OTHERS) {
      const codec = provider(name, { unsupportedConfig: "drop" });
      for (const value of [{}, null])
        for (const [place, line] of Object.entries(linesWith(name, model, { [MARK]: value }))) {
          const found = fate(line, codec, model);
          if ("dropped" in found) expect(found.dropped, place).toMatch(new RegExp(`${MARK}|tools`));
          else expect(found.refused, place).toContain(MARK);
        }
    }
  });
});

/** Members of OpenAI's body, as documented, that ask for something with every value below. */
const BODY_MEMBERS = [
  ...["cache_control", "function_call", "guided_json", "logit_bias", "metadata", "min_p", "moderation"],
  ...["parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_options", "safety_identifier"],
  ...["service_tier", "stream_options", "thinking", "tool_choice", "user", "verbosity", "web_search_options"],
];

describe("a documented member that a protocol lacks", () => {
  it.each(OTHERS)("is named or refused with every value, empty ones too, by %s (%s)", (name, model) => {
    const codec = provider(name);
    for (const member of BODY_MEMBERS)
      for (const value of VALUES) {
        const found = fate(chat(name, model, { [member]: value }), codec, model);
        const told = "refused" in found ? found.refused : found.dropped;
        expect(told, `${member} ${JSON.stringify(value)}`).toContain(member);
      }
  });

  it.each(OTHERS)("says nothing with the few values that ask for nothing, to %s (%s)", (name, model) => {
    const nothing = {
      store: false,
      tools: [],
      functions: [],
      stream: false,
      n: 1,
      logprobs: false,
      user: null,
      max_output_tokens: null,
      stop_sequences: null,
      system: null,
      extra_body: { metadata: null },
    };
    const codec = provider(name);
    const plain = fate(chat(name, model, {}), codec, model);
    expect(plain).toMatchObject({ dropped: "" });
    expect(fate(chat(name, model, nothing), codec, model)).toEqual(plain);
  });

  it("is refused or kept to when it is empty, among the settings of perigee's layout", () => {
    for (const [name, model] of CODECS) {
      const found = fate(
        own(name, model, { generation_config: { thinking_config: {} } }),
        provider(name),
        model,
      );
      if (name === "gemini")
        expect(found).toMatchObject({ sent: expect.stringContaining('"thinkingConfig":{}') });
      else expect(found).toMatchObject({ refused: expect.stringContaining("thinking_config") });
    }
  });

  it("of tools and cached content is refused when it is an empty object", () => {
    for (const member of ["tool_config", "cached_content", "safety_settings", "tools"])
      expect(fate(own("gemini", "g", { [member]: {} }), provider("gemini"), "g")).toMatchObject({
        refused: expect.stringMatching(new RegExp(`^${member}.* must be`)),
      });
  });
});

describe("the role of a system instruction", () => {
  const lineWith = (name: string, model: string, role: unknown): object =>
    own(name, model, { system_instruction: { role, parts: [{ text: "Be" }] } });

  it.each(CODECS)(
    "is what it is for as system, left out with a warning as user, by %s (%s)",
    (name, model) => {
      const codec = provider(name);
      const plain = fate(own(name, model, { system_instruction: "Be" }), codec, model);
      for (const role of ["system", null])
        expect(fate(lineWith(name, model, role), codec, model)).toEqual(plain);
      expect(fate(lineWith(name, model, "user"), codec, model)).toEqual({
        ...plain,
        dropped: "system_instruction.role",
      });
    },
  );

  it("is refused as anything else", () => {
    for (const role of ["model", "", 1, {}])
      expect(fate(lineWith("gemini", "g", role), provider("gemini"), "g")).toMatchObject({
        refused: expect.stringContaining('system_instruction.role must be "system" or "user", got'),
      });
  });
});

describe("null", () => {
  it("asks for nothing as a member that the layout has, also of parts and messages", () => {
    const codec = provider("gemini");
    const parts = [{ text: "Hi", inline_data: null, functionCall: null, thought: null }];
    expect(fate(own("gemini", "g", { contents: [{ role: null, parts }] }), codec, "g")).toEqual(
      fate(own("gemini", "g", {}), codec, "g"),
    );
    const message = { role: "user", content: "Hi", name: null, refusal: null, reasoning_content: null };
    const format = { type: "json_schema", json_schema: { name: "n", description: null, schema: null } };
    expect(
      fate(chat("gemini", "g", { messages: [message], response_format: format }), codec, "g"),
    ).toMatchObject({
      refused: expect.stringContaining("response_format.json_schema.schema"),
    });
    expect(
      fate(
        chat("gemini", "g", { messages: [message], response_format: { type: "text", json_schema: null } }),
        codec,
        "g",
      ),
    ).toEqual(fate(chat("gemini", "g", {}), codec, "g"));
  });
});

describe("cache_control", () => {
  const mark = { cache_control: { type: "ephemeral" } };
  const places: readonly ((name: string, model: string) => object)[] = [
    (name, model) => chat(name, model, mark),
    (name, model) => chat(name, model, { messages: [{ role: "user", content: "Hi", ...mark }] }),
    (name, model) =>
      chat(name, model, { messages: [{ role: "user", content: [{ type: "text", text: "Hi", ...mark }] }] }),
    (name, model) => chat(name, model, { system: [{ type: "text", text: "Be", ...mark }] }),
    (name, model) => own(name, model, { system: [{ type: "text", text: "Be", ...mark }] }),
  ];

  it.each(OTHERS)("is left out with a warning by %s (%s), because it changes no answer", (name, model) => {
    for (const line of places)
      expect(fate(line(name, model), provider(name), model)).toMatchObject({ dropped: "cache_control" });
    const strict = provider(name, { unsupportedConfig: "refuse" });
    for (const line of places)
      expect(fate(line(name, model), strict, model)).toEqual({
        refused: `${name}:${model} does not take cache_control; leave it out`,
      });
  });

  it("on a tool is refused with the tools", () => {
    const line = chat("anthropic", "m", { tools: [{ type: "function", function: { name: "f" }, ...mark }] });
    expect(fate(line, provider("anthropic"), "m")).toMatchObject({
      refused: expect.stringContaining("cache_control"),
    });
  });
});

describe("the thoughts of an earlier answer, which clients send back as text", () => {
  const talk = (thoughts: object) => ({
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello", ...thoughts },
      { role: "user", content: "Go on" },
    ],
  });

  it.each(OTHERS)("are left out with a warning by %s (%s)", (name, model) => {
    for (const member of ["reasoning_content", "reasoning"]) {
      const line = chat(name, model, talk({ [member]: "hm" }));
      expect(fate(line, provider(name), model)).toMatchObject({ dropped: member });
      expect(fate(line, provider(name, { unsupportedConfig: "refuse" }), model)).toEqual({
        refused: `${name}:${model} does not take ${member}; leave it out`,
      });
      const empty = chat(name, model, talk({ [member]: "" }));
      expect(fate(empty, provider(name), model)).toEqual(
        fate(chat(name, model, talk({})), provider(name), model),
      );
      const odd = chat(name, model, talk({ [member]: ["hm"] }));
      expect(fate(odd, provider(name), model)).toMatchObject({
        refused: expect.stringContaining(`messages[1].${member}`),
      });
    }
  });
});

describe("a system message", () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "developer", content: "Be kind." },
    { role: "user", content: "Hi" },
  ];

  it("before the conversation is carried, together with others", () => {
    expect(fate(chat("anthropic", "m", { messages }), provider("anthropic"), "m")).toMatchObject({
      sent: expect.stringContaining(
        '"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"Be kind."}]',
      ),
    });
  });

  it("inside the conversation is refused by protocols that would move it, under any policy", () => {
    const inside = { messages: [...messages, { role: "system", content: "Now in French." }] };
    for (const [name, model] of OTHERS)
      for (const policy of [{}, { unsupportedConfig: "drop" }])
        expect(fate(chat(name, model, inside), provider(name, policy), model)).toEqual({
          refused: "messages[3]: a system message must be before the conversation",
        });
    expect(fate(chat("openai", "gpt-4o", inside), provider("openai"), "gpt-4o")).toMatchObject({
      sent: expect.stringContaining("Now in French."),
    });
  });
});

describe("a schema", () => {
  const schema = { type: "object", properties: {} };
  const described = (inner: object): object => ({
    response_format: { type: "json_schema", json_schema: { name: "n", description: "A day", schema: inner } },
  });

  it("takes its description along to protocols that have no other place for it", () => {
    expect(fate(chat("gemini", "g", described(schema)), provider("gemini"), "g")).toMatchObject({
      sent: expect.stringContaining('"description":"A day"'),
    });
    const twice = chat("gemini", "g", described({ ...schema, description: "A date" }));
    expect(fate(twice, provider("gemini"), "g")).toMatchObject({
      refused: expect.stringContaining("does not take response_format.json_schema.description"),
    });
    const atOpenai = chat("openai", "gpt-4o", described({ ...schema, description: "A date" }));
    expect(fate(atOpenai, provider("openai"), "gpt-4o")).toMatchObject({ dropped: "" });
  });

  it("set in two dialects is refused, since only one can be kept", () => {
    const config = { response_schema: { type: "OBJECT" }, response_json_schema: schema };
    expect(fate(own("gemini", "g", { generation_config: config }), provider("gemini"), "g")).toEqual({
      refused: "response_schema and response_json_schema are the same field, set only one",
    });
  });

  it("beside a type that is not JSON is refused where schemas make JSON", () => {
    const config = { response_schema: { type: "STRING", enum: ["a"] }, response_mime_type: "text/x.enum" };
    for (const [name, model] of CODECS.filter(([one]) => one !== "gemini"))
      expect(fate(own(name, model, { generation_config: config }), provider(name), model)).toMatchObject({
        refused: expect.stringContaining("response_mime_type"),
      });
  });
});

it("A level of thinking and a budget are refused together where one of them would be left out", () => {
  const both = (name: string, model: string, level: string): object =>
    own(name, model, {
      generation_config: { thinking_config: { thinking_level: level, thinking_budget: 2_048 } },
    });
  for (const [name, model, level] of [
    ["anthropic", "claude-opus-5-5", "high"],
    ["anthropic", "claude-opus-5-5", "none"],
    ["gemini", "gemini-3.8-flash", "none"],
    ["openai", "gpt-5", "high"],
  ] as const)
    expect(fate(both(name, model, level), provider(name), model)).toMatchObject({
      refused: expect.stringContaining("thinking_budget"),
    });
});

it("stream is refused with every value but false, since servers read more than true as a stream", () => {
  for (const value of [1, "true", {}, true])
    expect(fate(chat("vllm", "m", { stream: value }), provider("vllm"), "m")).toEqual({
      refused: "stream must be false or absent: answers are written whole",
    });
});
