/** The JSON in an answer, by the rules of lines. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readAnswerJson } from "../../src/jsonl/answer_json.ts";

describe("the JSON in an answer", () => {
  it("is the value that was written, with any white space, in a fence or not, on one line", () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom(undefined, 2, "\t"),
        fc.boolean(),
        (value, space, isFenced) => {
          const json = JSON.stringify(value, null, space);
          fc.pre(!json.includes("```"));
          const read = readAnswerJson(isFenced ? `Here:\n\`\`\`json\n${json}\n\`\`\`\nDone.` : ` ${json}\n`);
          expect(read).toMatchObject({ ok: true, json: JSON.stringify(JSON.parse(json)) });
        },
      ),
    );
  });

  it.each([
    ["", "empty"],
    ["{", "not JSON"],
    ['{"a":1} or {"a":2}', "not JSON"],
    ["```\n1\n```\n```\n2\n```", "not JSON"],
    ['{"a":1,"\\u0061":2}', "occurs twice"],
    ["[".repeat(65) + "]".repeat(65), "deeper than 64"],
  ])("is refused in %j", (text, reason) => {
    expect(readAnswerJson(text)).toMatchObject({ ok: false, message: expect.stringContaining(reason) });
  });

  it("keeps the digits of numbers, and __proto__ as a name", () => {
    const text = '{"__proto__": {"a": 1}, "n": 12345678901234567890.10}';
    expect(readAnswerJson(text)).toMatchObject({ json: '{"__proto__":{"a":1},"n":12345678901234567890.10}' });
  });
});
