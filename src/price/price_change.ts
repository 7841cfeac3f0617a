/** A price that is known to hold from a moment on, by the clock or by date. */
export interface PriceChange {
  readonly model: string;
  /** ISO time. */
  readonly at: string;
  readonly input_usd_per_million: number;
  readonly output_usd_per_million: number;
}
