/**
 * Where the files of a partition are: inputs, outputs, uploads. Every process that may own the partition has them, behind the fence of its store.
 *
 *   open -> swept once a day (objects that nothing names, of owners who died) -> closed
 */
import type { Clock, Timer } from "../clock.ts";
import type { Disk } from "../disk.ts";
import type { Objects } from "../store/objects/objects.ts";
import { openObjects } from "../store/objects/open_objects.ts";
import { openPartitionDisk } from "../store/objects/partition_disk.ts";
import { type SweepOptions, sweepObjects } from "../store/objects/sweep.ts";
import type { FilesStore } from "../store/threaded_store.ts";

/** What a service keeps its files with. */
export interface PartitionFiles {
  /** A name, not a folder of this machine, and the same for every owner. */
  readonly dataDir: string;
  readonly disk: Disk;
  /** Where its large files are, and the inputs of shards. */
  readonly objects: Objects;
  /** After the service was closed. */
  close(): Promise<void>;
}

/** Which partition. */
export interface PartitionFilesOptions {
  /** Of the partition, open. */
  readonly store: FilesStore;
  readonly part: number;
  /** Where large files are: `s3://bucket/prefix`, `file:///shared/folder`, or a database. */
  readonly objects: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
}

/** The first time after this, so that who just took a partition opens it first. */
const FIRST_SWEEP_MS = 600_000;
const SWEEP_MS = 86_400_000;

/** Throws `usage` for an address of another kind, `store_failed` when the place cannot be reached. */
export async function openPartitionFiles(options: PartitionFilesOptions): Promise<PartitionFiles> {
  const { store, part, objects: url, env, clock } = options;
  const objects = await openObjects({ url, env, clock });
  try {
    const dataDir = partitionRoot(part);
    const disk = await openPartitionDisk({ store, objects, root: dataDir, clock });
    const stopSweeps = sweepDaily(clock, { files: store.files, objects, part });
    return {
      ...{ dataDir, disk, objects },
      close: async () => {
        stopSweeps();
        await disk.close();
        await objects.close();
      },
    };
  } catch (error) {
    await objects.close();
    throw error;
  }
}

/** What fails is tried again the next day: objects that nothing names take space, and nothing else. Returns how to stop. */
function sweepDaily(clock: Clock, options: SweepOptions): () => void {
  const closing = new AbortController();
  let timer: Timer | undefined;
  const later = (delayMs: number): void => {
    timer = clock.timer(delayMs, () => {
      void sweepObjects({ ...options, signal: closing.signal })
        .catch(() => undefined)
        .finally(() => {
          if (!closing.signal.aborted) later(SWEEP_MS);
        });
    });
  };
  later(FIRST_SWEEP_MS);
  return () => {
    closing.abort();
    timer?.cancel();
  };
}

/** Below which a partition's files are, for its owners and its readers. */
export function partitionRoot(part: number): string {
  return `/perigee/${part}`;
}
