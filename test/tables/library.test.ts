/**
 * `fromCsv`, `fromParquet` and `template`, as programs use them.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { fromCsv, fromParquet, template } from "../../src/index.ts";
import { writeTable } from "../../src/tables/table_file.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-rows-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("rows of a table in a program", () => {
  it("are objects of texts from CSV, and each iteration reads the file again", async () => {
    const path = join(folder, "rows.csv");
    writeFileSync(path, 'id;__proto__\n1;"a;b"\n');
    const rows = fromCsv(path, { delimiter: ";" });
    const expected = [
      Object.fromEntries([
        ["id", "1"],
        ["__proto__", "a;b"],
      ]),
    ];
    expect([await allOf(rows), await allOf(rows)]).toEqual([expected, expected]);
  });

  it("are objects of values from Parquet, with bigints where a number would lose digits", async () => {
    const path = join(folder, "rows.parquet");
    const columns = [
      { name: "n", type: "integer" },
      { name: "x", type: "number" },
      { name: "t", type: "text" },
    ] as const;
    const rows = async function* () {
      yield [
        [{ json: "9007199254740993" }, { json: "0.5" }, "a"],
        [{ json: "7" }, null, null],
      ];
    };
    await writeTable(systemDisk, path, { format: "parquet", columns }, rows());
    expect(await allOf(fromParquet(path))).toEqual([
      { n: 9_007_199_254_740_993n, x: 0.5, t: "a" },
      { n: 7, x: null, t: null },
    ]);
  });
});

describe("a template of a program", () => {
  it("fills in a row, and names its columns", () => {
    const prompt = template("{{a}}: {{b}}{{c}}");
    expect(prompt.columns).toEqual(["a", "b", "c"]);
    expect(prompt({ a: "x", b: { deep: 1 }, c: null })).toBe('x: {"deep":1}');
    expect(prompt({ a: 1, b: 2n, c: false })).toBe("1: 2false");
  });

  it("refuses a row that lacks a column, naming the one that was meant", () => {
    expect(() => template("{{review}}")({ Review: "x" })).toThrow(
      'template: "review" is not a column of the row; did you mean "Review"?',
    );
  });
});

async function allOf<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const row of rows) all.push(row);
  return all;
}
