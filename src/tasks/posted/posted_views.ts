/**
 * Views of posted tasks, from the sums of the work log.
 */
import { randomUUID } from "node:crypto";
import { RECENT_MS } from "../../engine/arrivals/recent_items.ts";
import type { EngineCore } from "../../engine/core.ts";
import { type Hold, isEndUnknown, NO_HOLDS, type RunHolds } from "../../engine/items/holds.ts";
import { concerns } from "../../engine/items/object_holds.ts";
import type { ExpectedDone } from "../../engine/lanes/work_times.ts";
import type { PostedHome } from "../../engine/posted/posted_homes.ts";
import type { PostedItemReader } from "../../engine/posted/posted_reader.ts";
import { deadlineWallMsOf, type PostedRecord, restEndedWallMs } from "../../engine/posted/posted_record.ts";
import type { PostedWork } from "../../engine/posted/posted_work.ts";
import type { TaskSums } from "../../log/open_work.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { roundedUsd } from "../../price/cost.ts";
import { NO_MONEY } from "../../price/money.ts";
import { parseModelId } from "../../work/request.ts";
import type { TaskView } from "../shapes/task_view.ts";
import { type EndForecast, finalVersion, heldMark, markOf, steady } from "../shapes/view_version.ts";
import type { FreshPosted } from "./fresh_posted.ts";

/** What views are built from. */
type ViewedCore = Pick<EngineCore, "storage" | "config" | "sending">;

/** The most views kept. */
const KEPT_MAX = 1_024;
const ESTIMATE_KEPT_MS = 1_000;
/** Assumed for work that its lane would never finish. */
const LEFT_MS_MAX = 366 * 86_400_000;

type ShownSums = Pick<
  TaskSums,
  | ("completed" | "failed" | "expired" | "cancelled" | "inputTokens" | "outputTokens")
  | ("listUsd" | "usd" | "billedUsd" | "ambiguousUsd")
>;

interface Kept {
  readonly state: string;
  readonly view: TaskView;
  /** Monotonic time after which its estimates are computed again. */
  readonly staleMs: number;
}

/** One for a store. */
export class PostedViews {
  readonly #core: ViewedCore;
  readonly #log: WorkLog;
  readonly #work: PostedWork;
  readonly #reader: PostedItemReader;
  /** Distinguishes processes, because each counts steps from 0. */
  readonly #process: string = randomUUID().slice(0, 8);
  readonly #kept = new Map<string, Kept>();
  /** The items that a view counts as submitted. */
  readonly #open = new WeakMap<TaskView, ReadonlySet<number>>();
  /** By number, the oldest first. */
  readonly #justEnded = new Map<number, FreshPosted>();

  constructor(core: ViewedCore, log: WorkLog, work: PostedWork, reader: PostedItemReader) {
    this.#core = core;
    this.#log = log;
    this.#work = work;
    this.#reader = reader;
  }

  /** Like `view`, for a task that was just accepted. Not kept: at a thousand a second, most would be evicted before they are read. */
  firstView(task: PostedRecord): Promise<TaskView> {
    const home = this.#work.homeOf(task.number);
    const state = this.#stateOf(task, home);
    const open = new Set(Array(task.totalItems).keys());
    return this.#viewOf(task, undefined, { state, home, open, before: undefined });
  }

