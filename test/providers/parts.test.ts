/** Parts of turns: nothing of them is lost in silence, calls go back as they came, and files leave marks that nobody can forge. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseLine } from "../../src/jsonl/layout.ts";
import { restoreNumbers } from "../../src/jsonl/numbers.ts";
import type { ModelRequest } from "../../src/work/request.ts";
import { answer, provider } from "./answers.ts";

const MODELS = [
  ["openai", "gpt-4o"],
  ["vllm", "m"],
  ["anthropic", "claude-haiku-4-5"],
  ["gemini", "gemini-3.8-flash"],
  ["echo", "e"],
] as const;

function read(line: object, name: string): ModelRequest | string {
  const parsed = parseLine(Buffer.from(JSON.stringify(line)), { providers: new Set([name]) });
  if (parsed.kind === "item") return parsed.request;
  return parsed.kind === "rejected" ? parsed.message : "blank";
}

/** What is sent, with what is left out by name; or why nothing is. */
function fate(
  line: object,
  name: string,
  model: string,
): { sent: string; dropped: string } | { refused: string } {
  const request = read(line, name);
  if (typeof request === "string") return { refused: request };
  const encoded = provider(name).encode(request, model);
  return encoded.ok ? { sent: encoded.body, dropped: encoded.dropped.join() } : { refused: encoded.message };
}

/** Values that no codec writes by itself. */
const WORDS = ["zq1", "zq2", "zq3", "zq4"] as const;
const word = fc.constantFrom(...WORDS);
/** A part, with each value in it and the name by which a refusal or a warning tells of it. */
interface Marked {
  readonly part: object;
  readonly marks: readonly (readonly string[])[];
}
const text: fc.Arbitrary<Marked> = word.map((value) => ({ part: { text: value }, marks: [[value, "text"]] }));
const medium: fc.Arbitrary<Marked> = fc
  .record({
    data: fc.constantFrom("enoxAA==", "enoyAA=="),
    mime: fc.constantFrom(
      "image/png",
      "image/heic",
      "application/pdf",
      "audio/wav",
      "audio/ogg",
      "video/mp4",
    ),
    name: fc.option(word, { nil: undefined }),
    level: fc.constantFrom(undefined, "MEDIA_RESOLUTION_LOW", "MEDIA_RESOLUTION_MEDIUM"),
  })
  .map(({ data, mime, name, level }) => ({
    part: {
      inline_data: { data, mime_type: mime, ...(name === undefined ? {} : { display_name: name }) },
      ...(level === undefined ? {} : { media_resolution: { level } }),
    },
    marks: [
      [data, "parts"],
      ...(name === undefined ? [] : [[name, "file_name"]]),
      ...(level === undefined ? [] : [[level, "media_resolution"]]),
    ],
  }));
const address: fc.Arbitrary<Marked> = fc
  .constantFrom("https://example.org/zq5.png", "gs://zq6/a.pdf", "https://example.org/zq7.mp3")
  .map((uri) => ({ part: { file_data: { file_uri: uri } }, marks: [[uri, "parts"]] }));
const thought: fc.Arbitrary<Marked> = fc
  .record({ value: word, signature: word })
  .map(({ value, signature }) => ({
    part: { text: value, thought: true, thought_signature: signature },
    marks: [
      [value, "parts"],
      [signature, "thought_signature"],
    ],
  }));
const call: fc.Arbitrary<Marked> = fc
  .record({ value: word, signature: fc.option(word, { nil: undefined }) })
  .map(({ value, signature }) => ({
    part: {
      function_call: { name: "f", args: { a: value } },
      ...(signature === undefined ? {} : { thought_signature: signature }),
    },
    marks: [[value, "parts"], ...(signature === undefined ? [] : [[signature, "thought_signature"]])],
  }));
const result: fc.Arbitrary<Marked> = fc
  .record({
    value: word,
    isText: fc.boolean(),
    media: fc.array(fc.constantFrom("enoxAA==", "enoyAA=="), { maxLength: 2 }),
    name: fc.option(word, { nil: undefined }),
  })
  .map(({ value, isText, media, name }) => {
    const named = name === undefined ? {} : { display_name: name };
    const parts = media.map((data) => ({ inline_data: { mime_type: "image/png", data, ...named } }));
    const response = isText ? { output: value } : { a: value, b: 1 };
    return {
      part: { function_response: { name: "f", response, ...(media.length === 0 ? {} : { parts }) } },
      marks: [
        [value, "parts"],
        ...media.flatMap((data) => [[data, "parts"], ...(name === undefined ? [] : [[name, "file_name"]])]),
      ],
    };
  });

