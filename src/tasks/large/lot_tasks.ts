/**
 * Large tasks: files of lines, a lot each, that runs answer.
 *
 *   submit:  files of lines -> stored in one commit -> begun
 *   cancel:  stored -> its runs cancelled
 *   retry:   failed lines run again in new lots (`retrying.ts`)
 *   remove:  stored as erased -> texts removed when its lots are over
 *   start:   open lots are read
 */
import { join } from "node:path";
import type { OpenedEngine } from "../../engine/engine.ts";
import type { RetryFailed } from "../../engine/reopening/reopen.ts";
import { PerigeeError } from "../../errors.ts";
import type { Receipt } from "../../jsonl/receipts.ts";
import { completeMoney, roundedMoney } from "../../price/money.ts";
import {
  EVERY_PROJECT,
  type ProjectScope,
  type RecordChange,
  type StoredRecord,
} from "../../store/records.ts";
import { stemOf } from "../../work/object_id.ts";
import type { TaskObject } from "../../work/task.ts";
import type { Files } from "../files/files.ts";
import { linesOf, removeStandIn } from "../lots/lost_input.ts";
import type { Lot, LotLines } from "../lots/lot.ts";
import { shownWallMs } from "../lots/lot_deadline.ts";
import type { LotEnd, LotRecord } from "../lots/lot_record.ts";
import { lotSales } from "../lots/lot_sales.ts";
import { Lots } from "../lots/lots.ts";
import type { SpooledRequest } from "../lots/request_spool.ts";
import {
  cancelToRecord,
  isPartCancelled,
  recordToTask,
  TASKS,
  type TaskRecord,
  taskToRecord,
} from "../lots/task_record.ts";
import { untilFinal } from "../lots/until_final.ts";
import { isId, notFound } from "../shapes/ids.ts";
import type { TaskRequest } from "../shapes/requests.ts";
import type {
  AnsweredLine,
  OutputView,
  Page,
  PageQuery,
  RetriedTask,
  TaskOutput,
  TaskView,
} from "../shapes/task_view.ts";
import type { TaskEvent } from "../shapes/tasks.ts";
import type { Admission } from "../usage/admission.ts";
import type { TaskBacklog } from "../usage/backlog.ts";
import type { Spending } from "../usage/spending.ts";
import { Erasure } from "./erasure.ts";
import { LargeAcceptance, type LargeAcceptanceOptions } from "./large_acceptance.ts";
import { objectReceipt } from "./object_receipts.ts";
import { type OpenCounts, openCountsOf } from "./open_counts.ts";
import { basesOf, layersOf } from "./part_layers.ts";
import { type OwnLotTask, type ReopeningOptions, reopenLots } from "./reopening.ts";
import { Retrying } from "./retrying.ts";
import { takenEarlier } from "./taken_earlier.ts";
import { TaskObjects } from "./task_objects.ts";
import { openOutput, placesOf } from "./task_output.ts";
import { type CapsOf, TaskViews } from "./task_views.ts";

export interface LotTasksOptions extends Pick<OpenedEngine, "engine" | "core"> {
  readonly files: Files;
  readonly dataDir: string;
  readonly usage: LotUsage;
  readonly posted: LotsBesidePosted;
  readonly listeners: LotTaskListeners;
}

/** Limits tasks, and counts their use. */
export interface LotUsage {
  readonly spending: Spending;
  readonly backlog: TaskBacklog;
  readonly admission: Admission;
  readonly capsOf: CapsOf;
}

/** The posted tasks of the store. */
export interface LotsBesidePosted {
  readonly workLog: LargeAcceptanceOptions["workLog"];
  readonly hasPosted: LotLines["hasPosted"];
  /** Moves a task that shares a lot which was never sent to the work log; durable when it resolves. */
  readonly adopt: ReopeningOptions["adopt"];
}

export interface LotTaskListeners {
  readonly onFault: (error: unknown, lotId: string) => void;
  readonly onFinished: (event: TaskEvent) => Promise<unknown> | undefined;
}

/** One for a store. */
export class LotTasks {
  readonly #options: LotTasksOptions;
  readonly #lots: Lots;
  readonly #largeAcceptance: LargeAcceptance;
  readonly #retrying: Retrying;
  readonly #objects: TaskObjects;
  readonly #views: TaskViews;
  readonly #erasure: Erasure;
  /** Folder of the files of lines. */
  readonly #folder: string;
  /** Files that open lots read. */
  readonly #held = new Map<string, () => void>();

