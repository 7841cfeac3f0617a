/**
 * `perigee status` and `perigee errors`: the state of the run of an output, also while another process works on it.
 */
import { resolve } from "node:path";
import { systemClock } from "../../clock.ts";
import { systemDisk } from "../../disk.ts";
import { isRunOf } from "../../engine/files/stored_tasks.ts";
import type { ErrorGroup } from "../../engine/runs/run_errors.ts";
import { type RetriedError, type RunStatus, readStatus } from "../../engine/runs/run_status.ts";
import { type RecordedBatch, recordedBatch } from "../../engine/shown/recorded_batches.ts";
import { PerigeeError } from "../../errors.ts";
import { usdText } from "../../price/money.ts";
import { type ReadableStore, readStoreCopy } from "../../store/folder/store_copy.ts";
import type { StoredTask } from "../../store/store.ts";
import { commandLine } from "../command_line.ts";
import { billedText, doubtText } from "../display/amounts.ts";
import { holdText } from "../display/holds.ts";
import { errorJson } from "../exit.ts";
import { count } from "../numbers.ts";
import { tableAnswers } from "../tables/answers_place.ts";
import { adviceOf } from "./advice.ts";
import { batchRows, recordsOfRun } from "./run_batches.ts";
import { doubtReason, type Noun } from "./summary.ts";

const MODELS_SHOWN_MAX = 5;

/** The run names what is lost, and where it may be. */
const MISSING: [string, string] = [
  "output",
  "it does not exist: put it back; the same run command says what is lost",
];

/** Options as commander passes them. */
interface StatusArguments {
  readonly data?: string;
  readonly json?: boolean;
}