  /** A new object whenever the view may differ, or is final. */
  async view(task: PostedRecord): Promise<TaskView> {
    const home = this.#work.homeOf(task.number);
    const isOpen = this.#log.has(task.number);
    const state = isOpen ? this.#stateOf(task, home) : finalVersion(task.id, task.retries ?? 0);
    const nowMs = this.#core.storage.clock.nowMs();
    const known = this.#kept.get(task.id);
    if (known?.state === state && nowMs < known.staleMs) return known.view;
    const open = this.#openItems(task); // of the same moment as the sums below
    const sums = this.#justEnded.get(task.number) ?? (await this.#log.sumsOf(task.number));
    const made = await this.#viewOf(task, sums, { state, home, open, before: known?.view });
    const view = made.version === known?.view.version ? known.view : made;
    const staleMs = view.finishedWallMs === undefined ? nowMs + ESTIMATE_KEPT_MS : Number.POSITIVE_INFINITY;
    this.#kept.delete(task.id);
    if (view.finishedWallMs === undefined || !isOpen) this.#kept.set(task.id, { state, view, staleMs });
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_MAX) break;
      this.#kept.delete(oldest);
    }
    return view;
  }

  /** A task is final: its view needs no read until other tasks replace it here. */
  remember(ended: FreshPosted): void {
    this.#justEnded.set(ended.task.number, ended);
    if (this.#justEnded.size <= 2 * KEPT_MAX) return;
    for (const oldest of this.#justEnded.keys()) {
      if (this.#justEnded.size <= KEPT_MAX) break;
      this.#justEnded.delete(oldest);
    }
  }

  /** A task is open again. */
  forget(number: number): void {
    this.#justEnded.delete(number);
  }

  /** Now, by the wall clock that promised the deadline of an open task, even if that clock was set since. */
  wallMsOf(task: PostedRecord): number {
    const [promisedMs, open] = [deadlineWallMsOf(task), this.#log.task(task.number)];
    const jumpMs = promisedMs === undefined || open === undefined ? 0 : open.deadlineMs - promisedMs;
    return Math.round(this.#core.storage.clock.wallMs() - jumpMs);
  }

  #stateOf({ number, isCancelled }: PostedRecord, home: PostedHome | undefined): string {
    const moved = home === undefined ? "p" : `${home.owner.id.slice(7)}.${home.owner.version}`;
    const left = this.#log.task(number)?.left ?? 0;
    return `${isCancelled === true ? "c" : ""}${this.#process}.${left.toString(36)}.${moved}`;
  }

  async #viewOf(
    task: PostedRecord,
    sums: ShownSums | undefined,
    {
      state,
      home,
      open,
      before,
    }: {
      readonly state: string;
      readonly home: PostedHome | undefined;
      readonly open: ReadonlySet<number>;
      readonly before: TaskView | undefined;
    },
  ): Promise<TaskView> {
    const { completed = 0, failed = 0, expired = 0, cancelled = 0 } = sums ?? {};
    const { totalItems } = task;
    const submitted = Math.max(0, totalItems - completed - failed - expired - cancelled);
    const isFinal = submitted === 0;
    const deadlineWallMs = deadlineWallMsOf(task);
    const finishedWallMs = isFinal ? await this.#finishedOf(task) : undefined;
    const held = isFinal ? NO_HOLDS : this.#heldOf(task, home);
    const wallMs = this.wallMsOf(task);
    const basis = isFinal ? undefined : steady(this.#basisOf(task, submitted, home, held), before, wallMs);
    const { expectedEndWallMs, isSlaAtRisk } = basis ?? {};
    const view: { -readonly [part in keyof TaskView]: TaskView[part] } = {
      id: task.id,
      project: task.project,
      status: isFinal ? "completed" : "submitted",
      isCancelled: task.isCancelled === true,
      retries: task.retries ?? 0,
      totalItems,
      models: task.works.map(([model]) => model),
      fileIds: [],
      counts: { submitted, completed, failed, expired, cancelled },
      createdWallMs: task.createdWallMs,
      held: held.holds,
      hasOutputFile: task.hasOutputFile,
      usage: sums === undefined ? NOTHING_USED : usageOf(sums),
      version: isFinal
        ? finalVersion(task.id, task.retries ?? 0)
        : `${state}${markOf(basis)}${heldMark(held.holds)}`,
    };
    if (deadlineWallMs !== undefined) view.deadlineWallMs = deadlineWallMs;
    if (finishedWallMs !== undefined) view.finishedWallMs = finishedWallMs;
    if (expectedEndWallMs !== undefined) view.expectedEndWallMs = expectedEndWallMs;
    if (isSlaAtRisk !== undefined) view.isSlaAtRisk = isSlaAtRisk;
    if (task.note !== undefined) view.note = task.note;
    if (!isFinal) this.#open.set(view, open);
    return view;
  }

  /** The items that a view counts as submitted, so that objects shown with it are of its moment. */
  submittedIn(view: TaskView): ReadonlySet<number> {
    return this.#open.get(view) ?? NO_ITEMS;
  }

  #openItems({ number, totalItems }: PostedRecord): ReadonlySet<number> {
    const open = new Set<number>();
    if (!this.#log.has(number)) return open;
    for (let item = 0; item < totalItems; item += 1) if (this.#log.isOpen(number, item)) open.add(item);
    return open;
  }

  /** When its last answer was staged, or it was cancelled or expired: the same in every process. */
  async #finishedOf(task: PostedRecord): Promise<number> {
    let latestMs = Math.max(task.createdWallMs, task.cancelledWallMs ?? 0);
    const justEnded = this.#justEnded.get(task.number);
    if (justEnded !== undefined) return Math.max(latestMs, justEnded.lastWallMs);
    for await (const { item, endedWallMs, status, isAnswered } of this.#reader.ended(task))
      latestMs = Math.max(latestMs, isAnswered ? endedWallMs : restEndedWallMs(task, item, status));
    return latestMs;
  }

  /** Its holds, each with the number of its items. */
  #heldOf(task: PostedRecord, home: PostedHome | undefined): RunHolds {
    if (home === undefined) return NO_HOLDS;
    const found = this.#core.sending.holds.of(home.owner);
    const { holds } = found;
    if (holds.length === 0) return NO_HOLDS;
    const items = new Map<Hold, number>();
    for (let item = 0; item < task.totalItems; item += 1) {
      if (!this.#log.isOpen(task.number, item)) continue;
      const model = home.owner.models[home.task.firstLine + item - 1] ?? "";
      const hold = holds.find((each) => concerns(this.#core.config.providerNames, each, model));
      if (hold !== undefined) items.set(hold, (items.get(hold) ?? 0) + 1);
    }
    return { ...found, holds: [...items].map(([hold, count]) => ({ ...hold, items: count })) };
  }

  /** The end of the last of its models; unknown while one of them is stopped, or a hold of its items has no known end. */
  #basisOf(task: PostedRecord, submitted: number, home: PostedHome | undefined, held: RunHolds): EndForecast {
    const { clock } = this.#core.storage;
    const deadlineWallMs = deadlineWallMsOf(task);
    const isDated = deadlineWallMs !== undefined;
    const isStopped = task.works.some(([model]) => this.#core.sending.lanes.isStopped(model));
    if (
      isStopped ||
      this.#work.groups.lacksMoney(task.number, home?.owner) ||
      isEndUnknown(held, clock.wallMs())
    )
      return { expectedEndWallMs: undefined, isSlaAtRisk: isDated };
    const [nowMs, wallMs] = [clock.nowMs(), this.wallMsOf(task)];
    const deadlineMs = isDated ? nowMs + deadlineWallMs - wallMs : Number.POSITIVE_INFINITY;
    const done = this.#expectedDone(task, { submitted, home, nowMs, deadlineMs });
    const endWallMs = Math.round(wallMs + Math.min(LEFT_MS_MAX, done.atMs - nowMs));
    const isSlaAtRisk = isDated && endWallMs > deadlineWallMs;
    return { expectedEndWallMs: done.isKnown ? endWallMs : undefined, isSlaAtRisk };
  }

  /**
   * Items in its lanes are counted there: one more item, due just after them, is done after them. Items that arrived a moment ago, or
   * are parked, are not in the lanes: then all of them count, and items parked before as more of the same.
   */
  #expectedDone(
    task: PostedRecord,
    {
      submitted,
      home,
      nowMs,
      deadlineMs,
    }: {
      readonly submitted: number;
      readonly home: PostedHome | undefined;
      readonly nowMs: number;
      readonly deadlineMs: number;
    },
  ): ExpectedDone {
    const { project, totalItems } = task;
    const isSeen = home !== undefined && nowMs - home.owner.settings.startedMs >= RECENT_MS;
    const unread = isSeen ? 0 : this.#core.sending.backlog.unreadItems(project, deadlineMs);
    const scale = Math.max(1, unread / totalItems);
    let [doneMs, isKnown] = [nowMs, true];
    for (const [model, items, tokens] of task.works) {
      if (parseModelId(model) === undefined) continue;
      const count = isSeen ? 1 : items * scale;
      const outputTokens = count * this.#core.sending.sender.loads.meanOutputTokensOf(model);
      const work = {
        model,
        project,
        items: count,
        inputTokens: (count * tokens) / items,
        outputTokens,
        deadlineMs: deadlineMs + (isSeen ? 1 : 0),
      };
      const done = this.#core.sending.lanes.forecasts.expectedDone(work);
      doneMs = Math.max(doneMs, done.atMs);
      isKnown &&= done.isKnown;
    }
    const share = isSeen ? shareOf(home, totalItems, submitted) : 1;
    return { atMs: nowMs + (doneMs - nowMs) * share, isKnown };
  }
}

const NO_ITEMS: ReadonlySet<number> = new Set();
const NOTHING_USED: TaskView["usage"] = { inputTokens: 0, outputTokens: 0, ...NO_MONEY };

function usageOf({
  inputTokens,
  outputTokens,
  listUsd,
  usd,
  billedUsd,
  ambiguousUsd,
}: ShownSums): TaskView["usage"] {
  return {
    inputTokens,
    outputTokens,
    listUsd: roundedUsd(listUsd),
    usd: roundedUsd(usd),
    billedUsd: roundedUsd(billedUsd),
    ambiguousUsd: roundedUsd(ambiguousUsd),
  };
}

/** The part of what its group has left that is done when the task is done. */
function shareOf({ owner, task }: PostedHome, items: number, open: number): number {
  const left = owner.openItems;
  const ahead = Math.max(open, task.firstLine + items - 1 - owner.items.done.size);
  return left <= 0 ? 1 : Math.min(1, ahead / left);
}
