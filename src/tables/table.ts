/**
 * Tables: files of rows with named columns, read from front to back and as often as needed.
 *
 *   .csv .tsv        the first record is the header      (csv_table.ts)
 *   .jsonl .ndjson   an object on each line              (jsonl_table.ts)
 *   .parquet         row group by row group              (parquet_table.ts, loaded when it is needed)
 *
 * Memory is that of a piece of the file: 64 KiB, or a row group.
 */
import { extname } from "node:path";
import { PerigeeError } from "../errors.ts";
import type { Cell, Column } from "./cell.ts";

/** Formats by the end of a file's name, which is what names them. */
const TABLE_FORMATS: Readonly<Record<string, TableFormat>> = {
  ".csv": "csv",
  ".tsv": "tsv",
  ".jsonl": "jsonl",
  ".ndjson": "jsonl",
  ".parquet": "parquet",
};

/** The formats of tables. */
export type TableFormat = "csv" | "tsv" | "jsonl" | "parquet";

/** Rows that follow each other. */
export interface RowBatch {
  /** The number of its first row, from 1. */
  readonly firstRow: number;
  /** A cell for each column. */
  readonly rows: readonly (readonly Cell[])[];
  /** The line of each row in its file, from 1; absent where the file has no lines. */
  readonly lines?: readonly number[];
}

/** A table whose columns are known. */
export interface Table {
  /** As messages name it. */
  readonly name: string;
  readonly format: TableFormat;
  readonly columns: readonly Column[];
  /** Of a CSV file. */
  readonly csv?: { readonly delimiter: string; readonly hasMark: boolean };
  /** All rows, in order; each call reads the file again. Throws `input_unreadable` naming the line. */
  batches(): AsyncIterable<RowBatch>;
}

/** How a table is opened. */
export interface TableOptions {
  /** What separates the fields of a CSV file, one character. Default: a tab for .tsv, else whichever of `,` `;` tab `|` the header has most of. */
  readonly delimiter?: string;
}

/** Most columns of a table. */
const COLUMNS_MAX = 10_000;

/** By the end of a name; undefined for any other name. */
export function tableFormat(path: string): TableFormat | undefined {
  return TABLE_FORMATS[extname(path).toLowerCase()];
}

/** The row as messages name it. */
export function placeOf({ firstRow, lines }: RowBatch, index: number): string {
  const line = lines?.[index];
  return line === undefined ? `row ${firstRow + index}` : `line ${line}`;
}

/** The names, without the blanks around them; an empty one is `column_<n>`. Throws `input_unreadable` for a name that occurs twice. */
export function columnNames(given: readonly string[], where: string): readonly string[] {
  if (given.length > COLUMNS_MAX)
    throw new PerigeeError(
      "input_unreadable",
      `${where} has ${given.length} columns, at most ${COLUMNS_MAX}`,
    );
  const names = given.map((name, index) => name.trim() || `column_${index + 1}`);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return names;
  const [first, second] = [names.indexOf(twice), names.lastIndexOf(twice)];
  throw new PerigeeError(
    "input_unreadable",
    `${where} has two columns named ${JSON.stringify(twice)} (${first + 1} and ${second + 1}): rename one of them`,
  );
}

/** Turns rows into bytes, which are valid until the next call. */
export interface RowEncoder {
  /** The bytes of these rows, and of what was kept back before; may be empty. */
  encode(rows: readonly (readonly Cell[])[]): Uint8Array;
  /** What is left. */
  end(): Uint8Array;
}
