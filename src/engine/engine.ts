/**
 * The engine: builds what runs share (store, threads, lanes, dispatcher), and is the face that callers see.
 *
 *   opening (data folder locked, limits of the last minute restored) -> open -> closed
 *   open -> failed      the store or an output failed, except for space on an output: every run is notified, the process should be started again
 */
import { resolve } from "node:path";
import { systemClock } from "../clock.ts";
import { setDebug } from "../debug.ts";
import { makeFolder, systemDisk } from "../disk.ts";
import { createDispatcher } from "../dispatch/dispatcher.ts";
import { proxiesFrom } from "../dispatch/proxy.ts";
import { RETRY_POLICY } from "../dispatch/retry.ts";
import { createUndiciTransport, loadUndici } from "../dispatch/undici.ts";
import { PerigeeError } from "../errors.ts";
import { loadBundledPrices } from "../price/base.ts";
import { PriceBook } from "../price/price_book.ts";
import { LearntStore } from "../store/learnt.ts";
import type { Item } from "../work/item.ts";
import type { Task, TaskObject } from "../work/task.ts";
import { checkId, checkItems, checkSource } from "./call_arguments.ts";
import { checkCallOptions } from "./call_options.ts";
import {
  QUOTE_OPTIONS,
  RETRY_OPTIONS,
  RETRY_TASK_OPTIONS,
  RUN_OPTIONS,
  SUBMIT_OPTIONS,
} from "./call_schemas.ts";
import { checkHedge, type EngineConfig, resolveConfig } from "./config/config.ts";
import { importModules } from "./config/own_providers.ts";
import type { Engine } from "./engine_calls.ts";
import { checkedOptions, type EngineOptions } from "./engine_options.ts";
import type { Source } from "./files/input.ts";
import { SharedCaps } from "./files/shared_caps.ts";
import { storedTasks } from "./files/stored_tasks.ts";
import { Backlog } from "./items/backlog.ts";
import { ClaimedBytes } from "./items/claimed_bytes.ts";
import { CostBounds } from "./items/cost_bounds.ts";
import { type Hold, type HoldReason, isEndUnknown, type RunHolds } from "./items/holds.ts";
import type { ItemCall } from "./items/item_call.ts";
import { ItemMoney } from "./items/item_money.ts";
import type { ItemOwner } from "./items/item_owner.ts";
import { ItemPatience } from "./items/patience.ts";
import { Recorder } from "./journal/recorder.ts";
import { Room } from "./journal/room.ts";
import { Arrivals } from "./lanes/arrivals.ts";
import { restoreLanes } from "./lanes/earlier_lanes.ts";
import { KeyTrials } from "./lanes/key_trials.ts";
import { type LaneStatus, laneStatus } from "./lanes/lane_status.ts";
import { Lanes } from "./lanes/lanes.ts";
import { allHolds, diskHold } from "./lanes/run_holds.ts";
import { Sender } from "./lanes/sender.ts";
import { Wires } from "./lanes/wires.ts";
import { learntFigures } from "./learnt/learnt_figures.ts";
import { Listeners } from "./listeners.ts";
import type { EngineParts } from "./parts.ts";
import { openPosted, type PostedOptions } from "./posted/open_posted.ts";
import type { PostedWork } from "./posted/posted_work.ts";
import { checkRetryFailed } from "./reopening/reopen.ts";
import { type QuoteOptions, quoteSource } from "./runs/quote.ts";
import { Run } from "./runs/run.ts";
import { checkRunOptions, type RunOptions } from "./runs/run_open.ts";
import { openStore, type Seams, threads, withOwn } from "./seams.ts";
import { Forgotten } from "./submissions/forgotten.ts";
import { type RetryOptions, type RetryTaskOptions, retryOptions } from "./submissions/retry.ts";
import { Submissions, type SubmitOptions } from "./submissions/submissions.ts";
import type { SubmittedTask } from "./submissions/submitted_task.ts";
import { traceOfRun } from "./trace.ts";

export type { Engine } from "./engine_calls.ts";
export type { EngineOptions } from "./engine_options.ts";

/** An engine, and what its runs share, for modules that build on it. */
export interface OpenedEngine {
  readonly engine: Engine;
  readonly parts: EngineParts;
  /** Opens what is posted; once. */
  openPosted(options: PostedOptions): PostedWork;
}

