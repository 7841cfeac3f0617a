/**
 * The input as named on the command line: checked before anything is made for it, so that a typing error leaves
 * no files.
 */
import { stat } from "node:fs/promises";
import { PerigeeError } from "../errors.ts";

/** Throws `output_unwritable` if the output is the input, also under another name. */
export async function refuseSameFile(input: string, out: string): Promise<void> {
  if (input === "-") return;
  const [read, written] = await Promise.all([stat(input), stat(out).catch(() => undefined)]);
  if (written === undefined || read.ino !== written.ino || read.dev !== written.dev) return;
  throw new PerigeeError(
    "output_unwritable",
    `--out ${out} is the input ${input === out ? "itself" : input}: name another file for the answers`,
  );
}

/** Throws `input_unreadable` unless the path may be read from: a file, a pipe, or `-`. */
export async function requireFile(path: string): Promise<void> {
  if (path === "-") return;
  const found = await stat(path).catch((cause: unknown) => {
    throw new PerigeeError("input_unreadable", `${path}: no such file`, { cause });
  });
  if (found.isDirectory())
    throw new PerigeeError("input_unreadable", `${path} is a folder, expected a file of requests`);
}
