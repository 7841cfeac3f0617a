/**
 * Admission: decides whether work is accepted, by the waiting work and by the project's money.
 *
 *   space in the backlog? -> estimated (tokens, expected answers, money) -> feasible within its sla? -> money held
 *     -> accepted
 *
 * Feasibility follows from the measured rate of the lanes (engine/lanes/forecasts.ts), or from how long batches take, after accepted work that the engine has not read
 * yet, which counts as items of the same size. Work without sla must be done within two minutes, because its caller waits.
 *
 * Money is an estimate of what providers will bill: counted input, expected output within the items' own limits, today's price. It is
 * held until the actual cost of the work is noted.
 */
import type { EngineCore } from "../../engine/core.ts";
import { TurnShare } from "../../engine/lanes/turn_share.ts";
import { CostFloorBook } from "../../engine/plans/cost_floors.ts";
import type { Admits, AdmittedWork, SalePromise, Work } from "../../engine/posted/admitting.ts";
import { forecastBehind } from "../../engine/runs/forecast_behind.ts";
import { PerigeeError } from "../../errors.ts";
import { costOf } from "../../price/cost.ts";
import { NO_USAGE } from "../../work/outcome.ts";
import { parseModelId } from "../../work/request.ts";
import { SLA_MINUTES_MAX } from "../../work/sla.ts";
import type { Amount, Share, TaskBacklog } from "./backlog.ts";
import type { Spending, SpendingHold } from "./spending.ts";

/** Admitted work, with the money and the backlog share held for it. */
export interface Admitted extends AdmittedWork {
  readonly hold: SpendingHold;
  /** Release it when the lot counts its lines, or they did not become durable. */
  readonly room: Share;
}

export interface AdmissionOptions {
  readonly core: EngineCore;
  readonly spending: Spending;
  readonly backlog: TaskBacklog;
}

/** How long work without sla may take. */
const IMMEDIATE_MS_MAX = 120_000;
const MINUTE_MS = 60_000;
/** Less work may wait by then. */
const RETRY_AFTER_SECONDS = 60;

/** The same or less work needs no new forecast for this long; the backlog is read no more often either. */
const EASY_MS = 100;
const EASY_KEPT_MAX = 4_096;

/** A task may name a thousand models in each of 64 windows; each new model takes 50 us. */
const FORECASTS_PER_TURN = 64;

interface Easy {
  readonly untilMs: number;
  readonly items: number;
  readonly inputTokens: number;
}

