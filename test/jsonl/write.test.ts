import { describe, expect, it } from "vitest";
import {
  completedLine as completedText,
  failedLine,
  type LineAnswer,
  type LineFacts,
  type LineUsage,
  parseOutputLine,
  readOutputLine,
  wholeLine,
  wholeLinesEnd,
} from "../../src/jsonl/write.ts";
import type { AnswerMembers, Failure, FinishReason } from "../../src/work/outcome.ts";

const FAILURE: Failure = {
  code: "timeout",
  message: "m",
  retryable: true,
  attempts: 2,
  ambiguous_attempts: 1,
};

const USED: LineUsage = {
  inputTokens: 40,
  cachedTokens: 8,
  cacheWriteTokens: 4,
  outputTokens: 20,
  reasoningTokens: 6,
  listUsd: 0.1 + 0.2,
  billedUsd: 1.5e-7,
  ambiguousUsd: 0,
  isEstimated: false,
};

const FACTS: LineFacts = {
  used: USED,
  priceVersion: "genai-prices 0.1.8",
  last: { latencyMs: 412.6, model: "gpt-4o-mini-2024-07-18", requestId: "req_1", servedTier: "default" },
  requestedModel: "openai:gpt-4o-mini",
};

/** As a line has it: to the pico-dollar. */
const ROUNDED: LineUsage = { ...USED, listUsd: 0.3 };

/** What every line of these facts ends with. */
const FACTS_TEXT =
  '"model":"openai:gpt-4o-mini-2024-07-18","usage":{"input_tokens":40,"cached_tokens":8,"cache_write_tokens":4,"output_tokens":20,"reasoning_tokens":6},' +
  '"cost":{"list_usd":0.3,"billed_usd":1.5e-7,"ambiguous_usd":0,"tier":"default","price_version":"genai-prices 0.1.8"},"latency_ms":413,"attempts":2,"provider_request_id":"req_1"';

const answer = (text: string, finish: FinishReason = "stop"): LineAnswer => ({
  output: { type: "text", text },
  finish,
  members: undefined,
  attempts: 2,
});

function completedLine(...line: Parameters<typeof completedText>): string {
  return wholeLine(completedText(...line));
}

