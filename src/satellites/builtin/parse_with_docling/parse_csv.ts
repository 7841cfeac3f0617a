/**
 * Comma-separated values to a Markdown table or JSON. The only import of csv-parse. Runs in the process that parses.
 *
 * The first row is the head. Commas, semicolons, tabs and bars separate: whichever the first line has most of.
 * Limits: 1,000 columns, 1 MiB a row.
 */

import { tableRow } from "./parse_table.ts";
import { type DocumentFormat, type ParsedDocument, ParseError } from "./parsed_document.ts";

const COLUMNS_MAX = 1_000;
const ROW_LENGTH_MAX = 1024 * 1024;

/** Throws `ParseError` of code `invalid_document`. */
export async function parseCsv(text: string, format: DocumentFormat): Promise<ParsedDocument> {
  if (format === "text") return { ok: true, text, package: "perigee" };
  const { parse } = await import("csv-parse/sync");
  let rows: string[][];
  try {
    rows = parse(text, {
      bom: true,
      delimiter: delimiterOf(text),
      relax_column_count: true,
      relax_quotes: true,
      skip_empty_lines: true,
      max_record_size: ROW_LENGTH_MAX,
    });
  } catch (cause) {
    throw new ParseError("invalid_document", "the document is not readable CSV", { cause });
  }
  const [head = [], ...body] = rows;
  const width = Math.max(head.length, ...body.slice(0, 100).map((row) => row.length));
  if (width > COLUMNS_MAX)
    throw new ParseError("too_complex", `the table has more than ${COLUMNS_MAX} columns`);
  const columns = columnsOf(head);
  const parsed = format === "json" ? asJson(columns, body) : asTable(columns, body);
  return { ok: true, text: parsed, package: "csv-parse" };
}

function asTable(columns: readonly string[], rows: readonly string[][]): string {
  if (columns.length === 0) return "";
  const lines = [tableRow(columns), tableRow(columns.map(() => "---"))];
  for (const row of rows) lines.push(tableRow(columns.map((_, index) => row[index] ?? "")));
  return lines.join("\n");
}

/** As entries, so that a column may be called `__proto__`. */
function asJson(columns: readonly string[], rows: readonly string[][]): string {
  const objects = rows.map((row) =>
    Object.fromEntries(columns.map((name, index) => [name, row[index] ?? ""])),
  );
  return JSON.stringify({ kind: "csv", columns, rows: objects });
}

/** Names without their blanks; those that are missing or there already get the number of their column. */
function columnsOf(head: readonly string[]): string[] {
  const names = new Set<string>();
  for (const [index, given] of head.entries()) {
    const name = given.trim();
    names.add(name === "" || names.has(name) ? `${name}${name === "" ? "" : "_"}${index + 1}` : name);
  }
  return [...names];
}

function delimiterOf(text: string): string {
  const line = /^[^\r\n]*/.exec(text)?.[0] ?? "";
  const counts = [",", ";", "\t", "|"].map((sign) => [line.split(sign).length, sign] as const);
  return counts.reduce((most, one) => (one[0] > most[0] ? one : most))[1];
}
