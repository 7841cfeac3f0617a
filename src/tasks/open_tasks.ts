/**
 * The tasks of projects on one engine: implements `Tasks`.
 *
 *   submit:  few items of one sla -> acceptance -> work log (`posted_tasks.ts`), unless they go with batches
 *            more, files, batches -> files of lines that runs answer (`lot_tasks.ts`)
 *   else:    by where the task is
 */

import type { BacklogBounds } from "../engine/config/config_options.ts";
import type { OpenedEngine } from "../engine/engine.ts";
import { Acceptance, taskLines } from "../engine/posted/acceptance.ts";
import type { PostedRecord } from "../engine/posted/posted_record.ts";
import type { PostedWork } from "../engine/posted/posted_work.ts";
import { checkRetryFailed } from "../engine/reopening/reopen.ts";
import { heldWaitMs } from "../engine/runs/watch.ts";
import { type FailureCode, PerigeeError } from "../errors.ts";
import type { Receipt } from "../jsonl/receipts.ts";
import { KeyedMutex } from "../keyed_mutex.ts";
import { WORK_KINDS } from "../log/work_kinds.ts";
import type { WorkLog } from "../log/work_log.ts";
import { ATTEMPT_MS_MAX } from "../queue/lanes.ts";
import { newId } from "../work/new_id.ts";
import { objectNumber, stemOf } from "../work/object_id.ts";
import type { TaskObject } from "../work/task.ts";
import { adoptTask } from "./adopted_tasks.ts";
import type { FileIndex, Files, FilesNamed } from "./files/files.ts";
import { LotTasks } from "./large/lot_tasks.ts";
import type { OpenCounts } from "./large/open_counts.ts";
import { type SpooledRequest, spoolRequest, spoolSmall } from "./lots/request_spool.ts";
import { HELD_WAIT_MS } from "./lots/until_final.ts";
import { filesNamed } from "./named_files.ts";
import { openPostedOutput, postedAnswers } from "./posted/posted_output.ts";
import { PostedTasks } from "./posted/posted_tasks.ts";
import { isId, notFound } from "./shapes/ids.ts";
import { checkSchema, itemsUnder } from "./shapes/request_schema.ts";
import type { TaskRequest } from "./shapes/requests.ts";
import type {
  AnsweredLine,
  OutputView,
  Page,
  PageQuery,
  RetriedTask,
  TaskOutput,
  TaskView,
} from "./shapes/task_view.ts";
import type { TaskEvent, Tasks } from "./shapes/tasks.ts";
import { TaskListing } from "./task_listing.ts";
import { Admission, type Admitted } from "./usage/admission.ts";
import { TaskBacklog } from "./usage/backlog.ts";
import type { Spending } from "./usage/spending.ts";

export interface TasksOptions extends OpenedEngine {
  readonly files: Files;
  readonly dataDir: string;
  readonly spending: Spending;
  /** The log of the engine's store; its owner closes it. */
  readonly workLog: WorkLog;
  /** How much accepted work may wait. */
  readonly backlog?: BacklogBounds | undefined;
  /** Called with the reason when the work on some tasks has stopped; it is tried again a minute later. */
  readonly onFault?: (error: unknown, lotId: string) => void;
  /** Listens from the start, like `Tasks.onFinished`: also for tasks that end while tasks are being opened. */
  readonly onFinished?: (event: TaskEvent) => void | Promise<void>;
}

