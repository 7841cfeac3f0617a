/**
 * Rows as a Parquet file, by hyparquet-writer: Snappy, row groups of about 8 MiB of text, every column nullable.
 *
 * Columns have the type of their cells: INT64, DOUBLE, BOOLEAN, and strings for all else. A cell that is not of the type of its column is
 * null there. JSON is a string with the logical type JSON.
 */
import { ByteWriter, ParquetWriter, schemaFromColumnData } from "hyparquet-writer";
import { type Cell, type CellType, type Column, textOf } from "./cell.ts";
import type { RowEncoder } from "./table.ts";

const GROUP_CHARS = 8 * 1024 * 1024;
const GROUP_ROWS_MAX = 65_536;
const INT64_MAX = 2n ** 63n;

type Stored = string | bigint | number | boolean | null;

const TYPES = {
  text: "STRING",
  integer: "INT64",
  number: "DOUBLE",
  boolean: "BOOLEAN",
  json: "STRING",
} as const satisfies Record<CellType, string>;

/** Memory is that of a row group. */
export function parquetEncoder(columns: readonly Column[]): RowEncoder {
  const bytes = new ByteWriter();
  const sources = (data: readonly Stored[][]) =>
    columns.map(({ name, type }, index) => ({
      ...{ name, type: TYPES[type], nullable: true },
      data: data[index] ?? [],
    }));
  const writer = new ParquetWriter({
    writer: bytes,
    schema: schemaFromColumnData({ columnData: sources([]) }),
  });
  let group: Stored[][] = columns.map(() => []);
  let [rowCount, chars] = [0, 0];
  const taken = (): Uint8Array => {
    const written = bytes.getBytes().slice();
    bytes.index = 0;
    return written;
  };
  const flush = (): Uint8Array => {
    if (rowCount > 0) void writer.write({ columnData: sources(group), rowGroupSize: rowCount }); // synchronous: its writer is
    group = columns.map(() => []);
    [rowCount, chars] = [0, 0];
    return taken();
  };
  return {
    encode(rows) {
      const written: Uint8Array[] = [];
      for (const row of rows) {
        for (let index = 0; index < columns.length; index += 1) {
          const cell = row[index] as Cell;
          const text = cell === null ? "" : textOf(cell);
          chars += text.length + 8;
          (group[index] as Stored[]).push(stored(cell, text, (columns[index] as Column).type));
        }
        rowCount += 1;
        if (chars >= GROUP_CHARS || rowCount >= GROUP_ROWS_MAX) written.push(flush());
      }
      return written.length === 1 ? (written[0] as Uint8Array) : Buffer.concat(written);
    },
    end() {
      const last = flush();
      void writer.finish(); // synchronous, as above
      return Buffer.concat([last, taken()]);
    },
  };
}

function stored(cell: Cell, text: string, type: CellType): Stored {
  if (cell === null) return null;
  if (type === "text" || type === "json") return text;
  if (type === "boolean") return text === "true" ? true : text === "false" ? false : null;
  if (type === "number")
    return text === "" || Number.isNaN(Number(text)) ? (text === "NaN" ? Number.NaN : null) : Number(text);
  if (!/^-?\d+$/.test(text)) return null;
  const whole = BigInt(text);
  return whole >= -INT64_MAX && whole < INT64_MAX ? whole : null;
}
