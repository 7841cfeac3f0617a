/**
 * The request lines of a table in a file: line n is the n-th row that is asked.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemDisk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { lineEnds } from "../../jsonl/lines.ts";
import { writeWhole } from "../../tables/whole_file.ts";
import { type AskedTable, askedTable, type TableArguments } from "./table_arguments.ts";
import type { TableDisk } from "./table_disk.ts";

/** Writes them, so that the file is whole or absent. Returns how many there are. */
export async function writeRequests(
  disk: TableDisk,
  { table, requests, choice }: AskedTable,
  path: string,
): Promise<number> {
  return writeWhole(disk, path, async (append) => {
    let lines = 0;
    for await (const bytes of requests.lines(choice)) {
      await append(bytes);
      lines += lineEnds(bytes);
    }
    if (lines === 0) throw new PerigeeError("input_unreadable", `${table.name} has no rows below its header`);
    return lines;
  });
}

/** Calls `work` with the input of a command that sends nothing: the input itself, or request lines of a table, removed afterwards. */
export async function withRequests<T>(
  input: string,
  given: TableArguments,
  work: (path: string, asked: AskedTable | undefined) => Promise<T>,
): Promise<T> {
  const asked = await askedTable(input, given);
  if (asked === undefined) return work(input, undefined);
  for (const warning of asked.warnings) process.stderr.write(`${warning}\n`);
  const folder = await mkdtemp(join(tmpdir(), "perigee-rows-"));
  try {
    const path = join(folder, "requests.jsonl");
    await writeRequests(systemDisk, asked, path);
    return await work(path, asked);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