/** Tasks, and the methods for their owner. */
export interface OpenedTasks extends Tasks {
  /** Open tasks and objects of all projects. */
  openCounts(): OpenCounts;
  /** What `Files.named` finds. */
  filesNamed: FilesNamed;
  /** Removes posted tasks that ended before a time (Unix), some at a time; calls back for each. */
  sweep(
    oldestWallMs: number,
    removed: (project: string, id: string) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** The engine sends nothing any more: callers wait only for what is in flight. Before `close`; may be called twice. */
  release(): void;
  /** Another process takes the work over: callers stop waiting. May be called twice, and without `release`. */
  releaseAll(): void;
  /** Accepts nothing more; the owner of the engine closes it. */
  close(): Promise<void>;
}

type Listener = (event: TaskEvent) => void | Promise<void>;

/** Continues what is open; resolves when every task can be found. */
export async function openTasks(options: TasksOptions): Promise<OpenedTasks> {
  const { core, spending, onFinished, onFault = () => undefined } = options;
  const listeners = new Set<Listener>(onFinished === undefined ? [] : [onFinished]);
  const tell = (event: TaskEvent): Promise<unknown> | undefined =>
    listeners.size === 0 ? undefined : Promise.all([...listeners].map(async (listener) => listener(event)));
  const backlog = new TaskBacklog(options.backlog);
  const admission = new Admission({ core, spending, backlog });
  const opened: { posted?: PostedTasks } = {};
  const work = options.openPosted({
    workLog: options.workLog,
    kind: WORK_KINDS.posted,
    waits: { answerMs: ATTEMPT_MS_MAX, heldMs: (holds) => heldWaitMs(holds, HELD_WAIT_MS) },
    capsOf: async (project) => {
      const cap = await spending.capOf(project);
      return cap === undefined ? [] : [cap];
    },
    onFinal: (number) => opened.posted?.final(number),
    onTried: (number) => opened.posted?.itemTried(number),
    onEnded: (number, record, endedWallMs) => opened.posted?.itemEnded(number, record, endedWallMs),
    onFault: (error) => onFault(error, "posted"),
  });
  core.sending.backlog.countUnread((project, deadlineMs) => work.unreadItems(project, deadlineMs));
  const posted = new PostedTasks({
    ...{ core, work, log: options.workLog, admission, spending, onFinished: tell },
    onFault: (error) => onFault(error, "posted"),
  });
  opened.posted = posted;
  const { engine, files, dataDir, workLog } = options;
  const capsOf = async (project: string) => (await work.groups.terms(project)).caps;
  const lots = new LotTasks({
    ...{ engine, core, files, dataDir },
    usage: { spending, backlog, admission, capsOf },
    posted: {
      workLog,
      hasPosted: (project) => work.has(project),
      adopt: (task, request) => adoptTask({ storage: core.storage, workLog }, task, request),
    },
    listeners: { onFault, onFinished: tell },
  });
  const unnoted = await posted.follow();
  await lots.open();
  await posted.open(backlog);
  await work.prepare();
  work.open();
  lots.start();
  posted.tellEnded(unnoted()).catch((error: unknown) => onFault(error, "posted"));
  return new TasksOfFolder(
    { options, posted, lots, work, acceptance: new Acceptance(core, work, admission) },
    listeners,
    admission,
  );
}

interface DeskRooms {
  readonly options: TasksOptions;
  readonly posted: PostedTasks;
  readonly lots: LotTasks;
  readonly work: PostedWork;
  readonly acceptance: Acceptance<Admitted>;
}

class TasksOfFolder implements OpenedTasks {
  readonly #rooms: DeskRooms;
  readonly #listeners: Set<Listener>;
  readonly #admission: Admission;
  /** The tasks from which returned views were made. */
  readonly #shown = new WeakMap<TaskView, PostedRecord>();
  /** By task: a task is not removed while it is being cancelled, and never twice. */
  readonly #changes = new KeyedMutex();
  readonly #listing: TaskListing;

  constructor(rooms: DeskRooms, listeners: Set<Listener>, admission: Admission) {
    this.#rooms = rooms;
    this.#listeners = listeners;
    this.#admission = admission;
    this.#listing = new TaskListing({
      store: rooms.options.core.storage.store,
      log: rooms.options.workLog,
      viewOf: (task) => ("posted" in task ? this.#viewIfThere(task.posted) : rooms.lots.viewOf(task.large)),
    });
  }

