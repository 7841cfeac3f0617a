import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { arrayLines } from "../../src/jsonl/array.ts";
import { hashKey, scanKeys } from "../../src/jsonl/keys.ts";
import { parseLine, readKey } from "../../src/jsonl/layout.ts";
import { eachLine } from "../../src/jsonl/lines.ts";
import { markNumbers, restoreNumbers } from "../../src/jsonl/numbers.ts";
import { sniff } from "../../src/jsonl/sniff.ts";
import { readOutputLine } from "../../src/jsonl/write.ts";
import { collect, eventsOf } from "../jsonl/memory_file.ts";

const OPTIONS = { providers: new Set(["openai", "gemini"]) };

/** Bytes with many line ends, marks and quotes among them. */
const lineBytes = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom("\n", "\r\n", "\r", "a", '"', "{", "\ufeff", "é", "\\") },
      fc.string({ maxLength: 12 }),
    ),
    { maxLength: 60 },
  )
  .map((parts) => Buffer.from(parts.join("")));

/** Lines that look like records, with keys in all spellings and places, some of them broken. */
const recordLine = fc
  .record({
    name: fc.constantFrom("key", "custom_id", "\\u006bey", "other"),
    key: fc.oneof(
      fc.string({ unit: "binary", maxLength: 8 }).map((key) => JSON.stringify(key)),
      fc.constantFrom('"a"', '"\\u0061"', '"\\ud800"', "5", "null", '""', `"${"k".repeat(513)}"`, '"a\\"b"'),
    ),
    before: fc.constantFrom("", '"x":1,', '"key":"first",'),
    space: fc.constantFrom("", " ", "\t "),
    after: fc.constantFrom("", ',"request":{}', ',"key":"b"', ',"y":[', " oops"),
  })
  .map(
    ({ name, key, before, space, after }) =>
      `${space}{${space}${before}"${name}"${space}:${space}${key}${after}}`,
  );

/** What the reader must do, done on the whole input at once. */
function naiveLines(bytes: Buffer, lineBytesMax: number): string[] {
  const lines: string[] = [];
  let at = bytes.subarray(0, 3).equals(Buffer.from("\ufeff")) ? 3 : 0;
  while (at < bytes.length) {
    const newline = bytes.indexOf(10, at);
    const end = newline < 0 ? bytes.length : newline;
    const contentEnd = newline > at && bytes[newline - 1] === 13 ? end - 1 : end;
    const content = bytes.subarray(at, contentEnd).toString("latin1");
    lines.push(
      contentEnd - at > lineBytesMax
        ? `${lines.length + 1}@${at}!${contentEnd - at}`
        : `${lines.length + 1}@${at}:${content}`,
    );
    at = end + 1;
  }
  return lines;
}

