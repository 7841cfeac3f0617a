/**
 * Options of tables: their flags and texts, and whether a command has one of them.
 */
import { PerigeeError } from "../../errors.ts";
import { items, seedNumber } from "../values.ts";

/** Adds an option to a command; `read` reads its value. */
type AddOption = (flags: string, text: string, read?: (text: string) => unknown) => unknown;

/** Names of options that only tables have, as commander has them, and as users write them. */
export const TABLE_OPTIONS = {
  system: "--system",
  key: "--key",
  prefix: "--prefix",
  delimiter: "--delimiter",
  limit: "--limit",
  sample: "--sample",
  seed: "--seed",
  dryRun: "--dry-run",
} as const;

/** Whether a command is about a table. Throws `usage` for an option of tables without `--prompt`. */
export function isTableCall(
  given: { readonly [name in keyof typeof TABLE_OPTIONS]?: unknown } & { readonly prompt?: unknown },
): boolean {
  if (given.prompt !== undefined) return true;
  for (const name of Object.keys(TABLE_OPTIONS) as (keyof typeof TABLE_OPTIONS)[])
    if (given[name] !== undefined)
      throw new PerigeeError(
        "usage",
        `${TABLE_OPTIONS[name]} is for tables: add --prompt with the file of the prompt`,
      );
  return false;
}

/** Adds those of a forecast: `run` has its own `--schema`. */
export function addForecastTableOptions(add: AddOption): void {
  addTableOptions(add);
  add(
    "--schema <file>",
    "answers must fit this JSON Schema; with --prompt, each of its properties is a column",
  );
}

/** Adds those that say what a table is asked. */
function addTableOptions(add: AddOption): void {
  add(
    "--prompt <file>",
    "the input is a table (.csv, .tsv, .jsonl, .parquet): ask this of each row, with {{column}} for its cells",
  );
  add("--system <file>", "with --prompt: the system instruction, also with {{column}}");
  add(
    "--key <column>",
    "with --prompt: the column whose cells are the keys (default: the number of the row)",
  );
  add(
    "--delimiter <character>",
    "with --prompt: what separates the fields of a CSV file (default: found in its header)",
    delimiter,
  );
  add("--limit <rows>", "with --prompt: ask only the first rows", items);
  add("--sample <rows>", "with --prompt: ask only so many rows, drawn by chance", items);
  add("--seed <number>", "with --sample: draw other rows (default: 0)", seedNumber);
}

/** Adds all that a run has. */
export function addRunTableOptions(add: AddOption): void {
  addTableOptions(add);
  add("--prefix <text>", "with --prompt: put before the names of the columns of the answers");
  add("--dry-run", "with --prompt: check everything, print the first requests, and send nothing");
}

/** One character, or `tab`. */
function delimiter(text: string): string {
  const character = text === "tab" || text === "\\t" ? "\t" : text;
  if (/^[^"\r\n]$/.test(character)) return character;
  throw new PerigeeError("usage", 'It must be one character other than a quote, or "tab".');
}