describe("nothing of a request vanishes", () => {
  it("whatever parts its turns have: each is sent, refused by its path, or named", () => {
    const turn = (role: "user" | "model") =>
      fc.record({
        role: fc.constant(role),
        parts: fc.array(
          role === "user" ? fc.oneof(text, medium, address, result) : fc.oneof(text, thought, call),
          {
            minLength: 1,
            maxLength: 3,
          },
        ),
      });
    fc.assert(
      fc.property(
        fc.tuple(turn("user"), turn("model"), turn("user")),
        fc.constantFrom(...MODELS),
        (turns, [name, model]) => {
          const contents = turns.map(({ role, parts }) => ({ role, parts: parts.map(({ part }) => part) }));
          const found = fate({ key: "a", model: `${name}:${model}`, contents }, name, model);
          if ("refused" in found) {
            expect(found.refused).toMatch(/^contents\[\d\]\.parts\[\d\]/);
            return;
          }
          for (const [value = "", told = ""] of turns.flatMap(({ parts }) =>
            parts.flatMap(({ marks }) => marks),
          )) {
            const isResolved = value === "MEDIA_RESOLUTION_LOW" && found.sent.includes('"detail":"low"');
            const isSent = name === "echo" || found.sent.includes(value) || isResolved;
            expect(
              isSent || found.dropped.includes(told),
              `${name} ${told} ${value}: ${JSON.stringify(found)}`,
            ).toBe(true);
          }
        },
      ),
      { numRuns: 400 },
    );
  });

  it("call the number of answers as the line does", () => {
    const body = { messages: [{ role: "user", content: "Hi" }], n: 2 };
    for (const model of ["anthropic:claude-haiku-4-5", "echo:e"]) {
      const [name = "", rest = ""] = model.split(":");
      const openais = {
        custom_id: "a",
        method: "POST",
        url: "/v1/chat/completions",
        body: { model, ...body },
      };
      const own = { key: "a", model, input: "Hi", candidate_count: 2 };
      expect(fate(openais, name, rest)).toMatchObject({ refused: expect.stringMatching(/does not take n;/) });
      expect(fate(own, name, rest)).toMatchObject({ refused: expect.stringContaining("candidate_count") });
    }
  });

  it("whatever members it has beside them: each is sent, refused or named by every protocol", () => {
    const members = {
      tools: [{ function_declarations: [{ name: "zq_tool", description: "zq_words" }] }],
      tool_config: { function_calling_config: { mode: "ANY", allowed_function_names: ["zq_tool"] } },
      parallel_tool_calls: true,
      safety_settings: [{ category: "zq_category" }],
      cached_content: "zq_cache",
      candidate_count: 3,
    };
    const written: Record<keyof typeof members, RegExp> = {
      tools: /zq_tool.*zq_words/,
      tool_config: /tool_choice":\{|toolConfig/,
      parallel_tool_calls: /"parallel_tool_calls":true/,
      safety_settings: /zq_category/,
      cached_content: /zq_cache/,
      candidate_count: /"(n|candidateCount)":3/,
    };
    for (const [name, model] of MODELS)
      for (const [member, value] of Object.entries(members)) {
        const found = fate(
          { key: "a", model: `${name}:${model}`, input: "Hi", [member]: value },
          name,
          model,
        );
        if ("refused" in found) expect(found.refused).toContain(member === "tool_config" ? "tool_c" : member);
        else
          expect(
            written[member as keyof typeof members].test(found.sent) || found.dropped.includes(member),
            `${name} ${member}: ${JSON.stringify(found)}`,
          ).toBe(true);
      }
  });
});

