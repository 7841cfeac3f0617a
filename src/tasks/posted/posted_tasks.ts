/**
 * The posted tasks of projects: finds, shows, cancels, retries and removes them in the work log.
 *
 *   accepted -> open -> final -> listeners notified -> its usage noted
 *   final -> open again (retry) | removed with all its texts
 *
 * A process that stops between the end of a task and its note leaves no mark. The next one finds in the log the ended tasks that are
 * not in the stored sums (`usage_mark.ts`), notifies listeners and notes them.
 */
import type { EngineCore } from "../../engine/core.ts";
import type { Accepted } from "../../engine/posted/acceptance.ts";
import { PostedItemReader } from "../../engine/posted/posted_reader.ts";
import { bodyOf, type PostedRecord, rowIdOf, rowToPosted } from "../../engine/posted/posted_record.ts";
import { PostedRetries } from "../../engine/posted/posted_retries.ts";
import type { PostedWork } from "../../engine/posted/posted_work.ts";
import type { RetryFailed } from "../../engine/reopening/reopen.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import type { Receipt } from "../../jsonl/receipts.ts";
import type { EndedStatus } from "../../log/records.ts";
import { WORK_KINDS } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { TaskObject } from "../../work/task.ts";
import type { Page, TaskView } from "../shapes/task_view.ts";
import type { TaskEvent } from "../shapes/tasks.ts";
import type { Admission, Admitted } from "../usage/admission.ts";
import type { Share, TaskBacklog } from "../usage/backlog.ts";
import { NO_PROJECT_USAGE, takenUsd } from "../usage/project_usage.ts";
import type { Spending, SpendingHold } from "../usage/spending.ts";
import { FreshPosted, type UsedByItem } from "./fresh_posted.ts";
import { postedReceipt } from "./posted_receipts.ts";
import { PostedViews } from "./posted_views.ts";
import type { RestoredTasks } from "./restored_tasks.ts";
import { restoreTasks } from "./restoring.ts";
import { readOpenUsed, readSold, readUsed, type UsedTask, usedSince } from "./task_usage.ts";

const LIST_PAGE = 200;
const SWEEP_PAGE = 100;
const SWEEP_PACE_MS = 1_000;
/** Time until a failed notification or note is repeated. */
const AGAIN_MS = 60_000;

/** An open task that was accepted or retried in this process. */
interface OpenPosted {
  /** Its shares of the backlog: one from its acceptance, and one from each time that items were opened again. */
  readonly rooms: readonly Share[];
  /** Estimate for its open items, and their number when that was held. */
  readonly hold?: SpendingHold;
  readonly heldItems: number;
  /** For a task that was accepted in this process and not retried: the sum of all its use. */
  readonly fresh?: FreshPosted;
  /** The part of its usage that was noted before its last retry. */
  readonly noted?: PostedRecord["noted"] | undefined;
}

export interface PostedTasksOptions {
  readonly core: EngineCore;
  readonly log: WorkLog;
  readonly work: PostedWork;
  readonly admission: Admission;
  readonly spending: Spending;
  /** Returns undefined if there is nothing to wait for. */
  readonly onFinished: (event: TaskEvent) => Promise<unknown> | undefined;
  readonly onFault: (error: unknown) => void;
}

/** One for a store. */
export class PostedTasks {
  readonly reader: PostedItemReader;
  readonly views: PostedViews;
  readonly #options: PostedTasksOptions;
  readonly #retries: PostedRetries<Admitted>;
  readonly #open = new Map<number, OpenPosted>();
  /** Undefined until `open`. */
  #restored: RestoredTasks | undefined;
  /** Ends whose notification and note are under way. */
  readonly #ending = new Set<Promise<void>>();
  #isClosed = false;

  constructor(options: PostedTasksOptions) {
    const { core, log, work, admission } = options;
    this.#options = options;
    this.reader = new PostedItemReader(core, log, work);
    this.views = new PostedViews(core, log, work, this.reader);
    this.#retries = new PostedRetries({ core, log, work, admission, reader: this.reader });
  }

