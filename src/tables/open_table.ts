/**
 * Opens a table by the end of its name; the module of its format is loaded then.
 */
import { PerigeeError } from "../errors.ts";
import { type Table, type TableOptions, tableFormat } from "./table.ts";

/** Reads the columns. Throws `usage` for a name of no known format, `input_unreadable`, `unsupported_encoding`. */
export async function openTable(path: string, options: TableOptions = {}): Promise<Table> {
  const format = tableFormat(path);
  if (format === undefined)
    throw new PerigeeError(
      "usage",
      `${path} is not a table by its name: expected a name that ends in .csv, .tsv, .jsonl or .parquet`,
    );
  if (format === "parquet") return (await import("./parquet_table.ts")).openParquet(path);
  if (format === "jsonl") return (await import("./jsonl_table.ts")).openJsonl(path);
  return (await import("./csv_table.ts")).openCsv(path, format, options);
}