  async submit(project: string, given: TaskRequest): Promise<TaskView> {
    const { schema } = given;
    if (schema !== undefined) await checkSchema(schema, "schema");
    const request = schema === undefined ? given : { ...given, items: itemsUnder(given.items, schema) };
    const { options, posted, lots } = this.#rooms;
    const { core, files } = options;
    const { id, isNewId = false } = request;
    const isUnknown = id === undefined || isNewId;
    if (!isUnknown && ((await posted.find(undefined, id)) !== undefined || (await lots.has(id))))
      throw new PerigeeError("conflict", "there is a task with this id already"); // before its lines are overwritten
    this.#admission.assertRoom(project);
    const holds: (() => void)[] = []; // until its lots hold the files themselves
    const indexOf = async (fileId: string): Promise<FileIndex> => {
      await files.file(project, fileId); // first, so that files of other projects are not held
      holds.push(files.hold(fileId));
      return files.index(project, fileId);
    };
    const pathOf = (taskId: string, part: number): string => lots.pathFor(taskId, part);
    try {
      const assertKeysDiffer = files.assertKeysDiffer.bind(files);
      const { config, storage } = core;
      const home = { disk: storage.disk, providers: config.providerNames, pathOf, indexOf, assertKeysDiffer };
      const spooled = await core.storage.room.once(() => spoolRequest(home, request));
      if (spooled.kind === "large") return await lots.submit(project, request, spooled);
      return await this.#submitSmall(project, request, spooled);
    } finally {
      for (const release of holds) release();
    }
  }

