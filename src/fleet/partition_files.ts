/**
 * The files of a partition: inputs, outputs, uploads. Every owner of the partition has them; the fence of its store protects them from former owners.
 *
 *   open -> swept (10 minutes later, then once a day: objects that no segment names, of owners that died) -> closed
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
  /** Call it after the service was closed. */
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

/** Not at once, so that a worker that has just taken a partition opens it first. */
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

/** A sweep that fails is tried again the next day: orphans only take space. Returns a function that stops the sweeps. */
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

/** The root of a partition's files, the same for its owners and its readers. */
export function partitionRoot(part: number): string {
  return `/perigee/${part}`;
}
