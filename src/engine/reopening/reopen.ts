/**
 * Lines of a run that ended in an error, opened again: their errors leave the output, and they are answered again.
 *
 *   finished -> which lines? -> no line: as it was         their choice needs the error lines: they say what is retryable
 *   stopped  -> recovered    -> some: restated -> open     (`restate.ts`: safe at any kill)
 *
 * They are answered on the terms of the call that opens them (model, sla), and the sla counts from that call. What they
 * took before is kept, and counts no more against them.
 */
import type { Moment } from "../../clock.ts";
import type { DiskFile } from "../../disk.ts";
import { type FailureCode, PerigeeError } from "../../errors.ts";
import { readBlocks } from "../../jsonl/read.ts";
import { nearest } from "../../nearest.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import type { StoredTask } from "../../store/store.ts";
import { RETRY_CODES } from "../../work/failure_numbers.ts";
import { isObject } from "../../work/json.ts";
import { LineSet } from "../../work/line_set.ts";
import type { EngineCore } from "../core.ts";
import { type AskedTerms, acceptedAt, withTerms } from "../files/run_terms.ts";
import { type SettledLine, settledLines } from "../files/settled_lines.ts";
import { streamChanged } from "../files/spool.ts";
import { isOfInput, type TaskBody } from "../files/task_body.ts";
import { answersPath } from "../files/task_files.ts";
import { countingEntries } from "../files/task_journal.ts";
import { addGone } from "../journal/item_cost.ts";
import { type ClosedRecord, type OutcomeRecord, RESTATES, readStep } from "../journal/journal.ts";
import { OutputFile } from "../journal/output.ts";
import type { AttemptsMade } from "../journal/replay.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { type RecoveredRun, recoverRun } from "./recover.ts";
import { LineReader, restate } from "./restate.ts";

/** What recovers a run and restates it. */
type ReopeningCore = Pick<EngineCore, "storage" | "config" | "measurer" | "sending" | "figures">;

/** Which lines: those whose error may pass by itself, or those that ended with one of these codes. */
export type RetryFailed = true | readonly FailureCode[];

/** Throws `usage` for a code that no line ends with; `where` names the call. */
export function checkRetryFailed(
  retry: unknown,
  where: string,
  details: Readonly<Record<string, unknown>> = {},
): void {
  if (retry === undefined || retry === true) return;
  if (!Array.isArray(retry) || retry.length === 0)
    throw new PerigeeError(
      "usage",
      `${where}: retryFailed must be true or a list of codes, got ${JSON.stringify(retry)}`,
      { details },
    );
  for (const code of retry as readonly unknown[]) {
    if (RETRY_CODES.some((known) => known === code)) continue;
    const near = nearest(String(code), RETRY_CODES);
    const hint = near === undefined ? "" : `; did you mean "${near}"?`;
    throw new PerigeeError("usage", `${where}: ${JSON.stringify(code)} is not the code of an error${hint}`, {
      details,
    });
  }
}

/** A run as an earlier call left it. */
export interface LeftRun extends Pick<RecoveredRun, "body" | "input" | "terms" | "model" | "isUnchanged"> {
  readonly task: StoredTask;
}

/** What a call says of the lines that it opens. */
export interface Reopening {
  readonly retry: RetryFailed;
  /** For these lines and what is open besides; a finished run keeps its own when no line is opened. */
  readonly asked: AskedTerms;
  /** When the call is made. */
  readonly now: Moment;
}

/** The task with those lines open, durably; unchanged without such lines. Throws `output_changed`, `input_changed`. */
export function reopenFailed(
  core: ReopeningCore,
  left: LeftRun,
  { retry, asked, now }: Reopening,
  signal: AbortSignal,
): Promise<TaskBody> {
  const { task, body } = left;
  return withLeftRun(core, left, signal, async ({ output, lines, made, end }) => {
    const failed = await failedLines(lines(), output, retry, body, core.config.isAtMostOnce);
    if (failed.size === 0) return body;
    if (body.status === "completed") await readAgain(left);
    const termed = withTerms(body, asked, now);
    const { summary, outBytes, outChecksum, isCancelled, status, ...rest } = termed;
    const window = termed.slaMinutes === undefined ? {} : acceptedAt(asked.accepted ?? now);
    const restatement = {
      task,
      before: body,
      next: { ...rest, ...window, staleUntil: end.lastSequence, status: "open" as const },
      path: answersPath(core.storage, task.id, body),
      output,
      lines: lines(),
      fateOf: ({ line }: OutcomeRecord) => ({ line, isKept: !failed.has(line), isAgain: true }),
      openLines: [...made].map(([line, each]) => ({ line, made: each })),
      ...end,
    };
    return restate(core, restatement, signal);
  });
}

/** What a restatement needs of the run. */
export interface LeftState {
  readonly output: Pick<DiskFile, "read">;
  /** The settled lines, by their places. May be called again. */
  readonly lines: () => AsyncGenerator<SettledLine>;
  readonly made: ReadonlyMap<number, AttemptsMade>;
  readonly end: {
    readonly prices: UsedPrice[];
    readonly committedUsd: number;
    readonly lastSequence: number;
    /** What lines took that an earlier restatement left out. */
    readonly gone: readonly ClosedRecord[];
  };
}

