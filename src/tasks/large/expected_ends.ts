/**
 * Estimates when open tasks will end, from what is known.
 *
 *   its lot waits for its turn -> after what waits in its lanes (engine/lanes/forecasts.ts), and after all accepted work with no
 *                                 later deadline, which counts as items of the same kind
 *   its lot runs               -> the latest of: after what waits in its lanes; what it has left, as if that went first;
 *                                 what the project's lots with no later deadline have left, at their rate of the last
 *                                 ten seconds (known after ten seconds of requests, and while it has no running posted tasks)
 *
 * A task in a shared lot that runs ends with its own lines: the share of the lot up to its last one.
 *
 * The end is unknown while it depends on how long answers take and no answer was measured (engine/lanes/work_times.ts), and while an
 * account is stopped (no money, a refused key), because nobody knows when it will continue. A lot of one task then has no end as soon
 * as any of its items waits for such an account. A shared lot has none when all remaining items do, because it is not known here which
 * of its tasks wait.
 *
 * For a lot with more than a hundred lanes, the estimate uses those with the most items. The estimate of a lot is kept for a second,
 * for all tasks that share it and all requests.
 */

import type { EngineCore } from "../../engine/core.ts";
import type { NewWork } from "../../engine/lanes/forecasts.ts";
import { lacksMoney } from "../../engine/lanes/money_forecast.ts";
import type { ExpectedDone } from "../../engine/lanes/work_times.ts";
import { Budget, Cap } from "../../price/budget.ts";
import { parseModelId } from "../../work/request.ts";
import type { Lot } from "../lots/lot.ts";
import { shownWallMs } from "../lots/lot_deadline.ts";
import type { LotWork } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import type { TaskPart } from "../lots/task_record.ts";

/** How long an estimate is reused. */
export const ESTIMATE_KEPT_MS = 1_000;
/** A rate counts after it was requested for this long without a longer pause: a rate at a start, or an old one, is not valid. */
const RATE_MS = 10_000;
/** The most lanes of a lot that are read, those with the most items: a task may have 64 lots of a thousand models each. */
const LANES_MAX = 100;
/** Assumed for work that its lane would never finish. */
const LEFT_MS_MAX = 366 * 86_400_000;

interface Estimate {
  readonly atMs: number;
  /** Until the end of the lot, from then on; Infinity while accounts are stopped. */
  readonly leftMs: number;
  /** Whether that was measured. */
  readonly isKnown: boolean;
}

/** When a part of a lot is expected to end. */
export interface ExpectedEnd {
  /** Unix time; Infinity while accounts are stopped, or caps leave too little. */
  readonly wallMs: number;
  /** False while it depends on how long answers take and no answer was measured, and while accounts are stopped. */
  readonly isKnown: boolean;
}

/** The running lots of a project. */
interface Pace {
  readonly atMs: number;
  /** Since when it was requested without a pause. */
  readonly sinceMs: number;
  readonly lots: readonly {
    readonly deadlineMs: number;
    readonly left: number;
    readonly perSecond: number;
  }[];
}

export class ExpectedEnds {
  readonly #core: Pick<EngineCore, "storage" | "sending">;
  readonly #lots: Lots;
  readonly #estimates = new WeakMap<Lot, Estimate>();
  readonly #paces = new Map<string, Pace>();

  constructor(core: Pick<EngineCore, "storage" | "sending">, lots: Lots) {
    this.#core = core;
    this.#lots = lots;
  }

  /**
   * When the `open` items of a part will be done, now at the earliest; undefined if their models are not known. `caps` are those of its
   * project.
   */
  endOf(lot: Lot, part: TaskPart, open: number, caps: readonly Cap[]): ExpectedEnd | undefined {
    const { clock } = this.#core.storage;
    const nowMs = clock.nowMs();
    const estimate = this.#estimateOf(lot, nowMs, caps);
    if (estimate === undefined) return undefined;
    const { isKnown } = estimate;
    if (estimate.leftMs === Number.POSITIVE_INFINITY) return { wallMs: estimate.leftMs, isKnown };
    const leftMs = estimate.leftMs * (lot.isLive ? shareOf(lot, part, open) : 1);
    const restMs = Math.max(0, estimate.atMs + leftMs - nowMs);
    return { wallMs: Math.round(shownWallMs(lot.record, clock.moment()) + restMs), isKnown };
  }

