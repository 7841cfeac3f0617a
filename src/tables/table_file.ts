/**
 * Writing a table: rows are appended to a file, which has its name when the last one is written (whole_file.ts).
 *
 *   CSV, TSV   separator and byte order mark as in the input, if that is CSV; a field is in quotes where it must be; lines end with LF
 *   JSONL      an object a row, null for an empty cell
 *   Parquet    row groups of about 8 MiB (parquet_file.ts, loaded when it is needed)
 *
 * A text that a spreadsheet would take for a formula (=, +, -, @ at its beginning) is written as it is: a text that is changed
 * on its way would not be the answer. docs/guide/tables.md says how to open such a file.
 */
import type { Disk, FileStat } from "../disk.ts";
import { type Cell, type Column, jsonOf, textOf } from "./cell.ts";
import type { RowEncoder, Table, TableFormat } from "./table.ts";
import { TextBytes } from "./text_bytes.ts";
import { writeWhole } from "./whole_file.ts";

const WRITE_BYTES = 1024 * 1024;
const NOTHING = new Uint8Array(0);

/** What a written table is like. */
export interface TableShape {
  readonly format: TableFormat;
  readonly columns: readonly Column[];
  /** Of a CSV input. */
  readonly csv?: Table["csv"];
}

/**
 * Writes all rows to `path`, replacing what is there; a crash leaves what was there. `onWritten` is awaited with the state of the new
 * file before it gets its name.
 */
export async function writeTable(
  disk: Pick<Disk, "open" | "stat" | "rename" | "remove">,
  path: string,
  shape: TableShape,
  batches: AsyncIterable<readonly (readonly Cell[])[]>,
  onWritten?: (state: FileStat | undefined) => Promise<void>,
): Promise<void> {
  const encoder = await encoderOf(shape);
  await writeWhole(
    disk,
    path,
    async (append) => {
      for await (const rows of batches) await append(encoder.encode(rows));
      await append(encoder.end());
    },
    onWritten,
  );
}

async function encoderOf(shape: TableShape): Promise<RowEncoder> {
  const { format, columns, csv } = shape;
  if (format === "parquet") return (await import("./parquet_file.ts")).parquetEncoder(columns);
  if (format === "jsonl") return jsonlEncoder(columns);
  return csvEncoder(columns, {
    delimiter: format === "tsv" ? "\t" : csv === undefined || csv.delimiter === "\t" ? "," : csv.delimiter,
    hasMark: csv?.hasMark === true,
  });
}

function jsonlEncoder(columns: readonly Column[]): RowEncoder {
  const names = columns.map(({ name }, index) => `${index === 0 ? "{" : ","}${JSON.stringify(name)}:`);
  return textEncoder("", (row) => {
    let line = "";
    for (let index = 0; index < names.length; index += 1) line += names[index] + jsonOf(row[index] as Cell);
    return `${line}}\n`;
  });
}

/** Of lines; `row` has a cell for each column. */
function csvEncoder(
  columns: readonly Column[],
  { delimiter, hasMark }: { readonly delimiter: string; readonly hasMark: boolean },
): RowEncoder {
  const special = new RegExp(`["\\r\\n${delimiter.replace(/[\\\]^-]/, "\\$&")}]`);
  const field = (text: string): string => (special.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const line = (row: readonly Cell[]): string => {
    const [first] = row;
    if (row.length === 1 && textOf(first as Cell) === "") return '""\n'; // a blank line is not a row
    let text = "";
    for (let index = 0; index < row.length; index += 1)
      text += (index === 0 ? "" : delimiter) + field(textOf(row[index] as Cell));
    return `${text}\n`;
  };
  return textEncoder(`${hasMark ? "\ufeff" : ""}${line(columns.map(({ name }) => name))}`, line);
}

function textEncoder(head: string, line: (row: readonly Cell[]) => string): RowEncoder {
  const bytes = new TextBytes();
  bytes.add(head);
  return {
    encode(rows) {
      for (const row of rows) bytes.add(line(row));
      return bytes.length < WRITE_BYTES ? NOTHING : bytes.take();
    },
    end: () => bytes.take(),
  };
}