describe("output lines", () => {
  it("answer under the key as it came, with how the answer ended, what was used, and what it cost", () => {
    expect(completedLine('"a\\u00e9"', answer('x"\ny'), FACTS)).toBe(
      `{"key":"a\\u00e9","output":{"type":"text","text":"x\\"\\ny"},"finish_reason":"stop",${FACTS_TEXT}}\n`,
    );
    expect(completedLine(Buffer.from('"é"'), answer("t", "length"), FACTS)).toBe(
      `{"key":"é","output":{"type":"text","text":"t"},"finish_reason":"length",${FACTS_TEXT}}\n`,
    );
  });

  it("name the requested model where the provider names none, and say what is not known", () => {
    const facts = {
      ...FACTS,
      priceVersion: null,
      used: { ...USED, isEstimated: true },
      last: { latencyMs: 0 },
    };
    const line: unknown = JSON.parse(completedLine('"a"', answer("t"), facts));
    expect(line).toMatchObject({
      model: "openai:gpt-4o-mini",
      cost: { tier: null, price_version: null, is_estimated: true },
      latency_ms: 0,
    });
    expect(line).not.toHaveProperty("provider_request_id");
  });

  it("say that a cost is estimated whenever requests without a known result may have cost something", () => {
    const facts = { ...FACTS, used: { ...USED, ambiguousUsd: 0.02 } };
    const line = completedLine('"a"', answer("t"), facts);
    expect(JSON.parse(line)).toMatchObject({ cost: { ambiguous_usd: 0.02, is_estimated: true } });
    expect(readOutputLine(line)).toMatchObject({ used: { ambiguousUsd: 0.02, isEstimated: false } }); // its own usage is not
    expect(completedLine('"a"', answer("t"), FACTS)).not.toContain("is_estimated");
  });

  it("hold what came with the text, and what was left out of the request", () => {
    const members: AnswerMembers = {
      tool_calls: [{ id: "1", type: "function", function: { name: "add", arguments: "{}" } }],
      reasoning: 'so "it" is',
      logprobs: { content: [] },
    };
    const warnings = '[{"code":"dropped","setting":"seed"}]';
    const line = completedLine('"a"', { ...answer("", "tool_calls"), members }, FACTS, warnings);
    expect(JSON.parse(line)).toEqual({
      key: "a",
      output: { type: "text", text: "" },
      finish_reason: "tool_calls",
      ...members,
      ...(JSON.parse(`{${FACTS_TEXT}}`) as object),
      warnings: JSON.parse(warnings),
    });
    const textChars = JSON.stringify(members.tool_calls).length + 'so "it" is'.length;
    const model = "openai:gpt-4o-mini-2024-07-18";
    expect(readOutputLine(line)).toEqual({ key: "a", ok: true, textChars, model, used: ROUNDED, warnings });
    const refused = { ...answer("", "refusal"), members: { refusal: "no" } };
    expect(JSON.parse(completedLine('"a"', refused, FACTS))).toMatchObject({
      output: { text: "" },
      finish_reason: "refusal",
      refusal: "no",
    });
    const failed = failedLine('"a"', 3, FAILURE, FACTS, warnings);
    expect(JSON.parse(failed)).toMatchObject({
      output: null,
      cost: { list_usd: 0.3 },
      warnings: [{ setting: "seed" }],
    });
    expect(readOutputLine(failed)).toMatchObject({ ok: false, warnings });
  });

  it("of earlier versions are read with their members beside the output", () => {
    const old =
      '{"key":"a","output":{"type":"text","text":"t","finish_reason":"pause","reasoning":"hm"},"model":"beta:m2","warnings":[]}';
    expect(parseOutputLine(old)).toEqual({
      key: "a",
      output: { type: "text", text: "t" },
      finish_reason: "length",
      reasoning: "hm",
      model: "beta:m2",
      warnings: [],
    });
    expect(readOutputLine(old)).toMatchObject({ ok: true, textChars: 3, model: "beta:m2" });
    for (const line of [
      completedLine('"a"', answer("t"), FACTS),
      failedLine('"a"', 3, FAILURE),
      '{"key":"a","output":{"type":"text","text":"t"}}',
    ])
      expect(parseOutputLine(line)).toEqual(JSON.parse(line));
  });

  // asked for in openai/openai-openapi#302: a failed line has its error in `error`, and no output
  it("tell the error of a failed item, its line where known, and nothing that is absent", () => {
    expect(failedLine('"a"', 3, FAILURE)).toBe(
      '{"key":"a","output":null,"error":{"code":"timeout","message":"m","retryable":true,"attempts":2,"ambiguous_attempts":1,"line":3}}\n',
    );
    expect(failedLine('"a"', undefined, { ...FAILURE, provider: "openai", provider_status: 504 })).toBe(
      '{"key":"a","output":null,"error":{"code":"timeout","message":"m","retryable":true,"attempts":2,"ambiguous_attempts":1,"provider":"openai","provider_status":504}}\n',
    );
  });

  it("carry the line number beside a null key", () => {
    const text = failedLine(null, 7, { ...FAILURE, code: "invalid_json" });
    expect(text.startsWith('{"key":null,"line":7,"output":null,"error":{"code":"invalid_json",')).toBe(true);
  });

  it("spell each character of a text as JSON.stringify does", () => {
    for (let unit = 0; unit <= 0xffff; unit += 1) {
      const text = `a${String.fromCharCode(unit)}b`;
      const line = completedLine('"k"', answer(text), FACTS);
      if (!line.startsWith(`{"key":"k","output":{"type":"text","text":${JSON.stringify(text)}},`))
        expect.fail(`unit ${unit}: ${line}`);
    }
  });

  it("are valid UTF-8 JSON on one line even when the text is not well formed", () => {
    const text = completedLine('"a"', answer("\ud800\u2028\r\n"), FACTS);
    expect(text.indexOf("\n")).toBe(text.length - 1);
    expect(Buffer.from(text).toString()).toBe(text);
  });

  it("are read back for recovery", () => {
    const model = "openai:gpt-4o-mini-2024-07-18";
    const read = readOutputLine(completedLine('"a"', answer("t"), FACTS));
    expect(read).toEqual({ key: "a", ok: true, textChars: 1, model, used: ROUNDED });
    expect(readOutputLine(failedLine('"a"', 3, FAILURE, FACTS))).toMatchObject({ ok: false, used: ROUNDED });
    const negative = completedLine('"a"', answer("t"), FACTS).replace(
      '"output_tokens":20',
      '"output_tokens":-20',
    );
    expect(readOutputLine(negative)).toEqual({ key: "a", ok: true, textChars: 1, model });
    expect(readOutputLine(Buffer.from(failedLine('"a"', 3, FAILURE)))).toEqual({
      key: "a",
      line: 3,
      ok: false,
      errorCode: "timeout",
      ambiguousAttempts: FAILURE.ambiguous_attempts,
    });
    expect(readOutputLine(failedLine(null, 7, FAILURE))).toMatchObject({ key: null, line: 7, ok: false });
  });

  it("that are torn or foreign are undefined", () => {
    const whole = completedLine('"a"', answer("t"), FACTS);
    for (const text of [
      "",
      "null",
      "5",
      "{}",
      '{"key":5,"output":null}',
      '{"key":"a"}',
      '{"key":"a","output":null}',
    ])
      expect(readOutputLine(text)).toBeUndefined();
    for (let length = 0; length < whole.length - 1; length++)
      expect(readOutputLine(whole.slice(0, length))).toBeUndefined();
  });

  it("wholeLinesEnd finds where a torn tail begins", () => {
    expect(wholeLinesEnd(Buffer.from("a\nb\ntorn"))).toBe(4);
    expect(wholeLinesEnd(Buffer.from("torn"))).toBe(0);
    expect(wholeLinesEnd(new Uint8Array())).toBe(0);
    expect(wholeLinesEnd(new Uint8Array([0x61, 0x0a]))).toBe(2);
  });
});
