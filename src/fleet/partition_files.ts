/**
 * Where the files of a partition are: inputs, outputs, uploads. Every process that may own the partition must see them.
 *
 * `file:///shared/folder`: a folder for each partition, on a file system that all machines share.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Disk, systemDisk } from "../disk.ts";
import { PerigeeError } from "../errors.ts";

/** What a service keeps its files with. */
export interface PartitionFiles {
  readonly dataDir: string;
  readonly disk: Disk;
  /** After the service was closed. */
  close(): Promise<void>;
}

/** Throws `usage` for an address of another kind. */
export function checkObjects(objects: string | undefined): void {
  if (objects !== undefined && URL.canParse(objects) && new URL(objects).protocol === "file:") return;
  const found = objects === undefined ? "none" : JSON.stringify(objects);
  throw new PerigeeError(
    "usage",
    `a fleet needs a place for files that all its workers reach, such as --objects file:///shared/folder, got ${found}`,
  );
}

/** Which partition. */
export interface PartitionFilesOptions {
  readonly objects: string;
  readonly part: number;
}

export async function openPartitionFiles({ objects, part }: PartitionFilesOptions): Promise<PartitionFiles> {
  const dataDir = join(fileURLToPath(objects), `part-${part}`);
  return { dataDir, disk: systemDisk, close: async () => undefined };
}
