import { describe, expect, it } from "vitest";
import { completedLine, failedLine, readOutputLine, wholeLinesEnd } from "../../src/jsonl/write.ts";
import type { Failure, Output } from "../../src/work/outcome.ts";

const FAILURE: Failure = {
  code: "timeout",
  message: "m",
  retryable: true,
  attempts: 2,
  ambiguous_attempts: 1,
};

const answer = (text: string): Output => ({ type: "text", text });

describe("output lines", () => {
  it("answer under the key as it came, with a finish reason only when the text was cut", () => {
    expect(completedLine('"a\\u00e9"', answer('x"\ny'))).toBe(
      '{"key":"a\\u00e9","output":{"type":"text","text":"x\\"\\ny"}}\n',
    );
    expect(completedLine(Buffer.from('"é"'), { ...answer("t"), finish_reason: "length" })).toBe(
      '{"key":"é","output":{"type":"text","text":"t","finish_reason":"length"}}\n',
    );
  });

  it("hold what came with the text, and what was left out of the request", () => {
    const output: Output = {
      ...answer(""),
      finish_reason: "tool_calls",
      tool_calls: [{ id: "1", type: "function", function: { name: "add", arguments: "{}" } }],
      reasoning: 'so "it" is',
      logprobs: { content: [] },
    };
    const warnings = '[{"code":"dropped","setting":"seed"}]';
    const line = completedLine('"a"', output, warnings);
    expect(JSON.parse(line)).toEqual({ key: "a", output, warnings: JSON.parse(warnings) });
    const chars = JSON.stringify(output.tool_calls).length + 'so "it" is'.length;
    expect(readOutputLine(line)).toEqual({ key: "a", ok: true, textChars: chars, warnings });
    const refusal = completedLine('"a"', { ...answer(""), finish_reason: "refusal", refusal: "no" });
    expect(JSON.parse(refusal)).toMatchObject({ output: { text: "", refusal: "no" } });
    const failed = failedLine('"a"', 3, FAILURE, warnings);
    expect(JSON.parse(failed)).toMatchObject({ output: null, warnings: [{ setting: "seed" }] });
    expect(readOutputLine(failed)).toMatchObject({ ok: false, warnings });
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
      const expected = `{"key":"k","output":{"type":"text","text":${JSON.stringify(text)}}}\n`;
      if (completedLine('"k"', answer(text)) !== expected)
        expect.fail(`unit ${unit}: ${completedLine('"k"', answer(text))}`);
    }
  });

  it("are valid UTF-8 JSON on one line even when the text is not well formed", () => {
    const text = completedLine('"a"', answer("\ud800\u2028\r\n"));
    expect(text.indexOf("\n")).toBe(text.length - 1);
    expect(Buffer.from(text).toString()).toBe(text);
  });

  it("are read back for recovery", () => {
    expect(readOutputLine(completedLine('"a"', answer("t")))).toEqual({ key: "a", ok: true, textChars: 1 });
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
    const whole = completedLine('"a"', answer("t"));
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