  constructor(options: LotTasksOptions) {
    this.#options = options;
    const { engine, core, dataDir, usage, posted, listeners } = options;
    const { backlog, admission, spending } = usage;
    this.#folder = join(dataDir, "lots");
    const replay = (lot: Lot): Promise<Lot> => this.#lots.find(lot.record.id);
    this.#lots = new Lots({
      ...{ engine, core, backlog, spending },
      lines: {
        hasPosted: posted.hasPosted,
        pathOf: (lot) => this.#pathOf(lot),
        inputOf: async (lot) => ({
          path: await linesOf({ core, files: options.files, folder: this.#folder, replay }, lot),
          ...(await takenEarlier(core, lot.record)),
        }),
      },
      listeners: {
        onFinished: async (ended, lot) => {
          await listeners.onFinished({ ...ended, kind: await this.#kindOf(ended, lot) });
        },
        onFault: listeners.onFault,
        onUsed: (lot, end, items) => this.#note(lot, end, items),
        onOver: (lot) => this.#over(lot),
      },
    });
    this.#objects = new TaskObjects(core, this.#lots);
    const [lots, objects] = [this.#lots, this.#objects];
    this.#largeAcceptance = new LargeAcceptance({
      storage: core.storage,
      lots,
      objects,
      admission,
      workLog: posted.workLog,
    });
    this.#retrying = new Retrying({ core, lots, files: options.files, acceptance: this.#largeAcceptance });
    this.#views = new TaskViews(core, this.#lots, this.#objects.held, usage.capsOf);
    this.#erasure = new Erasure({ engine, storage: core.storage, lots: this.#lots });
  }

  /** Reads the open lots of earlier processes. */
  async open(): Promise<void> {
    const { core } = this.#options;
    await reopenLots({
      storage: core.storage,
      lots: this.#lots,
      admission: this.#options.usage.admission,
      spending: this.#options.usage.spending,
      adopt: this.#options.posted.adopt,
      begin: (lot, task) => this.#begin(lot, task),
    });
  }

  /** From now on lots run. */
  start(): void {
    this.#lots.start();
  }

  /** The path of the lines of a part of a new task. */
  pathFor(taskId: string, part: number): string {
    return this.#ownPath(`${taskId}-${part}`);
  }

  /** Whether a task with this id exists in any project. */
  async has(id: string): Promise<boolean> {
    return (await this.#record(EVERY_PROJECT, id)) !== undefined;
  }

  async task(project: string, id: string): Promise<TaskView> {
    return this.#view(await this.#find(project, id));
  }

  /** Undefined if it was removed meanwhile. */
  async viewOf(task: TaskRecord): Promise<TaskView | undefined> {
    try {
      return await this.#view(task);
    } catch (error) {
      if (error instanceof PerigeeError && error.code === "not_found") return undefined;
      throw error;
    }
  }

  /** As they were when `view` was made; without it as they are. */
  async objects(project: string, id: string, query: PageQuery, view?: TaskView): Promise<Page<TaskObject>> {
    const found = await this.#find(project, id);
    const outEnds = view === undefined ? undefined : this.#views.outEndsOf(view);
    return this.#unlessRemoved(found, this.#objects.page(found, query, outEnds));
  }

  async object(project: string, id: string): Promise<TaskObject> {
    const record = isId(id) ? await this.#record(project, id) : undefined;
    if (record === undefined) throw notFound("object", id);
    const task = recordToTask(record);
    return this.#unlessRemoved(task, this.#objects.object(task, id));
  }

  /** Undefined while it has not ended. */
  async receipt(project: string, id: string): Promise<Receipt | undefined> {
    await this.object(project, id);
    const record = await this.#record(project, id);
    if (record === undefined) throw notFound("object", id);
    const task = recordToTask(record);
    return this.#unlessRemoved(task, objectReceipt(this.#options.core.storage, this.#lots, task, id));
  }

  async cancel(project: string, id: string): Promise<TaskView> {
    const task = await this.#find(project, id);
    const before = await this.#views.view(task);
    if (isPartCancelled(task) || before.status !== "submitted") return before;
    const [first] = await Promise.all(task.parts.slice(0, 1).map(({ lotId }) => this.#lots.recordOf(lotId)));
    const now = this.#options.core.storage.clock.moment();
    const cancelledWallMs = first === undefined ? now.wallMs : shownWallMs(first, now);
    const cancelledParts = task.parts.length;
    const cancelled: TaskRecord = { ...task, isCancelled: true, cancelledParts, cancelledWallMs };
    const stored = (await this.#record(project, id)) as StoredRecord; // found above
    const record = { ...taskToRecord(cancelled, stored.payload), parent: stored.parent };
    const changes: RecordChange[] = [{ kind: "put", record }];
    const isSharing = record.parent !== "" && (await this.#lots.recordOf(record.parent)).over === undefined;
    if (isSharing) changes.push({ kind: "put", record: cancelToRecord(cancelled, record.parent) });
    await this.#options.core.storage.store.change(changes);
    for (const { lotId } of task.parts) await this.#cancelIn(await this.#lots.find(lotId), cancelled);
    return this.#views.view(cancelled);
  }

  async retry(project: string, id: string, retry: RetryFailed): Promise<RetriedTask> {
    const task = await this.#find(project, id);
    const stored = await this.#record(project, id);
    const { lots, items, task: retried } = await this.#retrying.offer(task, stored?.payload, retry);
    for (const lot of lots) this.#begin(lot, retried);
    return { task: await this.#view(retried), items };
  }

  async remove(project: string, id: string): Promise<void> {
    const task = await this.#find(project, id);
    const view = await this.#views.view(task);
    if (view.status === "submitted")
      throw new PerigeeError("conflict", `task ${id} is at work; cancel it and wait until it is completed`);
    await this.#erasure.erase(task);
  }

  async output(project: string, id: string, view: OutputView = "all"): Promise<TaskOutput> {
    const task = await this.#find(project, id);
    const { status, version } = await this.#view(task);
    const { core } = this.#options;
    const terms = { storage: core.storage, lots: this.#lots, task, isFinal: status !== "submitted", version };
    return this.#unlessRemoved(task, openOutput(terms, view));
  }

  async *answers(project: string, id: string, view: OutputView = "all"): AsyncGenerator<AnsweredLine> {
    const task = await this.#find(project, id);
    for (const base of basesOf(task))
      for (const layer of await layersOf(this.#lots, task, base))
        for (const places of placesOf(layer, view)) yield* this.#objects.answered(task, layer, places);
  }

  get openLots(): Iterable<Lot> {
    return this.#lots.openLots;
  }

  openCounts(): OpenCounts {
    return openCountsOf(this.#lots.openLots);
  }

  release(): void {
    this.#lots.release();
  }

  releaseAll(): void {
    this.#lots.releaseAll();
  }

  async close(): Promise<void> {
    this.#lots.close();
  }

  async submit(
    project: string,
    request: TaskRequest,
    spooled: Extract<SpooledRequest, { kind: "large" }>,
  ): Promise<TaskView> {
    const { clock } = this.#options.core.storage;
    const { task, lots } = await this.#largeAcceptance.offer(project, request, spooled);
    for (const lot of lots) this.#begin(lot, task);
    const immediate = lots.filter((lot) => lot.record.slaMinutes === null);
    if (immediate.length > 0) await untilFinal(task, immediate, { clock, signal: request.signal });
    return this.#view(task);
  }

  /** Begins an own lot whose lines are complete. */
  #begin(lot: Lot, task: OwnLotTask): void {
    const { record } = lot;
    const index = task.parts.findIndex(({ lotId }) => lotId === record.id);
    if (record.fileId !== undefined) this.#held.set(record.id, this.#options.files.hold(record.fileId));
    this.#lots.join(lot, {
      taskId: task.id,
      firstLine: 1,
      lines: record.lines,
      open: record.items,
      isCancelled: isPartCancelled(task, Math.max(0, index)),
    });
    this.#lots.sealed(lot);
  }

  async #cancelIn(lot: Lot, task: TaskRecord): Promise<void> {
    const member = lot.memberOf(task);
    if (member === undefined) return;
    member.isCancelled = true;
    lot.version += 1;
    if (lot.record.taskId !== undefined) {
      await lot.run?.cancel();
      this.#lots.cancelled(lot);
      return;
    }
    if (lot.isFinal(member)) this.#lots.finished(lot, [member]);
  }

  /** Holds money until the actual use is durable. */
  async #note({ record, hold }: Lot, end: LotEnd, items: number): Promise<void> {
    const { project, id } = record;
    const { inputTokens, outputTokens } = end;
    const { storage } = this.#options.core;
    const sales = await lotSales(storage, record);
    const usage = { items, inputTokens, outputTokens, ...roundedMoney(completeMoney(end)), ...sales };
    const wallMs = storage.clock.wallMs(); // today, because the clock may have been set since the acceptance
    await this.#options.usage.spending.note({ project, source: id, wallMs, usage });
    hold?.release();
  }

  async #over(lot: Lot): Promise<void> {
    this.#held.get(lot.record.id)?.();
    this.#held.delete(lot.record.id);
    if (lot.lost !== undefined) await removeStandIn(this.#options.core.storage, this.#folder, lot);
    await this.#erasure.over(lot);
  }

  #view(task: TaskRecord): Promise<TaskView> {
    return this.#unlessRemoved(task, this.#views.view(task));
  }

  /** Throws `not_found` if reading fails because the task was removed meanwhile. */
  async #unlessRemoved<T>(task: TaskRecord, reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      if ((await this.#record(task.project, task.id)) === undefined) throw notFound("task", task.id);
      throw error;
    }
  }

  /** A task that shares its lot has objects: a line that makes none is refused at submission. */
  async #kindOf({ project, taskId }: Omit<TaskEvent, "kind">, lot: Lot): Promise<TaskEvent["kind"]> {
    if (lot.unreadable === 0 || lot.record.taskId === undefined) return "completed";
    const { status } = await this.task(project, taskId);
    return status === "failed" ? "failed" : "completed";
  }

  async #find(project: string, id: string): Promise<TaskRecord> {
    const record = isId(id) ? await this.#record(project, id) : undefined;
    const task = record === undefined ? undefined : recordToTask(record);
    if (task === undefined || task.id !== id) throw notFound("task", id);
    return task;
  }

  #record(project: ProjectScope, id: string): Promise<StoredRecord | undefined> {
    return this.#options.core.storage.store.record(project, TASKS, stemOf(id));
  }

  #pathOf({ id, fileId }: LotRecord): string {
    return fileId === undefined ? this.#ownPath(id) : join(this.#options.dataDir, "files", fileId);
  }

  #ownPath(lotId: string): string {
    return join(this.#folder, `${lotId}.jsonl`);
  }
}
