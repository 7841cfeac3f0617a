/** A file that grows by small pieces: what is in it, what is seen, and a disk that has no space for a while. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FileAppender } from "../../../src/engine/batches/file_appender.ts";
import { MemoryDisk } from "../../../src/testing/index.ts";

const PATH = "/lines";
/** Texts up to some times the first chunks, with characters of one to four bytes. */
const piece = fc
  .record({
    text: fc.string({ unit: "binary", maxLength: 12 }),
    times: fc.constantFrom(1, 1, 1, 3_000, 90_000),
  })
  .map(({ text, times }) => text.repeat(times));

async function contentOf(disk: MemoryDisk): Promise<string> {
  const file = await disk.open(PATH, "read");
  const bytes = Buffer.alloc((await disk.stat(PATH))?.sizeBytes ?? 0);
  await file.read(bytes, 0);
  await file.close();
  return bytes.toString();
}

describe("a file that is appended to", () => {
  it("holds all pieces in their order, and each byte was seen once", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ text: piece, kind: fc.constantFrom("line", "text", "wait") }), {
          maxLength: 30,
        }),
        async (pieces) => {
          const disk = new MemoryDisk();
          const seen: Buffer[] = [];
          const file = new FileAppender(disk, PATH, (bytes) => seen.push(Buffer.from(bytes)));
          let expected = "";
          for (const { text, kind } of pieces) {
            if (kind === "wait") await file.written();
            else if (kind === "line") file.addLine(Buffer.from(text));
            else expect(file.addText(text)).toBe(Buffer.byteLength(text));
            if (kind !== "wait") expected += kind === "line" ? `${text}\n` : text;
          }
          await file.written();
          expect(file.unwrittenBytes).toBe(0);
          await file.close();
          expect(file.bytes).toBe(Buffer.byteLength(expected));
          expect(await contentOf(disk)).toBe(expected);
          expect(Buffer.concat(seen).toString()).toBe(expected);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("is written to its end once a full disk has space again", async () => {
    const disk = new MemoryDisk();
    const file = new FileAppender(disk, PATH);
    const lines = Array.from({ length: 500 }, (_, index) => `${index} `.repeat(100));
    disk.setFull(20_000);
    for (const line of lines) file.addLine(Buffer.from(line));
    await expect(file.written()).rejects.toMatchObject({ code: "ENOSPC" });
    file.addText("more");
    disk.setFull(Number.POSITIVE_INFINITY);
    await file.written();
    await file.close();
    expect(await contentOf(disk)).toBe(`${lines.join("\n")}\nmore`);
  });
});
