/**
 * Where an engine keeps its work: the store in its data folder, the files, and the space that writes wait for.
 */
import type { Clock } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import type { OpenAnswerCache } from "../../store/answers/answer_cache.ts";
import type { Store } from "../../store/store.ts";
import type { MediaPlaces } from "../media/media_places.ts";
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
  /** Where the files are that items name. */
  readonly media: MediaPlaces;
}

/** What a reader of runs needs of it; it may be in another process. */
export interface RunFiles extends Pick<EngineStorage, "disk" | "dataDir"> {
  readonly store: Pick<Store, "journal">;
}