  async #submitSmall(
    project: string,
    request: TaskRequest,
    spooled: Extract<SpooledRequest, { kind: "small" }>,
  ): Promise<TaskView> {
    const { acceptance, posted, work, lots, options } = this.#rooms;
    const { hasOutputFile, note, tap, cacheTtl } = request;
    const { items, slaMinutes } = spooled;
    const taskId = request.id ?? newId();
    const lines = taskLines(taskId, items);
    const endsWithCaller = request.endsWithCaller === true ? (true as const) : undefined;
    const task = {
      id: taskId,
      lines,
      slaMinutes,
      project,
      hasOutputFile,
      note,
      tap,
      cacheTtl,
      endsWithCaller,
    };
    const accepted = await acceptance.offer(task);
    if (accepted === undefined) {
      const { disk, room } = options.core.storage;
      const home = { disk, pathOf: (id: string, part: number): string => lots.pathFor(id, part) };
      const written = await room.once(() => spoolSmall(home, taskId, lines, slaMinutes));
      return lots.submit(project, request, written);
    }
    posted.accepted(accepted);
    if (slaMinutes === null) {
      await work.untilFinal(accepted.task.number, request.signal);
      return this.#view(accepted.task);
    }
    const view = await posted.firstView(accepted.task);
    this.#shown.set(view, accepted.task);
    return view;
  }

  async task(project: string, id: string): Promise<TaskView> {
    const task = await this.#find(project, id);
    return task === undefined ? this.#rooms.lots.task(project, id) : this.#view(task);
  }

  list(project: string, query: PageQuery): Promise<Page<TaskView>> {
    return this.#listing.page(project, query);
  }

  async objects(project: string, task: string | TaskView, query: PageQuery): Promise<Page<TaskObject>> {
    const known = typeof task === "string" || task.project !== project ? undefined : this.#shown.get(task);
    const [id, view] = typeof task === "string" ? [task] : [task.id, task];
    const found = known ?? (await this.#find(project, id));
    if (found === undefined) return this.#rooms.lots.objects(project, id, query, view);
    const from = query.after === undefined ? 0 : itemOf(found, query.after) + 1;
    return this.#rooms.posted.objects(found, { from, limit: query.limit }, view);
  }

  async object(project: string, id: string): Promise<TaskObject> {
    const task = isId(id) ? await this.#rooms.posted.find(project, id) : undefined;
    if (task === undefined) return this.#rooms.lots.object(project, id);
    const [object] = (await this.#rooms.posted.objects(task, { from: itemOf(task, id), limit: 1 })).items;
    if (object === undefined) throw notFound("object", id);
    return object;
  }

  async receipt(project: string, id: string): Promise<Receipt> {
    const task = isId(id) ? await this.#rooms.posted.find(project, id) : undefined;
    const found = await (task === undefined
      ? this.#rooms.lots.receipt(project, id)
      : this.#rooms.posted.receipt(task, itemOf(task, id)));
    if (found !== undefined) return found;
    throw new PerigeeError("conflict", `object ${id} has not ended: it has a receipt when it has`);
  }

  cancel(project: string, id: string): Promise<TaskView> {
    return this.#answered(project, id, async () => {
      const task = await this.#find(project, id);
      if (task === undefined) return this.#rooms.lots.cancel(project, id);
      return this.#view(await this.#rooms.posted.cancel(task));
    });
  }

  async retry(project: string, id: string, codes?: readonly FailureCode[]): Promise<RetriedTask> {
    checkRetryFailed(codes, "codes", { param: "codes" });
    return this.#answered(project, id, async () => {
      const task = await this.#find(project, id);
      if (task === undefined) return this.#rooms.lots.retry(project, id, codes ?? true);
      const retried = await this.#rooms.posted.retry(task, codes ?? true);
      return { task: await this.#view(retried.task), items: retried.items };
    });
  }

  remove(project: string, id: string): Promise<void> {
    return this.#answered(project, id, async () => {
      const task = await this.#find(project, id);
      await (task === undefined ? this.#rooms.lots.remove(project, id) : this.#rooms.posted.remove(task));
    });
  }

  async output(project: string, id: string, view: OutputView = "all"): Promise<TaskOutput> {
    const task = await this.#find(project, id);
    if (task === undefined) return this.#rooms.lots.output(project, id, view);
    return openPostedOutput(this.#rooms.posted.reader, task, await this.#view(task), view);
  }

  async *answers(project: string, id: string, view: OutputView = "all"): AsyncGenerator<AnsweredLine> {
    const task = await this.#find(project, id);
    if (task === undefined) yield* this.#rooms.lots.answers(project, id, view);
    else yield* postedAnswers(this.#rooms.posted.reader, task, view);
  }

  onFinished(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  openCounts(): OpenCounts {
    const [small, large] = [this.#rooms.posted.openCounts(), this.#rooms.lots.openCounts()];
    return { tasks: small.tasks + large.tasks, objects: small.objects + large.objects };
  }

  filesNamed(project: string, ids: ReadonlySet<string>): Promise<ReadonlyMap<string, string>> {
    const { options, lots } = this.#rooms;
    return filesNamed({ disk: options.core.storage.disk, log: options.workLog, lots }, project, ids);
  }

  sweep(
    oldestWallMs: number,
    removed: (project: string, id: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#rooms.posted.sweep(oldestWallMs, removed, signal);
  }

  release(): void {
    this.#rooms.work.callers.release();
    this.#rooms.lots.release();
  }

  releaseAll(): void {
    this.#rooms.work.callers.releaseAll();
    this.#rooms.lots.releaseAll();
  }

  async close(): Promise<void> {
    await this.#rooms.lots.close();
    await this.#rooms.work.close();
    await this.#rooms.posted.close();
  }

  /** Runs in its turn; throws `disk_full` at once on a full disk, because callers wait and can repeat the request. */
  async #answered<T>(project: string, id: string, change: () => Promise<T>): Promise<T> {
    const { room } = this.#rooms.options.core.storage;
    if (room.lackingSinceMs !== undefined) await this.task(project, id); // throws `not_found` first
    return room.orRefuse(() => this.#changes.take(id, change));
  }

  async #view(task: PostedRecord): Promise<TaskView> {
    const view = await this.#rooms.posted.view(task);
    this.#shown.set(view, task);
    return view;
  }

  async #viewIfThere(task: PostedRecord): Promise<TaskView | undefined> {
    const found = await this.#find(task.project, task.id);
    return found === undefined ? undefined : this.#view(found);
  }

  /** Undefined if it is not a posted task. */
  async #find(project: string, id: string): Promise<PostedRecord | undefined> {
    const task = isId(id) ? await this.#rooms.posted.find(project, id) : undefined;
    return task?.id === id ? task : undefined;
  }
}

/** The number of an object in its task, from 0; throws `not_found`. */
function itemOf(task: PostedRecord, id: string): number {
  const number = objectNumber(task.id, id);
  if (stemOf(id) !== stemOf(task.id) || number < 1 || number > task.totalItems) throw notFound("object", id);
  return number - 1;
}
