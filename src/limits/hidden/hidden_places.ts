/**
 * How many requests a provider works on at once (hidden_limit.ts), and whether it now accepts more.
 *
 *   found --3 s--> raised --3 s without a refusal--> raised more --a refusal--> proven
 *   proven --30 s and 225 requests, 2 minutes at most--> raised
 *
 * The number rises by 2 %, 4 %, 8 %, ... of itself, at most by a quarter, while all places are in use. A refusal that chance does not
 * explain resets it to the last accepted number. One refusal is enough for the request on the first place of a raise.
 */
import { RAISE_EVERY_MS, RAISE_EVERY_MS_MAX } from "./hidden_rate.ts";
import { WINDOW_MS } from "./rate_window.ts";

const PROVEN_MS = 3_000;
/** Between raises that fail. Three models under one limit refuse 1.5 % of each other's requests; with 150 it is 2.7 %. */
const REQUESTS_MIN = 225;
const STEP = 1 / 50;
const STEP_MAX = 1 / 4;
/** This many episodes of refusals below the cap in one minute show that the provider does not limit places. */
const CONTRADICTIONS_MAX = 3;

/** One per lane. Times are monotonic. */
export class HiddenPlaces {
  /** The most requests in flight. */
  #cap = Number.POSITIVE_INFINITY;
  /** The part of the cap that was never refused. */
  #proven = 0;
  /** The cap while earlier requests may still occupy places; each end raises it by one. */
  #open = Number.POSITIVE_INFINITY;
  #raisedAtMs = 0;
  /** Raises since the last refusal. */
  #raises = 0;
  /** Whether a raise was refused. */
  #hasFailed = false;
  /** When refusals below the cap began, in the last minute. */
  #contradictions: readonly number[] = [];

  get cap(): number {
    return this.#cap;
  }

  get proven(): number {
    return this.#proven;
  }

  /** Whether one more request may be sent; `perMinute` were accepted in the last minute. */
  hasRoom(nowMs: number, inFlight: number, perMinute: number): boolean {
    if (inFlight >= this.#cap) this.#raise(nowMs, perMinute);
    return inFlight < Math.min(this.#cap, this.#open);
  }

  /** A request ended, and its place is free. */
  freed(): void {
    this.#open += 1;
  }

  /** Whether the request sent at `atMs` was the first above the proven number. */
  isFirst(atMs: number): boolean {
    return this.#raises === 1 && atMs === this.#raisedAtMs;
  }

  /** A refusal that chance does not explain. Returns whether it ends a raise; then nothing else changes. */
  refused(nowMs: number): boolean {
    if (this.#cap <= this.#proven) return false;
    this.#cap = this.#proven;
    this.#raises = 0;
    this.#hasFailed = true;
    this.#raisedAtMs = nowMs;
    return true;
  }

  /** Refusals below the cap begin. Returns whether they show that the provider does not limit places. */
  contradicted(nowMs: number): boolean {
    this.#contradictions = [...this.#contradictions.filter((atMs) => nowMs - atMs < WINDOW_MS), nowMs];
    return this.#contradictions.length >= CONTRADICTIONS_MAX;
  }

  /** The refusals have stopped at `cap` in flight; `isAgain`: a limit on places was known before. */
  found(atMs: number, cap: number, isAgain: boolean): void {
    this.#cap = this.#proven = Math.max(1, cap);
    this.#raises = 0;
    this.#hasFailed = isAgain;
    this.#raisedAtMs = atMs;
  }

  /** Not all places are free yet: at most this many requests may be in flight until others end. */
  open(inFlight: number): void {
    this.#open = inFlight;
  }

  /** Returns a function that restores the present state. */
  keep(): () => void {
    const [cap, proven, raises, hasFailed] = [this.#cap, this.#proven, this.#raises, this.#hasFailed];
    const contradictions = this.#contradictions;
    return () => {
      this.#contradictions = contradictions;
      [this.#cap, this.#proven, this.#raises, this.#hasFailed] = [cap, proven, raises, hasFailed];
      this.#open = Number.POSITIVE_INFINITY;
    };
  }

  #raise(nowMs: number, perMinute: number): void {
    const restMs = Math.min(RAISE_EVERY_MS_MAX, (REQUESTS_MIN * 60_000) / Math.max(1, perMinute));
    const isResting = this.#raises === 0 && this.#hasFailed;
    if (nowMs - this.#raisedAtMs < (isResting ? Math.max(RAISE_EVERY_MS, restMs) : PROVEN_MS)) return;
    this.#proven = this.#cap;
    const share = Math.min(STEP_MAX, STEP * 2 ** this.#raises);
    this.#cap += Math.ceil(this.#cap * share);
    this.#raises += 1;
    this.#open = Number.POSITIVE_INFINITY;
    this.#raisedAtMs = nowMs;
  }
}
