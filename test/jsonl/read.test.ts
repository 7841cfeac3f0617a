import { describe, expect, it } from "vitest";
import type { ReaderEvent } from "../../src/jsonl/block.ts";
import { eachLine } from "../../src/jsonl/lines.ts";
import { readBlocks } from "../../src/jsonl/read.ts";
import { collect, computedFile, eventsOf, fileOf } from "./memory_file.ts";

const MIB = 1024 * 1024;

/** `line@offset:text` of every line, `line!length` of refused ones. */
function shown(events: readonly ReaderEvent[]): string[] {
  return events.flatMap((event) => {
    if (event.kind === "refused") return [`${event.refused.line}!${event.refused.lengthBytes}`];
    const { bytes, firstLine, offset } = event.block;
    const lines: string[] = [];
    eachLine(bytes, (start, end) => {
      const text = Buffer.from(bytes.subarray(start, end)).toString();
      lines.push(`${firstLine + lines.length}@${offset + start}:${text}`);
    });
    return lines;
  });
}

describe("readBlocks", () => {
  it("numbers lines from 1 and tells their byte offsets", async () => {
    expect(shown(await eventsOf("a\nbc\n\nd\n"))).toEqual(["1@0:a", "2@2:bc", "3@5:", "4@6:d"]);
  });

  it("fault 3: takes CRLF line ends and a last line without one", async () => {
    expect(shown(await eventsOf("a\r\nb\r\nc"))).toEqual(["1@0:a", "2@3:b", "3@6:c"]);
  });

  it("fault 3: skips a byte order mark at the start of the input and nowhere else", async () => {
    expect(shown(await eventsOf("\ufeffa\n\ufeffb\n"))).toEqual(["1@3:a", "2@5:\ufeffb"]);
  });

  it("keeps a byte order mark when it resumes in the middle", async () => {
    expect(shown(await eventsOf("a\n\ufeffb\n", { fromOffset: 2, fromLine: 2 }))).toEqual(["2@2:\ufeffb"]);
  });

  it("splits only at LF: a lone CR, U+2028 and U+0085 stay inside the line", async () => {
    expect(shown(await eventsOf("a\rb\u2028c\u0085d\n"))).toEqual(["1@0:a\rb\u2028c\u0085d"]);
  });

  it("fault 18: an input of no bytes has no lines", async () => {
    expect(await eventsOf("")).toEqual([]);
    expect(await eventsOf("\ufeff")).toEqual([]);
  });

  it("yields a small first block, and then at most 256 lines or 256 KiB at a time", async () => {
    const blocks = await eventsOf("x\n".repeat(1000));
    expect(blocks.map((event) => (event.kind === "block" ? event.block.lineCount : 0))).toEqual([
      64, 256, 256, 256, 168,
    ]);
    const wide = await eventsOf(`${"y".repeat(99_999)}\n`.repeat(5));
    expect(wide.map((event) => (event.kind === "block" ? event.block.lineCount : 0))).toEqual([2, 2, 1]);
  });

  it("yields as many lines at a time as requested", async () => {
    const lines = async (blockLinesMax: number): Promise<unknown[]> =>
      (await eventsOf("x\n".repeat(1000), { blockLinesMax })).map(
        (event) => event.kind === "block" && event.block.lineCount,
      );
    expect(await lines(900)).toEqual([64, 900, 36]);
    expect(await lines(400)).toEqual([64, 400, 400, 136]);
    expect(await lines(10)).toEqual(Array.from({ length: 100 }, () => 10));
  });

  it("returns each block in its own whole ArrayBuffer, fit for transfer", async () => {
    for (const event of await eventsOf(`${"a\n".repeat(300)}${"b".repeat(2000)}\n`, { chunkBytes: 512 })) {
      if (event.kind !== "block") throw new Error("no line is refused here");
      const { bytes } = event.block;
      expect(bytes.byteOffset).toBe(0);
      expect(bytes.buffer.byteLength).toBe(bytes.byteLength);
      structuredClone(bytes, { transfer: [bytes.buffer] });
      expect(bytes.byteLength).toBe(0);
    }
  });

  it("reads from one offset to another, as a resumed run does", async () => {
    const options = { fromOffset: 2, fromLine: 2, toOffset: 7 };
    expect(shown(await eventsOf("a\nbc\nd\ne\n", options))).toEqual(["2@2:bc", "3@5:d"]);
  });

  it("loses no line that follows a line longer than the chunk", async () => {
    const long = "x".repeat(100);
    expect(shown(await eventsOf(`a\n${long}\nb`, { chunkBytes: 16 }))).toEqual([
      "1@0:a",
      `2@2:${long}`,
      "3@103:b",
    ]);
  });

  it("fault 5: refuses a line above the bound by number and goes on with the next", async () => {
    const content = `a\n${"x".repeat(11)}\r\n${"y".repeat(10)}\r\nb\n`;
    for (const chunkBytes of [1, 4, 13, 1000]) {
      expect(shown(await eventsOf(content, { lineBytesMax: 10, chunkBytes }))).toEqual([
        "1@0:a",
        "2!11",
        `3@15:${"y".repeat(10)}`,
        "4@27:b",
      ]);
    }
  });

  it("fault 5: a line of 600 MB and 200 MB without a newline take no more memory than a chunk", async () => {
    const end = Buffer.from("\nb\n");
    const size = 600 * MIB + end.length;
    const file = computedFile(size, (into, position) => {
      into.fill(0x61);
      for (let at = Math.max(0, 600 * MIB - position); at < into.length; at++)
        into[at] = end[position + at - 600 * MIB] as number;
    });
    const before = process.memoryUsage.rss();
    expect(shown(await collect(readBlocks(file)))).toEqual([`1!${600 * MIB}`, `2@${600 * MIB + 1}:b`]);
    const blanks = computedFile(200 * MIB, (into) => into.fill(0x20));
    expect(shown(await collect(readBlocks(blanks)))).toEqual([`1!${200 * MIB}`]);
    expect(process.memoryUsage.rss() - before).toBeLessThan(32 * MIB);
  });

  it("fault 17: a long line that changes between its two readings is input_changed, not two half lines", async () => {
    let reads = 0;
    const file = computedFile(3000, (into, position) => {
      into.fill(0x61);
      reads++;
      if (into.length > 1024 && position === 0) into[5] = 0x0a;
    });
    await expect(collect(readBlocks(file, { chunkBytes: 1024 }))).rejects.toMatchObject({
      code: "input_changed",
    });
    expect(reads).toBeGreaterThan(3);
  });

  it("rejects with the signal's reason", async () => {
    const controller = new AbortController();
    const reader = readBlocks(fileOf("a\n".repeat(100)), { chunkBytes: 8, signal: controller.signal });
    await reader.next();
    controller.abort(new Error("stop"));
    await expect(collect(reader)).rejects.toThrow("stop");
  });
});
