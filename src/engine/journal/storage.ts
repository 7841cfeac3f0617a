/**
 * Where an engine keeps its work: the store in its data folder, the files, and the space that writes wait for.
 */
import type { Clock } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import type { OpenAnswerCache } from "../../store/answers/answer_cache.ts";
import type { Store } from "../../store/store.ts";
import type { DiskSpace } from "./disk_space.ts";

/** One for an engine. */
export interface EngineStorage {
  readonly clock: Clock;
  readonly disk: Disk;
  readonly store: Store;
  /** All writes except those of the committer wait here for a full disk. */
  readonly room: DiskSpace;
  readonly dataDir: string;
  /** For runs that have a cache of answers. */
  readonly openAnswers: OpenAnswerCache;
  /** Notifies the operator of what was found and no call throws. */
  readonly notice: (message: string) => void;
  readonly media: MediaPlaces;
}

/** Where the files are that items name in place of their content. */
export interface MediaPlaces {
  /** Whether files of this machine may be read: never for work of others. Default false. */
  readonly readsLocalFiles?: boolean | undefined;
  /** What users have stored, once that is open. */
  stored?: StoredFiles | undefined;
}

/** Port: files that users have stored, each for its project. Rejects with `not_found` for those of other projects. */
export interface StoredFiles {
  file(project: string, id: string): Promise<{ readonly bytes: number }>;
  read(project: string, id: string): AsyncIterable<Uint8Array>;
}

/** What a reader of runs needs of it; it may be in another process. */
export interface RunFiles extends Pick<EngineStorage, "disk" | "dataDir"> {
  readonly store: Pick<Store, "journal">;
}
