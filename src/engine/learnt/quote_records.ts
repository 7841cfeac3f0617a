/**
 * What quotes of earlier runs missed, kept for later processes, and quotes that follow it.
 */
import { Calibration, scoreOf, stretchedEnd } from "../../price/calibration.ts";
import { roundedUsd } from "../../price/cost.ts";
import type { KeptQuote } from "../../price/planned_quote.ts";
import type { Quote } from "../../price/quote.ts";
import type { QuoteFinish } from "../../price/quote_sla.ts";
import type { LearntStore } from "../../store/learnt.ts";
import { isObject } from "../../work/json.ts";

const [KIND, KEY] = ["quotes", "all"] as const;
/** What part of figures the bands are for: costs, times. */
const LEVELS = { cost: 0.9, time: 0.8 } as const;
const DIGITS = 4;

/** One for an engine. */
export class QuoteRecords {
  readonly cost: Calibration;
  readonly time: Calibration;
  readonly #store: LearntStore;

  constructor(store: LearntStore) {
    const kept = store.get(KIND, KEY);
    const { cost, time } = isObject(kept) ? kept : { cost: [], time: [] };
    this.cost = new Calibration(LEVELS.cost, numbersIn(cost));
    this.time = new Calibration(LEVELS.time, numbersIn(time));
    this.#store = store;
  }

  /** A run whose rest was quoted has ended; `seconds`: undefined where they are not known. */
  ended(quoted: KeptQuote, actualUsd: number, seconds: number | undefined): void {
    const { billedUsd: expected, lowUsd: low, highUsd: high, finish, stretched } = quoted;
    addTo(this.cost, scoreOf({ expected, low, high, stretched: stretched.cost }, actualUsd));
    const { expected_seconds, early_seconds, late_seconds } = finish;
    if (
      seconds !== undefined &&
      expected_seconds !== null &&
      early_seconds !== null &&
      late_seconds !== null
    ) {
      const band = { expected: expected_seconds, low: early_seconds, high: late_seconds };
      addTo(this.time, scoreOf({ ...band, stretched: stretched.time }, seconds));
    }
    this.#store.put(KIND, KEY, { cost: this.cost.scores, time: this.time.scores });
  }

  /** With bands as wide as earlier quotes say. A quote by limits alone stays: its band was not estimated. */
  calibrated<T extends Quote>(quote: T): T {
    const { stretch } = this.cost;
    if (quote.basis === "ceiling" || stretch === 1) return quote;
    return {
      ...withBand(quote, stretch),
      slas: quote.slas.map((sla) => withBand(sla, stretch)),
      models: quote.models.map((model) => ({
        ...withBand(model, stretch),
        slas: model.slas.map((sla) => withBand(sla, stretch)),
      })),
    };
  }

  calibratedFinish({ expected_seconds, early_seconds, late_seconds }: QuoteFinish): QuoteFinish {
    const { stretch } = this.time;
    const end = (seconds: number | null): number | null =>
      seconds === null || expected_seconds === null
        ? null
        : Math.ceil(stretchedEnd(expected_seconds, seconds, stretch) * 10) / 10;
    return { expected_seconds, early_seconds: end(early_seconds), late_seconds: end(late_seconds) };
  }
}

interface Billed {
  readonly billed_usd: number | null;
  readonly billed_usd_low: number | null;
  readonly billed_usd_high: number | null;
}

function withBand<T extends Billed>(part: T, stretch: number): T {
  const { billed_usd, billed_usd_low, billed_usd_high } = part;
  if (billed_usd === null || billed_usd_low === null || billed_usd_high === null) return part;
  return {
    ...part,
    billed_usd_low: roundedUsd(stretchedEnd(billed_usd, billed_usd_low, stretch)),
    billed_usd_high: roundedUsd(stretchedEnd(billed_usd, billed_usd_high, stretch)),
  };
}

function addTo(calibration: Calibration, score: number | undefined): void {
  if (score !== undefined) calibration.add(Number(score.toPrecision(DIGITS)));
}

/** The file is the user's: what is not as expected is ignored. */
function numbersIn(kept: unknown): number[] {
  return Array.isArray(kept) ? kept.filter((each) => typeof each === "number" && each >= 0) : [];
}
