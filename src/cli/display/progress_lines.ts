/**
 * The texts of a run's progress: one plain line, and the rows of a live display.
 */
import { systemClock } from "../../clock.ts";
import { keyVariable } from "../../engine/config/key_places.ts";
import type { Progress } from "../../engine/items/progress.ts";
import { usdText } from "../../price/money.ts";
import { familyOfLane, providerOfLane } from "../../queue/lanes.ts";
import { count, duration, percent, short } from "../numbers.ts";
import { billedText } from "./amounts.ts";
import type { AttemptCounts, ModelCounts } from "./attempt_counts.ts";
import { holdText, keyAdvice, whenText } from "./holds.ts";
import {
  bar,
  cells,
  cut,
  fitted,
  flowed,
  type Screen,
  type ShownPart,
  shownText,
  wrapped,
} from "./terminal.ts";

/** A hold that ends sooner is ordinary: single failures between answers. */
const SHOWN_AFTER_MS = 5_000;
/** Lines after which their mean cost says something of the rest. */
const PROJECTED_MIN = 20;
const BAR_CELLS_MAX = 30;
const BAR_CELLS_MIN = 5;
/** What the first row needs beside its bar. */
const BAR_BESIDE_CELLS = 55;
const TROUBLE_ROWS_MAX = 3;
const FIGURE_ROWS_MAX = 3;
const LANES_MAX = 4;
const MODELS_MAX = 6;
const MODEL_CELLS_MAX = 40;

/** What is known of a command besides the progress of its run. */
export interface Ran {
  readonly counts: Pick<AttemptCounts, "all" | "models" | "last">;
  /** Since the command began. */
  readonly elapsedMs: number;
  /** Monotonic. */
  readonly nowMs: number;
  /** Where the key of a provider is set; absent: the variable that it is usually in. */
  readonly keyPlace?: ((provider: string) => string) | undefined;
}

/** The plain line, most wanted first. */
export function progressLine(progress: Progress, ran?: Ran): string {
  const { settled, linesTotal, errors } = progress;
  const share = linesTotal === undefined || linesTotal === 0 ? "" : ` ${percent(settled / linesTotal)}`;
  const isDone = progress.state === "done";
  const parts = [
    `${progress.state.padEnd(8)} ${count(settled)}${linesTotal === undefined ? "" : `/${count(linesTotal)}`}${share}`,
    heldText(progress, ran) || retryingText(progress),
    batchedText(progress),
    silenceText(progress),
    isDone ? "" : timeLeft(progress),
    isDone ? "" : `${short(progress.itemsPerSecond)}/s`,
    errorsText(errors),
    cachedText(progress),
    ran === undefined || isDone ? "" : retriesText(ran.counts.all),
    money(progress),
    isDone ? "" : `${short(progress.tokensPerSecond)} tok/s`,
    ran === undefined || isDone ? "" : medianText(ran.counts.all),
    ran === undefined ? "" : `${duration(ran.elapsedMs)} elapsed`,
    ...(isDone ? [] : laneTexts(progress.lanes)),
  ];
  return parts.filter((part) => part !== "").join("  ");
}

/** What a live display shows, most wanted rows first. Rows fit the screen; the last ones are left out if there are too many. */
export function progressRows(
  progress: Progress,
  ran: Ran,
  screen: Screen,
): readonly (readonly ShownPart[])[] {
  const rows: (readonly ShownPart[])[] = [
    firstRow(progress, ran, screen),
    ...trouble(progress, ran).flatMap((text) =>
      wrapped(shownText(text), screen.columns - 1, TROUBLE_ROWS_MAX, screen).map(
        (row): readonly ShownPart[] => [{ text: row, style: "yellow" }],
      ),
    ),
    ...flowed(figures(progress, ran.counts.all), FIGURE_ROWS_MAX, screen),
    ...laneTexts(progress.lanes)
      .slice(0, LANES_MAX)
      .map((text, index): readonly ShownPart[] => [
        { text: shownText(text), style: progress.lanes[index]?.state === "open" ? "dim" : "yellow" },
      ]),
    ...modelRows(ran.counts.models, screen),
    ...lastError(ran),
  ];
  return rows.slice(0, screen.rows - 1).map((row) => fitted(row, screen));
}