describe("a call of a function", () => {
  const answers = {
    openai: {
      choices: [
        {
          message: {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "c9", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
          },
          finish_reason: "tool_calls",
        },
      ],
    },
    anthropic: {
      content: [
        { type: "thinking", thinking: "Hm.", signature: "sig-a" },
        { type: "tool_use", id: "c9", name: "f", input: { a: 1 } },
      ],
      stop_reason: "tool_use",
    },
    gemini: {
      candidates: [
        { content: { parts: [{ functionCall: { name: "f", args: { a: 1 } }, thoughtSignature: "sig-g" }] } },
      ],
    },
  };
  const back = {
    openai:
      '"tool_calls":[{"id":"c9","type":"function","function":{"name":"f","arguments":"{\\"a\\":1}"}}]},{"role":"tool"',
    anthropic:
      '[{"type":"thinking","thinking":"Hm.","signature":"sig-a"},{"type":"tool_use","id":"c9","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c9"',
    gemini:
      '{"functionCall":{"id":"call_1","name":"f","args":{"a":1}},"thoughtSignature":"sig-g"}]},{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"f"',
  };

  it.each(["openai", "anthropic", "gemini"] as const)(
    "of an answer of %s goes into the next request as it is, with what the provider demands back",
    (name) => {
      const decoded = provider(name).decode(answer(200, answers[name]));
      if (decoded.class !== "success") throw new Error(decoded.message);
      expect(decoded.finish).toBe("tool_calls");
      const [first] = decoded.members?.tool_calls ?? [];
      const { id } = first as { readonly id: string };
      const messages = [
        { role: "user", content: "Hi" },
        { role: "assistant", content: null, tool_calls: decoded.members?.tool_calls },
        { role: "tool", tool_call_id: id, content: "2" },
      ];
      const found = fate({ key: "a", model: `${name}:m`, messages }, name, "m");
      expect(found).toMatchObject({ sent: expect.stringContaining(back[name]) });
    },
  );

  it("keeps the digits of its numbers in every protocol, from both layouts", () => {
    const digits = "12345678901234567890";
    const own = `{"contents":[{"parts":[{"text":"Hi"}]},{"role":"model","parts":[{"function_call":{"name":"f","args":{"a":${digits}}}}]}]}`;
    const chat = `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\\"a\\":${digits}}"}}]}]}`;
    for (const name of ["openai", "anthropic", "gemini"])
      for (const item of [own, chat]) {
        const line = `{"key":"k","model":"${name}:m",${item.slice(1)}`;
        const parsed = parseLine(Buffer.from(line), { providers: new Set([name]) });
        if (parsed.kind !== "item") throw new Error(JSON.stringify(parsed));
        const encoded = provider(name).encode(parsed.request, "m");
        if (!encoded.ok) throw new Error(encoded.message);
        const body = parsed.hasExactNumbers ? restoreNumbers(encoded.body) : encoded.body;
        expect(body).toMatch(new RegExp(`a\\\\?":${digits}\\}`));
      }
  });
});

describe("several answers", () => {
  const openai = (finish: string, content: string | null, index: number) => ({
    index,
    message: { content },
    finish_reason: finish,
  });

  it("are the first that is one, and the others beside it in their order", () => {
    const choices = [openai("length", "c", 2), openai("stop", "a", 0), openai("content_filter", null, 1)];
    expect(provider("openai").decode(answer(200, { choices }))).toMatchObject({
      text: "a",
      finish: "stop",
      members: {
        other_candidates: [
          { text: "", finish_reason: "content_filter" },
          { text: "c", finish_reason: "length" },
        ],
      },
    });
    const filtered = [openai("content_filter", null, 0), openai("stop", "b", 1)];
    expect(provider("openai").decode(answer(200, { choices: filtered }))).toMatchObject({
      text: "b",
      members: { other_candidates: [{ text: "", finish_reason: "content_filter" }] },
    });
    const candidates = ["a", "b"].map((part, index) => ({ index, content: { parts: [{ text: part }] } }));
    expect(provider("gemini").decode(answer(200, { candidates }))).toMatchObject({
      text: "a",
      members: { other_candidates: [{ text: "b", finish_reason: "stop" }] },
    });
  });

  it("of which none is an answer are the failure of the first", () => {
    const choices = [openai("content_filter", null, 0), openai("length", null, 1)];
    expect(provider("openai").decode(answer(200, { choices }))).toMatchObject({
      class: "permanent",
      code: "filtered",
    });
  });
});

describe("a file that is read when it is sent", () => {
  const sources = [
    { path: "a/b.png" },
    { file_id: "f1", mime_type: "image/png" },
    { file_uri: "s3://b/c.png" },
  ];

  it("leaves a marker where its base64 belongs, and an insert that says what it is", () => {
    for (const name of ["openai", "anthropic", "gemini"])
      for (const source of sources) {
        const request = read(
          { key: "a", model: `${name}:m`, contents: [{ parts: [{ file_data: source }] }] },
          name,
        );
        if (typeof request === "string") throw new Error(request);
        const encoded = provider(name).encode(request, "m");
        if (!encoded.ok) throw new Error(encoded.message);
        const [insert, ...others] = encoded.inserts ?? [];
        expect(others).toEqual([]);
        expect(insert).toMatchObject({ mimeType: "image/png", encoding: "base64" });
        expect(encoded.body.split(insert?.marker ?? "?")).toHaveLength(2);
        const filled = encoded.body.replace(insert?.marker ?? "?", "QUJD");
        expect(JSON.stringify(JSON.parse(filled))).toMatch(/(base64,|"data":")QUJD"/);
      }
  });

  it("has a marker of its own for each of many, none of which begins another", () => {
    const parts = Array.from({ length: 12 }, (_, index) => ({ file_data: { path: `${index}.png` } }));
    const request = read({ key: "a", model: "gemini:m", contents: [{ parts }] }, "gemini");
    if (typeof request === "string") throw new Error(request);
    const encoded = provider("gemini").encode(request, "m");
    if (!encoded.ok) throw new Error(encoded.message);
    for (const { marker } of encoded.inserts ?? []) expect(encoded.body.split(marker)).toHaveLength(2);
    expect(encoded.inserts?.map(({ source }) => source)).toEqual(parts.map(({ file_data }) => file_data));
  });
});
