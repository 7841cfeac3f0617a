/**
 * I17, both sides: a run of which nothing but held items is left stops after its wait, by the providers' own book.
 *
 *   not earlier   no request of it was answered within the wait
 *   not later     than a probe after the wait that began when the last of its providers had failed for the first time since it
 *                 answered; what only the caller can change is not waited for
 */
import { isCallers } from "../../src/engine/items/holds.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import { isFinal, type Served } from "./provider.ts";
import type { RunBook } from "./run_book.ts";

/** How long what passes by itself is waited for, where the caller does not say. */
export const WAIT_MS = 1_800_000;
export const QUOTA_WAIT_MS = 120_000;
/** A probe a minute, what it takes at most, and its record. */
const PROBE_MS = 60_000 + 30_000 + 10_000;

export interface PausedRun {
  readonly book: RunBook;
  readonly summary: Summary;
  readonly nowMs: number;
  /** When it was called, or its disk had room again, whichever was later. */
  readonly fromMs: number;
  /** All requests of all runs. */
  readonly served: readonly Served[];
  /** Providers of what is left of it. */
  readonly providers: ReadonlySet<string>;
  readonly isLeft: (id: number) => boolean;
  /** Until when they may have asked for a wait. */
  readonly excusedMs: number;
}

/** What is wrong with a run that has stopped because of what holds it; undefined when nothing is. */
export function wrongPause(paused: PausedRun): string | undefined {
  const { book, summary, nowMs, served } = paused;
  const waitMs = waitOf(book, summary);
  if (waitMs === undefined) return undefined;
  const { index } = book.run;
  const answers = served.filter((one) => one.line.run === index && isFinal(one));
  const answeredMs = Math.max(book.calledMs, ...answers.map(endOf));
  if (nowMs - answeredMs < waitMs - 1)
    return `run ${index} stopped for ${summary.reason} ${nowMs - answeredMs} ms after an answer, its wait is ${waitMs}`;
  const heldMs = heldSinceMs(paused);
  const lateMs = nowMs - Math.max(heldMs, paused.excusedMs) - waitMs - PROBE_MS;
  return lateMs > 0
    ? `run ${index} stopped for ${summary.reason} ${lateMs} ms later than its wait of ${waitMs} allows`
    : undefined;
}

/** Undefined where the book does not tell: a key that was never accepted is not waited for, and may be known or not. */
function waitOf({ run }: RunBook, { held }: Summary): number | undefined {
  const own = held.filter(({ reason }) => !isCallers(reason));
  if (own.length === 0) return 0;
  if (own.some(({ reason, was_accepted }) => reason === "authentication" && was_accepted !== true))
    return undefined;
  return run.waitMs ?? (own.every(({ reason }) => reason === "quota") ? QUOTA_WAIT_MS : WAIT_MS);
}

/** Since when each of its providers fails; infinite where the book does not tell. */
function heldSinceMs({ book, served, providers, fromMs, isLeft }: PausedRun): number {
  const process = served.at(-1)?.process;
  const own = served.filter((one) => one.line.run === book.run.index && one.process === process);
  let sinceMs = Math.max(fromMs, ...own.filter(({ line }) => !isLeft(line.id)).map(endOf));
  for (const provider of providers) {
    const ended = served.filter(
      (one) => one.provider === provider && one.process === process && one.overAtMs !== undefined,
    );
    const answeredMs = Math.max(fromMs, ...ended.filter(isFinal).map(endOf));
    const failedMs = Math.min(...ended.map(endOf).filter((endMs) => endMs > answeredMs));
    sinceMs = Math.max(sinceMs, failedMs);
  }
  return sinceMs;
}

function endOf({ overAtMs = 0 }: Served): number {
  return overAtMs;
}
