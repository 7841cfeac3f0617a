/** The table files: what their views promise, and what is said when a file is missing or damaged. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { builtFile } from "../../src/built_files.ts";
import { readTables } from "../../src/tokens/ranks.ts";

const folder = mkdtempSync(join(tmpdir(), "perigee-ranks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the tables", () => {
  it("hold every token of the encoding as the merge of two tokens of lower rank", () => {
    for (const [encoding, size] of [
      ["o200k_base", 199_998],
      ["cl100k_base", 100_256],
    ] as const) {
      const { lefts, rights, lengthsBytes } = readTables(encoding);
      expect(lefts.length).toBe(size);
      const wrong: number[] = [];
      for (let token = 0; token < size; token++) {
        const left = lefts[token] as number;
        const right = rights[token] as number;
        const isByte = left === token && right === token && lengthsBytes[token] === 1;
        const isMerge =
          left < token && right < token && lengthsBytes[token] === lengthsBytes[left]! + lengthsBytes[right]!;
        if (!isByte && !isMerge) wrong.push(token);
      }
      expect(wrong).toEqual([]);
    }
  });

  it("are at most 10 MB an encoding", () => {
    expect(readFileSync(builtFile("ranks/o200k_base.bin")).byteLength).toBeLessThan(10e6);
    expect(readFileSync(builtFile("ranks/cl100k_base.bin")).byteLength).toBeLessThan(10e6);
  });
});

describe("a table file that cannot be used", () => {
  it("is named with advice when it is missing", () => {
    const url = pathToFileURL(join(folder, "absent.bin"));
    expect(() => readTables("o200k_base", url)).toThrow(/absent\.bin cannot be read: run "npm run build"/);
  });

  it("is refused when it is cut short, of another format, or no table at all", () => {
    const whole = readFileSync(builtFile("ranks/cl100k_base.bin"));
    const otherFormat = Buffer.from(whole);
    otherFormat.writeInt32LE(99, 4);
    for (const bytes of [whole.subarray(0, 4000), otherFormat, Buffer.alloc(4096), Buffer.alloc(3)]) {
      const path = join(folder, "damaged.bin");
      writeFileSync(path, bytes);
      expect(() => readTables("cl100k_base", pathToFileURL(path))).toThrow(/damaged or of another version/);
    }
  });
});
