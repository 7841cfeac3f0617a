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
import { proxiesFrom } from "../dispatch/proxy.ts";
import { createUndiciTransport, loadUndici } from "../dispatch/undici.ts";
import type { PerigeeError } from "../errors.ts";
import type { WorkLog } from "../log/work_log.ts";
import { loadBundledPrices } from "../price/base.ts";
import { PriceBook } from "../price/price_book.ts";
import { type LearntPlace, LearntStore } from "../store/learnt.ts";
import type { Item } from "../work/item.ts";
import type { Task, TaskObject } from "../work/task.ts";
import { checkId, checkItems, checkName, checkText, takenSource } from "./call_arguments.ts";
import { checkCallOptions } from "./call_options.ts";
import {
  ENGINE_RUN_OPTIONS,
  PLAN_OPTIONS,
  QUOTE_OPTIONS,
  RETRY_OPTIONS,
  RETRY_TASK_OPTIONS,
  SUBMIT_OPTIONS,
} from "./call_schemas.ts";
import { checkHedge, type EngineConfig, resolveConfig } from "./config/config.ts";
import { checkLaneOptions } from "./config/lane_rules.ts";
import { checkModelOption } from "./config/model_aliases.ts";
import { importModules } from "./config/own_providers.ts";
import type { EngineCore } from "./core.ts";
import type { Engine } from "./engine_calls.ts";
import { EngineLog } from "./engine_log.ts";
import { checkedOptions, type EngineOptions } from "./engine_options.ts";
import type { Source } from "./files/input.ts";
import { sharedCaps } from "./files/shared_caps.ts";
import { storedTasks } from "./files/stored_tasks.ts";
import type { Hold } from "./items/holds.ts";
import { Committer } from "./journal/committer.ts";
import { DiskSpace } from "./journal/disk_space.ts";
import { restoreLanes } from "./lanes/earlier_lanes.ts";
import { type LaneStatus, laneStatuses } from "./lanes/lane_status.ts";
import { allHolds } from "./lanes/run_holds.ts";
import { createSending } from "./lanes/sending.ts";
import { learntFigures } from "./learnt/learnt_figures.ts";
import { QuoteRecords } from "./learnt/quote_records.ts";
import { Listeners, withGuarded } from "./listeners.ts";
import { type MediaTrust, mediaPlaces } from "./media/media_places.ts";
import { OpenCalls } from "./open_calls.ts";
import { type PlanOptions, planSource } from "./plans/plan_source.ts";
import type { PostedOptions } from "./posted/open_posted.ts";
import type { PostedWork } from "./posted/posted_work.ts";
import { checkRetryFailed } from "./reopening/reopen.ts";
import { type QuoteOptions, quoteSource } from "./runs/quote.ts";
import { Run } from "./runs/run.ts";
import { checkRunOptions, type EngineRunOptions } from "./runs/run_open.ts";
import { checkSchemaOptions } from "./schemas/run_schema.ts";
import { openStore, type Seams, type ThreadsPlace, threads, withOwn } from "./seams.ts";
import { type CountedBatches, countedBatches } from "./shown/batch_status.ts";
import { Forgotten } from "./submissions/forgotten.ts";
import { type RetryOptions, type RetryTaskOptions, retryOptions } from "./submissions/retry.ts";
import { RunLists } from "./submissions/run_lists.ts";
import { Submissions, type SubmitOptions } from "./submissions/submissions.ts";
import type { SubmittedTask } from "./submissions/submitted_task.ts";
import { traceOfRun } from "./trace.ts";

export type { Engine } from "./engine_calls.ts";
export type { EngineOptions } from "./engine_options.ts";

/** An engine, and what it is built of, for modules that build on it. */
export interface OpenedEngine {
  readonly engine: Engine;
  readonly core: EngineCore;
  /** The work log of its store; the engine closes it. */
  openLog(): Promise<WorkLog>;
  /** Opens posted tasks of a kind; once for each. */
  openPosted(options: PostedOptions): PostedWork;
  /** Sends only requests whose intents are staged by now; they and those in flight go on, and what is accepted waits for the next process. Before `engine.close`. */
  stopSending(): void;
}

