/**
 * Templates of prompts: `{{column}}` is replaced by the text of a cell. No code, no conditions, and what is put in is not read again.
 *
 *   placeholder = "{{" blanks name blanks "}}"       name: a column's, of any characters but "}}"
 *   escape      = "\{{"                               stands for "{{"
 *
 * Anything else is text, also "}}" and single braces.
 */
import { PerigeeError } from "../errors.ts";
import { nearest } from "../nearest.ts";

const OPEN = "{{";
const CLOSE = "}}";
/** Names that a message lists at most. */
const LISTED_MAX = 12;
const SHOWN_CHARS_MAX = 64;

/** A template that was read. */
export interface ReadTemplate {
  /** The columns that it names, each once, in the order in which they first occur. */
  readonly columns: readonly string[];
  /** The text with the cells of a row; `textOf` is called for each placeholder with the index of its name in `columns`. */
  fill(textOf: (index: number) => string): string;
}

/** `name` is where the template is from, for messages. Throws `usage` naming the line. */
export function readTemplate(text: string, name: string): ReadTemplate {
  const columns: string[] = [];
  /** Texts, and numbers of columns between them. */
  const parts: (string | number)[] = [];
  let literal = "";
  let at = 0;
  for (let open = text.indexOf(OPEN); open >= 0; open = text.indexOf(OPEN, at)) {
    if (open > at && text[open - 1] === "\\") {
      literal += `${text.slice(at, open - 1)}${OPEN}`;
      at = open + OPEN.length;
      continue;
    }
    const close = text.indexOf(CLOSE, open);
    const column = close < 0 ? "" : text.slice(open + OPEN.length, close).trim();
    if (column === "" || column.includes("\n")) throw notAPlaceholder(text, open, name);
    if (!columns.includes(column)) columns.push(column);
    parts.push(literal + text.slice(at, open), columns.indexOf(column));
    literal = "";
    at = close + CLOSE.length;
  }
  const last = literal + text.slice(at);
  return {
    columns,
    fill(textOf) {
      let filled = "";
      for (const part of parts) filled += typeof part === "string" ? part : textOf(part);
      return filled + last;
    },
  };
}

function notAPlaceholder(text: string, open: number, name: string): PerigeeError {
  const line = text.slice(0, open).split("\n").length;
  return new PerigeeError(
    "usage",
    `${name}: line ${line} has {{ without a column and }} after it on the same line; for the characters {{ themselves, write \\{{`,
  );
}

/** The places of a template's columns in a table. Throws `usage` for a column that the table does not have. */
export function columnIndexes(
  { columns }: ReadTemplate,
  table: { readonly name: string; readonly columns: readonly { readonly name: string }[] },
  name: string,
): readonly number[] {
  const names = table.columns.map((column) => column.name);
  return columns.map((column) => {
    const index = names.indexOf(column);
    if (index >= 0) return index;
    throw new PerigeeError("usage", `${name}: ${missing(column, table.name, names)}`);
  });
}

/** That a table does not have a column, with the one that was meant, or those that there are. */
export function missing(column: string, table: string, names: readonly string[]): string {
  const near = names.find((each) => each.toLowerCase() === column.toLowerCase()) ?? nearest(column, names);
  const more = names.length > LISTED_MAX ? ` and ${names.length - LISTED_MAX} more` : "";
  const listed = names.slice(0, LISTED_MAX).map(shown).join(", ");
  const hint = near === undefined ? `its columns are ${listed}${more}` : `did you mean ${shown(near)}?`;
  return `${shown(column)} is not a column of ${table}; ${hint}`;
}

function shown(name: string): string {
  return JSON.stringify(name.length <= SHOWN_CHARS_MAX ? name : `${name.slice(0, SHOWN_CHARS_MAX)}...`);
}
