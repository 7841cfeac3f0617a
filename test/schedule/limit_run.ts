/**
 * A lane's limits at work against a provider made of numbers, in virtual time, under an endless backlog: the figures of
 * minutes 2 to 5, and the fullest minute.
 */

import type { LaneLimits, LaneLimitsOptions, Permit, Signal } from "../../src/limits/limits.ts";
import type { KeptHistogram } from "../../src/queue/histogram.ts";
import type { LimitSettings, TokenLoad } from "../../src/work/limits.ts";
import { LimitedProvider, type LimitedProviderOptions, type ProviderRequest } from "./limited_provider.ts";

export interface LimitRunOptions extends LimitedProviderOptions {
  readonly seed: number;
  /** What the user has configured. */
  readonly settings?: LimitSettings;
  readonly inputTokens: number;
  /** Median of the output, and the spread of its logarithm; 0 for answers of one length. */
  readonly outputTokens: number;
  readonly spread: number;
  /** What an answer takes besides the time of its tokens. */
  readonly latencyMs: number;
  /** 50. */
  readonly tokensPerSecond?: number;
  /** Answers are read while they arrive: from request to first part. Absent: they are read when they are whole. */
  readonly firstMs?: number;
  /** The limit of its output that each item names; 0 for none. */
  readonly maxOutputTokens?: number;
  /** Places that a lane has at first; as it has them otherwise. */
  readonly placesAtFirst?: number;
  /** Lanes (models) under the one limit; 1. */
  readonly lanes?: number;
  /** The part of the limit that others use. */
  readonly foreignShare?: number;
  /** The share of all requests that are refused by chance; 0. */
  readonly chanceShare?: number;
  /** Killed and started again at this time, or at each of them, after so long. */
  readonly restartAtMs?: number | readonly number[];
  readonly restartMs?: number;
  /** What is measured; minutes 2 to 5. */
  readonly fromMs?: number;
  readonly untilMs?: number;
}

export interface LimitFigures {
  /** In what is measured: the share of attempts that were refused, and of the allowance that was used. */
  readonly refusedShare: number;
  readonly usedShare: number;
  /** The fullest 60 s of all, as a part of the limit. */
  readonly fullestShare: number;
  /** The largest single answer, as a part of the limit. */
  readonly answerShare: number;
  /** Most requests sent within one second after a restart. */
  readonly restartBurst: number;
  readonly refused: number;
  readonly sent: number;
}

interface Event {
  readonly atMs: number;
  readonly run: () => void;
}

/** The lanes of one process. */
export interface Lanes {
  readonly all: readonly LaneLimits[];
  expect(lane: number): TokenLoad;
  answered(lane: number, outputTokens: number): void;
  /** What was learnt of outputs. */
  lengths(): Iterable<readonly [string, KeptHistogram]>;
}

/** `before` are those of the process that died at `diedAtMs`. */
export type MakeLanes = (nowMs: number, before: Lanes | undefined, diedAtMs: number) => Lanes;

const WIRE_MS = 25;
const RESTART_MS = 1_000;
const FROM_MS = 60_000;
const UNTIL_MS = 300_000;

export class LimitRun {
  readonly #options: LimitRunOptions;
  readonly #random: () => number;
  readonly #provider: LimitedProvider;
  readonly #events: Event[] = [];
  readonly #make: MakeLanes;
  #lanes: Lanes;
  #process = 0;
  #isDown = false;
  #nowMs = 0;
  /** A timer for each lane. */
  readonly #wakeAt: number[] = [];
  readonly #sent: { readonly atMs: number; readonly load: TokenLoad; readonly lane: number }[] = [];
  readonly #refused: number[] = [];
  /** Units used, when they were. */
  readonly #used: { readonly atMs: number; readonly units: number }[] = [];
  #largest = 0;
  #placeMs = 0;
  #foreignUnits = 0;

  constructor(options: LimitRunOptions, random: () => number, make: MakeLanes) {
    this.#options = options;
    this.#random = random;
    this.#provider = new LimitedProvider(options);
    this.#make = make;
    this.#lanes = make(0, undefined, 0);
  }