/** Rates, money, errors and retries, most wanted first. */
function figures(progress: Progress, all: AttemptCounts["all"]): readonly ShownPart[] {
  const { errors, ambiguousUsd } = progress;
  const doubt = ambiguousUsd > 0 ? `up to ${usdText(ambiguousUsd)} in doubt` : "";
  return present([
    { text: `${short(progress.itemsPerSecond)}/s` },
    { text: billedSoFar(progress) },
    { text: errorsText(errors), ...(errors === 0 ? {} : { style: "red" }) },
    { text: cachedText(progress) },
    { text: retriesText(all) },
    { text: medianText(all) },
    { text: doubt },
    { text: `${short(progress.tokensPerSecond)} tok/s` },
  ]);
}

/** `running  ######....  62%  12,345/20,000  ETA 0:19  0:31`. */
function firstRow(progress: Progress, { elapsedMs }: Ran, screen: Screen): readonly ShownPart[] {
  const { settled, linesTotal, state } = progress;
  const time = [
    { text: state === "done" ? "" : timeLeft(progress) },
    { text: `${duration(elapsedMs)} elapsed` },
  ];
  const name: ShownPart = { text: state, style: state === "paused" ? "yellow" : "cyan" };
  if (linesTotal === undefined || linesTotal === 0)
    return present([name, { text: `${count(settled)} done` }, ...time]);
  const share = settled / linesTotal;
  const width = Math.min(BAR_CELLS_MAX, screen.columns - BAR_BESIDE_CELLS);
  return present([
    name,
    { text: width < BAR_CELLS_MIN ? "" : bar(share, width, screen), style: "green" },
    { text: percent(share) },
    { text: `${count(settled)}/${count(linesTotal)}` },
    ...time,
  ]);
}

/** What keeps the run from going on, as texts of their own. */
function trouble(progress: Progress, ran: Ran): readonly string[] {
  const held = heldText(progress, ran) || retryingText(progress);
  const texts = [held, batchedText(progress), silenceText(progress)];
  return texts.filter((text) => text !== "");
}

/** One row a model, where there are several. */
function modelRows(models: readonly ModelCounts[], { columns }: Screen): (readonly ShownPart[])[] {
  if (models.length < 2) return [];
  const shown = models.slice(0, MODELS_MAX).map((one) => ({ ...one, model: shownText(one.model) }));
  const most = Math.min(MODEL_CELLS_MAX, Math.floor(columns / 2));
  const width = Math.min(most, Math.max(...shown.map(({ model }) => cells(model))));
  const rows = shown.map((one) => {
    const { model, answered, errors, billedUsd, p50Ms } = one;
    const name = cut(model, width, { isUnicode: false });
    return present([
      { text: `${name}${" ".repeat(width - cells(name))}` },
      { text: `${count(answered)} answered` },
      { text: medianText(p50Ms === undefined ? {} : { p50Ms }) },
      { text: billedUsd === 0 ? "" : `${usdText(billedUsd)} billed` },
      { text: errors === 0 ? "" : errorsText(errors), style: "red" },
      { text: retriesText(one) },
    ]);
  });
  const more = models.length - shown.length;
  return more > 0 ? [...rows, [{ text: `and ${more} more models`, style: "dim" }]] : rows;
}

function lastError({ counts: { last }, nowMs }: Ran): (readonly ShownPart[])[] {
  if (last === undefined) return [];
  const by = last.model === undefined ? "" : ` by ${shownText(last.model)}`;
  return [[{ text: `last error ${duration(nowMs - last.atMs)} ago: ${last.code}${by}`, style: "dim" }]];
}

function present(parts: readonly ShownPart[]): readonly ShownPart[] {
  return parts.filter(({ text }) => text !== "");
}