/** The state of a run, with its batches. */
interface ShownStatus extends RunStatus {
  readonly batches?: readonly RecordedBatch[];
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export function status(out: string, options: Record<string, unknown>): Promise<number> {
  return show(out, options, (found, noun) => ({
    json: found,
    text: `${statusTable(found, systemClock.wallMs())}${errorLines(found.errors, errorsCommand(out, options), noun)}`,
  }));
}

/** Of a key in a text, in characters. */
const KEY_SHOWN_MAX = 64;

/** As `status`. */
export function errors(out: string, options: Record<string, unknown>): Promise<number> {
  return show(out, options, (found, noun) => {
    const groups = found.errors.map((group) => ({ ...group, what_to_do: adviceOf(group.code) }));
    const ended = groups.map((group) => errorText(group, noun)).join("") || `no ${noun} ended in an error\n`;
    return {
      json: { errors: groups, retrying: found.retrying_errors },
      text: `${ended}${retryingLine(found, noun)}${heldText(found, noun, commandOf("status", out, options))}`,
    };
  });
}

/** Lines that are tried again have not ended either. */
function retryingLine({ retrying, retrying_errors }: RunStatus, noun: Noun): string {
  if (retrying === 0) return "";
  const have = retrying === 1 ? "has" : "have";
  return `${linesText(retrying, noun)} ${have} failed and will be tried again${retriedText(retrying_errors)}\n`;
}

/** `: 2 overloaded (HTTP 503), 1 timeout`; empty where it is not known. */
function retriedText(errors: readonly RetriedError[]): string {
  if (errors.length === 0) return "";
  const texts = errors.map(({ code, provider_status: status, items }) => {
    const answer = status === undefined ? "" : ` (HTTP ${status})`;
    return `${count(items)} ${code}${answer}`;
  });
  return `: ${firstOf(texts)}`;
}

/** Held lines have not ended, so they have no error. */
function heldText({ counts: { held } }: RunStatus, noun: Noun, command: string): string {
  if (held === 0) return "";
  const are = held === 1 ? "is" : "are";
  return `${linesText(held, noun)} ${are} held and have no error; to see by what: ${command}\n`;
}

/** Lines by code as they are shown at the end of a run, and the command that says what to do; empty without errors. */
export function errorLines(groups: readonly ErrorGroup[], command: string, noun: Noun = "line"): string {
  if (groups.length === 0) return "";
  const lines = groups.map(
    ({ code, count: lineCount, first_line, first_key, message }) =>
      `  ${code}: ${linesText(lineCount, noun)}, ${placeText(first_line, noun)}${keyText(first_key)}: ${message}\n`,
  );
  return `errors\n${lines.join("")}to see what to do about them: ${command}\n`;
}

/** ` (key "q7")`; a long key is cut. */
function keyText(key: string | null): string {
  if (key === null) return "";
  return ` (key ${JSON.stringify(key.length > KEY_SHOWN_MAX ? `${key.slice(0, KEY_SHOWN_MAX)}...` : key)})`;
}

/** The command that shows the errors of an output. */
export function errorsCommand(out: string, options: StatusArguments): string {
  return commandOf("errors", out, options);
}

function commandOf(name: string, out: string, { data }: StatusArguments): string {
  return commandLine([name, out, ...(data === undefined ? [] : ["--data", data])]);
}

async function show(
  out: string,
  options: Record<string, unknown>,
  shown: (found: ShownStatus, noun: Noun) => { readonly json: object; readonly text: string },
): Promise<number> {
  const given = options as StatusArguments; // commander's own shape, declared in main.ts
  try {
    const { json, text } = shown(...(await statusOf(out, given)));
    process.stdout.write(given.json === true ? `${JSON.stringify(json)}\n` : text);
    return 0;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

function statusOf(out: string, { data }: StatusArguments): Promise<[ShownStatus, Noun]> {
  return readRun(out, data, async (store, task, dataDir) => [
    withBatches(
      current(await readStatus({ store, disk: systemDisk, dataDir }, task)),
      recordsOfRun(store, task.id).map(recordedBatch),
    ),
    nounOf(task, dataDir),
  ]);
}

/** What an item of a run is in its input. */
export function nounOf(task: StoredTask, dataDir: string): Noun {
  return isRunOf(task, tableAnswers(dataDir)) ? "row" : "line";
}

/** Reads what is stored of the run of an output; `data` as the command names it. Throws `not_found` with what to do. */
export async function readRun<T>(
  out: string,
  data: string | undefined,
  read: (store: ReadableStore, task: StoredTask, dataDir: string) => Promise<T>,
): Promise<T> {
  const dataDir = data ?? `${out}.perigee`;
  const path = resolve(out);
  let isFound = false;
  try {
    return await readStoreCopy(dataDir, (store) => {
      const task =
        store.findTask((each) => isRunOf(each, path)) ??
        store.findTask((each) => isRunOf(each, tableAnswers(dataDir)));
      if (task === undefined)
        throw new PerigeeError("not_found", `no run with the output ${path} is recorded in ${dataDir}`);
      isFound = true;
      return read(store, task, dataDir);
    });
  } catch (error) {
    if (isFound || !(error instanceof PerigeeError) || error.code !== "not_found") throw error;
    const way =
      data === undefined
        ? "if the run was started with --data, add the same --data here"
        : "--data must be that of the run";
    throw new PerigeeError("not_found", `${error.message}; ${way}`, { cause: error });
  }
}

/** The process at work notes the next try within about a second after the last one. */
const NOTED_MS = 3_000;

/** Without tries that are overdue: a process that was killed left them. */
function current(found: RunStatus): RunStatus {
  const leastMs = systemClock.wallMs() - NOTED_MS;
  const isOver = (nextTry: string | null): boolean => nextTry !== null && Date.parse(nextTry) < leastMs;
  const held = found.held.map((hold) => (isOver(hold.next_try) ? { ...hold, next_try: null } : hold));
  return { ...found, held };
}

/** Absent without batches. */
function withBatches(found: RunStatus, batches: readonly RecordedBatch[]): ShownStatus {
  return batches.length === 0 ? found : { ...found, batches };
}

function statusTable(found: ShownStatus, nowWallMs: number): string {
  const { counts, held } = found;
  const rows: [string, string][] = [
    ["answered", count(counts.answered)],
    ["failed", count(counts.failed)],
    ["open", openText(found)],
    ...batchRows(found.batches ?? []),
    ["held", count(counts.held)],
    ...held.map((hold): [string, string] => ["", `${linesText(hold.items)}: ${holdText(hold, nowWallMs)}`]),
    ["billed", billedRow(found)],
    ["ambiguous", doubtRow(found)],
    ...(found.output_missing === true ? [MISSING] : []),
  ];
  return rows.map(([label, value]) => `${label.padEnd(9)}  ${value}\n`).join("");
}

/** What is held says itself when it is tried again. */
function openText({ counts, retrying, retrying_errors, input_unread }: RunStatus): string {
  const again =
    counts.held === 0 && retrying > 0
      ? ` (${count(retrying)} failed and will be tried again${retriedText(retrying_errors)})`
      : "";
  const unread = input_unread === true ? ", and the lines of the input that were not read" : "";
  return `${count(counts.open)}${again}${unread}`;
}

function billedRow({ billed_usd, unpriced_models, counts, ambiguous_requests }: RunStatus): string {
  const isNothingTaken = counts.answered + counts.failed + ambiguous_requests === 0; // refusals cost nothing
  if (unpriced_models.length === 0 || isNothingTaken) return usdText(billed_usd);
  return `${billedText(billed_usd, true)} (no price is known for ${firstOf(unpriced_models)})`;
}

function firstOf(models: readonly string[]): string {
  const more = models.length - MODELS_SHOWN_MAX;
  return `${models.slice(0, MODELS_SHOWN_MAX).join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

function doubtRow(found: RunStatus): string {
  const { ambiguous_usd, ambiguous_requests, requests_under_way, unpriced_models } = found;
  if (ambiguous_requests === 0)
    return ambiguous_usd === 0 ? usdText(0) : `at most ${usdText(ambiguous_usd)} (${doubtReason(0)})`;
  const requests = ambiguous_requests === 1 ? "1 request" : `${count(ambiguous_requests)} requests`;
  const underWay =
    requests_under_way === 0
      ? ""
      : `, ${count(requests_under_way)} of them under way, or cut off when the process ended`;
  return `${doubtText(ambiguous_usd, unpriced_models.length > 0)} (${requests} may have been billed without an answer${underWay})`;
}

function errorText(group: ShownGroup, noun: Noun): string {
  const { code, count: lineCount, first_line, first_key, message, what_to_do } = group;
  const where = `${linesText(lineCount, noun)}, ${placeText(first_line, noun)}${keyText(first_key)}`;
  return `${code}: ${where}\n  ${message}\n  what to do: ${what_to_do}\n`;
}

interface ShownGroup extends ErrorGroup {
  readonly what_to_do: string;
}

function placeText(firstLine: number | null, noun = "line"): string {
  return firstLine === null ? "no longer in the input" : `first ${noun} ${firstLine}`;
}

function linesText(lineCount: number, noun = "line"): string {
  return lineCount === 1 ? `1 ${noun}` : `${count(lineCount)} ${noun}s`;
}