/** How an engine fits into what opens it. */
export interface EnginePlace {
  /** How it shares its thread; see `paced_calls.ts`. */
  readonly callsPerTurn?: () => number | undefined;
  /** How long work waits for a full disk where no option says it, in milliseconds. */
  readonly diskWaitMs?: number;
}

/** Opens the data folder and starts. Throws `invalid_config`, `data_dir_in_use`, `data_dir_newer`, `data_dir_older`, `store_damaged`. */
export async function openEngine(options: EngineOptions, place: EnginePlace = {}): Promise<OpenedEngine> {
  const checked = await checkedOptions(options);
  const { dataDir, stateDir, transport, store, measurer, observer, onNotice } = options;
  const env = options.env ?? process.env;
  const time = { clock: options.clock ?? systemClock, disk: options.disk ?? systemDisk };
  setDebug(env["PERIGEE_DEBUG"], time.clock);
  const diskWait = place.diskWaitMs === undefined ? {} : { diskWaitMs: place.diskWaitMs };
  const resolved = resolveConfig({ ...diskWait, ...checked }, env, await importModules(checked.providers));
  if (store === undefined) await makeFolder(resolve(dataDir, "tasks"), 0o700);
  const counting = measurer ?? threads(resolved); // first: threads take as long to start as the store
  const opening = openStore(dataDir, store).catch((error: unknown) =>
    counting.close().then(() => Promise.reject(error)),
  );
  const connections = { connectionsMax: resolved.maxInFlight, proxyOf: proxiesFrom(env) };
  const wiring =
    transport ?? loadUndici().then((parts) => createUndiciTransport({ ...time, ...connections }, parts));
  const [opened, wire] = await Promise.all([opening, wiring, loadBundledPrices()]);
  const learnt = await LearntStore.open({
    ...time,
    folder: stateDir === false ? undefined : (stateDir ?? dataDir),
    onUnusable: (reason) => onNotice?.(`${reason}; what is learnt about providers is not kept`),
  });
  const notice = (message: string): void => onNotice?.(message);
  const given = { ...time, ...opened, learnt, dataDir, measurer: counting, transport: wire };
  const seams = withOwn({ ...given, observer, notice }, resolved);
  for (const note of [...resolved.notes, ...(seams.space?.notes ?? [])]) seams.notice(note);
  const engine = new LocalEngine(seams, resolved, place);
  try {
    await engine.open();
    return { engine, parts: engine.parts, openPosted: (posted) => engine.openPosted(posted) };
  } catch (error) {
    await engine.close();
    throw error;
  }
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
  #posted: PostedWork | undefined;
  #isClosed = false;
  readonly #held = new Listeners<[]>();
  readonly #unreadCounts: EngineParts["unreadItems"][] = [];
  readonly #failed = new Listeners<[PerigeeError]>();

  constructor(seams: Seams, config: EngineConfig, { callsPerTurn }: EnginePlace) {
    this.#seams = seams;
    this.#config = config;
    const { clock, store, observer } = seams;
    const backlog = new Backlog();
    const prices = new PriceBook(config.prices);
    const room = new Room({
      clock,
      waitMs: config.diskWaitMs,
      dataDir: seams.dataDir,
      onRoom: (hasRoom) => this.#roomChanged(hasRoom),
    });
    const recorder = new Recorder({
      store,
      clock,
      space: seams.space,
      room,
      lanes: () => this.#lanes.records(),
      observer,
      callsPerTurn,
      onFailure: (error) => this.#failed.tell(error),
    });
    const { attemptMsMax, isAtMostOnce } = config;
    const { answers, latencies, lengths } = learntFigures(seams.learnt, config.providers);
    const patience = new ItemPatience({ clock, attemptMsMax, isAtMostOnce, latencies });
    const trials = new KeyTrials(config, seams.learnt, seams.notice);
    const claimed = new ClaimedBytes(() => this.#pumpAll());
    const sender = new Sender({
      claimed,
      trials,
      onAnswered: (lane) => this.#lanes.answered(lane),
      clock,
      wires: new Wires(config.providers, seams.codecs),
      money: new ItemMoney(clock, prices, new CostBounds(seams.learnt, config.providers), lengths),
      families: config.families,
      laneOf: (key) => this.#lanes.of(key),
      lanesOf: (provider) => this.#lanes.lanesOf(provider),
      onFree: (lane) => this.#lanes.freed(lane),
      hasTwoLogs: () => this.#runs.size > 0 && this.#posted?.isBusy === true,
      observer,
      patience,
      answers,
      lengths,
    });
    this.#lanes = new Lanes({
      ...{ trials, clock, config, backlog, sender, patience, claimed },
      learnt: seams.learnt,
      mayAdmit: () => this.#mayAdmit(),
      onHold: () => this.#held.tell(),
    });
    sender.dispatcher = createDispatcher<ItemCall>({
      clock: this.#lanes.retries,
      transport: seams.transport,
      admission: sender,
      policy: { ...RETRY_POLICY, ambiguousMax: config.isAtMostOnce ? 0 : RETRY_POLICY.ambiguousMax },
      ...(attemptMsMax === undefined ? {} : { attemptMsMax }),
      ...{ patience, hedging: sender.secondAttempts },
    });
    this.parts = this.#partsOf({ room, recorder, backlog, sender, answers, prices });
    this.#forgotten = new Forgotten(this.parts);
    this.#submissions = new Submissions(this.parts, (source, options) => this.run(source, options));
    void store.failed?.then((error) => this.#failed.tell(error));
  }

  /** Counts what the last minute sent, then continues what was submitted and is not done. */
  async open(): Promise<void> {
    await restoreLanes(this.#lanes, this.#seams.store, this.#seams.clock);
    for await (const task of storedTasks(this.#seams.store)) {
      await this.#forgotten.resume(task);
      await this.#submissions.resume(task);
    }
    await this.#forgotten.sweep().catch(() => undefined); // at the next start, then
  }

  openPosted(options: PostedOptions): PostedWork {
    const onFailure = (error: PerigeeError): void => this.#failed.tell(error);
    this.#posted = openPosted({ parts: this.parts, lanes: this.#lanes, onFailure }, options);
    return this.#posted;
  }

  run(source: Source, options: RunOptions = {}): Run {
    this.#assertOpen();
    checkSource(source, "run");
    checkCallOptions(options, RUN_OPTIONS, "run");
    checkRunOptions(options, "run");
    checkHedge(options.hedge === true, this.#config.isAtMostOnce, "usage");
    const run = new Run(this.parts, source, options);
    this.#runs.add(run);
    const forget = (): boolean => this.#runs.delete(run);
    run.finished.then(forget, forget);
    return run;
  }

  submit(items: readonly Item[], options: SubmitOptions = {}): SubmittedTask {
    this.#assertOpen();
    checkItems(items, "submit");
    checkCallOptions(options, SUBMIT_OPTIONS, "submit");
    return this.#submissions.submit(items, options);
  }

  task(id: string): Promise<Task> {
    this.#assertOpen();
    checkId(id, "task");
    return this.#submissions.task(id);
  }

  object(id: string): Promise<TaskObject> {
    this.#assertOpen();
    checkId(id, "object");
    return this.#submissions.object(id);
  }

  trace(id: string, key?: string) {
    this.#assertOpen();
    checkId(id, "trace");
    return key === undefined ? this.#submissions.trace(id) : traceOfRun(this.parts, id, key);
  }

  forget(taskId: string): Promise<void> {
    this.#assertOpen();
    checkId(taskId, "forget");
    return this.#forget(taskId);
  }

  async retry(taskId: string, options: RetryOptions = {}): Promise<Run> {
    this.#assertOpen();
    checkId(taskId, "retry");
    checkCallOptions(options, RETRY_OPTIONS, "retry");
    checkRetryFailed(options.codes, "retry");
    const { source, ...again } = await retryOptions(this.#seams.store, taskId, options);
    return this.run(source, again);
  }

  async retryTask(taskId: string, options: RetryTaskOptions = {}): Promise<Task> {
    this.#assertOpen();
    checkId(taskId, "retryTask");
    checkCallOptions(options, RETRY_TASK_OPTIONS, "retryTask");
    const { codes, ...again } = options;
    checkRetryFailed(codes, "retryTask");
    return this.#submissions.retry(taskId, codes ?? true, again);
  }

  quote(source: Source, options: QuoteOptions = {}) {
    this.#assertOpen();
    checkSource(source, "quote");
    checkCallOptions(options, QUOTE_OPTIONS, "quote");
    return quoteSource(this.parts, source, options);
  }

  holds(): readonly Hold[] {
    return allHolds([...[...this.#runs].map((run) => run.holds), this.#posted?.holds() ?? []]);
  }

  lanes(): readonly LaneStatus[] {
    const nowMs = this.#seams.clock.nowMs();
    return Array.from(this.#lanes.all(), (lane) => laneStatus(lane, nowMs));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    const runs = [...this.#runs];
    for (const run of runs) run.stop("closed");
    await Promise.allSettled([...runs.map((run) => run.finished), this.#posted?.close()]);
    this.#isClosed = true;
    this.#lanes.close();
    this.parts.recorder.close();
    await this.#seams.learnt.close();
    await this.#seams.transport.close();
    await this.#seams.measurer.close();
    await this.#seams.store.close();
  }

  #partsOf(
    built: Pick<EngineParts, "room" | "recorder" | "backlog" | "sender" | "answers" | "prices">,
  ): EngineParts {
    const { clock, store } = this.#seams;
    return {
      ...this.#seams,
      ...built,
      caps: new SharedCaps(store, this.#config.cap, () => this.#wakeHeld("cap_reached")),
      arrivals: new Arrivals({ ...built, clock, lanes: this.#lanes, keysMissing: this.#config.keysMissing }),
      config: this.#config,
      atWork: new Set(),
      lanes: () => this.#lanes.all(),
      forecast: (work) => this.#lanes.forecast(work),
      unreadItems: (project, deadlineMs) =>
        this.#unreadCounts.reduce((items, count) => items + count(project, deadlineMs), 0),
      countUnread: (count) => this.#unreadCounts.push(count),
      expectedDone: (work) => this.#lanes.expectedDone(work),
      workTimes: (works) => this.#lanes.workTimes(works),
      leftMs: (state) => this.#lanes.leftMs(state),
      dropRun: (state) => this.#lanes.drop(state),
      holdsOf: (owner, isStopping) => this.#holdsOf(owner, isStopping),
      heldEndOf: (model) => this.#lanes.heldEndOf(model),
      isStopped: (model) => this.#lanes.isStopped(model),
      isEndHeld: (owner) =>
        this.#lanes.isHeldByStop(owner) || isEndUnknown(this.#holdsOf(owner), this.#seams.clock.wallMs()),
      onHold: (listener) => this.#held.add(listener),
      wakeHeld: (reason) => this.#wakeHeld(reason),
      standstill: (state) =>
        built.recorder.isBusy || !this.#hasRoom ? undefined : this.#lanes.standstill(state),
      storageWait: () => (this.#hasRoom ? undefined : "a full disk"),
      onFailure: (listener) => this.#failed.add(listener),
    };
  }

  #mayAdmit(): boolean {
    return this.#hasRoom && !this.#isClosed && this.parts.recorder.failure === undefined;
  }

  #roomChanged(hasRoom: boolean): void {
    if (hasRoom) this.#pumpAll();
    this.#held.tell();
  }

  #wakeHeld(reason: HoldReason): void {
    for (const run of this.#runs) run.wakeHeld(reason);
    this.#posted?.wakeHeld(reason);
  }

  #pumpAll(): void {
    for (const lane of this.#lanes.all()) lane.pump();
  }

  get #hasRoom(): boolean {
    return this.parts.room.lackingSinceMs === undefined;
  }

  /** Of a run that a full disk holds, too, the room says how long it is waited for. */
  #holdsOf(owner: ItemOwner, isStopping = false): RunHolds {
    const found = this.#lanes.holdsOf(owner, isStopping);
    const { lackingSinceMs, fullPath } = this.parts.room;
    if (lackingSinceMs === undefined) return found;
    return {
      ...found,
      holds: [diskHold(owner, fullPath, lackingSinceMs, this.#seams.clock), ...found.holds],
      isAll: false,
    };
  }

  async #forget(taskId: string): Promise<void> {
    await this.#forgotten.forget(taskId, this.#submissions.isAtWork(taskId));
    this.#submissions.drop(taskId);
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new PerigeeError("closed", "the engine is closed");
  }
}
