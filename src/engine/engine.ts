/**
 * The engine: builds what runs share (store, threads, lanes, dispatcher), and is the face that callers see.
 *
 *   opening (data folder locked, limits of the last minute restored) -> open -> closed
 *   open -> failed      the store or an output failed: every run is told, the process should be started again
 */
import { resolve } from "node:path";
import { type Clock, systemClock } from "../clock.ts";
import { type Disk, makeFolder, systemDisk } from "../disk.ts";
import { createDispatcher } from "../dispatch/dispatcher.ts";
import { RETRY_POLICY } from "../dispatch/retry.ts";
import type { Transport } from "../dispatch/transport.ts";
import { createUndiciTransport } from "../dispatch/undici.ts";
import { PerigeeError } from "../errors.ts";
import { modelFault } from "../jsonl/layout.ts";
import { LINE_BYTES_MAX } from "../jsonl/read.ts";
import { DEPTH_MAX, KEY_BYTES_MAX } from "../jsonl/record.ts";
import { PriceBook } from "../price/price_book.ts";
import type { Quote } from "../price/quote.ts";
import { createThreadMeasurer, type Measurer } from "../shard/pool.ts";
import { openSqliteStore, type SqliteStore } from "../store/sqlite.ts";
import type { Store, StoredTask } from "../store/store.ts";
import type { InlineItem } from "../work/item.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import type { Task, TaskObject } from "../work/task.ts";
import { Arrivals } from "./arrivals.ts";
import { Backlog } from "./backlog.ts";
import { type ConfigOptions, checkOptions, type EngineConfig, resolveConfig } from "./config.ts";
import { Forgotten } from "./forgotten.ts";
import type { Source } from "./input.ts";
import type { ItemCall } from "./item_call.ts";
import { type LaneStatus, laneStatus } from "./lane_status.ts";
import { Lanes } from "./lanes.ts";
import type { EngineObserver } from "./observer.ts";
import type { EngineParts } from "./parts.ts";
import { checkProgressOptions } from "./progress_feed.ts";
import { type QuoteOptions, quoteSource } from "./quote.ts";
import { Recorder } from "./recorder.ts";
import { Room } from "./room.ts";
import { Run } from "./run.ts";
import { checkWeight, type RunOptions } from "./run_open.ts";
import { Sender } from "./sender.ts";
import { Submissions, type SubmitOptions } from "./submissions.ts";
import { Wires } from "./wires.ts";

/** Tasks read at a time when the engine starts. */
const TASKS_PAGE = 100;

/** Options of `createEngine`. */
export interface EngineOptions extends ConfigOptions {
  /** Where state is kept; one engine at a time. */
  readonly dataDir: string;
  /** Variables for keys, base URLs and limits. Default `process.env`; `{}` to read none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Seams, for tests and other homes than a machine of one's own. */
  readonly clock?: Clock;
  readonly transport?: Transport;
  readonly disk?: Disk;
  readonly store?: Store;
  readonly measurer?: Measurer;
  /** Told what the engine does. */
  readonly observer?: EngineObserver;
}

/** Runs work; every method may be called at any time until `close`. */
export interface Engine {
  /**
   * Answers every item of a source. Iterate it for the output lines, or wait for `finished`. The same source, output
   * or id again continues where it was.
   */
  run(source: Source, options?: RunOptions): Run;
  /**
   * Takes a list (interface 2.1). Resolves when all items are stored durably and those without sla are final: the
   * task then holds their outcome. When the provider's account stops them, it resolves where a run would end as
   * `paused`, and they go on in the background. Throws `usage` for an empty list, an item that is none, or more than 64 different
   * slas. Aborting rejects with the signal's reason; a task that is stored by then goes on all the same.
   */
  submit(items: readonly InlineItem[], options?: SubmitOptions): Promise<Task>;
  /** A task by its id; throws `not_found`. */
  task(id: string): Promise<Task>;
  /** An object by its id; throws `not_found`. */
  object(id: string): Promise<TaskObject>;
  /**
   * Removes what the data folder holds of a task: of a run (`summary.task_id`), which begins anew when it is called
   * again, or of a submitted list. An output that the caller named stays. Throws `not_found`, and `conflict` while the
   * task is at work.
   */
  forget(taskId: string): Promise<void>;
  /** Counts and prices a source without sending anything. */
  quote(source: Source, options?: QuoteOptions): Promise<Quote>;
  /** How each lane that was ever used stands; cheap enough for once a second. */
  lanes(): readonly LaneStatus[];
  /** Stops runs as `stop()` does, waits for what is in flight (at most 30 s), and frees everything. */
  close(): Promise<void>;
}

/** Opens the data folder and starts. Throws `invalid_config`, `data_dir_in_use`, `data_dir_newer`, `store_damaged`. */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  return (await openEngine(options)).engine;
}

