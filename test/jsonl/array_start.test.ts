import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ArrayStart } from "../../src/jsonl/array_start.ts";
import { LINE_BYTES_MAX } from "../../src/jsonl/read.ts";

function decide(text: string, chunkBytes = 1_000): "array" | "lines" {
  const start = new ArrayStart();
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const kind = start.take(bytes.subarray(at, at + chunkBytes));
    if (kind !== undefined) return kind;
  }
  return start.end();
}

const ARRAYS = [
  "[]",
  " [ { } ] \n",
  '[{"key":"a"}]',
  '[{"key":"a"},{"key":"b"}]\n\n  \n',
  '[{"key":"a"},\n{"key":"b"}]',
  '\ufeff\r\n[\r\n  {"key":"a"}\n]',
  '[{"text":"] \\" ] [[ {"},\n{"key":"b"}]',
  '[{"key":',
  "[\n]",
];
const LINES = [
  "",
  " \n",
  "[",
  '{"key":"a"}\n',
  '{"key":"a"}\n[{"key":"b"}]\n',
  '[{"key":"a"}]\n{"key":"b"}\n',
  '[{"text":"]\\"}[ "}] \n\n [{"key":"b"}]\n',
  '[1]\n{"key":"b"}\n',
  '["a",{"key":"b"}]\n',
  "[[{}]]",
  '[broken\n{"key":"b"}\n',
  "[]\n[]\n",
];

describe("an array and lines that begin with [ are distinguished", () => {
  it.each(ARRAYS)("an array: %j", (text) => {
    for (const chunkBytes of [1, 3, 1_000]) expect(decide(text, chunkBytes)).toBe("array");
  });

  it.each(LINES)("lines: %j", (text) => {
    for (const chunkBytes of [1, 3, 1_000]) expect(decide(text, chunkBytes)).toBe("lines");
  });

  it("in any pieces, and however they are written", () => {
    const value = fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.array(fc.string())));
    fc.assert(
      fc.property(
        fc.array(value),
        fc.nat(40),
        fc.integer({ min: 0, max: 3 }),
        (items, chunkBytes, indent) => {
          const array = JSON.stringify(items, undefined, indent);
          expect(decide(`${array}\n`, chunkBytes + 1)).toBe("array");
          const lines = `${JSON.stringify(items)}\n${JSON.stringify({ key: "a" })}\n`;
          expect(decide(lines, chunkBytes + 1)).toBe("lines");
        },
      ),
    );
  });

  it("after 10 MiB of one line at the latest", () => {
    const start = new ArrayStart();
    const chunk = Buffer.alloc(1024 * 1024, "x");
    expect(start.take(Buffer.from('[{"text":"'))).toBeUndefined();
    let bytes = 0;
    for (; bytes <= LINE_BYTES_MAX; bytes += chunk.length) if (start.take(chunk) !== undefined) break;
    expect(bytes).toBeLessThanOrEqual(LINE_BYTES_MAX);
  });
});
