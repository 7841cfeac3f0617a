/** The output lines of a step, in memory that is used again. */
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineMemory, StagedLines } from "../../src/engine/journal/staged_lines.ts";
import { wholeLine } from "../../src/jsonl/write.ts";

const MIB = 1024 * 1024;
const ascii = fc.integer({ min: 0, max: 400_000 }).map((length) => "1,".repeat(length / 2));
const text = fc.oneof(fc.string({ unit: "binary", maxLength: 200 }), ascii);
const value = fc.oneof(
  ascii,
  ascii.map((each) => Buffer.from(each)),
);
const line = fc.oneof(text, fc.record({ before: text, value, after: text }));

describe("the lines of a step", () => {
  it("are the bytes of their texts one after the other, each and all with length and checksum, also in used memory", () => {
    const memory = new LineMemory();
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), (lines) => {
        const staged = new StagedLines(memory);
        const whole = lines.map((one) => Buffer.from(wholeLine(one)));
        expect(lines.map((one) => staged.add(one))).toEqual(
          whole.map((bytes) => ({ byteLength: bytes.byteLength, crc32: crc32(bytes) })),
        );
        const all = staged.all();
        expect(Buffer.compare(all.bytes, Buffer.concat(whole))).toBe(0);
        expect(all.crc32).toBe(crc32(Buffer.concat(whole)));
        memory.giveBack(all.bytes);
      }),
      { numRuns: 25 },
    );
  });

  it("leave large memory to a later step once it is given back, and never before", () => {
    const memory = new LineMemory();
    const staged = (letter: string): StagedLines => {
      const lines = new StagedLines(memory);
      lines.add(letter.repeat(MIB / 2));
      return lines;
    };
    const first = staged("a").all().bytes;
    expect(staged("b").all().bytes.buffer).not.toBe(first.buffer);
    expect(first[0]).toBe("a".charCodeAt(0));
    memory.giveBack(first);
    expect(staged("c").all().bytes.buffer).toBe(first.buffer);
  });

  it("keep no memory of their own that is small or very large", () => {
    const memory = new LineMemory();
    memory.giveBack(new Uint8Array(MIB));
    const large = memory.take(17 * MIB);
    memory.giveBack(large);
    expect(memory.take(MIB).buffer).not.toBe(large.buffer);
    expect(memory.take(1).byteLength).toBe(MIB);
  });

  it("are put into the largest memory that was given back, of which the three largest are kept", () => {
    const memory = new LineMemory();
    const taken = [1, 8, 1, 4, 2].map((mib) => memory.take(mib * MIB));
    for (const each of taken) memory.giveBack(each);
    const sizes = Array.from({ length: 4 }, () => memory.take(1).byteLength / MIB);
    expect(sizes).toEqual([8, 4, 2, 1]);
    expect(memory.take(MIB).buffer).not.toBe(taken[0]?.buffer);
  });
});