describe("the reader", () => {
  it("equals a naive split, with numbers and offsets, for any bytes and any size of chunk", async () => {
    const sizes = {
      chunkBytes: fc.integer({ min: 1, max: 80 }),
      lineBytesMax: fc.integer({ min: 0, max: 40 }),
    };
    await fc.assert(
      fc.asyncProperty(lineBytes, fc.record(sizes), async (bytes, options) => {
        const lines: string[] = [];
        let next = bytes.subarray(0, 3).equals(Buffer.from("\ufeff")) ? 3 : 0;
        for (const event of await eventsOf(bytes, options)) {
          if (event.kind === "refused") {
            const { line, offset, lengthBytes } = event.refused;
            lines.push(`${line}@${offset}!${lengthBytes}`);
            expect(offset).toBe(next);
            const newline = bytes.indexOf(10, offset);
            next = newline < 0 ? bytes.length : newline + 1;
            continue;
          }
          const { block } = event;
          expect(block.offset).toBe(next);
          next += block.bytes.length;
          let line = block.firstLine;
          eachLine(block.bytes, (start, end) => {
            const text = Buffer.from(block.bytes.subarray(start, end)).toString("latin1");
            lines.push(`${line++}@${block.offset + start}:${text}`);
          });
          expect(line - block.firstLine).toBe(block.lineCount);
        }
        expect(lines).toEqual(naiveLines(bytes, options.lineBytesMax));
        expect(next).toBe(bytes.length);
      }),
      { numRuns: 500 },
    );
  });

  it("resumed at any line yields the same lines from there", async () => {
    await fc.assert(
      fc.asyncProperty(
        lineBytes,
        fc.nat(60),
        fc.integer({ min: 1, max: 40 }),
        async (bytes, skip, chunkBytes) => {
          const all = naiveLines(bytes, 1_000);
          const from = all[Math.min(skip, all.length - 1)];
          if (from === undefined) return;
          const [line = "", offset = ""] = from.split(/[@:]/);
          const options = { fromOffset: Number(offset), fromLine: Number(line), chunkBytes };
          const lines: string[] = [];
          for (const event of await eventsOf(bytes, options)) {
            if (event.kind !== "block") throw new Error("nothing is refused here");
            let number = event.block.firstLine;
            eachLine(event.block.bytes, (start, end) => {
              const text = Buffer.from(event.block.bytes.subarray(start, end)).toString("latin1");
              lines.push(`${number++}@${event.block.offset + start}:${text}`);
            });
          }
          expect(lines).toEqual(all.slice(Number(line) - 1));
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("a line", () => {
  it("never throws, for any bytes", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map((array) => Buffer.from(array)),
      lineBytes,
      recordLine.map((text) => Buffer.from(text)),
      fc.json().map((text) => Buffer.from(`{"key":"a","request":${text}}`)),
      fc.json().map((text) => Buffer.from(`{"custom_id":"a","body":${text}}`)),
      fc.tuple(recordLine, fc.nat(200), fc.nat(255)).map(([text, at, byte]) => {
        const damaged = Buffer.from(text);
        damaged[at % damaged.length] = byte;
        return damaged;
      }),
    );
    fc.assert(
      fc.property(bytes, (line) => {
        const parsed = parseLine(line, OPTIONS);
        expect(["item", "rejected", "blank"]).toContain(parsed.kind);
        if (parsed.kind === "rejected" && parsed.key !== null)
          expect(readKey(line)).toEqual({ ok: true, key: parsed.key });
        sniff(line);
        readOutputLine(line);
      }),
      { numRuns: 3_000 },
    );
  });

  it("written in either layout reads back as it was meant", () => {
    const text = fc.string({ unit: "binary", maxLength: 20 });
    const meant = fc.record({
      key: fc
        .string({ unit: "binary", minLength: 1, maxLength: 20 })
        .map((key) => key.replace(/\p{Cc}/gu, "k")),
      system: text,
      texts: fc.array(text, { minLength: 1, maxLength: 4 }),
      answer: text,
      temperature: fc.double({ min: 0, max: 2, noNaN: true }).map((value) => value + 0),
      seed: fc.maxSafeInteger(),
    });
    fc.assert(
      fc.property(meant, ({ key, system, texts, answer, temperature, seed }) => {
        const contents = [
          { role: "user", parts: texts.map((part) => ({ text: part })) },
          { role: "model", parts: [{ text: answer }] },
        ];
        const generation_config = { temperature, seed };
        const own = {
          key,
          request: { model: "gemini:m:x", contents, system_instruction: system, generation_config },
        };
        const messages = [
          { role: "system", content: system },
          { role: "user", content: texts.map((part) => ({ type: "text", text: part })) },
          { role: "assistant", content: answer },
        ];
        const openai = { custom_id: key, body: { model: "gemini:m:x", messages, temperature, seed } };
        for (const line of [own, openai]) {
          expect(parseLine(Buffer.from(JSON.stringify(line)), OPTIONS)).toMatchObject({
            kind: "item",
            key,
            provider: "gemini",
            model: "m:x",
            hasReplacedText: false,
            request: {
              system: [system],
              turns: [
                { role: "user", parts: texts },
                { role: "model", parts: [answer] },
              ],
              config: { temperature: temperature === 0 ? 0 : temperature, seed },
              unknownFields: [],
            },
          });
        }
      }),
      { numRuns: 500 },
    );
  });

  it("has the hash of its readable key in scanKeys, and with wantKeys no other", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(recordLine, fc.constant("")), { maxLength: 12 }), (lines) => {
        const bytes = new Uint8Array(Buffer.from(lines.join("\n")));
        const loose = scanKeys({ bytes, firstLine: 1 });
        const exact = scanKeys({ bytes, firstLine: 1 }, { wantKeys: true });
        const expected = new Map<number, string>();
        for (const [index, line] of lines.entries()) {
          const read = readKey(Buffer.from(line));
          if (read.ok) expected.set(index + 1, read.key);
        }
        expect([...exact.lines]).toEqual([...expected.keys()]);
        expect(Buffer.from(exact.keys).toString()).toBe([...expected.values()].join(""));
        const hashes = new Map(
          [...loose.lines].map((line, index) => [line, loose.hashes.slice(index * 2, index * 2 + 2)]),
        );
        for (const [line, key] of expected) {
          const { high, low } = hashKey(Buffer.from(key));
          expect([...(hashes.get(line) ?? [])]).toEqual([high, low]);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("numbers", () => {
  it("survive marking, parsing and restoring with their value, and exactly where a double cannot hold them", () => {
    const number = fc
      .tuple(
        fc.bigInt(),
        fc.option(fc.stringMatching(/^\d{1,25}$/)),
        fc.option(fc.integer({ min: -500, max: 500 })),
      )
      .map(
        ([whole, fraction, exponent]) =>
          `${whole}${fraction === null ? "" : `.${fraction}`}${exponent === null ? "" : `e${exponent}`}`,
      );
    fc.assert(
      fc.property(fc.array(number, { minLength: 1, maxLength: 5 }), (numbers) => {
        const text = `{"a":[${numbers.join(",")}]}`;
        const restored = restoreNumbers(JSON.stringify(JSON.parse(markNumbers(text))));
        const back = /\[(.*)\]/.exec(restored)?.[1]?.split(",") ?? [];
        for (const [index, written] of numbers.entries())
          if (back[index] !== written) expect(sameValue(written, back[index] ?? "")).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("an array", () => {
  it("yields its elements as lines of the same value, in any chunks", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.jsonValue({ maxDepth: 4 }), { maxLength: 8 }),
        fc.integer({ min: 1, max: 50 }),
        fc.constantFrom(undefined, 2),
        async (values, chunkBytes, indent) => {
          const bytes = Buffer.from(JSON.stringify(values, null, indent));
          async function* chunks(): AsyncGenerator<Uint8Array> {
            for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
          }
          const lines = (await collect(arrayLines(chunks())))
            .flat()
            .map((element) => (element.kind === "line" ? element.text : ""));
          expect(lines.map((line) => JSON.stringify(JSON.parse(line)))).toEqual(
            values.map((value) => JSON.stringify(value)),
          );
        },
      ),
      { numRuns: 200 },
    );
  });
});

/** Whether two decimals are one value, compared as integers over a power of ten. */
function sameValue(one: string, other: string): boolean {
  const [a, b] = [scaled(one), scaled(other)];
  const least = Math.min(a.exponent, b.exponent);
  return a.digits * 10n ** BigInt(a.exponent - least) === b.digits * 10n ** BigInt(b.exponent - least);
}

function scaled(number: string): { digits: bigint; exponent: number } {
  const [mantissa = "", exponent = "0"] = number.split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}
