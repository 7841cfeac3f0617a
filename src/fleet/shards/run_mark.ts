/**
 * The mark of a run over the fleet, in a file of its client: which run it is, and how many of its answers are in the output. The file is replaced
 * as a whole, so that the same command continues after a kill.
 *
 *   begun (the run has an id) -> made (its shards exist) -> shard after shard appended -> over (with its summary)
 */

import type { Disk } from "../../disk.ts";
import type { Summary } from "../../engine/items/progress.ts";
import { PerigeeError } from "../../errors.ts";

const VERSION = 1;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface RunMark {
  readonly id: string;
  /** Checksum of the input. */
  readonly input: string;
  /** As JSON: a call with other options is refused. */
  readonly options: string;
  readonly lines: number;
  /** How many shards, from the first on, have their answers in the output, and the bytes of the output with them. */
  readonly appended: number;
  readonly outputBytes: number;
  /** Only of a run that is over. */
  readonly summary?: Summary;
}

/** Undefined without a file. Throws `file_damaged` for one that is not a mark of this version. */
export async function readMark(disk: Disk, path: string): Promise<RunMark | undefined> {
  if ((await disk.stat(path)) === undefined) return undefined;
  const file = await disk.open(path, "read");
  try {
    const bytes = new Uint8Array(await file.sizeBytes());
    await file.read(bytes, 0);
    const { version, ...mark } = JSON.parse(Buffer.from(bytes).toString()) as RunMark & { version: number };
    if (version !== VERSION) throw new Error(`version ${version}`);
    if (!UUID.test(mark.id)) throw new Error("its id is not one of a run"); // names of files are made of it
    return mark;
  } catch (cause) {
    throw new PerigeeError(
      "file_damaged",
      `${path} is not the state of a run over the fleet: remove it to begin anew`,
      {
        cause,
      },
    );
  } finally {
    await file.close();
  }
}

/** Survives a power cut when it resolves. */
export async function writeMark(disk: Disk, path: string, mark: RunMark): Promise<void> {
  const bytes = Buffer.from(`${JSON.stringify({ version: VERSION, ...mark })}\n`);
  const file = await disk.open(`${path}.new`, "write");
  try {
    await file.truncate(0);
    await file.write(bytes, 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(`${path}.new`, path);
}