  #estimateOf(lot: Lot, nowMs: number, caps: readonly Cap[]): Estimate | undefined {
    const known = this.#estimates.get(lot);
    if (known !== undefined && nowMs - known.atMs < ESTIMATE_KEPT_MS) return known;
    if (this.#isStopped(lot) || (!lot.isLive && this.#lacksMoney(lot, caps))) {
      const stopped = { atMs: nowMs, leftMs: Number.POSITIVE_INFINITY, isKnown: false };
      this.#estimates.set(lot, stopped);
      return stopped;
    }
    const done = lot.isLive ? this.#runDone(lot, nowMs) : this.#waitingDone(lot);
    if (done === undefined) return undefined;
    const leftMs = Math.min(LEFT_MS_MAX, Math.max(0, done.atMs - nowMs));
    const estimate = { atMs: nowMs, leftMs, isKnown: done.isKnown };
    this.#estimates.set(lot, estimate);
    return estimate;
  }

  #isStopped({ record, run, isLive, works }: Lot): boolean {
    const isShared = record.taskId === undefined;
    if (isLive && run !== undefined) return isShared ? run.look().state === "paused" : run.hasNoEnd;
    const isStopped = ({ model }: LotWork): boolean => this.#core.sending.lanes.isStopped(model);
    return isShared ? works.length > 0 && works.every(isStopped) : works.some(isStopped);
  }

  /** For a lot that no run has begun: by its estimated cost. */
  #lacksMoney(lot: Lot, caps: readonly Cap[]): boolean {
    const { items, estimatedUsd = 0, maxCostUsd } = lot.record;
    const budget = new Budget(maxCostUsd === undefined ? caps : [...caps, new Cap(maxCostUsd)]);
    budget.expect(estimatedUsd / Math.max(1, items), 0);
    const settings = { budget, deadlineMs: lot.deadlineMs };
    return lacksMoney({ settings, openItems: leftOf(lot) }, this.#core.sending.lanes.all());
  }

  #runDone(lot: Lot, nowMs: number): ExpectedDone | undefined {
    const { slaMinutes } = lot.record;
    const deadlineMs = slaMinutes === null ? Number.POSITIVE_INFINITY : lot.deadlineMs;
    // Its items in its lanes are counted there: one more item, due just after them, is done after them.
    const behind = this.#done(lot, deadlineMs + 1_000, (items) => 1 / items);
    if (behind === undefined) return undefined;
    const share = leftOf(lot) / Math.max(1, lot.record.items);
    const alone = this.#done(lot, Number.NEGATIVE_INFINITY, () => share) ?? behind;
    const atMs = Math.max(behind.atMs, alone.atMs, nowMs + this.#paceMs(lot, nowMs));
    return { atMs, isKnown: behind.isKnown && alone.isKnown };
  }

  /** 0 if no rate is known. */
  #paceMs(lot: Lot, nowMs: number): number {
    const { sinceMs, lots } = this.#paceOf(lot.record.project, nowMs);
    if (nowMs - sinceMs < RATE_MS || this.#lots.hasPosted(lot.record.project)) return 0;
    let left = 0;
    let perSecond = 0;
    for (const other of lots) {
      if (other.deadlineMs > lot.deadlineMs) continue;
      left += other.left;
      perSecond += other.perSecond;
    }
    return perSecond > 0 ? (left * 1_000) / perSecond : 0;
  }

  #paceOf(project: string, nowMs: number): Pace {
    const known = this.#paces.get(project);
    if (known !== undefined && nowMs - known.atMs < ESTIMATE_KEPT_MS) return known;
    for (const [other, { atMs }] of this.#paces) if (nowMs - atMs >= RATE_MS) this.#paces.delete(other);
    const sinceMs = this.#paces.get(project)?.sinceMs ?? nowMs;
    const lots = [];
    for (const lot of this.#lots.openLots) {
      if (lot.record.project !== project || !lot.isLive) continue;
      const perSecond = lot.run?.look().itemsPerSecond ?? 0;
      lots.push({ deadlineMs: lot.deadlineMs, left: leftOf(lot), perSecond });
    }
    const pace = { atMs: nowMs, sinceMs, lots };
    this.#paces.set(project, pace);
    return pace;
  }

  #waitingDone(lot: Lot): ExpectedDone | undefined {
    const { project, slaMinutes } = lot.record;
    const deadlineMs = slaMinutes === null ? Number.POSITIVE_INFINITY : lot.deadlineMs;
    const unread = this.#core.sending.backlog.unreadItems(project, lot.deadlineMs);
    const own = lot.works.reduce((sum, { items }) => sum + items, 0);
    const scale = Math.max(1, unread / Math.max(1, own)); // includes its own items
    return this.#done(lot, deadlineMs, () => scale);
  }

  /** The last of its lanes, with the work in each multiplied by `scaleOf`; undefined if it has no lanes. */
  #done(lot: Lot, deadlineMs: number, scaleOf: (items: number) => number): ExpectedDone | undefined {
    let latest: ExpectedDone | undefined;
    for (const { outputTokens, ...work } of this.#byLane(lot.works)) {
      const scale = scaleOf(work.items);
      const scaled: NewWork = {
        model: work.model,
        project: lot.record.project,
        items: work.items * scale,
        inputTokens: work.inputTokens * scale,
        outputTokens: outputTokens * scale,
        deadlineMs,
      };
      const done = this.#core.sending.lanes.forecasts.expectedDone(scaled);
      const { atMs, isKnown } = latest ?? done;
      latest = { atMs: Math.max(atMs, done.atMs), isKnown: isKnown && done.isKnown };
    }
    return latest;
  }

  #byLane(works: readonly LotWork[]): Iterable<LotWork & { readonly outputTokens: number }> {
    const { sender } = this.#core.sending;
    const lanes = new Map<string, LotWork & { readonly outputTokens: number }>();
    for (const { model, items, inputTokens } of works) {
      if (items === 0 || parseModelId(model) === undefined) continue; // fails at once
      const { key } = sender.models.of(model);
      const outputTokens = items * sender.loads.meanOutputTokensOf(model);
      const sum = lanes.get(key);
      lanes.set(key, {
        model: sum?.model ?? model,
        items: items + (sum?.items ?? 0),
        inputTokens: inputTokens + (sum?.inputTokens ?? 0),
        outputTokens: outputTokens + (sum?.outputTokens ?? 0),
      });
    }
    if (lanes.size <= LANES_MAX) return lanes.values();
    return [...lanes.values()].sort((a, b) => b.items - a.items).slice(0, LANES_MAX);
  }
}

/** The part of what its lot has left that is done when these lines are done. */
function shareOf(lot: Lot, { firstLine, lines }: TaskPart, open: number): number {
  const left = leftOf(lot);
  const ahead = Math.max(open, firstLine + lines - 1 - (lot.record.items - left));
  return left <= 0 ? 1 : Math.min(1, ahead / left);
}

/** Items that are not final. */
function leftOf(lot: Lot): number {
  const { completed, failed, expired, cancelled } = lot.sums().counts;
  return Math.max(0, lot.record.items - completed - failed - expired - cancelled);
}
