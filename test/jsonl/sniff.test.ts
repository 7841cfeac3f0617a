import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { sniff } from "../../src/jsonl/sniff.ts";

const LINE = '{"key":"a","request":{"model":"openai:m","contents":[{"parts":[{"text":"中文"}]}]}}\n';

describe("sniff", () => {
  it("takes UTF-8 with or without a byte order mark, and an empty input", () => {
    for (const text of [LINE, `\ufeff${LINE}`, "", "\n\n", "[", "BZ", "PK"])
      expect(sniff(Buffer.from(text))).toBeUndefined();
  });

  it("fault 4: refuses UTF-16 and UTF-32, with or without a mark", () => {
    const little = Buffer.from(LINE, "utf16le");
    const big = Buffer.from(little).swap16();
    const wide = new Uint8Array(new Uint32Array([...LINE].map((char) => char.codePointAt(0) ?? 0)).buffer);
    const wideBig = Buffer.from(wide).swap32();
    for (const bytes of [little, big, wide, wideBig]) expect(sniff(bytes)?.kind).toBe("utf16");
    expect(sniff(Buffer.from(`\ufeff${LINE}`, "utf16le"))?.words).toBe("UTF-16 text");
    expect(sniff(Buffer.from(`\ufeff${LINE}`, "utf16le").swap16())?.words).toBe("UTF-16 text");
  });

  it("fault 4: refuses compressed files by their magic numbers", () => {
    expect(sniff(gzipSync(LINE))?.words).toBe("compressed (gzip)");
    const magics = [
      "504b0304",
      "504b0506",
      "28b52ffd",
      "425a6839",
      "fd377a585a00",
      "04224d18",
      "377abcaf271c",
    ];
    for (const hex of magics) expect(sniff(Buffer.from(`${hex}00112233`, "hex"))?.kind).toBe("compressed");
  });

  it("leaves NULs here and there to their lines", () => {
    for (const text of [LINE.replace("key", "k\0ey"), "\0\0\0\0\0\0\0\0", "\0\0\0\n", `${LINE}\0`])
      expect(sniff(Buffer.from(text))).toBeUndefined();
  });

  it("refuses what is nothing but NULs, as a file whose bytes were never written", () => {
    for (const bytes of [64, 300, 4_096]) expect(sniff(new Uint8Array(bytes))?.kind).toBe("binary");
    expect(sniff(Buffer.from(`${"\0".repeat(4_000)}${LINE}`))?.kind).toBe("binary");
  });

  it("refuses tables, workbooks and other binary files, by what they begin with", () => {
    const kinds = [
      "id,question\n1,Why is the sky blue?\n",
      "id;question\r\n1;Why\r\n",
      "id\tquestion\n1\tWhy\n",
      '"id","a, b"\n"1","Why?"\n',
    ].map((text) => sniff(Buffer.from(text))?.kind);
    expect(kinds).toEqual(["table", "table", "table", "table"]);
    expect(sniff(Buffer.from("question\n"), "in.csv")?.kind).toBe("table");
    expect(sniff(Buffer.from("PK\u0003\u0004....[Content_Types].xml"))).toEqual({
      kind: "workbook",
      words: "an Excel workbook (.xlsx)",
    });
    expect(sniff(Buffer.from("%PDF-1.7"))?.words).toBe("a PDF document");
    expect(sniff(Uint8Array.from({ length: 500 }, (_, index) => (index * 37) % 256))?.kind).toBe("binary");
  });

  it("leaves lines that are not JSON to their own faults", () => {
    for (const text of [
      "no json\n",
      "Hello, world\nsecond line\n",
      '5,6\n{"key":"a"}\n',
      "42\n43\n",
      '"a"\n"b"\n',
    ])
      expect(sniff(Buffer.from(text)), text).toBeUndefined();
    expect(sniff(Buffer.from(LINE), "in.csv")).toBeUndefined();
  });
});
