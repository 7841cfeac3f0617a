/**
 * The seams of an engine: what it runs on, passed by its caller or opened here.
 */
import type { Clock } from "../clock.ts";
import type { Disk } from "../disk.ts";
import { type CalledFunction, FunctionTransport } from "../dispatch/function_transport.ts";
import type { Transport } from "../dispatch/transport.ts";
import { LINE_BYTES_MAX } from "../jsonl/read.ts";
import { DEPTH_MAX, KEY_BYTES_MAX } from "../jsonl/record.ts";
import type { LimitPool } from "../limits/shared/limit_pool.ts";
import type { CapPool } from "../price/shared/cap_pool.ts";
import { calledWithBody, embedOrigin } from "../providers/endpoints/function_embeddings.ts";
import { functionOrigin } from "../providers/function.ts";
import { ownCodec } from "../providers/own_codec.ts";
import type { Provider } from "../providers/provider.ts";
import { OwnCodecMeasurer } from "../shard/own_codecs.ts";
import { createThreadMeasurer, type Measurer } from "../shard/pool.ts";
import { SchemaMeasurer } from "../shard/schemas/item_schemas.ts";
import { type OpenAnswerCache, openAnswerCache } from "../store/answers/answer_cache.ts";
import { sharedCaches } from "../store/answers/shared_caches.ts";
import type { LearntStore } from "../store/learnt.ts";
import { openSqliteStore } from "../store/sqlite.ts";
import type { Store } from "../store/store.ts";
import type { SpacedStore } from "../store/threaded_store.ts";
import type { EngineConfig } from "./config/config.ts";
import type { EngineObserver } from "./journal/observer.ts";
import { LeasedTransport } from "./leased_transport.ts";
import type { MediaPlaces } from "./media/media_places.ts";

/** What an engine receives or opens. */
export interface Seams {
  readonly dataDir: string;
  readonly clock: Clock;
  readonly disk: Disk;
  readonly measurer: Measurer;
  readonly transport: Transport;
  /** Those that the caller brought, by provider. */
  readonly codecs: ReadonlyMap<string, Provider>;
  readonly store: Store;
  readonly openAnswers: OpenAnswerCache;
  readonly learnt: LearntStore;
  readonly media: MediaPlaces;
  readonly space?: SpacedStore | undefined;
  /** What the transport sends through where the store has a lease. */
  readonly leased?: LeasedTransport | undefined;
  readonly limitPool: LimitPool | undefined;
  readonly capPool: CapPool | undefined;
  readonly observer: EngineObserver | undefined;
  readonly notice: (message: string) => void;
}

/** The store of a data folder, by default. */
export async function openStore(
  dataDir: string,
  given: Store | undefined,
): Promise<Pick<Seams, "store" | "space">> {
  if (given !== undefined) return { store: given };
  const store = await openSqliteStore({ dataDir });
  return { store, space: store };
}

/** What the caller may leave out. */
type GivenSeams = Omit<Seams, "codecs" | "openAnswers"> & {
  readonly openAnswers: OpenAnswerCache | undefined;
};

/** The seams with the caller's functions and codecs in their places. */
export function withOwn(seams: GivenSeams, { providers, own }: EngineConfig): Seams {
  const codecs = new Map<string, Provider>();
  const functions = new Map<string, CalledFunction>();
  for (const settings of providers) {
    const found = own.get(settings.name);
    if (typeof found === "function") {
      functions.set(functionOrigin(settings.name), found);
      if (found.embed !== undefined) functions.set(embedOrigin(settings.name), calledWithBody(found.embed));
    } else if (found !== undefined) codecs.set(settings.name, ownCodec(found, settings));
  }
  const { measurer, clock, store } = seams;
  const isHeld = store.isHeld?.bind(store);
  const leased = isHeld === undefined ? undefined : new LeasedTransport(seams.transport, clock, isHeld);
  const transport = leased ?? seams.transport;
  return {
    ...seams,
    ...{ codecs, leased },
    openAnswers: sharedCaches(seams.openAnswers ?? openAnswerCache),
    transport: functions.size === 0 ? transport : new FunctionTransport(transport, clock, functions),
    measurer: new SchemaMeasurer(codecs.size === 0 ? measurer : new OwnCodecMeasurer(measurer, codecs)),
  };
}

/** Where an engine's threads are from. */
export interface ThreadsPlace {
  /** Returns what the engine measures with and closes. `start` starts threads for its configuration. Default: threads of its own. */
  readonly measurerFrom?: (start: () => Measurer) => Measurer;
}

/** The threads that measure. */
export function threads(config: EngineConfig, { measurerFrom = (start) => start() }: ThreadsPlace): Measurer {
  return measurerFrom(() =>
    createThreadMeasurer({
      providers: config.providers,
      lineBytesMax: LINE_BYTES_MAX,
      depthMax: DEPTH_MAX,
      keyBytesMax: KEY_BYTES_MAX,
      findsPrefixes: config.prefixes.isEnabled,
      findsTurns: config.prefixes.findsTurns,
      ...(config.threads === undefined ? {} : { threads: config.threads }),
    }),
  );
}
