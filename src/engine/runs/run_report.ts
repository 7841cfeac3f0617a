/**
 * The report of a run: its progress while it works, its summary at the end.
 */
import type { LimitsSnapshot } from "../../limits/limits.ts";
import type { Taken } from "../../price/budget.ts";
import { roundedUsd } from "../../price/cost.ts";
import { plusUsd } from "../../price/nano.ts";
import { sourceText } from "../../price/used_prices.ts";
import type { EngineCore } from "../core.ts";
import type { TaskBody } from "../files/task_body.ts";
import { isHoldReason } from "../items/holds.ts";
import { type LaneProgress, type Progress, Rate, type Summary } from "../items/progress.ts";
import type { RunState } from "../items/run_state.ts";
import type { AttemptsMade } from "../journal/replay.ts";
import { batchProgress } from "../shown/batch_status.ts";
import { DETACHED } from "./detaching.ts";
import { quoteOutcome } from "./quote_outcome.ts";

/** What a report is about. */
type ReportedCore = Pick<EngineCore, "storage" | "sending">;

/** Prices named in a summary at most. */
const PRICES_MAX = 1_000;

/** A run is stalled when requests are in flight and nothing was settled for so long, and for so many mean answers. */
const STILL_MS = 30_000;
const STILL_ANSWERS = 5;
/** Twice as long, it is said. */
const SAID_STILLS = 2;

/** Made when the run begins; its rates need more than one call. */
export class RunReport {
  readonly #core: ReportedCore;
  readonly #startedMs: number;
  readonly #items = new Rate();
  readonly #tokens = new Rate();
  /** Of items since the run was last held. */
  readonly #pace = new Rate();
  #settled = 0;
  /** When the report first saw that nothing is settled although requests are in flight; undefined while lines settle. */
  #stillSinceMs: number | undefined;

  constructor(core: ReportedCore) {
    this.#core = core;
    this.#startedMs = core.storage.clock.nowMs();
  }

