/**
 * Admission: whether work may be accepted, by what waits already and by the project's money.
 *
 *   estimated (tokens, expected answers, money) -> feasible within its sla? -> money held -> accepted
 *
 * Money is an estimate: counted input, expected output, today's price after the price factor. It is held until what the
 * work really cost is noted.
 */
import type { EngineParts } from "../engine/parts.ts";
import { PerigeeError } from "../errors.ts";
import { costOf } from "../price/cost.ts";
import { priceFactor } from "../price/factor.ts";
import { NO_USAGE } from "../work/outcome.ts";
import { parseModelId } from "../work/request.ts";
import { SLA_MINUTES_MAX } from "../work/sla.ts";
import type { Hold, Spending } from "./spending.ts";

const MINUTE_MS = 60_000;

/** Items of one model and one window. */
export interface Work {
  /** `<provider>:<name>`. */
  readonly model: string;
  readonly slaMinutes: number | null;
  readonly items: number;
  readonly inputTokens: number;
  readonly volumeTokens: number;
}

/** What was admitted, and the money held for it. */
export interface Admitted {
  readonly estimatedUsd: number;
  readonly hold: Hold;
}

export interface AdmissionOptions {
  readonly parts: EngineParts;
  readonly spending: Spending;
}

export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Throws `sla_infeasible` and `budget_exceeded`; nothing is held then. */
  async admit(project: string, works: readonly Work[]): Promise<Admitted> {
    for (const work of works) this.#checkSla(project, work);
    const estimatedUsd = works.reduce((sum, work) => sum + this.#usdOf(work), 0);
    return { estimatedUsd, hold: await this.#options.spending.reserve(project, estimatedUsd) };
  }

  /** Holds the money of work that was admitted before a restart. */
  again(project: string, estimatedUsd: number): Hold {
    return this.#options.spending.hold(project, estimatedUsd);
  }

  /** Beside what waits now; of what comes later, nothing is known. */
  #checkSla(project: string, { model, slaMinutes, items, inputTokens }: Work): void {
    if (slaMinutes === null || items === 0) return;
    const { clock, forecast } = this.#options.parts;
    const nowMs = clock.nowMs();
    const deadlineMs = nowMs + slaMinutes * MINUTE_MS;
    const expected = forecast({ model, project, items, inputTokens, deadlineMs });
    if (expected.sla !== "infeasible") return;
    const minutes = Math.ceil((expected.earliestDeadlineMs - nowMs) / MINUTE_MS);
    const message = `${items} items of ${model} would not be done in ${slaMinutes} minutes behind what waits, but in about ${minutes}`;
    const earliestSlaMinutes = minutes <= SLA_MINUTES_MAX ? minutes : null;
    throw new PerigeeError("sla_infeasible", message, { details: { earliestSlaMinutes } });
  }

  #usdOf({ model, slaMinutes, items, inputTokens, volumeTokens }: Work): number {
    const { parts } = this.#options;
    const id = parseModelId(model);
    if (id === undefined || items === 0) return 0;
    const usage = {
      ...NO_USAGE,
      inputTokens: Math.ceil(inputTokens / items),
      outputTokens: parts.sender.expectedOutputTokensOf(model, 0),
    };
    const factor = priceFactor(model, slaMinutes ?? undefined, volumeTokens, parts.rateCard);
    return items * costOf(usage, parts.prices.price(id, parts.clock.wallMs()), { factor, laneFactor: 1 }).usd;
  }
}
