import { describe, expect, it } from "vitest";
import { type ArrayElement, type ArrayOptions, arrayLines } from "../../src/jsonl/array.ts";
import { collect } from "./memory_file.ts";

async function* chunksOf(bytes: Uint8Array, chunkBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
}

async function read(
  content: string | Uint8Array,
  chunkBytes = 7,
  options: ArrayOptions = {},
): Promise<string[]> {
  const elements = await collect(
    arrayLines(chunksOf(Buffer.from(content as Uint8Array), chunkBytes), options),
  );
  return elements
    .flat()
    .map((element: ArrayElement) =>
      element.kind === "line" ? element.text : `${element.line}!${element.code}`,
    );
}

describe("arrayLines", () => {
  it("yields one line of JSON per element, for any spacing and chunks", async () => {
    const content =
      '\ufeff [ {"a" : [1, 2,\n{}], "b":"x\\n\\"é中😀\\u2028\\ud83d\\ude00"} ,\r\n null,true , false, "s", -1.50e3 , [] ] \n';
    for (const chunkBytes of [1, 3, 1000])
      expect(await read(content, chunkBytes)).toEqual([
        `{"a":[1,2,{}],"b":${JSON.stringify('x\n"é中😀\u2028😀')}}`.replace(
          "😀\u2028😀",
          "😀\u2028\\ud83d\\ude00",
        ),
        "null",
        "true",
        "false",
        '"s"',
        "-1.50e3",
        "[]",
      ]);
    expect(await read("[]")).toEqual([]);
  });

  it("fault 14: keeps the digits of numbers, and repeated members for the line's own check", async () => {
    expect(await read('[{"n":12345678901234567890.10,"n":1e400}]')).toEqual([
      '{"n":12345678901234567890.10,"n":1e400}',
    ]);
  });

  it("fault 5: refuses only an element above the bound", async () => {
    const content = JSON.stringify(["a", { text: "x".repeat(200_000) }, { t: "\n".repeat(60_000) }, "b"]);
    expect(await read(content, 50_000, { elementCharsMax: 100_000 })).toEqual([
      '"a"',
      "2!line_too_long",
      "3!line_too_long",
      '"b"',
    ]);
  });

  it("fault 6: refuses only an element of more than 64 levels, but a bomb as a whole", async () => {
    const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    expect(await read(`[${nested(64)},${nested(65)},1]`)).toEqual([nested(64), "2!too_deep", "1"]);
    await expect(read("[".repeat(1_000_000), 65_536)).rejects.toMatchObject({ code: "invalid_array" });
  });

  it("says what is not one array, and where", async () => {
    for (const content of [
      "",
      " ",
      '{"a":1}',
      "[1,2",
      "[1,]",
      "[1] [2]",
      "[1]x",
      "[1 2]",
      '["a',
      "[nul]",
      "[01]",
    ])
      await expect(read(content), content).rejects.toMatchObject({ code: "invalid_array" });
    await expect(read(Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d]))).rejects.toMatchObject({
      code: "invalid_array",
    });
    await expect(read('{"a":1}', 1000)).rejects.toThrow(
      "expected one JSON array: the text does not begin with [ (at element 1 or later, bytes 0 to 7)",
    );
    await expect(read("[1,2,3 4]", 3)).rejects.toThrow("(at element 3 or later, bytes 6 to 9)");
  });

  it("passes errors of its source through, and stops with its signal", async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("[1,");
      throw new Error("EIO");
    }
    await expect(collect(arrayLines(broken()))).rejects.toThrow("EIO");
    await expect(read("[1]", 1, { signal: AbortSignal.abort(new Error("stop")) })).rejects.toThrow("stop");
  });
});