/** An engine, and what its runs share, for rooms that build on it. */
export interface OpenedEngine {
  readonly engine: Engine;
  readonly parts: EngineParts;
}

/** How an engine shares its thread with the room that opens it. */
export interface EnginePace {
  /** See `paced_calls.ts`. */
  readonly callsPerTurn?: () => number | undefined;
}

/** As `createEngine`. */
export async function openEngine(options: EngineOptions, pace: EnginePace = {}): Promise<OpenedEngine> {
  const { dataDir, env, clock, transport, disk, store, measurer, observer, ...config } = options;
  const resolved = resolveConfig(await checkOptions(config, "options"), env ?? process.env);
  if (store === undefined) await makeFolder(resolve(dataDir, "tasks"), 0o700);
  const counting = measurer ?? threads(resolved); // first: threads take as long to start as the store
  const opening = openStore(dataDir, store).catch((error: unknown) =>
    counting.close().then(() => Promise.reject(error)),
  );
  const connectionsMax = resolved.maxInFlight;
  const wire = transport ?? createUndiciTransport({ clock: clock ?? systemClock, connectionsMax }); // loads meanwhile
  const seams: Seams = {
    ...(await opening),
    dataDir,
    clock: clock ?? systemClock,
    disk: disk ?? systemDisk,
    measurer: counting,
    transport: wire,
    observer,
  };
  const engine = new LocalEngine(seams, resolved, pace);
  try {
    await engine.open();
    return { engine, parts: engine.parts };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

interface Seams {
  readonly dataDir: string;
  readonly clock: Clock;
  readonly disk: Disk;
  readonly measurer: Measurer;
  readonly transport: Transport;
  readonly store: Store;
  readonly space?: SqliteStore | undefined;
  readonly observer: EngineObserver | undefined;
}

async function openStore(dataDir: string, given: Store | undefined): Promise<Pick<Seams, "store" | "space">> {
  if (given !== undefined) return { store: given };
  const store = await openSqliteStore({ dataDir });
  return { store, space: store };
}

function threads(config: EngineConfig): Measurer {
  return createThreadMeasurer({
    providers: config.providers,
    lineBytesMax: LINE_BYTES_MAX,
    depthMax: DEPTH_MAX,
    keyBytesMax: KEY_BYTES_MAX,
    ...(config.threads === undefined ? {} : { threads: config.threads }),
  });
}

class LocalEngine implements Engine {
  readonly #seams: Seams;
  readonly #config: EngineConfig;
  /** What its runs share. */
  readonly parts: EngineParts;
  readonly #lanes: Lanes;
  readonly #submissions: Submissions;
  readonly #forgotten: Forgotten;
  readonly #runs = new Set<Run>();
  #hasRoom = true;
  #isClosed = false;
  readonly #stopListeners = new Set<() => void>();
  readonly #unreadCounts: EngineParts["unreadItems"][] = [];
  #failureListeners = new Set<(error: PerigeeError) => void>();

  constructor(seams: Seams, config: EngineConfig, { callsPerTurn }: EnginePace) {
    this.#seams = seams;
    this.#config = config;
    const { clock, store, observer } = seams;
    const backlog = new Backlog();
    const prices = new PriceBook(config.prices);
    const room = new Room({
      clock,
      waitMs: config.diskWaitMs,
      onRoom: (hasRoom) => this.#setRoom(hasRoom),
    });
    const recorder = new Recorder({
      store,
      clock,
      space: seams.space,
      room,
      lanes: () => this.#lanes.records(),
      observer,
      callsPerTurn,
      onFailure: (error) => this.#fail(error),
    });
    const sender = new Sender({
      clock,
      wires: new Wires(config.providers),
      prices,
      families: config.families,
      ambiguousMax: config.isAtMostOnce ? 0 : RETRY_POLICY.ambiguousMax,
      laneOf: (key) => this.#lanes.of(key),
      onFree: (lane) => this.#lanes.freed(lane),
      onChange: (run) => run.changed(),
      observer,
    });
    this.#lanes = new Lanes({
      clock,
      config,
      backlog,
      sender,
      measurer: seams.measurer,
      mayAdmit: () => this.#mayAdmit(),
      onAccountStop: () => {
        for (const listener of [...this.#stopListeners]) listener();
      },
    });
    sender.dispatcher = createDispatcher<ItemCall>({
      clock,
      transport: seams.transport,
      admission: sender,
      policy: { ...RETRY_POLICY, ambiguousMax: config.isAtMostOnce ? 0 : RETRY_POLICY.ambiguousMax },
      ...(config.attemptMsMax === undefined ? {} : { attemptMsMax: config.attemptMsMax }),
    });
    this.parts = this.#partsOf({ room, recorder, backlog, sender, prices });
    this.#forgotten = new Forgotten(this.parts);
    this.#submissions = new Submissions(this.parts, (source, options) => this.run(source, options));
  }

  /** Counts what the last minute sent, then continues what was submitted and is not done. */
  async open(): Promise<void> {
    await this.#lanes.restore(this.#seams.store);
    for await (const task of storedTasks(this.#seams.store)) {
      await this.#forgotten.resume(task);
      await this.#submissions.resume(task);
    }
    await this.#forgotten.sweep().catch(() => undefined); // at the next start, then
  }

  run(source: Source, options: RunOptions = {}): Run {
    this.#assertOpen();
    parseSlaMinutes(options.sla, "run");
    checkProgressOptions(options, "run");
    checkWeight(options, "run");
    const run = new Run(this.parts, source, options);
    this.#runs.add(run);
    const forget = (): void => {
      this.#runs.delete(run);
    };
    run.finished.then(forget, forget);
    return run;
  }

  submit(items: readonly InlineItem[], options: SubmitOptions = {}): Promise<Task> {
    this.#assertOpen();
    return this.#submissions.submit(items, options);
  }

  task(id: string): Promise<Task> {
    this.#assertOpen();
    return this.#submissions.task(id);
  }

  object(id: string): Promise<TaskObject> {
    this.#assertOpen();
    return this.#submissions.object(id);
  }

  forget(taskId: string): Promise<void> {
    this.#assertOpen();
    return this.#forget(taskId);
  }

  quote(source: Source, options: QuoteOptions = {}): Promise<Quote> {
    this.#assertOpen();
    return quoteSource(this.parts, this.#config, source, options);
  }

  lanes(): readonly LaneStatus[] {
    const nowMs = this.#seams.clock.nowMs();
    return Array.from(this.#lanes.all(), (lane) => laneStatus(lane, nowMs));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    const runs = [...this.#runs];
    for (const run of runs) run.stop("closed");
    await Promise.allSettled(runs.map((run) => run.finished));
    this.#isClosed = true;
    this.#lanes.close();
    await this.#seams.transport.close();
    await this.#seams.measurer.close();
    await this.#seams.store.close();
  }

  async #forget(taskId: string): Promise<void> {
    await this.#forgotten.forget(taskId, this.#submissions.isAtWork(taskId));
    this.#submissions.drop(taskId);
  }

  #partsOf(built: Pick<EngineParts, "room" | "recorder" | "backlog" | "sender" | "prices">): EngineParts {
    const { clock, disk, store, measurer, dataDir, observer } = this.#seams;
    const providers = new Set(this.#config.providers.map(({ name }) => name));
    return {
      ...built,
      arrivals: new Arrivals({ ...built, clock, lanes: this.#lanes }),
      clock,
      disk,
      store,
      measurer,
      dataDir,
      observer,
      rateCard: this.#config.rateCard,
      modelFault: (model) => modelFault(model, providers),
      atWork: new Set(),
      lineBytesMax: LINE_BYTES_MAX,
      maxOutputTokensCap: 4_096,
      drainMs: 30_000,
      pauseWaitMs: this.#config.pauseWaitMs,
      lanes: () => this.#lanes.all(),
      forecast: (work) => this.#lanes.forecast(work),
      unreadItems: (project, deadlineWallMs) =>
        this.#unreadCounts.reduce((items, count) => items + count(project, deadlineWallMs), 0),
      countUnread: (count) => this.#unreadCounts.push(count),
      expectedDoneMs: (work) => this.#lanes.expectedDoneMs(work),
      dropRun: (state) => this.#lanes.drop(state),
      accountStops: (state) => this.#lanes.accountStops(state),
      isStopped: (model) => this.#lanes.isStopped(model),
      isHeldByStop: (state) => this.#lanes.isHeldByStop(state),
      onAccountStop: (listener) => {
        this.#stopListeners.add(listener);
        return () => this.#stopListeners.delete(listener);
      },
      storageWait: () => (this.#hasRoom ? undefined : "a full disk"),
      onFailure: (listener) => {
        this.#failureListeners.add(listener);
        return () => this.#failureListeners.delete(listener);
      },
    };
  }

  #mayAdmit(): boolean {
    return this.#hasRoom && !this.#isClosed && this.parts.recorder.failure === undefined;
  }

  #setRoom(hasRoom: boolean): void {
    this.#hasRoom = hasRoom;
    if (hasRoom) for (const lane of this.#lanes.all()) lane.pump();
  }

  #fail(error: PerigeeError): void {
    for (const listener of [...this.#failureListeners]) listener(error);
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new PerigeeError("closed", "the engine is closed");
  }
}

async function* storedTasks(store: Store): AsyncGenerator<StoredTask> {
  let after: string | undefined;
  for (;;) {
    const page = await store.tasks({ limit: TASKS_PAGE, ...(after === undefined ? {} : { after }) });
    yield* page;
    after = page.at(-1)?.id;
    if (page.length < TASKS_PAGE) return;
  }
}