/** Lets `work` read a run whose last crash is put right. */
export async function withLeftRun<T>(
  core: ReopeningCore,
  left: LeftRun,
  signal: AbortSignal,
  work: (state: LeftState) => Promise<T>,
): Promise<T> {
  const { task, body } = left;
  const isFinished = body.status === "completed";
  const path = isFinished ? body.out : answersPath(core.storage, task.id, body);
  const made = isFinished ? new Map<number, AttemptsMade>() : await recovered(core, left, path, signal);
  const output = await core.storage.disk.open(path, "read");
  try {
    const lines = await placedIn(core.storage, task.id, body);
    return await work({ output, lines, made, end: await journalEnd(core.storage, task.id, body) });
  } finally {
    await output.close();
  }
}

/** What the crash of an earlier call left is put right first, as by any other call. */
async function recovered(
  core: ReopeningCore,
  { task, ...left }: LeftRun,
  path: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, AttemptsMade>> {
  const output = await OutputFile.open(core.storage.disk, path);
  try {
    const { made } = await recoverRun(core, { ...left, taskId: task.id, output }, signal);
    return made;
  } finally {
    await output.close();
  }
}

/** The settled lines, by their present places: those of a finished run in order are in the order of the input. */
async function placedIn(
  { store }: EngineStorage,
  taskId: string,
  body: TaskBody,
): Promise<() => AsyncGenerator<SettledLine>> {
  const written = (): AsyncGenerator<SettledLine> => settledLines(store, taskId, body);
  if (!body.isOrdered || body.status !== "completed") return written;
  let starts = new Float64Array(1024);
  let last = 0;
  for await (const { outcome } of written()) {
    if (outcome.line >= starts.length) starts = grown(starts, outcome.line);
    starts[outcome.line] = outcome.lineBytes;
    last = Math.max(last, outcome.line);
  }
  for (let line = 1, start = 0; line <= last; line += 1) {
    const lineBytes = starts[line] as number;
    starts[line] = start;
    start += lineBytes;
  }
  return async function* inOrder() {
    for await (const { outcome } of written()) yield { outcome, start: starts[outcome.line] as number };
  };
}

function grown(column: Float64Array<ArrayBuffer>, index: number): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(Math.max(index + 1, column.length * 2));
  larger.set(column);
  return larger;
}

async function failedLines(
  lines: AsyncIterable<SettledLine>,
  output: Pick<DiskFile, "read">,
  retry: RetryFailed,
  body: TaskBody,
  isAtMostOnce: boolean,
): Promise<LineSet> {
  const reader = new LineReader(output);
  const found = new LineSet();
  for await (const settled of lines) {
    const { code, line, ambiguousAttempts } = settled.outcome;
    if (code === undefined || !isOfInput(body, line)) continue; // a key that is no longer in the input cannot be requested again
    if (retry === true && isAtMostOnce && ambiguousAttempts > 0) continue; // it may run twice only if the caller names its code
    if (retry !== true ? retry.includes(code) : await isRetried(code, reader, settled)) found.add(line);
  }
  return found;
}

/** Whether a retry without codes includes a line. Cancelled lines run again only if the caller names the code. */
async function isRetried(code: FailureCode, reader: LineReader, settled: SettledLine): Promise<boolean> {
  if (code === "expired" || code === "cancelled") return code === "expired";
  return isRetryable(await reader.read(settled));
}

function isRetryable(bytes: Uint8Array): boolean {
  const value: unknown = JSON.parse(Buffer.from(bytes).toString()); // checked against the journal
  const error = isObject(value) ? value["error"] : undefined;
  return isObject(error) && error["retryable"] === true;
}

async function journalEnd(
  { store }: EngineStorage,
  taskId: string,
  body: TaskBody,
): Promise<LeftState["end"]> {
  const prices: UsedPrice[] = [];
  let committedUsd = 0;
  let lastSequence = 0;
  let gone: ClosedRecord[] = [];
  for await (const entry of countingEntries(store, taskId, body)) {
    const step = readStep(entry.records);
    prices.push(...step.prices);
    committedUsd = step.committedUsd;
    if (step.voids === RESTATES) gone = [];
    for (const record of step.closed) if (record.line === 0) addGone(gone, record);
  }
  for await (const { sequence } of store.journal(taskId)) lastSequence = sequence;
  return { prices, committedUsd, lastSequence, gone };
}

/** The copy of a finished stream was deleted: the stream must now return what was answered. */
async function readAgain({ input, body }: LeftRun): Promise<void> {
  if (input.spool === undefined) return;
  for await (const _ of readBlocks(input.file)) {
    // read to its end, so that all of it is in the copy
  }
  if (String(await input.spool.checksum()) !== body.streamChecksum) throw streamChanged("other");
  await input.spool.sync(); // an open run counts on the copy of every line that it has recorded
}

/** What a run says that found no line to run again. Submitted lists run several runs for one retry, and say nothing of each. */
export function nothingToRetry(out: string, retry: RetryFailed): string {
  const errors = retry === true ? "an error that may pass when it is tried again" : retry.join(" or ");
  return `no line of ${out} has ended in ${errors}: none is run again`;
}
