/** Laws of what satellites send: values stay in their place, cuts keep their bound, batches lose nothing, frames can be read. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fillJson } from "../../src/satellites/builtin/call_webhook/template.ts";
import { cutBytes, cutText } from "../../src/satellites/builtin/exchange/cut_text.ts";
import { batchesOf } from "../../src/satellites/builtin/forward_logs/batches.ts";
import { entryOfLine } from "../../src/satellites/builtin/forward_logs/entry.ts";
import { fileEntries, listEntries } from "../../src/satellites/builtin/forward_logs/source.ts";
import { syslogFrame } from "../../src/satellites/builtin/forward_logs/syslog.ts";

const text = fc.string({ unit: "binary", maxLength: 200 });
const BOUNDS = { messageBytesMax: 100_000, wallMs: 0 };
const START = { entries: 0, offset: 0 };

describe("a value in a JSON template", () => {
  it("is one text there, with any contents, and nothing else changes", () => {
    fc.assert(
      fc.property(text, text, (value, before) => {
        const plain = before.replace(/[{}]/g, "");
        const template = {
          whole: "{{a.b}}",
          part: `${plain}{{a.b}}`,
          list: [1, null, { deep: "{{ a.b }}" }],
        };
        const sent: unknown = JSON.parse(JSON.stringify(fillJson(template, { a: { b: value } })));
        expect(sent).toEqual({ whole: value, part: plain + value, list: [1, null, { deep: value }] });
      }),
    );
  });
});

describe("a cut text", () => {
  const escaped = (character: string): string => ({ "<": "&lt;", "&": "&amp;" })[character] ?? character;

  it("keeps its bound, begins as the text does, and halves no character and no escape", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme", maxLength: 300 }),
        fc.integer({ min: 16, max: 200 }),
        (whole, max) => {
          const cut = cutText(whole, max, escaped);
          expect(cut.length).toBeLessThanOrEqual(max);
          const all = [...whole].map(escaped).join("");
          if (all.length <= max) expect(cut).toBe(all);
          else expect(all.startsWith(cut.slice(0, -" … (cut)".length))).toBe(true);
          expect(cut).not.toMatch(/&(?!lt;|amp;)/);
          expect(cut).not.toMatch(/\p{Cs}/u);
          const bytes = cutBytes(whole, max + 16);
          expect(Buffer.byteLength(bytes)).toBeLessThanOrEqual(max + 16);
          expect(bytes).not.toContain("\uFFFD");
        },
      ),
    );
  });
});

describe("batches", () => {
  it("hold every entry once and in order, within their bounds, and go on from any of them", async () => {
    const lines = fc.array(
      fc.string({ unit: fc.constantFrom("a", "é", '"', "{", " ", "\r"), maxLength: 40 }),
      {
        maxLength: 60,
      },
    );
    await fc.assert(
      fc.asyncProperty(
        lines,
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 50 }),
        async (all, entries, chunk) => {
          const bytes = Buffer.from(all.join("\n"));
          const files = {
            async *read(_project: string, _id: string, { start, end } = { start: 0, end: 0 }) {
              for (let at = start; at < end; at += chunk) yield bytes.subarray(at, Math.min(at + chunk, end));
            },
          };
          const source = { files, project: "p", id: "f", bytes: bytes.length };
          const expected = all.map((line) => line.replace(/\r$/, "")).filter((line) => line.trim() !== "");
          const seen: string[] = [];
          let reached = START;
          for await (const batch of batchesOf(fileEntries(source, START, BOUNDS), {
            entries,
            bytes: 2_000,
          })) {
            expect(batch.length).toBeLessThanOrEqual(entries);
            seen.push(...batch.map(({ entry }) => entry.message));
            reached = { entries: reached.entries + batch.length, offset: batch.at(-1)?.offset ?? 0 };
            const rest: string[] = [];
            for await (const { entry, index } of fileEntries(source, reached, BOUNDS)) {
              expect(index).toBe(reached.entries + rest.length);
              rest.push(entry.message);
            }
            expect([...seen, ...rest]).toEqual(expected);
          }
          expect(seen).toEqual(expected);
        },
      ),
      { numRuns: 50 },
    );
    expect([
      ...listEntries([{ message: "a" }, { message: "b" }], { entries: 1, offset: 0 }, BOUNDS),
    ]).toMatchObject([{ index: 1, entry: { message: "b" } }]);
  });
});

describe("a line of a log", () => {
  it("is an entry with any contents", () => {
    fc.assert(
      fc.property(fc.oneof(text, fc.json()), (line) => {
        const { message, attributes } = entryOfLine(line, BOUNDS);
        expect(typeof message).toBe("string");
        expect(JSON.parse(JSON.stringify(attributes))).toEqual(attributes);
      }),
    );
  });
});

describe("syslog frames", () => {
  it("say their length in bytes, and hold no end of a text for receivers in C", () => {
    fc.assert(
      fc.property(text, text, (message, name) => {
        const entry = { wallMs: 0, level: "info" as const, message, attributes: { [name]: message } };
        const header = { facility: 1, hostname: name, app_name: name, enterprise_number: 1 };
        const frame = syslogFrame(entry, header);
        const space = frame.indexOf(0x20);
        expect(frame.toString("latin1", 0, space)).toBe(String(frame.length - space - 1));
        expect(frame.includes(0)).toBe(false);
      }),
    );
  });
});
