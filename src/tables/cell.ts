/**
 * A cell of a table: a text, nothing, or a value of another type as its JSON.
 *
 * Tables of different formats have one form of cells, so that a value keeps its digits on its way from one file to another: `1.50` of a
 * CSV file is the text `1.50`, and 12345678901234567890 of a Parquet file is the JSON `12345678901234567890`.
 */

import { digitsOf, restoreNumbers } from "../jsonl/numbers.ts";

/** A value that is not a text, as JSON. */
export interface JsonCell {
  readonly json: string;
}

/** Null where the table has nothing. */
export type Cell = string | null | JsonCell;

/** What the cells of a column are, for formats whose columns have a type. `text` holds any cell, as its text. */
export type CellType = "text" | "integer" | "number" | "boolean" | "json";

/** A named column. */
export interface Column {
  readonly name: string;
  readonly type: CellType;
}

/** What a template and a CSV file have of a cell: its text, the JSON of any other value, and an empty text for null. */
export function textOf(cell: Cell): string {
  if (typeof cell === "string") return cell;
  return cell === null ? "" : cell.json;
}

/** A cell as a member of a JSON object. */
export function jsonOf(cell: Cell): string {
  if (typeof cell === "string") return JSON.stringify(cell);
  return cell === null ? "null" : cell.json;
}

/** Of a value of `JSON.parse`, in whose text `markNumbers` has marked the numbers that a double does not hold. */
export function cellOfJson(value: unknown): Cell {
  if (value === null || value === undefined) return null;
  const digits = digitsOf(value);
  if (digits !== undefined) return { json: digits };
  return typeof value === "string" ? value : { json: restoreNumbers(JSON.stringify(value)) };
}
