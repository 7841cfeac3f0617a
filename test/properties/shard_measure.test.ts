import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Block } from "../../src/jsonl/block.ts";
import { parseLine } from "../../src/jsonl/layout.ts";
import { createProvider } from "../../src/providers/registry.ts";
import { BlockMeasurer } from "../../src/shard/measure.ts";
import type { MeasuredBlock } from "../../src/shard/measured.ts";
import { joinMeasured } from "../../src/shard/salvage.ts";
import { skipOutside } from "../../src/shard/skip.ts";
import { blockOf, lineOf, SETTINGS } from "../shard/blocks.ts";

const line = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(fc.string(), fc.string({ unit: "grapheme" })).map(([key, text]) => lineOf(key, text)),
  },
  {
    weight: 2,
    arbitrary: fc.string().map((text) => lineOf("k", text, { model: "openai:gpt-4o", system: text })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "",
      "  ",
      "{",
      "[]",
      '{"key":"x","key":"x"}',
      lineOf("m", "x", { model: "no:a" }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .uint8Array({ maxLength: 12 })
      .map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 10))),
  },
);
const text = fc
  .tuple(fc.array(line, { maxLength: 12 }), fc.constantFrom("\n", "\r\n"), fc.boolean())
  .map(([lines, end, isEnded]) => {
    const parts = lines.flatMap((each, index) => [
      Buffer.from(each),
      Buffer.from(index < lines.length - 1 || isEnded ? end : ""),
    ]);
    return Buffer.concat(parts);
  });
const measurer = new BlockMeasurer(SETTINGS);
const providers = new Map(SETTINGS.providers.map((each) => [each.name, createProvider(each)]));

describe("measuring a block", () => {
  it("has the results of reading, counting and encoding each line by itself", () => {
    fc.assert(
      fc.property(text, fc.nat(1_000), (bytes, offset) => {
        const block = blockOf(bytes, { offset, firstLine: 5 });
        expect(shown(measurer.measure(block, { wantBodies: true }), block)).toEqual(naive(block));
      }),
      { numRuns: 300 },
    );
  });

  it("returns the same in two halves as in one", () => {
    fc.assert(
      fc.property(text, fc.nat(12), (bytes, at) => {
        const block = blockOf(bytes, { firstLine: 5 });
        const middle = Math.min(at, block.lineCount);
        const part = (from: number, to: number): MeasuredBlock =>
          measurer.measure(block, {
            wantBodies: true,
            skip: skipOutside(block.lineCount, from, to, undefined),
          });
        const whole = measurer.measure(block, { wantBodies: true });
        const joined = joinMeasured(part(0, middle), part(middle, block.lineCount));
        expect(shown(joined, block)).toEqual(shown(whole, block));
      }),
      { numRuns: 200 },
    );
  });
});

interface Shown {
  readonly line: number;
  readonly kind: string;
  readonly [name: string]: unknown;
}

function naive(block: Block): Shown[] {
  const rows: Shown[] = [];
  const bytes = Buffer.from(block.bytes);
  let start = 0;
  for (let index = 0; index < block.lineCount; index += 1) {
    const newline = bytes.indexOf(0x0a, start);
    const end = newline === -1 ? bytes.length : newline;
    const content = bytes.subarray(start, newline > start && bytes[end - 1] === 0x0d ? end - 1 : end);
    const parsed = parseLine(content, { providers: new Set(providers.keys()) });
    const at = { line: block.firstLine + index };
    if (parsed.kind === "rejected")
      rows.push({ ...at, kind: "rejected", key: parsed.key, code: parsed.code });
    if (parsed.kind === "item") {
      const encoded = providers.get(parsed.provider)?.encode(parsed.request, parsed.model);
      const single = measurer.measure(blockOf(content), { wantBodies: false });
      rows.push({
        ...at,
        kind: "item",
        key: JSON.stringify(parsed.key),
        model: `${parsed.provider}:${parsed.model}`,
        place: `${block.offset + start}+${content.length}`,
        body: encoded?.ok === true ? encoded.body : undefined,
        tokens: single.inputTokens[0],
        hasPrefix: parsed.request.system.length > 0,
      });
    }
    start = end + 1;
  }
  return rows;
}

function shown(measured: MeasuredBlock, block: Block): Shown[] {
  const items = Array.from(measured.lines, (number, index) => {
    const group = measured.groups[measured.groupOf[index] as number];
    return {
      line: number,
      kind: "item",
      key: part(measured.keys, measured.keyEnds, index),
      model: group?.model,
      place: `${measured.offsets[index]}+${measured.lengths[index]}`,
      body: part(measured.bodies, measured.bodyEnds, index),
      tokens: measured.inputTokens[index],
      hasPrefix: group?.prefixHash !== 0,
    };
  });
  const rejected = measured.rejected.map((each) => ({
    line: each.line,
    kind: "rejected",
    key: each.key,
    code: each.code,
  }));
  expect(items.length + rejected.length + measured.blankLines).toBe(block.lineCount);
  return [...items, ...rejected].sort((a, b) => a.line - b.line);
}

function part(bytes: Uint8Array, ends: Uint32Array, index: number): string {
  return Buffer.from(bytes.subarray(ends[index - 1] ?? 0, ends[index])).toString();
}
