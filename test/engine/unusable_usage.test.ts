/**
 * Answers whose token counts cannot be used, however they end and in whichever protocol they arrive: what a request may have
 * cost is billed or in doubt, and a cap holds.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import type { FunctionAnswer } from "../../src/providers/index.ts";
import { jsonAnswer } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

type Counts = "none" | "all zero" | "input only" | "no whole numbers" | "more than any context window";
type End =
  | "text"
  | "a tool call"
  | "stopped, empty"
  | "cut, empty"
  | "filtered, empty"
  | "filtered, text"
  | "refused";

const COUNTS: readonly Counts[] = [
  "none",
  "all zero",
  "input only",
  "no whole numbers",
  "more than any context window",
];
const ENDS: readonly End[] = [
  "text",
  "a tool call",
  "stopped, empty",
  "cut, empty",
  "filtered, empty",
  "filtered, text",
  "refused",
];

function counts(kind: Counts): readonly [input?: number, output?: number] {
  switch (kind) {
    case "none":
      return [];
    case "all zero":
      return [0, 0];
    case "input only":
      return [20];
    case "no whole numbers":
      return [7.5, -3];
    case "more than any context window":
      return [20, 2e7];
  }
}

const textOf = (end: End): string => (end.endsWith("text") ? "words" : "");
const CALL = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };

function openai(end: End, kind: Counts): WireResult {
  const [prompt_tokens, completion_tokens] = counts(kind);
  const finish: Readonly<Record<End, string>> = {
    text: "stop",
    "a tool call": "tool_calls",
    "stopped, empty": "stop",
    "cut, empty": "length",
    "filtered, empty": "content_filter",
    "filtered, text": "content_filter",
    refused: "stop",
  };
  const message = {
    content: textOf(end),
    ...(end === "refused" ? { refusal: "no" } : {}),
    ...(end === "a tool call" ? { tool_calls: [CALL] } : {}),
  };
  const usage = kind === "none" ? undefined : { prompt_tokens, completion_tokens };
  return jsonAnswer(200, { choices: [{ index: 0, message, finish_reason: finish[end] }], usage });
}

function anthropic(end: End, kind: Counts): WireResult {
  const [input_tokens, output_tokens] = counts(kind);
  const stop: Readonly<Record<End, string>> = {
    text: "end_turn",
    "a tool call": "tool_use",
    "stopped, empty": "end_turn",
    "cut, empty": "max_tokens",
    "filtered, empty": "refusal",
    "filtered, text": "refusal",
    refused: "pause_turn",
  };
  const content =
    end === "a tool call"
      ? [{ type: "tool_use", id: "a", name: "f", input: {} }]
      : [{ type: "text", text: textOf(end) }];
  const usage = kind === "none" ? undefined : { input_tokens, output_tokens };
  return jsonAnswer(200, { type: "message", content, stop_reason: stop[end], usage });
}

function gemini(end: End, kind: Counts): WireResult {
  // A count of 0 is left out on this wire, so an input without an output is usable where nothing was generated.
  const [promptTokenCount, candidatesTokenCount] = kind === "input only" ? [7.5] : counts(kind);
  const usageMetadata = kind === "none" ? undefined : { promptTokenCount, candidatesTokenCount };
  if (end === "refused") return jsonAnswer(200, { promptFeedback: { blockReason: "SAFETY" }, usageMetadata });
  const finish: Readonly<Record<Exclude<End, "refused">, string>> = {
    text: "STOP",
    "a tool call": "STOP",
    "stopped, empty": "STOP",
    "cut, empty": "MAX_TOKENS",
    "filtered, empty": "SAFETY",
    "filtered, text": "SAFETY",
  };
  const part = end === "a tool call" ? { functionCall: { name: "f", args: {} } } : { text: textOf(end) };
  const candidate = { content: { parts: [part] }, finishReason: finish[end] };
  return jsonAnswer(200, { candidates: [candidate], usageMetadata });
}

function called(end: End, kind: Counts): FunctionAnswer {
  const [inputTokens, outputTokens] = counts(kind);
  const usage = kind === "none" ? undefined : { inputTokens, outputTokens };
  const finish = {
    "cut, empty": "length",
    "filtered, empty": "content_filter",
    "filtered, text": "content_filter",
  };
  return {
    text: textOf(end),
    ...(usage === undefined ? {} : { usage: usage as NonNullable<FunctionAnswer["usage"]> }), // callers may forget a total
    finishReason: (finish as Partial<Record<End, "length" | "content_filter">>)[end] ?? "stop",
    ...(end === "refused" ? { refusal: "no" } : {}),
    ...(end === "a tool call" ? { toolCalls: [CALL] } : {}),
  };
}

type Answer = () => WireResult | FunctionAnswer;
const LOST: WireResult = { ok: false, failure: "lost", message: "reset" };
const PRICES = { "mine:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 } };
const LINES = 12;
const DIALECTS = { openai, anthropic, gemini, function: called } as const;
type Dialect = keyof typeof DIALECTS;

/** A run of 12 items that are all answered in the same way. */
async function runOf(dialect: Dialect, answer: Answer, maxCostUsd: number) {
  const mine =
    dialect === "function"
      ? async () => answer() as FunctionAnswer
      : { baseUrl: "http://mine.test", protocol: dialect, key: "k" };
  const world = new World({
    config: { providers: { mine }, prices: PRICES, maxInFlight: 4 },
    answer: () => answer() as WireResult,
  });
  world.input(LINES, "mine:m1");
  const engine = await world.engine();
  return world.settle(engine.run(INPUT, { out: OUTPUT, maxCostUsd }).finished);
}

