/**
 * The progress display: one live line on a terminal; elsewhere a plain line every ten seconds, at each pause and at the end.
 * Always on stderr.
 */
import { styleText } from "node:util";
import { systemClock } from "../../clock.ts";
import type { Progress } from "../../engine/items/progress.ts";
import type { ProgressEvent } from "../../engine/runs/progress_feed.ts";
import { usdText } from "../../price/money.ts";
import { count, duration, percent, short } from "../numbers.ts";
import { billedText } from "./amounts.ts";
import { holdText, whenText } from "./holds.ts";

const LIVE_EVERY_MS = 250;
const PLAIN_EVERY_MS = 10_000;
/** A hold that ends sooner is ordinary: single failures between answers. */
const SHOWN_AFTER_MS = 5_000;

/** Draws the progress of a run. */
export class ProgressDisplay {
  readonly #stream: NodeJS.WriteStream;
  #isPaused = false;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  /** How often it wants the progress. */
  get everyMs(): number {
    return this.#stream.isTTY ? LIVE_EVERY_MS : PLAIN_EVERY_MS;
  }

  /** Draws the event; the end of a run that did not complete removes the live line. */
  show(event: ProgressEvent): void {
    if (this.#isPaused) return;
    const isOver = event.type === "end";
    if (!isOver || event.status === "completed") this.#draw(event.progress);
    if (isOver && this.#stream.isTTY) this.#stream.write(event.status === "completed" ? "\n" : "\r\x1b[K");
  }

  /** Draws nothing until `resume`, while the terminal shows a question. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
  }

  /** Prints a line that stays. */
  note(text: string): void {
    this.#stream.write(`${this.#stream.isTTY ? "\r\x1b[K" : ""}${text}\n`);
  }

  #draw(progress: Progress): void {
    const line = progressLine(progress);
    if (!this.#stream.isTTY) {
      this.#stream.write(`${line}\n`);
      return;
    }
    const columns = Math.max(20, (this.#stream.columns ?? 80) - 1);
    const shown = line.length > columns ? `${line.slice(0, columns - 1)}…` : line;
    this.#stream.write(
      `\r\x1b[K${styleText("cyan", shown.slice(0, 9), { stream: this.#stream })}${shown.slice(9)}`,
    );
  }
}

/** What the line says, most wanted first, so that a narrow terminal cuts the rest. */
export function progressLine(progress: Progress): string {
  const { settled, linesTotal, errors } = progress;
  const share = linesTotal === undefined || linesTotal === 0 ? "" : ` ${percent(settled / linesTotal)}`;
  const isDone = progress.state === "done";
  const parts = [
    `${progress.state.padEnd(8)} ${count(settled)}${linesTotal === undefined ? "" : `/${count(linesTotal)}`}${share}`,
    heldText(progress) || retryingText(progress),
    batchedText(progress),
    silenceText(progress),
    isDone ? "" : timeLeft(progress),
    isDone ? "" : `${short(progress.itemsPerSecond)}/s`,
    `${count(errors)} ${errors === 1 ? "error" : "errors"}`,
    money(progress),
    isDone ? "" : `${short(progress.tokensPerSecond)} tok/s`,
    ...(isDone ? [] : progress.lanes.map(laneText)),
  ];
  return parts.filter((part) => part !== "").join("  ");
}

/** What nothing is sent for; what holds only some of the items is named while it lasts. */
function heldText({ held, pausedBy }: Progress): string {
  const shown = held.filter(
    ({ since }) => pausedBy !== undefined || nowMs() - Date.parse(since) > SHOWN_AFTER_MS,
  );
  const [first] = shown;
  if (first === undefined) return pausedBy === undefined ? "" : `by ${pausedBy}`;
  const items = shown.reduce((sum, hold) => sum + hold.items, 0);
  const more = shown.length > 1 ? ` (and ${shown.length - 1} more)` : "";
  return `held ${count(items)} by ${holdText(first, nowMs())}${more}`;
}

/** Of items that nothing holds: the lane answers others. */
function retryingText({ retrying, retry, held }: Progress): string {
  if (retrying === 0 || held.length > 0) return "";
  const next = retry === undefined ? "" : `: ${retry.message}; next try ${whenText(retry.nextTryInMs)}`;
  return `${count(retrying)} to try again${next}`;
}

/** `812 with batches, 310 done there, asked again in 0:42`. */
function batchedText({ batched }: Progress): string {
  if (batched === undefined) return "";
  const { items, finished, nextPollInMs, waits } = batched;
  return [
    `${count(items)} with batches`,
    ...(finished === undefined ? [] : [`${count(finished)} done there`]),
    ...(nextPollInMs === undefined ? [] : [`asked again ${whenText(nextPollInMs)}`]),
    ...(waits === undefined ? [] : [`${count(waits.items)} not submitted yet: ${waits.message}`]),
  ].join(", ");
}

/** A provider that takes requests and does not answer holds nothing, and shows no error. */
function silenceText({ noAnswerMs, held }: Progress): string {
  return noAnswerMs === undefined || held.length > 0 ? "" : `no answer for ${duration(noAnswerMs)}`;
}

function nowMs(): number {
  return systemClock.wallMs();
}

function timeLeft(progress: Progress): string {
  const { etaMs, linesTotal, deadlineInMs } = progress;
  const eta = etaMs === undefined ? "ETA ?" : `ETA ${duration(etaMs)}`;
  if (deadlineInMs !== undefined) return `${eta} of ${duration(deadlineInMs)}`;
  return etaMs === undefined && linesTotal === undefined ? "" : eta;
}

function money({ billedUsd, ambiguousUsd, hasUnpriced }: Progress): string {
  const isUnknown = hasUnpriced === true && billedUsd === 0;
  const billed = isUnknown ? "billed: unknown" : `${billedText(billedUsd, hasUnpriced === true)} billed`;
  return ambiguousUsd > 0 ? `${billed}, up to ${usdText(ambiguousUsd)} in doubt` : billed;
}

function laneText(lane: Progress["lanes"][number]): string {
  const shares = [
    lane.requestsShare === undefined ? "" : `rpm ${percent(lane.requestsShare)}`,
    lane.tokensShare === undefined ? "" : `tpm ${percent(lane.tokensShare)}`,
    `${lane.inFlight}/${lane.inFlightMax} in flight`,
    lane.state === "open" ? "" : lane.state,
    oversizedText(lane),
    cheaperText(lane),
  ];
  return `[${lane.lane.split(":")[0]} ${shares.filter((part) => part !== "").join(", ")}]`;
}

function cheaperText({ cheaper }: Progress["lanes"][number]): string {
  if (cheaper === undefined) return "";
  if (cheaper.tier === "batch")
    return cheaper.items === 0
      ? ""
      : `${count(cheaper.items)} in ${cheaper.open === 1 ? "1 batch" : `${cheaper.open} batches`}`;
  if (cheaper.tier !== "offpeak")
    return cheaper.inFlight === 0 ? "" : `${cheaper.inFlight} of them ${cheaper.tier}`;
  return cheaper.beginsInMs === undefined ? "" : `waits ${duration(cheaper.beginsInMs)} for cheaper hours`;
}

function oversizedText({ oversized }: Progress["lanes"][number]): string {
  if (oversized === undefined) return "";
  const { tokens, limit, waitMs } = oversized;
  return `waits ${duration(waitMs)} to send an item of ${count(tokens)} tokens by itself (limit ${count(limit)})`;
}
