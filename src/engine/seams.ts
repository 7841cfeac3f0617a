/**
 * The seams of an engine: what it runs on, passed by its caller or opened here.
 */
import type { Clock } from "../clock.ts";
import type { Disk } from "../disk.ts";
import type { Transport } from "../dispatch/transport.ts";
import { LINE_BYTES_MAX } from "../jsonl/read.ts";
import { DEPTH_MAX, KEY_BYTES_MAX } from "../jsonl/record.ts";
import { createThreadMeasurer, type Measurer } from "../shard/pool.ts";
import type { LearntStore } from "../store/learnt.ts";
import { openSqliteStore, type SqliteStore } from "../store/sqlite.ts";
import type { Store } from "../store/store.ts";
import type { EngineConfig } from "./config.ts";
import type { EngineObserver } from "./observer.ts";
import type { EngineParts } from "./parts.ts";

/** What an engine receives or opens. */
export interface Seams {
  readonly dataDir: string;
  readonly clock: Clock;
  readonly disk: Disk;
  readonly measurer: Measurer;
  readonly transport: Transport;
  readonly store: Store;
  readonly learnt: LearntStore;
  readonly space?: SqliteStore | undefined;
  readonly observer: EngineObserver | undefined;
  readonly notice: EngineParts["notice"];
}

/** The store of a data folder, if none is passed. */
export async function openStore(
  dataDir: string,
  given: Store | undefined,
): Promise<Pick<Seams, "store" | "space">> {
  if (given !== undefined) return { store: given };
  const store = await openSqliteStore({ dataDir });
  return { store, space: store };
}

/** The threads that measure. */
export function threads(config: EngineConfig): Measurer {
  return createThreadMeasurer({
    providers: config.providers,
    lineBytesMax: LINE_BYTES_MAX,
    depthMax: DEPTH_MAX,
    keyBytesMax: KEY_BYTES_MAX,
    ...(config.threads === undefined ? {} : { threads: config.threads }),
  });
}
