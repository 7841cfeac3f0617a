import { describe, expect, it } from "vitest";
import { type ParsedLine, parseLine } from "../../src/jsonl/layout.ts";
import { digitsOf, markedNumber, markNumbers, restoreNumbers } from "../../src/jsonl/numbers.ts";

function item(text: string): Extract<ParsedLine, { kind: "item" }> {
  const parsed = parseLine(Buffer.from(text), { providers: new Set(["openai"]) });
  if (parsed.kind !== "item") throw new Error(`not an item: ${JSON.stringify(parsed)}`);
  return parsed;
}

describe("numbers beyond a double", () => {
  it("fault 14: keep their digits from the line to the encoded body", () => {
    const body =
      '{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":12345678901234567890,"logit_bias":{"50256":-1e400},"metadata":[0.1,1.50,9007199254740993,1e3]}';
    const parsed = item(`{"custom_id":"a","body":${body}}`);
    expect(parsed.hasExactNumbers).toBe(true);
    expect(parsed.request.config.seed).toEqual({ digits: "12345678901234567890" });
    expect(restoreNumbers(JSON.stringify(parsed.request.openaiBody))).toBe(
      body.replace("1.50", "1.5").replace("1e3", "1000"),
    );
  });

  it("fault 14: a seed of twenty digits is a seed; a temperature of twenty digits is rounded", () => {
    const text = (settings: string): string =>
      `{"key":"a","request":{"model":"openai:m","contents":[{"parts":[{"text":"t"}]}],"generation_config":${settings}}}`;
    expect(item(text('{"seed":-12345678901234567890}')).request.config.seed).toEqual({
      digits: "-12345678901234567890",
    });
    expect(item(text('{"temperature":0.70000000000000000001}')).request.config.temperature).toBe(0.7);
    expect(item(text('{"temperature":0.30000000000000004}')).hasExactNumbers).toBe(false);
    const schema = item(text('{"response_schema":{"maximum":18446744073709551615}}')).request.config
      .responseSchema;
    expect(restoreNumbers(JSON.stringify(schema))).toBe('{"maximum":18446744073709551615}');
  });

  it("are marked only where a double would change them", () => {
    for (const same of [
      "0",
      "-1",
      "0.1",
      "1e3",
      "1E+2",
      "9007199254740992",
      "0.30000000000000004",
      "100000000000000000000",
      "[1,2.50]",
      "1e-5",
      "0e400",
    ])
      expect(markNumbers(same)).toBe(same);
    for (const changed of ["9007199254740993", "1e400", "1e-400", "0.1000000000000000055511151231257827"])
      expect(restoreNumbers(JSON.stringify(JSON.parse(markNumbers(`[${changed}]`))))).toBe(`[${changed}]`);
  });

  it("do not make text out of numbers or numbers out of text", () => {
    const look = "\u0000perigee-number:00:12345678901234567890";
    expect(restoreNumbers(JSON.stringify(look))).toBe(JSON.stringify(look));
    expect(markNumbers('{"a":"12345678901234567890 \\" 1e400"}')).toBe(
      '{"a":"12345678901234567890 \\" 1e400"}',
    );
    expect(digitsOf("12")).toBeUndefined();
    expect(digitsOf(markedNumber("12"))).toBe("12");
    const parsed = parseLine(
      Buffer.from(
        '{"key":"a","request":{"model":"openai:m","contents":[{"parts":[{"text":12345678901234567890}]}]}}',
      ),
      { providers: new Set(["openai"]) },
    );
    expect(parsed).toMatchObject({
      code: "invalid_contents",
      message: "contents[0].parts[0].text must be a string, got 12345678901234567890",
    });
  });

  it("stay invalid JSON when they were", () => {
    for (const text of [
      '{"key":"a","x":00000000000000000001}',
      '{"key":"a",12345678901234567890:1}',
      '{"key":"a","x":1e}',
    ])
      expect(parseLine(Buffer.from(text), { providers: new Set() })).toMatchObject({ code: "invalid_json" });
  });
});
