/**
 * The place of a file that is written: free, or a regular file. A whole file is renamed there, which would replace a device such as
 * `/dev/null`, and answers are appended and read again, which a pipe does not allow.
 */
import type { Disk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";

/** Of what is there: 0 bytes of a place that is free. Throws `output_unwritable` for a folder, a pipe or a device. */
export async function writtenFile(disk: Disk, path: string): Promise<{ readonly sizeBytes: number }> {
  const found = await disk.stat(path);
  if (found === undefined || found.isSeekable) return { sizeBytes: found?.sizeBytes ?? 0 };
  throw new PerigeeError(
    "output_unwritable",
    `${path} is a folder, a pipe or a device; name a file, which may not exist yet`,
    { details: { path } },
  );
}
