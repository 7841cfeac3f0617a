/**
 * A CSV or TSV file as a table: its first record is the header, and every other record has as many fields.
 */
import { PerigeeError } from "../errors.ts";
import type { Column } from "./cell.ts";
import { type CsvFormat, CsvReader, type CsvRecord } from "./csv_reader.ts";
import { fileText, headText } from "./file_text.ts";
import { columnNames, type RowBatch, type Table, type TableOptions } from "./table.ts";

const DELIMITERS = [",", ";", "\t", "|"] as const;

/** Throws as `openTable` does. */
export async function openCsv(
  path: string,
  format: "csv" | "tsv",
  { delimiter: given }: TableOptions,
): Promise<Table> {
  const { text, hasMark } = await headText(path);
  const delimiter = given ?? (format === "tsv" ? "\t" : delimiterOf(text));
  const csv = { name: path, delimiter, lineEnd: lineEndOf(text) };
  let columns: readonly Column[] | undefined;
  for await (const { fields, line } of records(path, csv)) {
    columns = columnNames(fields, `${path}: the header, line ${line},`).map((name) => ({
      name,
      type: "text",
    }));
    break;
  }
  if (columns === undefined)
    throw new PerigeeError("input_unreadable", `${path} is empty: expected a header with the columns`);
  const found = columns;
  return {
    ...{ name: path, format, columns, csv: { delimiter, hasMark } },
    batches: () => batches(path, csv, found),
  };
}

async function* records(path: string, csv: CsvFormat): AsyncGenerator<CsvRecord> {
  for await (const found of pieces(path, csv)) yield* found;
}

async function* pieces(path: string, csv: CsvFormat): AsyncGenerator<CsvRecord[]> {
  const reader = new CsvReader(csv);
  for await (const piece of fileText(path)) yield reader.take(piece);
  yield reader.end();
}

async function* batches(path: string, csv: CsvFormat, columns: readonly Column[]): AsyncGenerator<RowBatch> {
  let firstRow = 0; // the header
  for await (const found of pieces(path, csv)) {
    const body = firstRow === 0 ? found.slice(1) : found;
    if (firstRow === 0 && found.length > 0) firstRow = 1;
    const ragged = body.find(({ fields }) => fields.length !== columns.length);
    if (ragged !== undefined) throw raggedRow(path, ragged, columns.length);
    if (body.length === 0) continue;
    yield { firstRow, rows: body.map(({ fields }) => fields), lines: body.map(({ line }) => line) };
    firstRow += body.length;
  }
}

function raggedRow(path: string, { fields, line }: CsvRecord, expected: number): PerigeeError {
  const count = fields.length === 1 ? "1 field" : `${fields.length} fields`;
  const columns = expected === 1 ? "1 column" : `${expected} columns`;
  const why =
    fields.length > expected
      ? "a field that holds the separator needs quotes around it"
      : "a line end within a field needs quotes around the field";
  return new PerigeeError(
    "input_unreadable",
    `${path}: line ${line} has ${count}, and the header has ${columns}; ${why}`,
  );
}

/** CR where the beginning of the file has some, outside quotes, and no LF: as spreadsheets of the Macintosh wrote it. */
function lineEndOf(head: string): CsvFormat["lineEnd"] {
  const unquoted = head.replace(/"[^"]*"/g, "");
  return unquoted.includes("\r") && !unquoted.includes("\n") ? "\r" : "\n";
}

/** Whichever the first line has most of, outside quotes. */
function delimiterOf(head: string): string {
  const line = /^[^\r\n]*/.exec(head.replace(/"[^"]*"/g, ""))?.[0] ?? "";
  const counts = DELIMITERS.map((sign) => [line.split(sign).length, sign] as const);
  return counts.reduce((most, one) => (one[0] > most[0] ? one : most))[1];
}
