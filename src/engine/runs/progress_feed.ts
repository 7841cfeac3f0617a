/**
 * Reports the state of work to a listener while it runs.
 *
 *   (progress | paused | resumed)* end
 *
 * A timer checks four times a second, or as seldom as the listener wants events; a check sends one event at most.
 * A pause is reported at the next check, also when no progress is due; a shorter one is not. It counts as over once
 * something was settled again, so that a probe which meets the same stop makes no noise. The timer keeps no process
 * alive, and no event is sent after the end.
 */
import type { Clock, Timer } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { BatchesProgress, Progress, Summary } from "../items/progress.ts";
import { allHolds } from "../lanes/run_holds.ts";
import { guarded } from "../listeners.ts";

/** An event for a listener, with the state of the work at that time. */
export type ProgressEvent =
  | { readonly type: "progress"; readonly progress: Progress }
  /** Nothing is sent, for this reason: a provider's account, a full disk. */
  | { readonly type: "paused"; readonly reason: string; readonly progress: Progress }
  | { readonly type: "resumed"; readonly progress: Progress }
  | ({ readonly type: "end"; readonly progress: Progress } & ProgressEnd);

/** How work ended, as its summary or its error says. */
export interface ProgressEnd {
  readonly status: Summary["status"] | "failed";
  /** Why it was stopped or paused. */
  readonly reason?: string;
  /** When it failed. */
  readonly error?: unknown;
}

/** Options of all calls with a listener. */
export interface ProgressOptions {
  /** Receives the state of the work, at a bounded rate, and once at its end. What it throws changes nothing; the process is warned once. */
  readonly onProgress?: (event: ProgressEvent) => void;
  /** Milliseconds from one progress event to the next at least, from 50. Default 250. */
  readonly progressEveryMs?: number;
}

const EVERY_MS = 250;
const EVERY_MS_MIN = 50;

/** Throws `usage` for invalid options. */
export function checkProgressOptions({ onProgress, progressEveryMs }: ProgressOptions, where: string): void {
  if (onProgress !== undefined && typeof onProgress !== "function")
    throw new PerigeeError("usage", `${where}: onProgress must be a function, got ${typeof onProgress}`);
  if (progressEveryMs === undefined || progressEveryMs >= EVERY_MS_MIN) return;
  throw new PerigeeError(
    "usage",
    `${where}: progressEveryMs must be at least ${EVERY_MS_MIN} ms, got ${progressEveryMs}`,
  );
}

/** Begins to look when it is made. */
export class ProgressFeed {
  readonly #clock: Clock;
  readonly #listener: (event: ProgressEvent) => void;
  readonly #read: () => Progress;
  readonly #everyMs: number;
  readonly #lookMs: number;
  #timer: Timer | undefined;
  #toldMs: number;
  /** What was settled when a pause was reported; undefined without a pause. */
  #settledAtPause: number | undefined;
  #hasEnded = false;

  /** Undefined when nobody listens. The options must have passed `checkProgressOptions`. */
  static open(clock: Clock, options: ProgressOptions, read: () => Progress): ProgressFeed | undefined {
    const { onProgress, progressEveryMs = EVERY_MS } = options;
    return onProgress === undefined
      ? undefined
      : new ProgressFeed(clock, guarded("onProgress", onProgress), progressEveryMs, read);
  }

  private constructor(
    clock: Clock,
    listener: (event: ProgressEvent) => void,
    everyMs: number,
    read: () => Progress,
  ) {
    this.#clock = clock;
    this.#listener = listener;
    this.#read = read;
    this.#everyMs = everyMs;
    this.#lookMs = Math.min(EVERY_MS, everyMs);
    this.#toldMs = clock.nowMs();
    this.#arm();
  }

