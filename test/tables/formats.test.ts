/**
 * Tables of each format: what their cells are, that writing and reading again returns them, and what is refused.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetMetadata } from "hyparquet";
import { ByteWriter, parquetWrite } from "hyparquet-writer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import type { Cell, Column } from "../../src/tables/cell.ts";
import { openTable } from "../../src/tables/open_table.ts";
import type { Table } from "../../src/tables/table.ts";
import { writeTable } from "../../src/tables/table_file.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-tables-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const COLUMNS: readonly Column[] = [
  { name: "name", type: "text" },
  { name: "count", type: "integer" },
  { name: "share", type: "number" },
  { name: "isNew", type: "boolean" },
  { name: "tags", type: "json" },
];
const ROWS: readonly (readonly Cell[])[] = [
  ['a "b",\r\nc', { json: "9223372036854775807" }, { json: "0.1" }, { json: "true" }, { json: '["x",1]' }],
  ["日本語 😀 =1+1", { json: "-5" }, { json: "1e+300" }, { json: "false" }, { json: "{}" }],
  [null, null, null, null, null],
];

describe("a written table", () => {
  it("has the same cells in Parquet, but for JSON, which is a text there", async () => {
    const table = await written("round.parquet", "parquet");
    expect(table.columns.map(({ type }) => type)).toEqual(["text", "integer", "number", "boolean", "text"]);
    expect(await rowsOf(table)).toEqual([
      [...(ROWS[0] ?? []).slice(0, 4), '["x",1]'],
      [...(ROWS[1] ?? []).slice(0, 4), "{}"],
      ROWS[2],
    ]);
  });

  it("has the same cells in JSON lines, and the types of their columns are found again", async () => {
    const table = await written("round.jsonl", "jsonl");
    expect(table.columns.slice(2)).toEqual(COLUMNS.slice(2));
    expect(await rowsOf(table)).toEqual([ROWS[0], ROWS[1], ROWS[2]]);
  });

  it("has the texts of its cells in CSV, and nothing for null", async () => {
    const table = await written("round.csv", "csv");
    expect(await rowsOf(table)).toEqual([
      ['a "b",\r\nc', "9223372036854775807", "0.1", "true", '["x",1]'],
      ["日本語 😀 =1+1", "-5", "1e+300", "false", "{}"],
      ["", "", "", "", ""],
    ]);
  });

  it("keeps the separator and the byte order mark of a CSV input", async () => {
    const path = join(folder, "marked.csv");
    const csv = { delimiter: ";", hasMark: true };
    await writeTable(
      systemDisk,
      path,
      { format: "csv", columns: COLUMNS.slice(0, 1), csv },
      one([["a;b"], [""]]),
    );
    expect(readFileSync(path, "utf8")).toBe('\ufeffname\n"a;b"\n""\n');
    const table = await openTable(path);
    expect(table.columns).toEqual([{ name: "name", type: "text" }]);
    expect(await rowsOf(table)).toEqual([["a;b"], [""]]);
  });

  it("is in row groups that bound the memory of the writer", async () => {
    const path = join(folder, "groups.parquet");
    const rows = Array.from({ length: 1_000 }, (_, index): Cell[] => [String(index)]);
    const batches = async function* () {
      for (let batch = 0; batch < 150; batch += 1) yield rows;
    };
    await writeTable(systemDisk, path, { format: "parquet", columns: COLUMNS.slice(0, 1) }, batches());
    const { row_groups } = parquetMetadata(new Uint8Array(readFileSync(path)).buffer);
    expect(row_groups.map(({ num_rows }) => Number(num_rows))).toEqual([65_536, 65_536, 18_928]);
    expect((await rowsOf(await openTable(path))).slice(149_998)).toEqual([["998"], ["999"]]);
  });

  it("leaves what was there when its rows end in an error", async () => {
    const path = join(folder, "kept.csv");
    writeFileSync(path, "before");
    const failing = async function* (): AsyncGenerator<Cell[][]> {
      yield [["a"]];
      throw new Error("no more");
    };
    const writing = writeTable(systemDisk, path, { format: "csv", columns: COLUMNS.slice(0, 1) }, failing());
    await expect(writing).rejects.toThrow("no more");
    expect(readFileSync(path, "utf8")).toBe("before");
  });
});

describe("a Parquet file of another program", () => {
  it("has timestamps, dates, decimals and lists as texts and JSON with all their digits", async () => {
    const bytes = new ByteWriter();
    parquetWrite({
      writer: bytes,
      schema: [
        { name: "root", num_children: 5 },
        { name: "at", type: "INT64", converted_type: "TIMESTAMP_MICROS", repetition_type: "OPTIONAL" },
        { name: "day", type: "INT32", converted_type: "DATE", repetition_type: "OPTIONAL" },
        {
          name: "price",
          type: "INT64",
          converted_type: "DECIMAL",
          scale: 2,
          precision: 18,
          repetition_type: "OPTIONAL",
        },
        { name: "ratio", type: "DOUBLE", repetition_type: "OPTIONAL" },
        { name: "raw", type: "BYTE_ARRAY", repetition_type: "OPTIONAL" },
      ],
      columnData: [
        { name: "at", data: [new Date("2026-05-01T10:00:00.120Z"), null] },
        { name: "day", data: [new Date("2026-05-01T00:00:00Z"), null] },
        { name: "price", data: [1234567890123.45, -0.05] },
        { name: "ratio", data: [Number.NaN, 0.5] },
        { name: "raw", data: [new Uint8Array([0xff, 0x00]), new TextEncoder().encode("plain")] },
      ],
    });
    const path = join(folder, "other.parquet");
    writeFileSync(path, bytes.getBytes());
    expect(await rowsOf(await openTable(path))).toEqual([
      ["2026-05-01T10:00:00.12Z", "2026-05-01", { json: "1234567890123.45" }, "NaN", "/wA="],
      [null, null, { json: "-0.05" }, { json: "0.5" }, "plain"],
    ]);
  });

  it("is refused when it is encrypted, or no Parquet file", async () => {
    await expect(opened("x.parquet", Buffer.from("PARE....PARE"))).rejects.toThrow("is encrypted");
    await expect(opened("x.parquet", Buffer.from("id,name\n1,a\n"))).rejects.toThrow("not a Parquet file");
  });
});

describe("a table that cannot be read as one", () => {
  it.each([
    ["r.csv", "a,b\n1,2\n1,2,3\n", "line 3 has 3 fields, and the header has 2 columns"],
    ["r.csv", 'a,b\n"x\ny",2\n1\n', "line 4 has 1 field, and the header has 2 columns"],
    ["r.csv", "a,b,a\n1,2,3\n", 'has two columns named "a" (1 and 3)'],
    ["r.csv", "", "is empty: expected a header"],
    ["r.csv", Buffer.from("a,b\n1,caf\xe9\n", "latin1"), "is not UTF-8 (line 2)"],
    ["r.csv", Buffer.from("\ufeffa,b\n", "utf16le"), "is UTF-16 text"],
    [
      "r.csv",
      Buffer.from("1f8b0800", "hex"),
      "is compressed (gzip), expected text in UTF-8; unpack it first",
    ],
    ["r.jsonl", '{"a":1}\n[2]\n', "line 2 is not an object"],
    ["r.jsonl", '{"a":1}\n\n{"a"\n', "line 3 is not JSON"],
    ["r.jsonl", '{"a":1}\n{"b":1,"a":2,"b":3}\n', 'line 2 has the member "b" twice'],
    ["r.jsonl", `{"a":${"[".repeat(70)}`, "line 1 is nested more than 64 deep"],
    ["r.jsonl", "\n", "has no rows"],
    ["r.xlsx", "x", "is not a table by its name"],
  ])("is refused with the place and what to do: %s %j", async (name, content, message) => {
    await expect(opened(name, content).then(rowsOf)).rejects.toThrow(message);
  });

  it("names a column without a name by its number, and takes blanks off names", async () => {
    const table = await opened("names.csv", ", b ,c\n1,2,3\n");
    expect(table.columns.map(({ name }) => name)).toEqual(["column_1", "b", "c"]);
  });

  it("finds the separator in the header, or takes the one that is named", async () => {
    expect(await rowsOf(await opened("s.csv", "a;b\n1,5;2\n"))).toEqual([["1,5", "2"]]);
    expect(await rowsOf(await opened("s.tsv", "a\tb,c\n1\t2\n"))).toEqual([["1", "2"]]);
    const path = join(folder, "s.csv");
    writeFileSync(path, "a:b,c\n1:2\n");
    expect(await rowsOf(await openTable(path, { delimiter: ":" }))).toEqual([["1", "2"]]);
  });

  it("is read by its CR where no line ends with LF, and keeps both as they are within fields", async () => {
    expect(await rowsOf(await opened("mac.csv", 'a,b\r1,"x\ry"\r\r2,"\n"\r'))).toEqual([
      ["1", "x\ry"],
      ["2", "\n"],
    ]);
    await expect(opened("mac.csv", "a,b\r1,2\r3\r").then(rowsOf)).rejects.toThrow("line 3 has 1 field");
    expect(await rowsOf(await opened("s.csv", 'a,b\n1,"x\ry"\n'))).toEqual([["1", "x\ry"]]);
  });

  it("has the columns of all lines of JSON, and nothing where a line has no such member", async () => {
    const table = await opened("m.jsonl", '{"a":1}\n{"b":"x","a":12345678901234567890}\n{"a":1.5,"b":null}');
    expect(table.columns).toEqual([
      { name: "a", type: "text" },
      { name: "b", type: "text" },
    ]);
    expect(await rowsOf(table)).toEqual([
      [{ json: "1" }, null],
      [{ json: "12345678901234567890" }, "x"],
      [{ json: "1.5" }, null],
    ]);
  });
});

async function opened(name: string, content: string | Buffer): Promise<Table> {
  writeFileSync(join(folder, name), content);
  return openTable(join(folder, name));
}

async function written(name: string, format: "csv" | "jsonl" | "parquet"): Promise<Table> {
  await writeTable(systemDisk, join(folder, name), { format, columns: COLUMNS }, one(ROWS));
  return openTable(join(folder, name));
}

async function* one<T>(batch: T): AsyncGenerator<T> {
  yield batch;
}

async function rowsOf(table: Table): Promise<(readonly Cell[])[]> {
  const rows: (readonly Cell[])[] = [];
  for await (const batch of table.batches()) rows.push(...batch.rows);
  return rows;
}