  run(): LimitFigures {
    const { untilMs = UNTIL_MS, restartAtMs = [], restartMs = RESTART_MS } = this.#options;
    for (const atMs of [restartAtMs].flat()) {
      this.#at(atMs, () => {
        this.#isDown = true;
        this.#process += 1;
      });
      this.#at(atMs + restartMs, () => this.#restart());
    }
    this.#foreign();
    this.#lanes.all.forEach((_, lane) => {
      this.#at(0, () => this.#pump(lane));
    });
    for (;;) {
      const next = this.#pop();
      if (next === undefined || next.atMs > untilMs) break;
      this.#nowMs = next.atMs;
      next.run();
    }
    return this.#figures(untilMs);
  }

  #pump(lane: number): void {
    if (this.#isDown) return;
    const limits = this.#lanes.all[lane] as LaneLimits;
    for (;;) {
      const taken = limits.reserve(this.#nowMs, this.#lanes.expect(lane));
      if (taken.ok) {
        this.#send(lane, limits, taken.permit);
        continue;
      }
      if (Number.isFinite(taken.waitMs)) this.#wake(lane, this.#nowMs + taken.waitMs);
      return;
    }
  }

  #wake(lane: number, atMs: number): void {
    const process = this.#process;
    this.#wakeAt[lane] = atMs;
    this.#at(atMs, () => {
      if (this.#process === process && this.#wakeAt[lane] === atMs) this.#pump(lane);
    });
  }

  #send(lane: number, limits: LaneLimits, permit: Permit): void {
    const { latencyMs, tokensPerSecond = 50, outputTokens, spread, maxOutputTokens = 0 } = this.#options;
    const drawn = Math.max(1, Math.round(outputTokens * Math.exp(spread * this.#normal())));
    const output = maxOutputTokens > 0 ? Math.min(maxOutputTokens, drawn) : drawn;
    const request = { inputTokens: this.#options.inputTokens, outputTokens: output };
    const process = this.#process;
    this.#sent.push({ atMs: this.#nowMs, load: permit.load, lane });
    this.#at(this.#nowMs + WIRE_MS * (0.8 + 0.4 * this.#random()), () => {
      const { chanceShare = 0 } = this.#options;
      const isChance = chanceShare > 0 && this.#random() < chanceShare;
      if (isChance || !this.#provider.arrives(this.#nowMs, request)) {
        this.#refused.push(this.#nowMs);
        this.#answer(
          process,
          lane,
          limits,
          permit,
          { kind: "rate_limited" },
          { inputTokens: 0, outputTokens: 0 },
        );
        return;
      }
      const { counted } = this.#options;
      if (counted !== "output" && counted !== "concurrency")
        this.#uses(counted === "requests" ? 1 : request.inputTokens);
      const takesMs = latencyMs * (0.8 + 0.4 * this.#random()) + (output / tokensPerSecond) * 1_000;
      const startedMs = this.#nowMs;
      const { fromMs = FROM_MS, untilMs = UNTIL_MS } = this.#options;
      if (counted === "concurrency")
        this.#placeMs += Math.max(0, Math.min(untilMs, startedMs + takesMs) - Math.max(startedMs, fromMs));
      const { firstMs } = this.#options;
      if (firstMs !== undefined)
        this.#at(this.#nowMs + firstMs, () => {
          if (process !== this.#process) return;
          limits.begun(this.#nowMs, permit);
          this.#pump(lane);
        });
      this.#at(this.#nowMs + takesMs, () => {
        this.#provider.ended(this.#nowMs, request);
        if (counted === "output" || counted === "both") this.#uses(output);
        this.#answer(process, lane, limits, permit, { kind: "success" }, request);
      });
    });
  }

  #answer(
    process: number,
    lane: number,
    limits: LaneLimits,
    permit: Permit,
    signal: Signal,
    used: ProviderRequest,
  ): void {
    this.#at(this.#nowMs + WIRE_MS, () => {
      if (process !== this.#process) return;
      limits.observe(this.#nowMs, signal, permit);
      limits.settle(this.#nowMs, permit, signal.kind === "success" ? used : undefined);
      const learnt = this.#provider.headers(this.#nowMs);
      if (learnt !== undefined) limits.learn(this.#nowMs, learnt, signal.kind === "rate_limited");
      if (signal.kind === "success") this.#lanes.answered(lane, used.outputTokens);
      limits.release(this.#nowMs, permit);
      for (let each = 0; each < this.#lanes.all.length; each += 1)
        this.#pump((lane + each) % this.#lanes.all.length);
    });
  }

  #uses(units: number): void {
    this.#used.push({ atMs: this.#nowMs, units });
    this.#largest = Math.max(this.#largest, units);
  }

  #restart(): void {
    this.#isDown = false;
    const before = this.#lanes;
    this.#lanes = this.#make(this.#nowMs, before, this.#nowMs - (this.#options.restartMs ?? RESTART_MS));
    this.#lanes.all.forEach((limits, lane) => {
      const sent = this.#sent.filter((one) => one.lane === lane && one.atMs > this.#nowMs - 61_000);
      limits.restore(
        this.#nowMs,
        sent.map(({ atMs, load }) => ({ atMs, requests: 1, ...load })),
      );
      this.#at(this.#nowMs, () => this.#pump(lane));
    });
  }

  #foreign(): void {
    const { foreignShare = 0, limit, inputTokens, counted, fromMs = FROM_MS } = this.#options;
    if (foreignShare === 0) return;
    const units = counted === "requests" ? 1 : inputTokens * 2;
    const everyMs = (60_000 * units) / (limit * foreignShare);
    const next = (): void => {
      if (this.#provider.foreign(this.#nowMs, units) && this.#nowMs >= fromMs) this.#foreignUnits += units;
      this.#at(this.#nowMs - Math.log(1 - this.#random()) * everyMs, next);
    };
    this.#at(0, next);
  }

  #figures(untilMs: number): LimitFigures {
    const {
      counted,
      limit,
      halvedAtMs = Number.POSITIVE_INFINITY,
      restartAtMs,
      restartMs = RESTART_MS,
      fromMs = FROM_MS,
    } = this.#options;
    const minutes = (untilMs - fromMs) / 60_000;
    const halvedMinutes = Math.max(0, (untilMs - Math.max(fromMs, halvedAtMs)) / 60_000);
    const allowance = limit * (minutes - halvedMinutes / 2) - this.#foreignUnits;
    const used =
      counted === "concurrency"
        ? this.#placeMs / 60_000
        : sum(this.#used.filter(({ atMs }) => atMs >= fromMs).map(({ units }) => units));
    const sent = this.#sent.filter(({ atMs }) => atMs >= fromMs).length;
    const refused = this.#refused.filter((atMs) => atMs >= fromMs).length;
    const startsMs = [restartAtMs ?? []].flat().map((atMs) => atMs + restartMs);
    const burst = (startMs: number): number =>
      this.#sent.filter(({ atMs }) => atMs >= startMs && atMs < startMs + 1_000).length;
    return {
      refusedShare: sent === 0 ? 0 : refused / sent,
      usedShare: used / allowance,
      fullestShare: fullest(this.#used) / limit,
      answerShare: this.#largest / limit,
      restartBurst: Math.max(0, ...startsMs.map(burst)),
      refused,
      sent,
    };
  }

  #normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#random())) * Math.cos(2 * Math.PI * this.#random());
  }

  /** A heap, the soonest first. */
  #at(atMs: number, run: () => void): void {
    const heap = this.#events;
    let at = heap.push({ atMs, run }) - 1;
    for (; at > 0; ) {
      const above = (at - 1) >> 1;
      if ((heap[above] as Event).atMs <= atMs) break;
      heap[at] = heap[above] as Event;
      at = above;
    }
    heap[at] = { atMs, run };
  }

  #pop(): Event | undefined {
    const heap = this.#events;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && (heap[below + 1] as Event).atMs < (heap[below] as Event).atMs)
        below += 1;
      if ((heap[below] as Event).atMs >= last.atMs) break;
      heap[at] = heap[below] as Event;
      at = below;
    }
    heap[at] = last;
    return first;
  }
}

/** Options of a lane that are the same in all runs. */
export function laneOptions(settings: LimitSettings, nowMs: number, random: () => number): LaneLimitsOptions {
  return { settings, inFlightMax: 512, nowMs, random };
}

function sum(values: readonly number[]): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

function fullest(used: readonly { readonly atMs: number; readonly units: number }[]): number {
  let [most, total, oldest] = [0, 0, 0];
  for (const { atMs, units } of used) {
    total += units;
    for (let one = used[oldest]; one !== undefined && one.atMs <= atMs - 60_000; one = used[oldest]) {
      total -= one.units;
      oldest += 1;
    }
    most = Math.max(most, total);
  }
  return most;
}
