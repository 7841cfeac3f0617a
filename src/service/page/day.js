/**
 * The last 24 hours, a point a minute, smoothed over 15: refusals with 429, latency of answers, and cost. Older minutes come once, from
 * the store; the last ones with each snapshot.
 */
import { byId } from "./dom.js";
import { duration, rate, usd } from "./format.js";
import { colourOf, drawPlot } from "./plot.js";

const MINUTES = 1_440;
/** Means over so many minutes: a minute of few answers says little. */
const SMOOTHED = 15;
const SERIES = ["items", "failed", "tokens", "answers", "answer_ms", "refused", "billed_usd"];

const CHARTS = [
  {
    id: "day-refused",
    of: (sums) => smooth(sums.refused),
    words: rate,
    what: "Requests refused with 429 a minute",
  },
  {
    id: "day-latency",
    of: latency,
    words: (ms) => (ms < 1_000 ? `${rate(ms)} ms` : `${rate(ms / 1_000)} s`),
    what: "Latency of answers",
  },
  {
    id: "day-cost",
    of: (sums) => smooth(sums.billed_usd).map((value) => value * 60),
    words: usd,
    what: "Cost an hour",
  },
];

export class Day {
  #start = 0;
  #sums = Object.fromEntries(SERIES.map((name) => [name, []]));
  #plots = new Map();

  constructor() {
    for (const { id } of CHARTS) new ResizeObserver(() => this.#draw()).observe(byId(id));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw(true));
  }

  /** Sums a minute, `start` in Unix minutes; newer ones over older ones, but the whole day over all. */
  add(given) {
    const end = Math.max(given.start + given.items.length, this.#start + this.#sums.items.length);
    const first = end - MINUTES;
    const sums = {};
    for (const name of SERIES)
      sums[name] = Array.from({ length: MINUTES }, (_, index) => {
        const minute = first + index;
        const [more, known] = [given[name][minute - given.start], this.#sums[name][minute - this.#start]];
        return Math.max(more ?? 0, known ?? 0); // sums only rise: a minute of before a restart is in the day, not in snapshots
      });
    const isSame =
      first === this.#start &&
      SERIES.every((name) => sums[name].every((value, index) => value === this.#sums[name][index]));
    this.#start = first;
    this.#sums = sums;
    if (!isSame) this.#draw();
  }

  /** Sums of the known minutes, the oldest first. */
  get sums() {
    return this.#sums;
  }

  #draw(isAgain = false) {
    if (this.#sums.items.length === 0) return;
    const times = this.#sums.items.map((_, index) => (this.#start + index) * 60);
    for (const { id, of, words, what } of CHARTS) {
      const parent = byId(id);
      const values = of(this.#sums);
      if (isAgain) this.#plots.get(id)?.destroy();
      const known = isAgain ? undefined : this.#plots.get(id);
      const plot = drawPlot(parent, known, [times, values], { words, colour: colourOf(parent, "--accent") });
      if (plot === undefined) continue;
      this.#plots.set(id, plot);
      const seen = values.filter((value) => value !== null);
      const now = values.at(-1) ?? null;
      const most = seen.length === 0 ? "none" : `at most ${words(Math.max(...seen))}`;
      parent.setAttribute(
        "aria-label",
        `${what} in the last ${duration(MINUTES * 60_000)}: ${now === null ? "" : `now ${words(now)}, `}${most}`,
      );
    }
  }
}

/** Means over the minutes around; null where there were no answers. */
function latency({ answers, answer_ms: ms }) {
  const [sums, counts] = [smooth(ms), smooth(answers)];
  return sums.map((value, index) => (counts[index] === 0 ? null : value / counts[index]));
}

/** Means of a minute and those before it. */
function smooth(values) {
  let sum = 0;
  return values.map((value, index) => {
    sum += value - (index >= SMOOTHED ? values[index - SMOOTHED] : 0);
    const mean = sum / Math.min(SMOOTHED, index + 1);
    return mean < 1e-12 ? 0 : mean;
  });
}