/** How an engine fits into what opens it. */
export interface EnginePlace extends MediaTrust, ThreadsPlace, LearntPlace {
  /** How it shares its thread; see `paced_calls.ts`. */
  readonly callsPerTurn?: () => number | undefined;
  /** How long work waits for a full disk where no option says it, in milliseconds. */
  readonly diskWaitMs?: number;
}

/** Opens the data folder and starts. Throws `invalid_config`, `data_dir_in_use`, `data_dir_newer`, `data_dir_older`, `store_damaged`. */
export async function openEngine(options: EngineOptions, place: EnginePlace = {}): Promise<OpenedEngine> {
  const checked = await checkedOptions(options);
  const { dataDir, stateDir, transport, store, measurer, observer, openAnswers } = options;
  const { limitPool, capPool } = options;
  const { onNotice } = withGuarded(options, ["onNotice"]);
  const env = options.env ?? process.env;
  const time = { clock: options.clock ?? systemClock, disk: options.disk ?? systemDisk };
  setDebug(env["PERIGEE_DEBUG"], time.clock);
  const diskWait = place.diskWaitMs === undefined ? {} : { diskWaitMs: place.diskWaitMs };
  const resolved = resolveConfig({ ...diskWait, ...checked }, env, await importModules(checked.providers));
  if (store === undefined) await makeFolder(resolve(dataDir, "tasks"), 0o700);
  const counting = measurer ?? threads(resolved, place); // first: threads take as long to start as the store
  const opening = openStore(dataDir, store).catch((error: unknown) =>
    counting.close().then(() => Promise.reject(error)),
  );
  const connections = { connectionsMax: resolved.maxInFlight, proxyOf: proxiesFrom(env) };
  const wiring =
    transport ?? loadUndici().then((parts) => createUndiciTransport({ ...time, ...connections }, parts));
  const [opened, wire] = await Promise.all([opening, wiring, loadBundledPrices()]);
  const learnt = await LearntStore.open({
    ...{ ...time, learntRows: place.learntRows },
    folder: stateDir === false ? undefined : (stateDir ?? dataDir),
    onUnusable: (reason) => onNotice?.(`${reason}; what is learnt about providers is not kept`),
  });
  const notice = (message: string): void => onNotice?.(message);
  const media = mediaPlaces(place, env, { ...time, notice, waitMs: resolved.waitMs });
  const given = { ...time, ...opened, learnt, dataDir, measurer: counting, transport: wire, media };
  const seams = withOwn({ ...given, observer, notice, openAnswers, limitPool, capPool }, resolved);
  for (const note of [...resolved.notes, ...(seams.space?.notes ?? [])]) seams.notice(note);
  const engine = new LocalEngine(seams, resolved, place);
  try {
    await engine.open();
    return {
      ...{ engine, core: engine.core, openLog: () => engine.openLog() },
      openPosted: (posted) => engine.openPosted(posted),
      stopSending: () => engine.stopSending(),
    };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

class LocalEngine implements Engine {
  readonly #seams: Seams;
  readonly #config: EngineConfig;
  /** What it is built of. */
  readonly core: EngineCore;
  readonly #submissions: Submissions;
  readonly #forgotten: Forgotten;
  readonly #runs = new Set<Run>();
  readonly #log: EngineLog;
  readonly #calls: OpenCalls;
  #closing: Promise<void> | undefined;
  /** Which requests may leave: all, those whose intents are recorded, or none. */
  #sends: "all" | "recorded" | "nothing" = "all";

  constructor(seams: Seams, config: EngineConfig, { callsPerTurn }: EnginePlace) {
    this.#seams = seams;
    this.#config = config;
    const { clock, disk, store, dataDir, observer, notice, openAnswers, media } = seams;
    const failures = new Listeners<[PerigeeError]>();
    const prices = new PriceBook(config.prices, config.lanes.offPeakDays, config.batches.factors);
    const room = new DiskSpace({
      clock,
      waitMs: config.diskWaitMs,
      dataDir,
      onRoom: (hasRoom) => this.#roomChanged(hasRoom),
    });
    const committer = new Committer({
      store,
      clock,
      space: seams.space,
      room,
      lanes: () => this.core.sending.lanes.records(),
      observer,
      callsPerTurn,
      onFailure: (error) => failures.tell(error),
    });
    const learnt = learntFigures(seams.learnt, config.providers);
    const storage = { clock, disk, store, room, dataDir, notice, openAnswers, media };
    const sending = createSending(seams, config, { prices, ...learnt }, storage, {
      mayAdmit: (isRecorded) => this.#mayAdmit(isRecorded),
      hasTwoLogs: () => this.#runs.size > 0 && this.#log.isBusy,
    });
    this.core = {
      config,
      storage,
      measurer: seams.measurer,
      recording: { committer, observer, failures },
      sending,
      figures: { prices, ...learnt, quotes: new QuoteRecords(seams.learnt) },
      caps: sharedCaps(seams, config.cap, sending),
      atWork: new Set(),
    };
    sending.holds.onWake((reason) => {
      for (const run of this.#runs) run.wakeHeld(reason);
      this.#log.wakeHeld(reason);
    });
    this.#forgotten = new Forgotten(this.core);
    this.#log = new EngineLog(this.core, (taskId) => this.forget(taskId));
    this.#calls = new OpenCalls(clock);
    const run = (source: Source, options: EngineRunOptions): Run => this.#run(source, options);
    this.#submissions = new Submissions(this.core, this.#log, new RunLists(this.core, run));
    void store.failed?.then((error) => failures.tell(error));
  }

  /** Counts what the last minute sent, then continues what was submitted and is not done. */
  async open(): Promise<void> {
    await restoreLanes(this.core.sending.lanes, this.#seams.store, this.#seams.clock);
    await this.#log.start();
    await this.core.sending.batches.clean().catch(() => undefined); // at the next start, then
    for await (const task of storedTasks(this.#seams.store)) {
      await this.#forgotten.resume(task);
      await this.#submissions.runs.resume(task);
    }
    await this.#forgotten.sweep().catch(() => undefined); // at the next start, then
  }

  openPosted(options: PostedOptions): PostedWork {
    return this.#log.openPosted(options);
  }

  stopSending(): void {
    if (this.#sends === "all") this.#sends = "recorded";
  }

  openLog(): Promise<WorkLog> {
    return this.#log.open();
  }

  run(source: Source, options: EngineRunOptions = {}): Run {
    this.#calls.assertOpen();
    return this.#run(source, options);
  }

  /** A list that is accepted, or run again, as the engine closes gets its runs, which are stopped at once. */
  #run(given: Source, options: EngineRunOptions): Run {
    const source = takenSource(given, "run");
    checkCallOptions(options, ENGINE_RUN_OPTIONS, "run");
    checkRunOptions(options, "run");
    checkHedge(options.hedge === true, this.#config.isAtMostOnce, "usage");
    checkLaneOptions(options, this.#config.providerNames, "run");
    checkModelOption(options.model, this.#config.aliases, "run");
    const run = new Run(
      this.core,
      source,
      withGuarded(options, ["onHeld", "onMissing", "onStep", "onWarning"]),
    );
    this.#runs.add(run);
    const forget = (): boolean => this.#runs.delete(run);
    run.finished.then(forget, forget);
    if (this.#closing !== undefined) run.stop("closed");
    return run;
  }

  submit(items: readonly Item[], options: SubmitOptions = {}): SubmittedTask {
    this.#calls.assertOpen();
    checkItems(items, "submit");
    checkCallOptions(options, SUBMIT_OPTIONS, "submit");
    checkName(options.id, "submit");
    return this.#submissions.submit(items, options, this.#calls);
  }

  task(id: string): Promise<Task> {
    this.#calls.assertOpen();
    checkId(id, "task");
    return this.#calls.ended(this.#submissions.task(id));
  }

  object(id: string): Promise<TaskObject> {
    this.#calls.assertOpen();
    checkId(id, "object");
    return this.#calls.ended(this.#submissions.object(id));
  }

  trace(id: string, key?: string) {
    this.#calls.assertOpen();
    checkId(id, "trace");
    const { storage } = this.core;
    return this.#calls.ended(key === undefined ? this.#submissions.trace(id) : traceOfRun(storage, id, key));
  }

  forget(taskId: string): Promise<void> {
    this.#calls.assertOpen();
    checkId(taskId, "forget");
    return this.#calls.ended(this.#submissions.turns.take(taskId, () => this.#forget(taskId)));
  }

  cancel(taskId: string): Promise<Task> {
    this.#calls.assertOpen();
    checkId(taskId, "cancel");
    return this.#calls.ended(this.#submissions.turns.take(taskId, () => this.#submissions.cancel(taskId)));
  }

  async retry(taskId: string, options: RetryOptions = {}): Promise<Run> {
    this.#calls.assertOpen();
    checkId(taskId, "retry");
    checkCallOptions(options, RETRY_OPTIONS, "retry");
    checkRetryFailed(options.codes, "retry");
    const terms = retryOptions(this.#seams.store, this.#submissions, taskId, options);
    const { source, ...again } = await this.#calls.ended(terms);
    return this.run(source, again);
  }

  async retryTask(taskId: string, options: RetryTaskOptions = {}): Promise<Task> {
    this.#calls.assertOpen();
    checkId(taskId, "retryTask");
    checkCallOptions(options, RETRY_TASK_OPTIONS, "retryTask");
    const { codes, ...again } = options;
    checkRetryFailed(codes, "retryTask");
    return this.#calls.ended(this.#submissions.retry(taskId, codes ?? true, again));
  }

  quote(given: Source, options: QuoteOptions = {}) {
    this.#calls.assertOpen();
    const source = takenSource(given, "quote");
    checkCallOptions(options, QUOTE_OPTIONS, "quote");
    checkModelOption(options.model, this.#config.aliases, "quote");
    checkSchemaOptions(options, "quote");
    checkLaneOptions(options, this.#config.providerNames, "quote");
    return this.#calls.ended(quoteSource(this.core, source, options));
  }

  plan(given: Source, options: PlanOptions = {}) {
    this.#calls.assertOpen();
    const source = takenSource(given, "plan");
    checkCallOptions(options, PLAN_OPTIONS, "plan");
    checkSchemaOptions(options, "plan");
    checkLaneOptions(options, this.#config.providerNames, "plan");
    return this.#calls.ended(planSource(this.core, source, options));
  }

  holds(): readonly Hold[] {
    return allHolds([...[...this.#runs].map((run) => run.holds), ...this.#log.holds()]);
  }

  lanes(): readonly LaneStatus[] {
    return laneStatuses(this.core.sending.lanes, this.#seams.clock.nowMs());
  }

  /** Open batches at providers, with the sums of this process. */
  get batches(): CountedBatches {
    const shown = countedBatches(this.core.sending.batches);
    return {
      ...shown,
      pollNow: (provider, batchId) => {
        checkText(provider, "batches.pollNow: the provider");
        checkText(batchId, "batches.pollNow: the id of the batch");
        return shown.pollNow(provider, batchId);
      },
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#calls.close();
    this.stopSending();
    const { turns } = this.#submissions;
    if (!turns.isIdle) await this.#calls.within(turns.ended()); // a cancel is stored first
    for (const run of this.#runs) run.stop("closed");
    await this.#calls.within(this.#submissions.accepted());
    await Promise.allSettled([this.#runsOver(), this.#log.stop()]);
    await this.#calls.settled();
    await this.#runsOver(); // those that such a call began
    this.#sends = "nothing";
    await this.#log.close();
    const { caps, sending, recording } = this.core;
    for (const part of [caps, sending.batches, sending.failover, sending.lanes]) part.close();
    recording.committer.close();
    await this.#seams.learnt.close();
    await this.#seams.transport.close();
    this.#seams.media.buckets?.close();
    await this.#seams.measurer.close();
    await this.#seams.store.close();
  }

  async #runsOver(): Promise<void> {
    while (this.#runs.size > 0) await Promise.allSettled(Array.from(this.#runs, (run) => run.finished));
  }

  #mayAdmit(isRecorded: boolean): boolean {
    const isSending = this.#sends === "all" || (isRecorded && this.#sends === "recorded");
    return this.#hasRoom && isSending && this.core.recording.committer.failure === undefined;
  }

  #roomChanged(hasRoom: boolean): void {
    if (hasRoom) this.core.sending.lanes.pumpAll();
    this.core.sending.holds.changed();
  }

  get #hasRoom(): boolean {
    return this.core.storage.room.lackingSinceMs === undefined;
  }

  async #forget(taskId: string): Promise<void> {
    if (await this.#submissions.forgetPosted(taskId)) return;
    await this.#submissions.runs.closed(taskId);
    await this.#forgotten.forget(taskId, this.#submissions.runs.isAtWork(taskId));
    this.#submissions.runs.drop(taskId);
  }
}
