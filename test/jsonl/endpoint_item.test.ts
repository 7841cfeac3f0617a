/** Items of other endpoints than a chat's, in both layouts. */
import { describe, expect, it } from "vitest";
import { type ParsedLine, parseLine } from "../../src/jsonl/layout.ts";

const OPTIONS = { providers: new Set(["openai"]) };

function parse(line: object): ParsedLine {
  return parseLine(Buffer.from(JSON.stringify(line)), OPTIONS);
}

function endpointOf(line: object): unknown {
  const parsed = parse(line);
  if (parsed.kind !== "item") throw new Error(JSON.stringify(parsed));
  return parsed.request.endpoint;
}

function fault(item: object): string {
  const parsed = parse({ key: "a", model: "openai:m", ...item });
  return parsed.kind === "rejected" ? `${parsed.code}: ${parsed.message}` : parsed.kind;
}

describe("an item with a kind", () => {
  it("keeps the members of OpenAI's body, flat or in `request`, and counts its texts", () => {
    const item = { kind: "embedding", model: "openai:e", input: ["one", "two"], dimensions: 256 };
    const endpoint = {
      kind: "embedding",
      body: { input: ["one", "two"], dimensions: 256 },
      texts: ["one", "two"],
      tokenIds: 0,
    };
    expect(endpointOf({ key: "a", ...item })).toEqual(endpoint);
    expect(endpointOf({ key: "a", request: item, metadata: { x: 1 } })).toEqual(endpoint);
  });

  it("takes one text, token ids, and lists of token ids", () => {
    const model = "openai:e";
    expect(endpointOf({ key: "a", kind: "embedding", model, input: "one" })).toMatchObject({
      texts: ["one"],
    });
    expect(endpointOf({ key: "a", kind: "embedding", model, input: [1, 2, 3] })).toMatchObject({
      tokenIds: 3,
    });
    expect(endpointOf({ key: "a", kind: "embedding", model, input: [[1, 2], [3]] })).toMatchObject({
      tokenIds: 3,
      texts: [],
    });
  });

  it("is a chat without a kind, and with the kind chat", () => {
    const chat = parse({ key: "a", kind: "chat", model: "openai:m", input: "hi" });
    expect(chat).toEqual(parse({ key: "a", model: "openai:m", input: "hi" }));
    expect(chat).toMatchObject({ request: { turns: [{ role: "user", parts: ["hi"] }] } });
  });

  it("counts the texts of a response's messages, instructions and tool results", () => {
    const input = [
      { role: "user", content: [{ type: "input_text", text: "a" }] },
      { type: "function_call_output", call_id: "c", output: "b" },
      { role: "assistant", content: "c" },
    ];
    const line = { key: "a", kind: "response", model: "openai:m", instructions: "z", input };
    expect(endpointOf(line)).toMatchObject({ texts: ["z", "a", "b", "c"], tokenIds: 0 });
  });

  it.each([
    [
      { kind: "embeding", input: "x" },
      'invalid_config: kind: "embeding" is not a known kind; did you mean "embedding"?',
    ],
    [
      { kind: "embedding" },
      "invalid_contents: input must be a text, a list of texts, or token ids, got nothing",
    ],
    [
      { kind: "embedding", input: "" },
      "invalid_contents: input is an empty text; expected at least one character",
    ],
    [{ kind: "embedding", input: [] }, "invalid_contents: input is empty"],
    [
      { kind: "embedding", input: ["a", 1.5] },
      "invalid_contents: input[1] must be a text or token ids, got 1.5",
    ],
    [
      { kind: "completion", prompt: ["a", "b"] },
      "unsupported_request: prompt: expected one text, got 2; use one item for each",
    ],
    [{ kind: "completion", prompt: "a", n: 2 }, "unsupported_request: n: expected 1 or absent, got 2"],
    [
      { kind: "completion", prompt: "a", stream: true },
      "unsupported_request: stream must be false or absent: answers are written whole",
    ],
    [
      { kind: "response", input: "a", background: true },
      "unsupported_request: background must be false or absent",
    ],
    [
      { kind: "response", input: "a", previous_response_id: "r" },
      "unsupported_request: previous_response_id is not supported: each item is answered by itself; repeat the turns in input",
    ],
  ])("is refused as %j", (item, message) => {
    expect(fault(item)).toBe(message);
  });
});

describe("a line of OpenAI's batch layout", () => {
  it.each([
    ["/v1/embeddings", { input: "a" }, "embedding"],
    ["/v1/moderations", { input: "a" }, "moderation"],
    ["/v1/completions", { prompt: "a" }, "completion"],
    ["/v1/responses", { input: "a" }, "response"],
  ])("has its endpoint by its url: %s", (url, body, kind) => {
    const line = { custom_id: "a", method: "POST", url, body: { model: "m", ...body } };
    expect(endpointOf(line)).toEqual({ kind, body, texts: ["a"], tokenIds: 0 });
  });

  it("names the urls that are read", () => {
    expect(parse({ custom_id: "a", url: "/v1/audio", body: { model: "m" } })).toMatchObject({
      code: "unsupported_request",
      message:
        'url must be one of /v1/chat/completions, /v1/embeddings, /v1/responses, /v1/completions, /v1/moderations, got "/v1/audio"',
    });
  });
});
