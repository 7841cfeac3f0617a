/**
 * Views of tasks: counts and sums over their lots, kept for as long as nothing changes.
 */
import { createHash, randomUUID } from "node:crypto";
import type { EngineParts } from "../engine/parts.ts";
import type { TaskCounts } from "../work/task.ts";
import type { Lot } from "./lot.ts";
import type { LotEnd, LotRecord } from "./lot_record.ts";
import type { Lots } from "./lots.ts";
import type { TaskPart, TaskRecord } from "./task_record.ts";
import type { TaskView } from "./task_view.ts";

/** Views kept at most. */
const KEPT_MAX = 1_024;

interface Look {
  readonly record: LotRecord;
  /** Undefined when its record says all. */
  readonly lot: Lot | undefined;
}

interface PartSums {
  readonly unreadable: number;
  readonly counts: TaskCounts;
  readonly usage: TaskView["usage"];
}

export class TaskViews {
  readonly #parts: EngineParts;
  readonly #lots: Lots;
  /** Steps are counted anew in every process. */
  readonly #process: string = randomUUID().slice(0, 8);
  /** The one looked at last comes last. */
  readonly #kept = new Map<string, { readonly state: string; readonly view: TaskView }>();

  constructor(parts: EngineParts, lots: Lots) {
    this.#parts = parts;
    this.#lots = lots;
  }

  async view(task: TaskRecord): Promise<TaskView> {
    const lots = this.#lookNow(task) ?? (await Promise.all(task.parts.map(({ lotId }) => this.#look(lotId))));
    const state = this.#stateOf(task, lots);
    const known = this.#kept.get(task.id);
    if (known?.state === state) return known.view;
    // What was seen as final stays as it was seen: a lot that others share goes on.
    if (known?.view.finishedWallMs !== undefined) return known.view;
    const view = this.#viewOf(task, lots, state);
    this.#kept.delete(task.id);
    this.#kept.set(task.id, { state, view });
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_MAX) break;
      this.#kept.delete(oldest);
    }
    return view;
  }

  /** Without a wait, as for every task that was just accepted; undefined where a lot must be found. */
  #lookNow({ parts }: TaskRecord): readonly Look[] | undefined {
    const looks: Look[] = [];
    for (const { lotId } of parts) {
      const lot = this.#lots.now(lotId);
      if (lot === undefined) return undefined;
      looks.push({ record: lot.record, lot });
    }
    return looks;
  }

  /** A lot of its own that is over says all in its record. */
  async #look(lotId: string): Promise<Look> {
    const record = await this.#lots.recordOf(lotId);
    if (record.over !== undefined && record.taskId !== undefined) return { record, lot: undefined };
    const lot = await this.#lots.find(lotId);
    return { record: lot.record, lot };
  }

  /** Another whenever the view may be another. */
  #stateOf(task: TaskRecord, lots: readonly Look[]): string {
    const states = lots.map(({ lot }) => {
      if (lot === undefined || lot.isOver) return "x";
      const member = lot.memberOf(task.id);
      const isFinal = member !== undefined && member.open === 0;
      return isFinal ? "x" : `${this.#process}.${lot.version}`;
    });
    const text = `${task.isCancelled === true ? "c" : ""}${states.join("-")}`;
    return text.length <= 64 ? text : createHash("sha256").update(text).digest("base64url").slice(0, 22);
  }

  #viewOf(task: TaskRecord, lots: readonly Look[], state: string): TaskView {
    const sums = task.parts.map((part, index) => sumsOf(task, part, lots[index] as Look));
    const counts = sums.reduce((total, each) => addCounts(total, each.counts), NO_COUNTS);
    const usage = sums.reduce((total, each) => addUsage(total, each.usage), NO_USAGE);
    const isFinal = counts.submitted === 0;
    const deadlineWallMs = deadlineOf(task);
    const finishedWallMs = isFinal ? finishedOf(task, lots) : undefined;
    const expectedEndWallMs = isFinal ? undefined : this.#expectedEndOf(lots);
    return {
      id: task.id,
      project: task.project,
      status: statusOf(task, counts, sums),
      isCancelled: task.isCancelled === true,
      totalItems: task.totalItems,
      counts,
      createdWallMs: task.createdWallMs,
      ...(deadlineWallMs === undefined ? {} : { deadlineWallMs }),
      ...(finishedWallMs === undefined ? {} : { finishedWallMs }),
      ...(expectedEndWallMs === undefined ? {} : { expectedEndWallMs }),
      hasOutputFile: task.hasOutputFile,
      usage,
      ...(task.note === undefined ? {} : { note: task.note }),
      version: finishedWallMs === undefined ? state : finalVersionOf(task),
    };
  }

  #expectedEndOf(lots: readonly Look[]): number | undefined {
    let latestMs: number | undefined;
    for (const { lot, record } of lots) {
      if (lot === undefined || lot.isOver || record.taskId === undefined) continue;
      const etaMs = lot.run?.progress().etaMs;
      if (etaMs === undefined) return undefined;
      latestMs = Math.max(latestMs ?? 0, etaMs);
    }
    return latestMs === undefined ? undefined : Math.round(this.#parts.clock.wallMs() + latestMs);
  }
}

