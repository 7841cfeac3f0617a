/**
 * The request lines of a table in a file: line n is the n-th row that is asked.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DiskFile, systemDisk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { type AskedTable, askedTable, type TableArguments } from "./table_arguments.ts";
import type { TableDisk } from "./table_disk.ts";

/** Writes them beside `path`, then renames, so that the file is whole or absent. Returns how many there are. */
export async function writeRequests(
  disk: TableDisk,
  { table, requests, choice }: AskedTable,
  path: string,
): Promise<number> {
  const part = `${path}.part`;
  await disk.remove(part);
  const file = await disk.open(part, "write");
  let lines = 0;
  try {
    lines = await writeLines(file, requests.lines(choice));
    if (lines === 0) throw new PerigeeError("input_unreadable", `${table.name} has no rows below its header`);
    await file.sync();
  } catch (error) {
    await file.close();
    await disk.remove(part).catch(() => undefined); // the cause is reported
    throw error;
  }
  await file.close();
  await disk.rename(part, path);
  return lines;
}

async function writeLines(file: Pick<DiskFile, "write">, blocks: AsyncIterable<Uint8Array>): Promise<number> {
  let [position, lines] = [0, 0];
  for await (const bytes of blocks) {
    await file.write(bytes, position);
    position += bytes.byteLength;
    for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) lines += 1;
  }
  return lines;
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