  /** Reports the end, once; no event follows it. */
  end(how: ProgressEnd): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#timer?.cancel();
    this.#listener({ type: "end", ...how, progress: this.#read() });
  }

  #arm(): void {
    this.#timer = this.#clock.timer(this.#lookMs, () => this.#look(), { keepsAlive: false });
  }

  #look(): void {
    const event = this.#eventOf(this.#read());
    if (event !== undefined) {
      this.#toldMs = this.#clock.nowMs();
      this.#listener(event);
    }
    if (!this.#hasEnded) this.#arm();
  }

  #eventOf(progress: Progress): ProgressEvent | undefined {
    const reason = progress.pausedBy;
    if (reason !== undefined && this.#settledAtPause === undefined) {
      this.#settledAtPause = progress.settled;
      return { type: "paused", reason, progress };
    }
    if (reason === undefined && progress.settled > (this.#settledAtPause ?? Number.POSITIVE_INFINITY)) {
      this.#settledAtPause = undefined;
      return { type: "resumed", progress };
    }
    // Timers are late or early by a fraction: half a look decides.
    const isDue = this.#clock.nowMs() - this.#toldMs > this.#everyMs - this.#lookMs / 2;
    return isDue ? { type: "progress", progress } : undefined;
  }
}

/** The state of several runs of one engine together; at least one. */
export function progressOfAll(each: readonly Progress[]): Progress {
  const sum = (of: (progress: Progress) => number): number => each.reduce((total, one) => total + of(one), 0);
  const open = each.filter(({ state }) => state !== "done");
  const pauses = open.flatMap(({ pausedBy }) => pausedBy ?? []);
  const isPaused = open.length > 0 && pauses.length === open.length;
  const deadlines = open.flatMap(({ deadlineInMs }) => deadlineInMs ?? []);
  const etas = open.flatMap(({ etaMs }) => etaMs ?? []);
  const retries = open.flatMap(({ retry }) => retry ?? []);
  const [retry] = retries.sort((left, right) => left.nextTryInMs - right.nextTryInMs);
  const cached = sum((one) => one.cached ?? 0);
  const isTotalKnown = each.every(({ linesTotal }) => linesTotal !== undefined);
  return {
    state: isPaused ? "paused" : (open.find(({ state }) => state !== "paused")?.state ?? "done"),
    ...(isPaused ? { pausedBy: [...new Set(pauses)].join(", ") } : {}),
    ...(isTotalKnown ? { linesTotal: sum(({ linesTotal = 0 }) => linesTotal) } : {}),
    linesRead: sum(({ linesRead }) => linesRead),
    settled: sum(({ settled }) => settled),
    completed: sum(({ completed }) => completed),
    ...(cached === 0 ? {} : { cached }),
    errors: sum(({ errors }) => errors),
    inFlight: sum(({ inFlight }) => inFlight),
    retrying: sum(({ retrying }) => retrying),
    ...(retry === undefined ? {} : { retry }),
    ...batchedOfAll(each.flatMap(({ batched }) => batched ?? [])),
    itemsPerSecond: sum(({ itemsPerSecond }) => itemsPerSecond),
    tokensPerSecond: sum(({ tokensPerSecond }) => tokensPerSecond),
    billedUsd: sum(({ billedUsd }) => billedUsd),
    ambiguousUsd: sum(({ ambiguousUsd }) => ambiguousUsd),
    listUsd: sum(({ listUsd }) => listUsd),
    usd: sum(({ usd }) => usd),
    ...(deadlines.length === 0 ? {} : { deadlineInMs: Math.min(...deadlines) }),
    ...(open.length > 0 && etas.length === open.length ? { etaMs: Math.max(...etas) } : {}),
    held: allHolds(each.map(({ held }) => held)),
    lanes: each[0]?.lanes ?? [],
  };
}

function batchedOfAll(each: readonly BatchesProgress[]): Pick<Progress, "batched"> {
  if (each.length === 0) return {};
  const finished = each.flatMap((one) => one.finished ?? []);
  const next = each.flatMap(({ nextPollInMs }) => nextPollInMs ?? []);
  const waits = each.flatMap((one) => one.waits ?? []);
  const [first] = waits;
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
  return {
    batched: {
      items: sum(each.map(({ items }) => items)),
      ...(finished.length === 0 ? {} : { finished: sum(finished) }),
      ...(next.length === 0 ? {} : { nextPollInMs: Math.min(...next) }),
      ...(first === undefined ? {} : { waits: { ...first, items: sum(waits.map(({ items }) => items)) } }),
    },
  };
}
