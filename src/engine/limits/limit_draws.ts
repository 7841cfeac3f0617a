/**
 * Draws from all quotas that an engine shares with other processes, in one call:
 *
 *   idle --a request lacks units--> drawing --answered--> waiting 500 ms --> drawing
 *                                           --failed----> waiting 500 ms --> drawing (repeats the same asks)
 *   waiting --a request lacks units, 50 ms after the last draw--> drawing     (unless the last draw brought less than was asked for)
 *   waiting --nothing to ask or report--> idle
 *
 * Where many processes share a quota, 500 ms become longer: each grant says how long. They vary by 5 % either way, so that processes that
 * began together do not draw in the same order for ever.
 */
import { randomUUID } from "node:crypto";
import type { Clock, Timer } from "../../clock.ts";
import { debug } from "../../debug.ts";
import { DRAW_MS, DrawnLoad, type DrawnQuota } from "../../limits/shared/drawn_load.ts";
import type { LimitPool, PoolAsk } from "../../limits/shared/limit_pool.ts";
import type { BlockGrant } from "../../limits/shared/shared_window.ts";

/** The least time between two draws: requests that lack units meanwhile share the next one. */
const BETWEEN_MS = 50;
const JITTER = 0.1;

export interface LimitDrawsOptions {
  readonly clock: Clock;
  /** Undefined: no quota is shared. */
  readonly pool: LimitPool | undefined;
  /** Lets all lanes send. */
  readonly pumpAll: () => void;
}

/** An ask of a draw, and where its answer goes. */
interface Drawing extends PoolAsk {
  readonly load: DrawnLoad;
  readonly part: DrawnQuota;
}

export class LimitDraws {
  readonly #options: LimitDrawsOptions;
  readonly #holder = randomUUID();
  readonly #loads = new Map<string, DrawnLoad>();
  #timer: Timer | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;
  #isDrawing = false;
  #lacks = false;
  #lastMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: LimitDrawsOptions) {
    this.#options = options;
  }

  /** The drawn quotas of a name, which is the same in all processes: an account, with or without a family of models. Undefined where nothing is shared. */
  of(pool: string): DrawnLoad | undefined {
    if (this.#options.pool === undefined) return undefined;
    const known = this.#loads.get(pool);
    if (known !== undefined) return known;
    const made = new DrawnLoad(this.#holder, () => this.#lack());
    this.#loads.set(pool, made);
    return made;
  }

  /** Begins no more draws. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #lack(): void {
    this.#lacks = true;
    if (!this.#isDrawing) this.#arm(this.#lastMs + BETWEEN_MS - this.#options.clock.nowMs());
  }

  #arm(delayMs: number): void {
    const { clock } = this.#options;
    const atMs = clock.nowMs() + Math.max(0, delayMs);
    if (this.#isClosed || atMs >= this.#timerAtMs) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    this.#timer = clock.timer(delayMs, () => {
      this.#timerAtMs = Number.POSITIVE_INFINITY;
      void this.#draw();
    });
  }

  async #draw(): Promise<void> {
    const { clock, pool, pumpAll } = this.#options;
    const drawings = this.#drawings(clock.nowMs());
    this.#lacks = false;
    if (drawings.length === 0 || pool === undefined) return; // idle until a request lacks units
    this.#isDrawing = true;
    this.#lastMs = clock.nowMs();
    const grants = await pool.draw(drawings).catch((error: unknown): readonly BlockGrant[] => {
      debug.limits?.(`no answer to a draw: ${String(error)}`);
      return [];
    });
    this.#isDrawing = false;
    for (const [index, grant] of grants.entries())
      drawings[index]?.load.answered(drawings[index].part, grant);
    if (grants.some(({ units }) => units > 0)) pumpAll();
    this.#arm(
      this.#lacks && grants.length > 0 ? BETWEEN_MS : this.#drawMs * (1 + JITTER * (clock.random() - 0.5)),
    );
  }

  /** Until the next draw. */
  get #drawMs(): number {
    return Math.max(DRAW_MS, ...[...this.#loads.values()].map(({ drawMs }) => drawMs));
  }

  #drawings(nowMs: number): Drawing[] {
    const drawMs = this.#drawMs;
    return [...this.#loads].flatMap(([pool, load]) =>
      load.asks(nowMs, drawMs).map(([part, ask]): Drawing => ({ quota: `${pool} ${part}`, ask, load, part })),
    );
  }
}
