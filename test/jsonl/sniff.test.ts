import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { sniff } from "../../src/jsonl/read.ts";

const LINE = '{"key":"a","request":{"model":"openai:m","contents":[{"parts":[{"text":"中文"}]}]}}\n';

describe("sniff", () => {
  it("takes UTF-8 with or without a byte order mark, and an empty input", () => {
    for (const text of [LINE, `\ufeff${LINE}`, "", "\n\n", "[", "BZ", "PK"])
      expect(sniff(Buffer.from(text))).toBe("jsonl");
  });

  it("fault 4: refuses UTF-16 and UTF-32, with or without a mark", () => {
    const little = Buffer.from(LINE, "utf16le");
    const big = Buffer.from(little).swap16();
    const wide = new Uint8Array(new Uint32Array([...LINE].map((char) => char.codePointAt(0) ?? 0)).buffer);
    const wideBig = Buffer.from(wide).swap32();
    for (const bytes of [little, big, wide, wideBig]) expect(sniff(bytes)).toBe("unsupported");
    expect(sniff(Buffer.from(`\ufeff${LINE}`, "utf16le"))).toBe("unsupported");
    expect(sniff(Buffer.from(`\ufeff${LINE}`, "utf16le").swap16())).toBe("unsupported");
  });

  it("fault 4: refuses compressed files by their magic numbers", () => {
    expect(sniff(gzipSync(LINE))).toBe("unsupported");
    const magics = [
      "504b0304",
      "504b0506",
      "28b52ffd",
      "425a6839",
      "fd377a585a00",
      "04224d18",
      "377abcaf271c",
    ];
    for (const hex of magics) expect(sniff(Buffer.from(`${hex}00112233`, "hex"))).toBe("unsupported");
  });

  it("leaves NULs here and there to their lines", () => {
    for (const text of [LINE.replace("key", "k\0ey"), "\0\0\0\0\0\0\0\0", "\0\0\0\n", `${LINE}\0`])
      expect(sniff(Buffer.from(text))).toBe("jsonl");
  });
});