  /** Tasks accepted in this process, which hold money and backlog space until they are final. */
  accepted({ task, admitted }: Accepted<Admitted>): void {
    const { number } = task;
    if (!this.#options.log.has(number)) {
      admitted.room.release(); // it is final already
      admitted.hold.release();
      return;
    }
    const { room, hold } = admitted;
    const heldItems = task.totalItems;
    this.#open.set(number, { rooms: [room], hold, heldItems, fresh: new FreshPosted(task) });
  }

  /**
   * Counts in caps what earlier processes spent, before anything is sent. Resolves with a function that reads the final tasks which the
   * last process did not report and note: pass them to `tellEnded` in the turn in which the work opens, which reports later ones.
   */
  async follow(): Promise<() => readonly number[]> {
    const { log, spending, core, work } = this.#options;
    const [cap] = core.caps.termsOf(undefined);
    const { unnoted, takenUsd: notedUsd } = await spending.follow(log, cap?.name);
    const open: { readonly number: number; readonly project: string }[] = [];
    for (const { number, kind, project: name } of log.openTasks()) {
      const project = log.text(name) ?? "";
      if (kind === WORK_KINDS.posted && (cap !== undefined || spending.isCapped(project)))
        open.push({ number, project });
    }
    let spentUsd = notedUsd;
    const count = async (project: string, usd: number): Promise<void> => {
      spentUsd += usd;
      if (usd > 0) (await spending.capOf(project))?.count(usd);
    };
    for (const number of unnoted()) {
      const ended = await readUsed(log, number);
      if (ended !== undefined) spending.open.set(number, ended.task.project, ended.usage);
      if (ended !== undefined) await count(ended.task.project, takenUsd(ended.usage));
    }
    for (const { number, project } of open)
      await count(project, takenUsd((await readOpenUsed(log, number))?.usage ?? NO_PROJECT_USAGE));
    if (spentUsd > 0) await work.groups.countSpent(spentUsd);
    return unnoted;
  }

