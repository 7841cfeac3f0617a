/**
 * How long answers take, as a table to draw from: one look-up a draw.
 *
 * Limits: 1,024 equal shares, so nothing beyond the quantile of 99.95 % is drawn.
 */
import type { LatencyCurve } from "../queue/plan/latency_curve.ts";

const SHARES = 1_024;

export class LatencyTable {
  readonly #ms: Float64Array;

  constructor(curve: Pick<LatencyCurve, "quantileMs">) {
    this.#ms = Float64Array.from({ length: SHARES }, (_, index) => curve.quantileMs((index + 0.5) / SHARES));
  }

  /** Milliseconds for a chance in [0, 1); Infinity for what never ends. */
  draw(chance: number): number {
    return this.#ms[Math.floor(chance * SHARES)] as number;
  }

  /** What this share of answers take at most. */
  quantileMs(share: number): number {
    return this.draw(Math.min(share, 1 - 1 / SHARES));
  }
}