  progress(state: RunState | undefined, isStopping: boolean): Omit<Progress, "etaMs"> {
    if (state === undefined) return opening();
    const nowMs = this.#core.storage.clock.nowMs();
    const { totals, deadlineMs } = state.settings;
    const itemsPerSecond = this.#items.update(nowMs, totals.settled);
    const isWaiting = state.isOpen && !isStopping;
    const pausedBy = isWaiting ? (state.pausedBy ?? this.#core.storage.room.waitText) : undefined;
    return {
      state: stateOf(state, isStopping, pausedBy),
      ...(pausedBy === undefined ? {} : { pausedBy }),
      held: isWaiting ? this.#core.sending.holds.of(state).holds : [],
      ...(state.linesTotal === undefined ? {} : { linesTotal: state.linesTotal - state.blankLines }),
      linesRead: state.linesRead,
      settled: totals.settled,
      completed: totals.completed,
      ...(totals.cached === 0 ? {} : { cached: totals.cached }),
      errors: totals.settled - totals.completed,
      inFlight: state.items.inFlight,
      retrying: state.items.retrying.size,
      ...this.#retry(state, nowMs),
      ...batchProgress(this.#core.sending.batches, state, nowMs),
      ...this.#silence(state),
      itemsPerSecond,
      tokensPerSecond: this.#tokens.update(nowMs, totals.inputTokens + totals.outputTokens),
      billedUsd: roundedUsd(state.settings.budget.billedUsd),
      ambiguousUsd: roundedUsd(state.settings.budget.ambiguousUsd),
      ...(isUnpriced(state) ? { hasUnpriced: true } : {}),
      listUsd: totals.listUsd,
      usd: totals.usd,
      ...(Number.isFinite(deadlineMs) ? { deadlineInMs: deadlineMs - nowMs } : {}),
      lanes: lanesProgress(this.#core, nowMs),
    };
  }

  /**
   * The forecast end, but no sooner than at the rate of the last ten seconds: those that were not held, and began no less than ten
   * seconds ago. Empty while it is unknown, as while items are held or requests hang.
   */
  eta(state: RunState, { held }: Pick<Progress, "held">): Pick<Progress, "etaMs"> {
    const { settled } = state.settings.totals;
    if (held.length > 0) this.#pace.restart();
    const nowMs = this.#core.storage.clock.nowMs();
    const perSecond = this.#pace.update(nowMs, settled);
    if (this.hasNoEnd(state)) return {};
    const left = (state.linesTotal ?? Number.NaN) - state.blankLines - settled;
    const atPaceMs = this.#pace.isWhole(nowMs) ? (left * 1_000) / perSecond : Number.NaN;
    const paceMs = left === 0 ? 0 : atPaceMs;
    const forecastMs = state.isOpen ? this.#core.sending.lanes.forecasts.leftMs(state) : undefined;
    const etaMs =
      forecastMs === undefined || !Number.isFinite(paceMs)
        ? (forecastMs ?? paceMs)
        : Math.max(forecastMs, paceMs);
    return Number.isFinite(etaMs) ? { etaMs } : {};
  }

  /** Of the item that is due first; while its lane waits, it is due with it. */
  #retry({ items }: RunState, nowMs: number): Pick<Progress, "retry"> {
    if (items.retrying.size === 0) return {};
    const waits = new Map(
      Array.from(this.#core.sending.lanes.all(), ({ terms, limits }) => [terms.key, limits.retryMs(nowMs)]),
    );
    let retry: Progress["retry"];
    for (const { code, message, call } of items.retrying.values()) {
      const nextTryInMs = Math.max(waits.get(call.lane.key) ?? 0, (call.retryAtMs ?? nowMs) - nowMs);
      if (retry === undefined || nextTryInMs < retry.nextTryInMs) retry = { code, message, nextTryInMs };
    }
    return retry === undefined ? {} : { retry };
  }

  /** Whether the end is unknown, because items are held or requests hang. */
  hasNoEnd(state: RunState): boolean {
    return this.#isStill(state) || this.#core.sending.holds.isEndUnknown(state);
  }

  #isStill(state: RunState): boolean {
    return this.#stills(state).times > 1;
  }

  #silence(state: RunState): Pick<Progress, "noAnswerMs"> {
    const { times, stillMs } = this.#stills(state);
    return times > SAID_STILLS && state.items.retrying.size === 0 ? { noAnswerMs: stillMs } : {};
  }

  /** For how long nothing was settled, and how often that is the time after which a run is stalled. */
  #stills(state: RunState): { readonly times: number; readonly stillMs: number } {
    const nowMs = this.#core.storage.clock.nowMs();
    const { settled } = state.settings.totals;
    if (settled !== this.#settled || state.items.inFlight === 0) this.#stillSinceMs = undefined;
    this.#settled = settled;
    this.#stillSinceMs ??= nowMs;
    const itemMs = Math.max(
      0,
      ...Array.from(this.#core.sending.lanes.all(), (lane) => (lane.hasAnswered ? lane.itemMs : 0)),
    );
    const stillMs = nowMs - this.#stillSinceMs;
    return { times: stillMs / Math.max(STILL_MS, STILL_ANSWERS * itemMs), stillMs };
  }

  summary(state: RunState, body: TaskBody, stopReason?: string): Summary {
    const { totals } = state.settings;
    const taken = stopReason === undefined ? settledMoney(state) : stoppedMoney(state);
    const total = Math.max(totals.settled, (state.linesTotal ?? state.linesRead) - state.blankLines);
    const items = stopReason === undefined ? totals.settled : total;
    const open = attemptsOfOpen(state);
    const prices = state.settings.prices.prices.slice(0, PRICES_MAX);
    return {
      status: statusOf(stopReason),
      task_id: state.id,
      items,
      counts: {
        submitted: items - totals.settled,
        completed: totals.completed,
        failed: totals.failed,
        expired: totals.expired,
        cancelled: totals.cancelled,
      },
      ...(totals.cached === 0 ? {} : { cached: totals.cached }),
      ...(totals.cut === 0 ? {} : { cut: totals.cut }),
      errors: totals.errors,
      warnings: totals.warnings,
      usage: {
        input_tokens: totals.inputTokens,
        cached_tokens: totals.cachedTokens,
        cache_write_tokens: totals.cacheWriteTokens,
        output_tokens: totals.outputTokens,
        reasoning_tokens: totals.reasoningTokens,
        attempts: totals.attempts + open.attempts,
        ambiguous_attempts: totals.ambiguousAttempts + open.ambiguousAttempts,
      },
      cost: {
        billed_usd: taken.billedUsd,
        ambiguous_usd: taken.ambiguousUsd,
        list_usd: totals.listUsd,
        usd: totals.usd,
        is_estimated: totals.isEstimated || taken.ambiguousUsd > 0 || open.ambiguousAttempts > 0,
        prices,
        price_source: sourceText(prices) || "nothing to price",
      },
      output: body.out,
      ...(stopReason === undefined ? quoteOutcome(state, this.#core.storage.clock.nowMs()) : {}),
      elapsed_ms: Math.round(this.#core.storage.clock.nowMs() - this.#startedMs),
      requests_sent: state.items.requestsSent,
      ...(stopReason === undefined || stopReason === DETACHED ? {} : { reason: stopReason }),
      held: [],
    };
  }

  /** The progress of a run that was over before. */
  over({ items, counts, cached, cost }: Summary): Progress {
    return {
      ...opening(),
      state: "done",
      linesTotal: items,
      linesRead: items,
      settled: items,
      completed: counts.completed,
      ...(cached === undefined ? {} : { cached }),
      errors: items - counts.completed,
      billedUsd: cost.billed_usd,
      ambiguousUsd: cost.ambiguous_usd,
      ...(cost.prices.some(({ source }) => source === null) ? { hasUnpriced: true } : {}),
      listUsd: cost.list_usd,
      usd: cost.usd,
    };
  }

  /** The summary of a run that was over before: this call sent nothing. */
  again(summary: Summary): Summary {
    return {
      ...summary,
      elapsed_ms: Math.round(this.#core.storage.clock.nowMs() - this.#startedMs),
      requests_sent: 0,
    };
  }
}

/** Of a run whose every line has ended: the sums of its lines, as their receipts have them. */
function settledMoney({ settings: { totals, unrecordedUsd } }: RunState): Taken {
  return { billedUsd: totals.billedUsd, ambiguousUsd: plusUsd(totals.ambiguousUsd, unrecordedUsd) };
}

/** Of a run that stops: nothing more is recorded, so what is under way is in doubt. */
function stoppedMoney({ settings: { budget } }: RunState): Taken {
  const { billedUsd, ambiguousUsd, heldUsd } = budget;
  return { billedUsd: roundedUsd(billedUsd), ambiguousUsd: roundedUsd(ambiguousUsd + heldUsd) };
}

/** Whether lines that ended were reckoned without a known price. */
function isUnpriced({ settings: { totals, prices } }: RunState): boolean {
  return totals.settled > 0 && prices.prices.slice(0, PRICES_MAX).some(({ source }) => source === null);
}

/** Attempts of lines that have not ended: those with a known end, and those in flight, which are in doubt when a run stops. */
function attemptsOfOpen({
  items: { made, inFlight },
}: RunState): Pick<AttemptsMade, "attempts" | "ambiguousAttempts"> {
  let [attempts, ambiguousAttempts] = [inFlight, inFlight];
  for (const each of made.values()) {
    attempts += each.attempts;
    ambiguousAttempts += each.ambiguousAttempts;
  }
  return { attempts, ambiguousAttempts };
}

function statusOf(stopReason: string | undefined): Summary["status"] {
  if (stopReason === undefined) return "completed";
  if (stopReason === DETACHED) return "detached";
  return isHoldReason(stopReason) ? "paused" : "stopped";
}

function opening(): Progress {
  return {
    state: "reading",
    linesRead: 0,
    settled: 0,
    completed: 0,
    errors: 0,
    inFlight: 0,
    retrying: 0,
    itemsPerSecond: 0,
    tokensPerSecond: 0,
    held: [],
    billedUsd: 0,
    ambiguousUsd: 0,
    listUsd: 0,
    usd: 0,
    lanes: [],
  };
}

function stateOf(state: RunState, isStopping: boolean, pausedBy: string | undefined): Progress["state"] {
  if (isStopping) return "stopping";
  if (state.phase === "done") return "done";
  return pausedBy === undefined ? "running" : "paused";
}

/** Of all lanes that were ever used. */
export function lanesProgress({ sending }: Pick<EngineCore, "sending">, nowMs: number): LaneProgress[] {
  return Array.from(sending.lanes.all(), ({ terms, limits, offers }) => ({
    ...laneProgress(terms.key, limits.snapshot(nowMs)),
    ...(offers === undefined ? {} : { cheaper: offers.status }),
  }));
}

function laneProgress(key: string, limits: LimitsSnapshot): LaneProgress {
  const { requests, tokens } = limits;
  return {
    lane: key,
    state: limits.state,
    inFlight: limits.inFlight,
    inFlightMax: Math.max(limits.inFlight, limits.inFlightMax),
    ...(requests === undefined ? {} : { requestsShare: requests.used / requests.limit }),
    ...(tokens === undefined ? {} : { tokensShare: tokens.used / tokens.limit }),
    ...(limits.oversized === undefined ? {} : { oversized: limits.oversized }),
  };
}