  /** Holds backlog space and money for the open tasks of earlier processes, and counts what they took. */
  async open(backlog: TaskBacklog): Promise<void> {
    const isClosed = (): boolean => this.#isClosed;
    const { restored, noted } = await restoreTasks({ ...this.#options, backlog, isClosed });
    this.#restored = restored;
    for (const [number, before] of noted) this.#open.set(number, { rooms: [], heldItems: 0, noted: before });
  }

  /** Reports ended tasks, some at a time. */
  async tellEnded(ended: readonly number[]): Promise<void> {
    for (let start = 0; start < ended.length && !this.#isClosed; start += LIST_PAGE) {
      for (const number of ended.slice(start, start + LIST_PAGE)) this.#final(number, undefined);
      await Promise.all(this.#ending);
    }
  }

  /** Open tasks, and their items that are not final. */
  openCounts(): { readonly tasks: number; readonly objects: number } {
    let [tasks, objects] = [0, 0];
    for (const { left, kind } of this.#options.log.openTasks()) {
      if (kind !== WORK_KINDS.posted) continue;
      tasks += 1;
      objects += left;
    }
    return { tasks, objects };
  }

  /** Finds a task by its id or that of an object; undefined if it does not exist. */
  async find(project: string | undefined, id: string): Promise<PostedRecord | undefined> {
    const row = await this.#options.log.rows.loggedTask(rowIdOf(id));
    const task = row?.kind === WORK_KINDS.posted ? rowToPosted(this.#options.log, row) : undefined;
    return project === undefined || task?.project === project ? task : undefined;
  }

  /** `view`: of the task; its objects are shown as of the view's moment. */
  async objects(
    task: PostedRecord,
    { from, limit }: { readonly from: number; readonly limit: number },
    view?: TaskView,
  ): Promise<Page<TaskObject>> {
    const to = Math.min(task.totalItems, from + limit);
    const submitted = view === undefined ? undefined : this.views.submittedIn(view);
    const items = await this.reader.objects(task, { from, to, submitted });
    return { items, hasMore: to < task.totalItems };
  }

  /** Of an item, from 0; undefined while it has not ended. */
  receipt(task: PostedRecord, item: number): Promise<Receipt | undefined> {
    return postedReceipt(this.reader, this.#options.log, task, item);
  }

  async cancel(task: PostedRecord): Promise<PostedRecord> {
    const { log, work, core } = this.#options;
    const { restStatus = 0, deadlineMs = 0 } = log.task(task.number) ?? {};
    if (restStatus !== 0 || deadlineMs <= core.storage.clock.wallMs()) return task; // final, or its end is already decided
    const cancelled: PostedRecord = {
      ...task,
      isCancelled: true,
      cancelledWallMs: this.views.wallMsOf(task),
    };
    await work.cancel(task.number, bodyOf(cancelled));
    await this.#count(task.number);
    return cancelled;
  }

  /** The task with its items open again, and their number; durable. */
  async retry(
    task: PostedRecord,
    retry: RetryFailed,
  ): Promise<{ readonly task: PostedRecord; readonly items: number }> {
    await this.#noted();
    const { number } = task;
    const heldUsd = this.#open.get(number)?.hold?.usd ?? this.#restored?.of(number).usd ?? 0;
    const retried = await this.#retries.retry(task, retry, heldUsd);
    if (retried.admitted === undefined) return retried;
    this.views.forget(number);
    this.#reopened(retried.task, retried.admitted);
    await this.#count(number);
    return retried;
  }

  /** Adds what was held for a task that was not final to what its reopened items hold. */
  #reopened({ number, noted }: PostedRecord, { room, hold }: Admitted): void {
    const { rooms = [], hold: before } = this.#open.get(number) ?? {};
    const { items = 0, usd = 0 } = this.#restored?.of(number) ?? {};
    room.grow({ items, bytes: 0 });
    hold.set(hold.usd + (before?.usd ?? 0) + usd);
    before?.release();
    this.#restored?.settle(number);
    const { left: heldItems = 0 } = this.#options.log.task(number) ?? {};
    this.#open.set(number, { rooms: [...rooms, room], hold, heldItems, noted });
  }

  async remove({ number, id }: PostedRecord): Promise<void> {
    const { log, core } = this.#options;
    await log.untilEnded(number);
    if (log.has(number))
      throw new PerigeeError("conflict", `task ${id} is at work; cancel it and wait until it is completed`);
    await this.#noted();
    await core.storage.room.answerFor(() => log.erase({ all: [number] }));
  }

  /** Removes tasks that ended before a time (Unix), the oldest first, some at a time; calls back for each. */
  async sweep(
    oldestWallMs: number,
    removed: (project: string, id: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { log, core } = this.#options;
    for (let after = 0; ; ) {
      const rows = await log.rows.loggedTasks({ kind: WORK_KINDS.posted, after, limit: SWEEP_PAGE });
      const old: PostedRecord[] = [];
      for (const row of rows) {
        if (row.createdWallMs > oldestWallMs || log.has(row.number)) continue;
        const task = rowToPosted(log, row);
        const { finishedWallMs = Number.POSITIVE_INFINITY } = await this.views.view(task);
        if (finishedWallMs <= oldestWallMs) old.push(task);
      }
      if (old.length > 0) await this.#noted();
      if (old.length > 0) await log.erase({ all: old.map(({ number }) => number) });
      for (const { project, id } of old) removed(project, id);
      after = rows.at(-1)?.number ?? after;
      if (rows.length < SWEEP_PAGE || (rows.at(-1)?.createdWallMs ?? 0) > oldestWallMs) return;
      await core.storage.clock.sleep(SWEEP_PACE_MS, { signal });
    }
  }

  /** Called by the work: a task is final. */
  final(number: number): void {
    const open = this.#open.get(number);
    this.#open.delete(number);
    if (open?.fresh?.isWhole === true) this.views.remember(open.fresh); // callers that wait for the end read it at once
    this.#final(number, open);
  }

  #final(number: number, open: OpenPosted | undefined): void {
    if (this.#isClosed) return;
    for (const room of open?.rooms ?? []) room.release();
    this.#restored?.settle(number);
    const isPlain = open?.fresh?.isWhole === true && open.fresh.isPlain;
    const fresh = isPlain && open?.fresh !== undefined ? freshEnd(open.fresh) : undefined;
    const told = fresh === undefined ? undefined : this.#tell(fresh.task);
    if (fresh !== undefined && told === undefined) {
      this.#note(number, fresh, open);
      return;
    }
    const ending = this.#end(number, open, { fresh, told }).catch((error: unknown) =>
      this.#again(number, open, error),
    );
    this.#ending.add(ending);
    void ending.finally(() => this.#ending.delete(ending));
  }

  /** Repeats a failed notification or note a minute later. */
  #again(number: number, open: OpenPosted | undefined, error: unknown): void {
    if (this.#isClosed || hasCode(error, "closed")) return;
    const { onFault, core } = this.#options;
    onFault(error);
    core.storage.clock.timer(AGAIN_MS, () => this.#final(number, open), { keepsAlive: false });
  }

  /** Called by the work: an attempt of an item has ended, and the item continues. */
  itemTried(number: number): void {
    void this.#count(number);
  }

  /** Called by the work: an item of a task is final. */
  itemEnded(
    number: number,
    record: UsedByItem & { readonly status: EndedStatus },
    endedWallMs: number,
  ): void {
    const open = this.#open.get(number);
    open?.rooms.find(({ items }) => items > 0)?.settle(1);
    open?.fresh?.ended(record.status, record, endedWallMs);
    void this.#count(number);
  }

  /** Counts what an open task took so far; never rejects, because nothing is read. The end of a final task counts it. */
  async #count(number: number): Promise<void> {
    const { log, spending } = this.#options;
    const task = log.task(number);
    if (task === undefined) return;
    const sums = await log.sumsOf(number);
    if (sums === undefined || !log.has(number)) return;
    const open = this.#open.get(number);
    spending.open.set(
      number,
      log.text(task.project) ?? "",
      usedSince(sums, open?.noted, log.takenOf(number)),
    );
    this.#restored?.settle(number, task.left);
    if (open?.hold === undefined || task.left >= open.heldItems) return;
    open.hold.set((open.hold.usd * task.left) / open.heldItems);
    this.#open.set(number, { ...open, heldItems: task.left });
  }

  /** Resolves when ended tasks are noted. */
  async close(): Promise<void> {
    await Promise.all(this.#ending);
    this.#isClosed = true;
    await this.#options.spending.flush().catch(() => undefined); // the next process will write it
  }

  /** Resolves when ended tasks are noted, durably: a task that is opened again or removed cannot be noted any more. */
  async #noted(): Promise<void> {
    const { core, spending } = this.#options;
    await Promise.all(this.#ending);
    await core.storage.room.answerFor(() => spending.flush());
  }

  /** The view of a task that was just accepted. */
  firstView(task: PostedRecord): Promise<TaskView> {
    return this.#options.log.has(task.number) ? this.views.firstView(task) : this.views.view(task);
  }

  view(task: PostedRecord): Promise<TaskView> {
    return this.views.view(task);
  }

  async #end(
    number: number,
    open: OpenPosted | undefined,
    { fresh, told }: { readonly fresh: UsedTask | undefined; readonly told: Promise<unknown> | undefined },
  ): Promise<void> {
    const { log, spending } = this.#options;
    const ended = fresh ?? (await readSold(log, this.reader, number));
    if (ended !== undefined) spending.open.set(number, ended.task.project, ended.usage);
    this.#release(number, open);
    if (ended !== undefined) await (told ?? this.#tell(ended.task));
    this.#note(number, ended, open);
  }

  #tell({ project, id }: PostedRecord): Promise<unknown> | undefined {
    return this.#options.onFinished({ kind: "completed", project, taskId: id });
  }

  #note(number: number, ended: UsedTask | undefined, open: OpenPosted | undefined): void {
    const { spending, core } = this.#options;
    const used =
      ended === undefined
        ? undefined
        : { project: ended.task.project, wallMs: core.storage.clock.wallMs(), usage: ended.usage };
    spending.noteTask(number, used);
    this.#release(number, open);
  }

  /** A final task takes nothing more. */
  #release(number: number, open: OpenPosted | undefined): void {
    open?.hold?.release();
    this.#restored?.settle(number);
  }
}

function freshEnd({ task, usage }: FreshPosted): UsedTask {
  return { task, usage };
}
