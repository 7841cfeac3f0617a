/**
 * Tables for programs: rows as objects, and templates to make prompts of them.
 *
 *   const prompt = template("Summarise: {{review}}");
 *   async function* items() {
 *     for await (const row of fromCsv("reviews.csv"))
 *       yield { key: row.id, model: "openai:gpt-5-mini", input: prompt(row) };
 *   }
 *   engine.run(items(), { out: "answers.jsonl" });
 */
import { PerigeeError } from "../errors.ts";
import { type Cell, textOf } from "./cell.ts";
import { type Table, type TableOptions, tableFormat } from "./table.ts";
import { missing, readTemplate } from "./template.ts";

/** A row of a CSV file: the texts of its fields, by column. */
export type CsvRow = Readonly<Record<string, string>>;

/** A row of a Parquet file; a bigint where a number would lose digits, a text for a decimal, a timestamp or a date. */
export type ParquetRow = Readonly<Record<string, unknown>>;

/** Fills in a row. Throws `usage` where it lacks a column. */
export interface Template {
  (row: Readonly<Record<string, unknown>>): string;
  /** The columns that it names, each once. */
  readonly columns: readonly string[];
}

/**
 * The rows of a CSV or TSV file, from the first to the last; memory is that of 64 KiB of it. Each iteration reads the file again.
 * Throws, when iterated, `input_unreadable` naming the line, and `unsupported_encoding`.
 */
export function fromCsv(path: string, options: TableOptions = {}): AsyncIterable<CsvRow> {
  const open = async (): Promise<Table> => {
    const format = tableFormat(path) === "tsv" ? "tsv" : "csv";
    return (await import("./csv_table.ts")).openCsv(path, format, options);
  };
  return { [Symbol.asyncIterator]: () => rowsOf(open, textOf) };
}

/** The rows of a Parquet file; memory is that of a row group. Each iteration reads the file again. Throws as `fromCsv` does. */
export function fromParquet(path: string): AsyncIterable<ParquetRow> {
  const open = async (): Promise<Table> => (await import("./parquet_table.ts")).openParquet(path);
  return { [Symbol.asyncIterator]: () => rowsOf(open, cellValue) };
}

/**
 * Reads a template: `{{column}}` stands for the text of a column, `\{{` for the characters `{{`. Texts are put in as they are, numbers and
 * other values as their JSON, nothing for null and undefined. Throws `usage` for `{{` without a column.
 */
export function template(text: string): Template {
  const read = readTemplate(text, "template");
  const { columns } = read;
  const fill = (row: Readonly<Record<string, unknown>>): string =>
    read.fill((index) => {
      const column = columns[index] ?? "";
      if (!Object.hasOwn(row, column))
        throw new PerigeeError("usage", `template: ${missing(column, "the row", Object.keys(row))}`);
      return shown(row[column]);
    });
  return Object.assign(fill, { columns });
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function cellValue(cell: Cell): unknown {
  if (cell === null || typeof cell === "string") return cell;
  const { json } = cell;
  if (/^-?\d+$/.test(json)) return Number.isSafeInteger(Number(json)) ? Number(json) : BigInt(json);
  return /^-?\d+\.\d+$/.test(json) && String(Number(json)) !== json ? json : (JSON.parse(json) as unknown);
}

async function* rowsOf<T>(
  open: () => Promise<Table>,
  value: (cell: Cell) => T,
): AsyncGenerator<Readonly<Record<string, T>>> {
  const table = await open();
  const names = table.columns.map(({ name }) => name);
  for await (const { rows } of table.batches())
    for (const row of rows)
      yield Object.fromEntries(names.map((name, index) => [name, value(row[index] as Cell)]));
}