/** One for a store. */
export class Admission implements Admits<Admitted> {
  readonly #options: AdmissionOptions;
  /** Work that leaves at least half of its window free, by project, model and sla; the basis is as old. */
  readonly #easy = new Map<string, Easy>();
  readonly #turns: TurnShare;
  readonly #floors: CostFloorBook;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#floors = new CostFloorBook(options.core);
    this.#turns = new TurnShare(options.core.storage.clock, FORECASTS_PER_TURN);
  }

  /** Throws `too_many` if not even one item fits: called before anything is read or written. */
  assertRoom(project: string): void {
    this.#options.backlog.assertRoom(project, { items: 1, bytes: 1 });
  }

  /** `amount`: of all works. Throws `too_many`, `sla_infeasible`, `budget_exceeded`; then nothing is held. */
  async admit(project: string, works: readonly Work[], amount: Amount): Promise<Admitted> {
    const { backlog, spending } = this.#options;
    const room = backlog.reserve(project, amount);
    try {
      const estimatedUsd = await this.#estimate(project, works);
      return { estimatedUsd, hold: await spending.reserve(project, estimatedUsd), room };
    } catch (error) {
      room.release();
      throw error;
    }
  }

  async promises(project: string, works: readonly Work[], isPosted: boolean): Promise<SalePromise> {
    const { refundShare } = this.#options.core.config.saleTermsOf(project);
    return { costFloors: await this.#floors.of(project, works, isPosted), refundShare };
  }

  /** Holds the money of work that was admitted before a restart. */
  again(project: string, estimatedUsd: number): SpendingHold {
    return this.#options.spending.hold(project, estimatedUsd);
  }

  /** Estimated cost of all works, after checking that each is feasible. */
  async #estimate(project: string, works: readonly Work[]): Promise<number> {
    const ofModel = new Map<string, Work[]>();
    for (const work of works) {
      const same = ofModel.get(work.model);
      if (same === undefined) ofModel.set(work.model, [work]);
      else same.push(work);
    }
    let estimatedUsd = 0;
    let steps = 0;
    for (const work of works) {
      if (parseModelId(work.model) === undefined || work.items === 0) continue; // its lines fail at once
      estimatedUsd += this.#usdOf(work);
      const before = itemsBefore(work, ofModel.get(work.model) ?? []);
      if (before === 0 && this.#isEasy(project, work)) continue;
      if (steps === 0) steps = await this.#turns.take();
      steps -= 1;
      this.#assertFeasible(project, work, before);
    }
    return estimatedUsd;
  }

  #isEasy(project: string, work: Work): boolean {
    const easy = this.#easy.get(easyKeyOf(project, work));
    return (
      easy !== undefined &&
      this.#options.core.storage.clock.nowMs() < easy.untilMs &&
      work.items <= easy.items &&
      work.inputTokens <= easy.inputTokens
    );
  }

  /** Throws `sla_infeasible`; `before`: items of the same task. */
  #assertFeasible(project: string, work: Work, before: number): void {
    const { core } = this.#options;
    const { slaMinutes, items, inputTokens } = work;
    const windowMs = windowMsOf(work);
    const nowMs = core.storage.clock.nowMs();
    const forecast = forecastBehind(core, { ...work, project, windowMs }, before);
    if (forecast.doneMs - nowMs < windowMs / 2)
      this.#remember(easyKeyOf(project, work), { untilMs: nowMs + EASY_MS, items, inputTokens });
    if (forecast.sla !== "infeasible") return;
    const minutes = Math.ceil((forecast.earliestDeadlineMs - nowMs) / MINUTE_MS);
    const isPossible = minutes <= SLA_MINUTES_MAX;
    const asked = slaMinutes === null ? "at once" : `within ${slaMinutes} minutes`;
    const advice = isPossible
      ? `the earliest sla that can be kept now is ${minutes} minutes`
      : "with what waits, it cannot be done within 30 days";
    throw new PerigeeError("sla_infeasible", `${work.model} cannot answer this ${asked}: ${advice}`, {
      details: {
        earliestSlaMinutes: isPossible ? minutes : null,
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      },
    });
  }

  #remember(key: string, easy: Easy): void {
    if (this.#easy.size >= EASY_KEPT_MAX) this.#easy.clear();
    this.#easy.set(key, easy);
  }

  #usdOf({ model, items, inputTokens, outputTokens }: Work): number {
    const { core } = this.#options;
    const id = parseModelId(model);
    if (id === undefined) return 0;
    const usage = {
      ...NO_USAGE,
      inputTokens: Math.ceil(inputTokens / items),
      outputTokens: outputTokens / items,
    };
    const price = core.figures.prices.price(id, core.storage.clock.wallMs());
    return items * costOf(usage, price, { factor: 1, laneFactor: 1 }).billedUsd;
  }
}

/** Among works of one model, items of the others whose window is not longer. */
function itemsBefore(work: Work, ofModel: readonly Work[]): number {
  let items = 0;
  if (ofModel.length > 1)
    for (const other of ofModel)
      if (other !== work && windowMsOf(other) <= windowMsOf(work)) items += other.items;
  return items;
}

function easyKeyOf(project: string, work: Work): string {
  return `${project}\n${work.model}\n${windowMsOf(work)}`;
}

function windowMsOf({ slaMinutes }: Work): number {
  return slaMinutes === null ? IMMEDIATE_MS_MAX : slaMinutes * MINUTE_MS;
}
