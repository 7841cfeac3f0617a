/**
 * Draws for one cap that other processes share:
 *
 *   idle --5 s, or an item lacks money--> drawing --answered or failed--> waiting 500 ms --> drawing (after a failure: the same ask)
 *   waiting --an item lacks money, 50 ms after a draw that was of use--> drawing
 *   waiting --nothing to ask, return or report--> idle, or asleep while no run has the cap --a run joins--> drawing
 *
 * The idle draws report the cap of this process, find one that was raised, and return what is asked back.
 */
import type { Clock, Timer } from "../../clock.ts";
import { debug } from "../../debug.ts";
import type { Cap } from "../../price/budget.ts";
import type { CapPool } from "../../price/shared/cap_pool.ts";

const BETWEEN_MS = 50;
const DRAW_MS = 500;
const IDLE_MS = 5_000;
const JITTER = 0.1;

export interface CapDrawsOptions {
  readonly clock: Clock;
  readonly pool: CapPool;
  readonly name: string;
  readonly cap: Cap;
  /** Whether some run here has the cap. */
  readonly isNeeded: () => boolean;
  /** Resolves when the store has done all that was sent to it before. */
  readonly stored: () => Promise<unknown>;
  /** Items may be tried again that wait for money. */
  readonly onAnswer: () => void;
  /** The cap in force has risen. */
  readonly onRaised: () => void;
}

/** One for a cap. */
export class CapDraws {
  readonly #options: CapDrawsOptions;
  #timer: Timer | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;
  #isDrawing = false;
  #lacks = false;
  /** The last draw gave nothing to an item that waits: others must return it first. */
  #isRefused = false;
  #lastMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: CapDrawsOptions) {
    this.#options = options;
  }

  /** The cap of this process has changed: a draw may bring what the last one was refused. */
  capChanged(): void {
    this.#isRefused = false;
    this.soon();
  }

  /** Draws soon: an item waits, or a run has joined. */
  soon(): void {
    this.#lacks = true;
    if (!this.#isDrawing && !this.#isRefused)
      this.#arm(this.#lastMs + BETWEEN_MS - this.#options.clock.nowMs());
  }

  /** Begins no more draws. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #arm(delayMs: number): void {
    const { clock } = this.#options;
    const atMs = clock.nowMs() + Math.max(0, delayMs);
    if (this.#isClosed || atMs >= this.#timerAtMs) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    const draw = (): void => {
      this.#timerAtMs = Number.POSITIVE_INFINITY;
      void this.#draw();
    };
    this.#timer = clock.timer(delayMs, draw, { keepsAlive: false });
  }

  async #draw(): Promise<void> {
    const { clock, cap, isNeeded, onAnswer, onRaised } = this.#options;
    this.#lacks = false;
    this.#isDrawing = true;
    this.#lastMs = clock.nowMs();
    const beforeUsd = cap.capUsd;
    const isAnswered = await this.#asked();
    this.#isDrawing = false;
    if (this.#isClosed) return;
    if (isAnswered) onAnswer();
    if (cap.capUsd > beforeUsd) onRaised();
    if (!cap.isBusy && !isNeeded()) {
      this.#isRefused = false; // others may have returned it when the next run joins
      return; // asleep: its amount stops counting for the others
    }
    const pauseMs = cap.isBusy ? DRAW_MS : IDLE_MS;
    const isSoon = this.#lacks && isAnswered && !this.#isRefused;
    this.#arm(isSoon ? BETWEEN_MS : pauseMs * (1 + JITTER * (clock.random() - 0.5)));
  }

  /** Whether it was answered. */
  async #asked(): Promise<boolean> {
    const { pool, name, cap, stored } = this.#options;
    const ask = cap.ask();
    if (ask === undefined) return false;
    try {
      if (ask.returnedNano > 0) await stored();
      const grant = await pool.draw(name, ask);
      cap.answered(grant);
      this.#isRefused = ask.leastNano > 0 && grant.nano === 0;
      return true;
    } catch (error) {
      debug.limits?.(`no answer to a draw of the cap ${name}: ${String(error)}`);
      return false;
    }
  }
}