/** What nothing is sent for; what holds only some of the items is named while it lasts. */
function heldText({ held, pausedBy }: Progress, { keyPlace = keyVariable }: Partial<Ran> = {}): string {
  const shown = held.filter(
    ({ since }) => pausedBy !== undefined || nowMs() - Date.parse(since) > SHOWN_AFTER_MS,
  );
  const [first] = shown;
  if (first === undefined) return pausedBy === undefined ? "" : `by ${pausedBy}`;
  const items = shown.reduce((sum, hold) => sum + hold.items, 0);
  const more = shown.length > 1 ? ` (and ${shown.length - 1} more)` : "";
  const advice = first.reason === "authentication" ? `; ${keyAdvice(first, keyPlace)}` : "";
  return `held ${count(items)} by ${holdText(first, nowMs())}${advice}${more}`;
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

function money(progress: Progress): string {
  const { ambiguousUsd } = progress;
  const billed = billedSoFar(progress);
  return ambiguousUsd > 0 ? `${billed}, up to ${usdText(ambiguousUsd)} in doubt` : billed;
}

function billedSoFar(progress: Progress): string {
  const { billedUsd, hasUnpriced } = progress;
  if (hasUnpriced === true && billedUsd === 0) return "billed: unknown";
  const whole = projectedUsd(progress);
  const projected = whole === undefined ? "" : ` of about ${usdText(whole)}`;
  return `${billedText(billedUsd, hasUnpriced === true)} billed${projected}`;
}

function errorsText(errors: number): string {
  return `${count(errors)} ${errors === 1 ? "error" : "errors"}`;
}

function cachedText({ cached }: Progress): string {
  return cached === undefined ? "" : `${count(cached)} from the cache`;
}

/** What the whole run will have billed, by the mean of the lines so far; undefined while that says little. */
function projectedUsd({ settled, linesTotal, billedUsd, hasUnpriced }: Progress): number | undefined {
  if (linesTotal === undefined || settled < PROJECTED_MIN || settled >= linesTotal) return undefined;
  return hasUnpriced === true || billedUsd === 0 ? undefined : (billedUsd / settled) * linesTotal;
}

function retriesText({ retries, rateLimited }: Pick<ModelCounts, "retries" | "rateLimited">): string {
  if (retries === 0 && rateLimited === 0) return "";
  const refused = rateLimited === 0 ? "" : `, ${count(rateLimited)} ${rateLimited === 1 ? "429" : "429s"}`;
  return `${count(retries)} ${retries === 1 ? "retry" : "retries"}${refused}`;
}

function medianText({ p50Ms }: Pick<ModelCounts, "p50Ms">): string {
  if (p50Ms === undefined) return "";
  return `p50 ${p50Ms < 1_000 ? `${Math.round(p50Ms)} ms` : `${(p50Ms / 1_000).toFixed(1)} s`}`;
}

/** Each lane by its provider; by its models, too, where a provider has several. */
function laneTexts(lanes: Progress["lanes"]): readonly string[] {
  const providers = lanes.map(({ lane }) => providerOfLane(lane));
  return lanes.map((lane, index) => {
    const provider = providers[index] ?? "";
    const isShared = providers.some((other, place) => other === provider && place !== index);
    return laneText(lane, isShared ? `${provider}:${familyOfLane(lane.lane)}` : provider);
  });
}

function laneText(lane: Progress["lanes"][number], name: string): string {
  const shares = [
    lane.requestsShare === undefined ? "" : `rpm ${percent(lane.requestsShare)}`,
    lane.tokensShare === undefined ? "" : `tpm ${percent(lane.tokensShare)}`,
    `${lane.inFlight}/${lane.inFlightMax} in flight`,
    lane.state === "open" ? "" : lane.state,
    oversizedText(lane),
    cheaperText(lane),
  ];
  return `[${name} ${shares.filter((part) => part !== "").join(", ")}]`;
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