const NO_COUNTS: TaskCounts = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
const NO_USAGE: TaskView["usage"] = { inputTokens: 0, outputTokens: 0, listUsd: 0, usd: 0 };

function addCounts(a: TaskCounts, b: TaskCounts): TaskCounts {
  return {
    submitted: a.submitted + b.submitted,
    completed: a.completed + b.completed,
    failed: a.failed + b.failed,
    expired: a.expired + b.expired,
    cancelled: a.cancelled + b.cancelled,
  };
}

function addUsage(a: TaskView["usage"], b: TaskView["usage"]): TaskView["usage"] {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    listUsd: a.listUsd + b.listUsd,
    usd: a.usd + b.usd,
  };
}

function statusOf(
  { totalItems }: TaskRecord,
  { submitted, failed }: TaskCounts,
  sums: readonly PartSums[],
): TaskView["status"] {
  if (submitted > 0) return "submitted";
  const unreadable = sums.reduce((total, each) => total + each.unreadable, 0);
  return totalItems > 0 && failed === totalItems && unreadable >= totalItems ? "failed" : "completed";
}

function sumsOf(task: TaskRecord, part: TaskPart, { record, lot }: Look): PartSums {
  if (lot === undefined) return sumsOver(part, record);
  return lot.record.taskId === undefined ? sumsShared(task, part, lot) : sumsOwn(part, lot);
}

function sumsOwn({ items }: TaskPart, lot: Lot): PartSums {
  const { counts, inputTokens, outputTokens } = lot.sums();
  const { unreadable } = lot;
  const submitted = Math.max(0, items - settledOf(counts));
  return {
    unreadable,
    counts: { submitted, ...counts },
    usage: { inputTokens, outputTokens, ...ownCost(lot) },
  };
}

function sumsShared(task: TaskRecord, { firstLine, lines, items }: TaskPart, lot: Lot): PartSums {
  const last = firstLine + lines - 1;
  const counts = { ...lot.index.counts(firstLine, last) };
  if (task.isCancelled === true)
    for (let line = firstLine; line <= last; line += 1)
      if (lot.index.statusOf(line) === undefined && lot.statusOf(line, true) === "cancelled")
        counts.cancelled += 1;
  const cost = lot.costOf(firstLine, lines) ?? { listUsd: 0, usd: 0 };
  return {
    unreadable: 0, // what makes no object is refused when it is submitted
    counts: { submitted: Math.max(0, items - settledOf(counts)), ...counts },
    usage: { ...lot.index.tokens(firstLine, last), ...cost },
  };
}

function settledOf({ completed, failed, expired, cancelled }: LotEnd["counts"]): number {
  return completed + failed + expired + cancelled;
}

function sumsOver({ items }: TaskPart, { over }: LotRecord): PartSums {
  const { counts, unreadable, inputTokens, outputTokens, listUsd, usd } = over as LotEnd; // looked at only then
  return {
    unreadable,
    counts: { submitted: Math.max(0, items - settledOf(counts)), ...counts },
    usage: { inputTokens, outputTokens, listUsd, usd },
  };
}

function ownCost({ run }: Lot): { readonly listUsd: number; readonly usd: number } {
  const progress = run?.progress();
  return { listUsd: progress?.listUsd ?? 0, usd: progress?.costUsd ?? 0 };
}

/** The same for all time. */
function finalVersionOf({ id }: TaskRecord): string {
  return `f${id.slice(0, 8)}`;
}

function deadlineOf(task: TaskRecord): number | undefined {
  const slas = task.parts.flatMap(({ slaMinutes }) => (slaMinutes === null ? [] : [slaMinutes]));
  return slas.length === 0 ? undefined : task.createdWallMs + Math.max(...slas) * 60_000;
}

/** Of a task without objects: when it came. Undefined where an earlier process alone knows it, until its lot is over. */
function finishedOf(task: TaskRecord, lots: readonly Look[]): number | undefined {
  let latestMs = task.createdWallMs;
  for (const [index, { lot, record }] of lots.entries()) {
    if (task.parts[index]?.items === 0) continue;
    const finishedMs = lot?.memberOf(task.id)?.finishedWallMs ?? record.over?.finishedWallMs;
    if (finishedMs === undefined) return undefined;
    latestMs = Math.max(latestMs, finishedMs);
  }
  return latestMs;
}
