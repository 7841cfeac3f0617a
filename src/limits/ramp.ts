/**
 * How fast a lane's use of input tokens may grow. Some providers refuse growth itself, at any limit: OpenAI (`slow_down`) asks for
 * growth of at most half in 15 minutes above a million a minute, Anthropic answers `ramp_limit_exceeded`.
 *
 *   not asked --configured, or such a refusal--> asked
 *
 *   allowed = max(threshold, kept, (1 + growth) * proven)
 *     kept    the most used in a minute within the last span of 15 minutes: the same level does not count as growth
 *     proven  the most used in a minute within the span before it
 *
 * So in any span use is at most 1.5 times the most of the half hour before it. A level that is fully used is followed by the next one
 * after 15 minutes and the minute that confirms it, and after half an hour without use the ramp starts over. A refusal keeps
 * `use / (1 + growth)` and clears the rest, at most once a minute: requests refused within that minute were sent before. The ramp never
 * falls below the threshold.
 *
 * Steps rather than a curve: a provider that compares with 15 minutes ago never sees an increase of more than half.
 *
 * Limits: 121 slots of a sixtieth of a span each, 1 KB.
 */
import type { RampSettings } from "../work/limits.ts";
import { ringPosition } from "./ring.ts";

export interface RampOptions extends RampSettings {
  /** False: the ramp does not limit before the first refusal. */
  readonly isAsked: boolean;
}

const SLOTS_PER_SPAN = 60;
const SLOTS = 2 * SLOTS_PER_SPAN + 1;
const REFUSALS_MS = 60_000;

export class Ramp {
  /** Use up to here is not limited, in input tokens per minute. */
  readonly threshold: number;
  readonly #factor: number;
  readonly #slotMs: number;
  /** The highest use in a minute that ended within each slot, a ring. */
  readonly #used = new Float64Array(SLOTS);
  /** Number of the newest slot since time 0. */
  #newest = Number.NEGATIVE_INFINITY;
  readonly #isAskedFromStart: boolean;
  #isAsked: boolean;
  #loweredAtMs = Number.NEGATIVE_INFINITY;

  constructor({ inputTokensPerMinute, growth, minutes, isAsked }: RampOptions) {
    this.threshold = inputTokensPerMinute;
    this.#factor = 1 + growth;
    this.#slotMs = (minutes * 60_000) / SLOTS_PER_SPAN;
    this.#isAskedFromStart = isAsked;
    this.#isAsked = isAsked;
  }

  get isAsked(): boolean {
    return this.#isAsked;
  }

  /** Input tokens per minute that may be used now. */
  allowed(nowMs: number): number {
    this.#advance(nowMs);
    return Math.floor(Math.max(this.threshold, this.#kept(), this.#factor * this.#proven()));
  }

  /** Records what the minute that ends now has used, up to what the ramp allows. */
  note(nowMs: number, used: number): void {
    const use = Math.min(used, this.allowed(nowMs));
    const position = this.#position(this.#newest);
    this.#used[position] = Math.max(this.#used[position] ?? 0, use);
  }

  /** The provider refused the growth of a lane that used `used` in the last minute. */
  refused(nowMs: number, used: number): void {
    const use = this.#isAsked ? Math.min(used, this.allowed(nowMs)) : used;
    this.#isAsked = true;
    if (nowMs - this.#loweredAtMs < REFUSALS_MS) return;
    this.#loweredAtMs = nowMs;
    this.#advance(nowMs);
    this.#used.fill(0);
    this.#used[this.#position(this.#newest)] = Math.min(use, Math.max(this.threshold, use / this.#factor));
  }

  /** The level to keep, for the next process; undefined if the ramp can start over without it. */
  level(nowMs: number): number | undefined {
    if (!this.#isAsked) return undefined;
    this.#advance(nowMs);
    const kept = this.#kept();
    return kept > this.threshold || !this.#isAskedFromStart ? kept : undefined;
  }

  /** Continues at a `level` that an earlier process had `ageMs` ago. Call it once, before any `note`. */
  restore(nowMs: number, ageMs: number, level: number): void {
    this.#isAsked = true;
    this.#advance(nowMs);
    const age = Math.floor(ageMs / this.#slotMs);
    if (age < SLOTS) this.#used[this.#position(this.#newest - age)] = level;
  }

  #kept(): number {
    return this.#most(0, SLOTS_PER_SPAN);
  }

  #proven(): number {
    return this.#most(SLOTS_PER_SPAN + 1, SLOTS - 2);
  }

  /** The highest use over a range of ages, in slots, both ends included. */
  #most(youngest: number, oldest: number): number {
    let most = 0;
    for (let age = youngest; age <= oldest; age += 1)
      most = Math.max(most, this.#used[this.#position(this.#newest - age)] ?? 0);
    return most;
  }

  /** Clears slots that have aged out. Ignores a clock that goes back. */
  #advance(nowMs: number): void {
    const slot = Math.floor(nowMs / this.#slotMs);
    if (slot <= this.#newest) return;
    if (slot - this.#newest >= SLOTS) this.#used.fill(0);
    else for (let fresh = this.#newest + 1; fresh <= slot; fresh += 1) this.#used[this.#position(fresh)] = 0;
    this.#newest = slot;
  }

  #position(slot: number): number {
    return ringPosition(slot, SLOTS);
  }
}
