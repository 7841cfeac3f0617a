/**
 * The request lines of a table in a file: line n is the n-th row that is asked.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemDisk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { type AskedTable, askedTable, type TableArguments } from "./table_arguments.ts";

/** Writes them beside `path`, then renames, so that the file is whole or absent. Returns how many there are. */
export async function writeRequests({ table, requests, choice }: AskedTable, path: string): Promise<number> {
  const part = `${path}.part`;
  await systemDisk.remove(part);
  const file = await systemDisk.open(part, "write");
  let [position, lines] = [0, 0];
  try {
    for await (const bytes of requests.lines(choice)) {
      await file.write(bytes, position);
      position += bytes.byteLength;
      for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) lines += 1;
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await systemDisk.rename(part, path);
  if (lines === 0) throw new PerigeeError("input_unreadable", `${table.name} has no rows below its header`);
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
    await writeRequests(asked, path);
    return await work(path, asked);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
