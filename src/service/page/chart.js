/**
 * The chart of throughput: items and tokens a second over the last five minutes, a point a second.
 */
import { rate } from "./format.js";

const SECONDS = 300;

export class Chart {
  #parent;
  #plot = null;
  #start = 0;
  #items = [];
  #tokens = [];

  constructor(parent) {
    this.#parent = parent;
    new ResizeObserver(() => this.#resize()).observe(parent);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  /** Takes seconds, newer ones over older ones; `start` is Unix time. */
  add({ start, items, tokens }) {
    const end = Math.max(start + items.length, this.#start + this.#items.length);
    const first = end - SECONDS;
    const merge = (known, more) =>
      Array.from({ length: SECONDS }, (_, index) => {
        const second = first + index;
        return more[second - start] ?? known[second - this.#start] ?? 0;
      });
    const merged = { items: merge(this.#items, items), tokens: merge(this.#tokens, tokens) };
    this.#start = first;
    this.#items = merged.items;
    this.#tokens = merged.tokens;
    if (this.#plot === null) this.#draw();
    else this.#plot.setData(this.#data());
    this.#describe();
  }

  #data() {
    return [this.#items.map((_, index) => this.#start + index), smooth(this.#items), smooth(this.#tokens)];
  }

  /** Draws it again, with the colours of the scheme. */
  #draw() {
    this.#plot?.destroy();
    this.#plot = null;
    const { width, height } = this.#size();
    if (width === 0) return;
    this.#plot = new window.uPlot(this.#plotOptions(width, height), this.#data(), this.#parent);
  }

  #plotOptions(width, height) {
    const style = getComputedStyle(this.#parent);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [text, line] = [colour("--soft"), colour("--line")];
    const axis = {
      stroke: text,
      font: "12px system-ui, sans-serif",
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
    };
    const seconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
    const isNarrow = width < 480;
    return {
      width,
      height,
      padding: [10, isNarrow ? 0 : 6, 0, 0],
      cursor: { show: false },
      legend: { show: false },
      select: { show: false },
      scales: { x: { time: false }, items: { range: fromZero }, tokens: { range: fromZero } },
      axes: [
        {
          ...axis,
          size: 26,
          incrs: [60, 120, 300],
          space: 64,
          values: (_plot, ticks) => ticks.map((tick) => seconds.format(new Date(tick * 1_000))),
        },
        { ...axis, scale: "items", size: 46, values: (_plot, ticks) => ticks.map(rate) },
        {
          ...axis,
          scale: "tokens",
          side: 1,
          size: 50,
          grid: { show: false },
          values: (_plot, ticks) => ticks.map(rate),
        },
      ],
      series: [
        {},
        {
          scale: "items",
          stroke: colour("--accent"),
          fill: colour("--accent-faint"),
          width: 2,
          points: { show: false },
        },
        { scale: "tokens", stroke: colour("--second"), width: 1.5, dash: [5, 3], points: { show: false } },
      ],
    };
  }

  #resize() {
    const { width, height } = this.#size();
    if (width === 0) return;
    if (this.#plot === null) {
      if (this.#items.length > 0) this.#draw();
    } else if (this.#plot.width !== width || this.#plot.height !== height)
      this.#plot.setSize({ width, height });
  }

  #size() {
    return { width: Math.floor(this.#parent.clientWidth), height: Math.floor(this.#parent.clientHeight) };
  }

  #describe() {
    const peak = Math.max(...this.#items);
    const now = this.#items.slice(-10).reduce((sum, value) => sum + value, 0) / 10;
    const label = `Throughput of the last five minutes: now ${rate(now)} items a second, at most ${rate(peak)}`;
    if (this.#parent.getAttribute("aria-label") !== label) this.#parent.setAttribute("aria-label", label);
  }
}

/** From 0 to a little more than the most, never flat. */
function fromZero(_plot, _low, high) {
  return [0, Math.max(1, (high ?? 0) * 1.1)];
}

/** Means of three seconds: commits bundle items, and a second is short. */
function smooth(values) {
  return values.map((value, index) => {
    const before = values[index - 1] ?? value;
    const after = values[index + 1] ?? value;
    return (before + value + after) / 3;
  });
}
