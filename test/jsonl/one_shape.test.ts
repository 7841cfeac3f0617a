/** One item shape in every layout: what is read from a line does not depend on how it is laid out. */
import { describe, expect, it } from "vitest";
import { itemLine, type KeyedItem } from "../../src/jsonl/items.ts";
import { type ParsedLine, parseLine } from "../../src/jsonl/layout.ts";

const OPTIONS = { providers: new Set(["openai", "echo"]) };
const MODEL = "openai:m";

function read(line: object): ParsedLine {
  return parseLine(Buffer.from(JSON.stringify(line)), OPTIONS);
}

function request(line: object) {
  const parsed = read(line);
  if (parsed.kind !== "item") throw new Error(JSON.stringify(parsed));
  return parsed.request;
}

function fault(line: object): string {
  const parsed = read(line);
  return parsed.kind === "rejected" ? `${parsed.code}: ${parsed.message}` : parsed.kind;
}

const ASKED = {
  system: ["Be brief."],
  turns: [{ role: "user", parts: ["Why?"] }],
  config: { temperature: 0.5, topP: 0.9, maxOutputTokens: 8, stopSequences: ["x"] },
  unknownFields: [],
};
const contents = [{ parts: [{ text: "Why?" }] }];
const messages = [{ role: "user", content: "Why?" }];

describe("an item", () => {
  const snake = { temperature: 0.5, top_p: 0.9, max_output_tokens: 8, stop_sequences: ["x"] };
  const camel = { temperature: 0.5, topP: 0.9, maxOutputTokens: 8, stop: "x" };
  it.each<[string, object]>([
    ["a line with a prompt", { key: "a", model: MODEL, input: "Why?", system: "Be brief.", ...snake }],
    ["a line with contents", { key: "a", model: MODEL, contents, system: "Be brief.", ...camel }],
    ["a line with messages", { key: "a", model: MODEL, messages, system: "Be brief.", ...camel }],
    [
      "messages that hold the system instruction",
      { key: "a", model: MODEL, messages: [{ role: "system", content: "Be brief." }, ...messages], ...snake },
    ],
    [
      "settings in generation_config",
      { key: "a", model: MODEL, messages, system_instruction: "Be brief.", generation_config: snake },
    ],
    [
      "the interface's layout",
      { key: "a", request: { model: MODEL, contents, system: "Be brief.", generationConfig: camel } },
    ],
    [
      "the interface's layout with settings beside it",
      { key: "a", request: { model: MODEL, contents, system: "Be brief.", ...snake } },
    ],
    [
      "the interface's layout with a prompt",
      { key: "a", request: { model: MODEL, input: "Why?", system: "Be brief.", ...camel } },
    ],
  ])("is read alike from %s", (_, line) => {
    expect(request(line)).toEqual(ASKED);
  });

  it("is read alike from OpenAI's batch layout, whose body is kept besides", () => {
    const body = {
      model: MODEL,
      messages: [{ role: "system", content: "Be brief." }, ...messages],
      temperature: 0.5,
    };
    const { openaiBody, ...others } = request({
      custom_id: "a",
      body: { ...body, top_p: 0.9, max_tokens: 8, stop: "x" },
    });
    expect(others).toEqual(ASKED);
    expect(openaiBody).toMatchObject({ max_tokens: 8 });
  });

  it("keeps messages with more than text, and members that only OpenAI has, as OpenAI's body", () => {
    const tools = [{ type: "function", function: { name: "look" } }];
    const read = request({
      key: "a",
      model: MODEL,
      messages,
      tools,
      maxOutputTokens: 8,
      topP: 0.9,
      logprobs: true,
    });
    expect(read.openaiBody).toEqual({
      model: MODEL,
      messages,
      tools,
      max_tokens: 8,
      top_p: 0.9,
      logprobs: true,
    });
    expect(read.config).toEqual({ maxOutputTokens: 8, topP: 0.9, responseLogprobs: true });
    expect(read.tools).toEqual([{ name: "look" }]);
    const picture = [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }];
    expect(request({ key: "a", model: MODEL, messages: picture }).unheld).toBe(
      "messages[0].content[0].image_url.url must be base64, as in data:image/png;base64,...",
    );
  });

  it.each<[string, object, string]>([
    [
      "without a question",
      { key: "a", model: MODEL },
      "invalid_contents: contents must be an array, got nothing",
    ],
    [
      "with two questions",
      { key: "a", model: MODEL, input: "a", messages },
      "invalid_config: input and messages are the same field, set only one",
    ],
    [
      "with a prompt that is not a text",
      { key: "a", model: MODEL, input: 5 },
      "invalid_contents: input must be a string, got 5",
    ],
    [
      "with an sla in a file",
      { key: "a", model: MODEL, input: "a", sla: 5 },
      'invalid_line: "sla" is not a known member of the line; set it for the whole run',
    ],
    [
      "with a misspelt setting",
      { key: "a", model: MODEL, input: "a", temprature: 1 },
      'invalid_line: "temprature" is not a known member of the line; did you mean "temperature"?',
    ],
    [
      "with a tool that is not a function beside a prompt",
      { key: "a", model: MODEL, input: "a", tools: [{ type: "web_search" }] },
      'unsupported_request: tools[0].type "web_search" is not supported; tools are functions',
    ],
    [
      "with a setting in two places",
      { key: "a", model: MODEL, input: "a", topP: 1, generation_config: { top_p: 1 } },
      "invalid_config: top_p and topP are the same field, set only one",
    ],
    [
      "with a setting that tools cannot have beside them",
      { key: "a", model: MODEL, messages, tools: [{}], thinkingConfig: {} },
      "invalid_config: thinkingConfig cannot be used beside messages that only OpenAI's protocol has; use OpenAI's names for settings",
    ],
    [
      "with a number out of its range",
      { key: "a", model: MODEL, messages, temperature: 5 },
      "invalid_config: temperature must be a number from 0 to 2, got 5",
    ],
  ])("is refused %s", (_, line, expected) => {
    expect(fault(line)).toBe(expected);
  });

  it.each<[string, KeyedItem]>([
    [
      "a prompt",
      {
        key: "a",
        model: MODEL,
        input: "Why?",
        system: "Be brief.",
        sla: 5,
        temperature: 0.5,
        topP: 0.9,
        maxOutputTokens: 8,
        stop: "x",
      },
    ],
    [
      "contents",
      {
        key: "a",
        model: MODEL,
        contents,
        system: "Be brief.",
        temperature: 0.5,
        topP: 0.9,
        max_tokens: 8,
        stopSequences: ["x"],
      },
    ],
    [
      "messages",
      {
        key: "a",
        model: MODEL,
        messages,
        system: "Be brief.",
        temperature: 0.5,
        topP: 0.9,
        maxOutputTokens: 8,
        stop: ["x"],
      },
    ],
  ])("is written as a line that is read alike, with %s", (_, item) => {
    expect(request(JSON.parse(itemLine(item)) as object)).toEqual(ASKED);
  });
});