/** What one request may cost at most: that much is in doubt for each one that nobody knows the end of. */
async function mostOf(dialect: Dialect): Promise<number> {
  const lost = (): WireResult => {
    if (dialect === "function") throw new Error("gone");
    return LOST;
  };
  const { cost, requests_sent } = await runOf(dialect, lost, 0.2);
  return cost.ambiguous_usd / requests_sent;
}

describe.each(Object.keys(DIALECTS) as Dialect[])("unusable token counts (%s)", (dialect) => {
  it.each(ENDS.flatMap((end) => COUNTS.map((kind) => [end, kind] as const)))(
    "are billed or in doubt up to what the request may cost, and the cap holds: %s, %s",
    async (end, kind) => {
      const most = await mostOf(dialect);
      expect(most).toBeGreaterThan(0.016); // its output limit of 16 tokens
      const answer = (): WireResult | FunctionAnswer => DIALECTS[dialect](end, kind);
      const capUsd = 5.5 * most;
      const { cost, requests_sent, status } = await runOf(dialect, answer, capUsd);
      const taken = cost.billed_usd + cost.ambiguous_usd;
      expect(requests_sent).toBe(5);
      expect(taken).toBeCloseTo(5 * most, 9);
      expect(cost.is_estimated).toBe(true);
      expect(status).not.toBe("completed");
    },
  );
});

describe("failures after which work may have been done", () => {
  const html: WireResult = {
    ok: true,
    status: 200,
    headers: { "content-type": "text/html" },
    body: new TextEncoder().encode("<html>"),
  };
  const filter = { error: { message: "no", code: "content_filter" } };
  it.each([
    ["a web page", html],
    ["no JSON", { ...html, headers: {}, body: new TextEncoder().encode('{"choices":[') }],
    ["another shape", jsonAnswer(200, { usage: { prompt_tokens: 0, completion_tokens: 0 } })],
    ["an error of the content filter inside a 200", jsonAnswer(200, filter)],
    ["a 500 that must not be repeated", jsonAnswer(500, {}, { "x-should-retry": "false" })],
  ])("put the most of each request in doubt: %s", async (_what, result) => {
    const most = await mostOf("openai");
    const { cost, requests_sent } = await runOf("openai", () => result, 5.5 * most);
    expect(requests_sent).toBe(5);
    expect(cost.ambiguous_usd).toBeCloseTo(5 * most, 9);
  });

  it.each([
    ["a 400", jsonAnswer(400, { error: { message: "no" } })],
    ["a 503 that must not be repeated", jsonAnswer(503, {}, { "x-should-retry": "false" })],
  ])("do not include refused ones: %s", async (_what, result) => {
    const { cost, counts: ended } = await runOf("openai", () => result, 5);
    expect(ended.failed).toBe(LINES);
    expect(cost).toMatchObject({ billed_usd: 0, ambiguous_usd: 0, is_estimated: false });
  });

  it("takes usage that says so for an answer without text", async () => {
    const body = {
      choices: [{ index: 0, message: { content: "" }, finish_reason: "content_filter" }],
      usage: { prompt_tokens: 20, completion_tokens: 0 },
    };
    const { cost } = await runOf("openai", () => jsonAnswer(200, body), 5);
    expect(cost).toMatchObject({ ambiguous_usd: 0, is_estimated: false });
    expect(cost.billed_usd).toBeCloseTo(LINES * 0.02, 9);
  });
});
