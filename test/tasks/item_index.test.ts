import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readBlocks } from "../../src/jsonl/read.ts";
import { ItemIndex } from "../../src/tasks/files/item_index.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";

/** What the reader of runs finds in the same bytes: lines that are not blank, and those that it refuses. */
async function readItems(text: string, lineBytesMax: number) {
  const disk = new MemoryDisk();
  disk.put("in", text);
  const items: { readonly line: number; readonly offset: number }[] = [];
  for await (const event of readBlocks(await disk.open("in", "read"), { lineBytesMax })) {
    if (event.kind === "refused") {
      items.push(event.refused);
      continue;
    }
    const { bytes, firstLine, offset } = event.block;
    let at = offset;
    for (const [index, line] of Buffer.from(bytes).toString("latin1").split("\n").entries()) {
      if (/[^ \t\r]/.test(line)) items.push({ line: firstLine + index, offset: at });
      at += line.length + 1;
    }
  }
  return items;
}

function indexOf(text: string, lineBytesMax: number, cuts: readonly number[] = []): ItemIndex {
  const index = new ItemIndex(lineBytesMax);
  const bytes = Buffer.from(text);
  const places = [0, ...cuts.map((cut) => 3 + cut).sort((a, b) => a - b), bytes.length];
  for (const [at, start] of places.entries()) index.add(bytes.subarray(start, places[at + 1]));
  index.end();
  return index;
}

describe("the index of a file's items", () => {
  it("notes where every 1,000th item begins, blank lines and a byte order mark passed over", () => {
    const lines = Array.from({ length: 2_500 }, (_, item) => `{"key":"${item}"}`);
    const text = `\ufeff\n${lines.slice(0, 1_000).join("\n")}\r\n \t\r\n\n${lines.slice(1_000).join("\n")}`;
    const index = indexOf(text, 1_024);
    expect(index.items).toBe(2_500);
    expect(index.lineCount).toBe(2_503);
    expect(index.lines).toEqual([2, 1_004, 2_004]);
    const bytes = Buffer.from(text);
    const starts = index.offsets.map((offset) => bytes.subarray(offset, offset + 14).toString());
    expect(starts).toEqual(['{"key":"0"}\n{"', '{"key":"1000"}', '{"key":"2000"}']);
  });

  it("has nothing of an empty file", () => {
    expect(indexOf("", 10)).toMatchObject({ items: 0, lineCount: 0, lines: [], offsets: [] });
    expect(indexOf("\n\r\n  \n", 10)).toMatchObject({ items: 0, lineCount: 3, lines: [] });
  });

  it("counts what the reader of runs counts, wherever the chunks are cut", async () => {
    const part = fc.constantFrom(
      "\ufeff",
      "\n",
      "\r\n",
      "\r",
      " ",
      "        ",
      "{",
      "{}\n",
      "long line\n",
      "\t",
    );
    const cases = fc.tuple(
      fc.array(part, { maxLength: 20 }),
      fc.array(fc.nat({ max: 60 }), { maxLength: 5 }),
    );
    await fc.assert(
      fc.asyncProperty(cases, async ([parts, cuts]) => {
        const text = parts.join("");
        const index = indexOf(text, 6, cuts);
        const items = await readItems(text, 6);
        expect(index.items).toBe(items.length);
        expect(index.lines).toEqual(items.slice(0, 1).map((item) => item.line));
        expect(index.offsets).toEqual(items.slice(0, 1).map((item) => item.offset));
      }),
      { numRuns: 2_000 },
    );
  });
});
