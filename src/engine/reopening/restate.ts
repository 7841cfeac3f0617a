/**
 * Restates a run: writes its output again without some of its lines, and starts its journal again to match, so that lines
 * that had ended are open again, or have another number.
 *
 *   output as it is -> the new output, whole, beside it (`.perigee-part`) -> steps that state it -> `restating` in the task:
 *     decided -> the old output is moved aside if it holds more than lines -> the new one is renamed to its place
 *     -> `restated` in the task: those steps count, and earlier ones do not
 *
 * A crash before the decision leaves steps that do not count and a file that the next restatement overwrites. A crash after it
 * is completed by the next call (`settleRestatement`). The file at the output's path is whole at every moment: the old
 * one or the new one.
 *
 * The usage of lines that are open again or removed is kept: their attempts no longer count against them, all their money does. An item
 * that is requested again as it was keeps the sums under its number, so that its next line holds them; others leave them to the run.
 * Memory: that of one step.
 */
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { asBuffer } from "../../jsonl/lines.ts";
import { readOutputLine } from "../../jsonl/write.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import type { StoredTask } from "../../store/store.ts";
import type { EngineCore } from "../core.ts";
import type { SettledLine } from "../files/settled_lines.ts";
import { encodeBody, isOfInput, type TaskBody } from "../files/task_body.ts";
import { partPath } from "../files/task_files.ts";
import { STATES_ANEW } from "../files/task_journal.ts";
import { isAnswerWhole } from "../journal/answer_check.ts";
import { hasCrc32 } from "../journal/checksum.ts";
import {
  type ClosedRecord,
  NOTHING_SPENT,
  type OutcomeRecord,
  StepWriter,
  stamped,
} from "../journal/journal.ts";
import type { AttemptsMade } from "../journal/replay.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { CUT_ANSWER } from "../journal/totals.ts";

/** In every line with warnings, and in few others. */
const WARNED = '"warnings":[';
/** In every line whose answer was cut, and in few others. */
const CUT = '"finish_reason":"length"';
/** Of output and of rows, in one step of many lines. */
export const STEP_BYTES_MAX: number = 1024 * 1024;
export const STEP_ROWS_MAX = 4_096;
const READ_BYTES = 1024 * 1024;

/** Of no line, and no attempt. */
const NOTHING_MADE: ClosedRecord = {
  ...NOTHING_SPENT,
  line: 0,
  attempts: 0,
  uncounted: 0,
  ambiguousAttempts: 0,
  uncountedAmbiguous: 0,
  unusableAnswers: 0,
};

/** What becomes of a line that has ended. Lines without a number are removed, and only what they took is kept. */
export interface Fate {
  readonly line: number | undefined;
  /** Whether its answer or error stays. */
  readonly isKept: boolean;
  /** Whether the same item is requested again: what it took is added to what it will take. */
  readonly isAgain?: boolean;
}

/** A line that has not ended, under its new number. */
export interface OpenLine {
  readonly line: number;
  readonly made: AttemptsMade;
}

/** What is to be stated. */
export interface Restatement {
  readonly task: StoredTask;
  /** The task as it was, and as it is to be from then on. */
  readonly before: TaskBody;
  readonly next: TaskBody;
  /** Where the new output takes its place, and where its lines are read now. */
  readonly path: string;
  /** A file that is moved before the new output takes its place. */
  readonly aside?: { readonly from: string; readonly to: string } | undefined;
  readonly output: Pick<DiskFile, "read">;
  readonly lines: AsyncIterable<SettledLine>;
  readonly fateOf: (outcome: OutcomeRecord) => Fate;
  readonly openLines: Iterable<OpenLine>;
  readonly prices: readonly UsedPrice[];
  readonly committedUsd: number;
  /** What lines took that are not among these any more. */
  readonly gone: readonly ClosedRecord[];
  /** Of the journal's last entry. */
  readonly lastSequence: number;
}

/** An engine that restates: with its delivery in `config`. */
export type RestatedIn = Pick<EngineCore, "storage" | "config">;

/** Decides on a restatement and settles it; resolves with the task from then on. */
export async function restate(
  core: RestatedIn,
  restatement: Restatement,
  signal: AbortSignal,
): Promise<TaskBody> {
  const { storage } = core;
  const { disk, room, store } = storage;
  const { task, before, next, path, lastSequence, aside } = restatement;
  const part = partPath(path);
  const file = await room.waitFor(() => disk.open(part, "write"), { signal, path });
  const writer = new RestatementWriter(core, restatement, file, signal);
  try {
    await room.waitFor(() => file.truncate(0), { signal, path });
    await writer.writeAll();
    await room.waitFor(() => file.sync(), { signal, path });
  } finally {
    await file.close();
  }
  const { outBytes, outCrc32, steps } = writer;
  const range = { from: lastSequence + 1, to: lastSequence + steps };
  const moved = aside === undefined ? {} : { aside };
  const decided = { ...before, restating: { ...range, outBytes, outCrc32, next, ...moved } };
  await room.waitFor(() => store.putTask({ ...task, body: encodeBody(decided) }), { signal });
  return settleRestatement(storage, task, decided, path, signal);
}

/** Brings a decided restatement to its end, or takes it back when its output is nowhere. */
export async function settleRestatement(
  storage: EngineStorage,
  task: StoredTask,
  { restating, ...before }: TaskBody,
  path: string,
  signal: AbortSignal,
): Promise<TaskBody> {
  if (restating === undefined) return before;
  const { disk, room, store } = storage;
  const part = partPath(path);
  const { aside } = restating;
  let isInPlace = await holds(disk, path, restating);
  if (isInPlace) {
    // The process that renamed it may have died before its name was durable, which opening it for writing makes it.
    await (await room.waitFor(() => disk.open(path, "write"), { signal, path })).close();
  } else if (await holds(disk, part, restating)) {
    if (aside !== undefined && (await isToMove(disk, aside)))
      await room.waitFor(() => disk.rename(aside.from, aside.to), { signal, path });
    await room.waitFor(() => disk.rename(part, path), { signal, path });
    isInPlace = true;
  }
  const { from, to, next } = restating;
  const body = isInPlace ? { ...next, restated: { from, to } } : before;
  await room.waitFor(() => store.putTask({ ...task, body: encodeBody(body) }), { signal });
  return body;
}

async function isToMove(
  disk: Disk,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<boolean> {
  return (await disk.stat(to)) === undefined && (await disk.stat(from)) !== undefined;
}

async function holds(
  disk: Disk,
  path: string,
  { outBytes, outCrc32 }: { readonly outBytes: number; readonly outCrc32: number },
): Promise<boolean> {
  if ((await disk.stat(path))?.sizeBytes !== outBytes) return false; // nothing is appended before it is settled
  return hasCrc32(disk, path, outBytes, outCrc32);
}

/** The step that is being filled: records, and the lines that they are about. */
class RestatedStep {
  readonly writer: StepWriter = new StepWriter();
  readonly lines: Uint8Array[] = [];
  rows = 0;
  #bytes = 0;

  get isFull(): boolean {
    return this.rows >= STEP_ROWS_MAX || this.#bytes >= STEP_BYTES_MAX;
  }

  outcome(record: OutcomeRecord, line: Uint8Array): void {
    this.writer.outcome(record, line.byteLength, crc32(line));
    this.lines.push(line);
    this.#bytes += line.byteLength;
    this.rows += 1;
  }
}

/** Used once. */
class RestatementWriter {
  readonly #core: RestatedIn;
  readonly #restatement: Restatement;
  readonly #file: DiskFile;
  readonly #signal: AbortSignal;
  #step = new RestatedStep();
  outBytes = 0;
  outCrc32 = 0;
  /** Appended so far. */
  steps = 0;

  constructor(core: RestatedIn, restatement: Restatement, file: DiskFile, signal: AbortSignal) {
    this.#core = core;
    this.#restatement = restatement;
    this.#file = file;
    this.#signal = signal;
  }

  async writeAll(): Promise<void> {
    const { output, lines, fateOf, openLines, prices, gone } = this.#restatement;
    const reader = new LineReader(output);
    for (const price of prices) this.#step.writer.price(price);
    for (const record of gone) this.#step.writer.closed(record);
    this.#step.rows += prices.length + gone.length;
    for await (const settled of lines) {
      const { line, isKept, isAgain = false } = fateOf(settled.outcome);
      if (isKept && line !== undefined) this.#keep(settled.outcome, line, await reader.read(settled));
      else this.#forgive(settled.outcome, isAgain ? line : undefined);
      if (this.#step.isFull) await this.#flush();
    }
    for (const { line, made } of openLines) {
      this.#carry(line, made);
      if (this.#step.isFull) await this.#flush();
    }
    if (this.#step.rows > 0) await this.#flush();
  }

  #keep(outcome: OutcomeRecord, line: number, bytes: Uint8Array): void {
    const { next } = this.#restatement;
    const named = isOfInput(next, line) ? line : undefined;
    const written = outcome.code === undefined ? bytes : renumbered(bytes, named);
    this.#step.outcome({ ...outcome, line }, written);
    const isRead = [WARNED, CUT].some((text) => asBuffer(bytes).includes(text));
    const { warnings, isCut } = isRead ? (readOutputLine(bytes) ?? {}) : {};
    if (warnings !== undefined) this.#step.writer.warned(warnings);
    if (isCut === true) this.#step.writer.warned(CUT_ANSWER);
  }

  /**
   * Keeps the usage of a line, so that its tries are counted from the start again. Under at_most_once, an earlier try that may have been answered would
   * otherwise prevent that the line is sent, although the caller requested it again: there the run counts it, not the line.
   */
  #forgive(outcome: OutcomeRecord, line = 0): void {
    const { attempts, ambiguousAttempts } = outcome;
    if (attempts === 0) return;
    const isSplit = line !== 0 && ambiguousAttempts > 0 && this.#core.config.isAtMostOnce;
    if (isSplit)
      this.#step.writer.closed({ ...NOTHING_MADE, ambiguousAttempts, uncountedAmbiguous: ambiguousAttempts });
    const ambiguous = isSplit ? 0 : ambiguousAttempts;
    const counts = {
      uncounted: attempts,
      ambiguousAttempts: ambiguous,
      uncountedAmbiguous: ambiguous,
      unusableAnswers: 0,
    };
    this.#step.writer.closed({ ...outcome, ...counts, line });
    this.#step.rows += isSplit ? 2 : 1;
  }

  #carry(line: number, { intent, spent, startedWallMs: _started, ...counts }: AttemptsMade): void {
    if (intent === undefined) {
      this.#step.writer.closed({ ...spent, ...counts, line });
    } else {
      const before = {
        attempts: counts.attempts - 1,
        uncounted: counts.uncounted - 1,
        ambiguousAttempts: counts.ambiguousAttempts - 1,
        uncountedAmbiguous: counts.uncountedAmbiguous - 1,
        unusableAnswers: counts.unusableAnswers,
      };
      const ambiguousUsd = spent.ambiguousUsd - intent.mostUsd;
      // An answer that a power cut damaged was paid for, although its request counts as in doubt.
      if (before.attempts > 0 || spent.billedUsd > 0 || ambiguousUsd > 0)
        this.#step.writer.closed({ ...spent, ambiguousUsd, ...before, line });
      this.#step.writer.intent({ ...intent, line });
    }
    this.#step.rows += 1;
  }

  async #flush(): Promise<void> {
    const { store, room, clock } = this.#core.storage;
    const { task, committedUsd, path } = this.#restatement;
    const bytes = Buffer.concat(this.#step.lines);
    const outStart = this.outBytes;
    await room.waitFor(() => this.#file.write(bytes, outStart), { signal: this.#signal, path });
    this.outBytes += bytes.byteLength;
    this.outCrc32 = crc32(bytes, this.outCrc32);
    const records = this.#step.writer.finish({
      outStart,
      outEnd: this.outBytes,
      outCrc32: bytes.byteLength === 0 ? 0 : crc32(bytes),
      voids: STATES_ANEW,
      committedUsd,
    });
    const entry = stamped({ taskId: task.id, records }, clock.moment());
    await room.waitFor(() => store.append([entry]), { signal: this.#signal });
    this.steps += 1;
    this.#step = new RestatedStep();
  }
}

/** An error names its line of the input, unless its key is no longer there. */
function renumbered(bytes: Uint8Array, line: number | undefined): Uint8Array {
  const value = JSON.parse(Buffer.from(bytes).toString()) as { line?: number; error?: { line?: number } }; // written by this engine
  const { error } = value;
  if (error === undefined || error.line === line) return bytes;
  if (line === undefined) delete error.line;
  else error.line = line;
  if (value.line !== undefined && line !== undefined) value.line = line;
  return Buffer.from(`${JSON.stringify(value)}\n`);
}

/** Reads lines of an output that mostly follow one another. */
export class LineReader {
  readonly #file: Pick<DiskFile, "read">;
  #window = new Uint8Array(0);
  #start = 0;

  constructor(file: Pick<DiskFile, "read">) {
    this.#file = file;
  }

  /** Throws `output_changed` when it is not what was written. */
  async read(settled: SettledLine): Promise<Uint8Array> {
    if ("held" in settled) return settled.held;
    const { start, outcome } = settled;
    const { lineBytes, lineCrc32, line } = outcome;
    const isWithin = start >= this.#start && start + lineBytes <= this.#start + this.#window.byteLength;
    if (!isWithin) await this.#move(start, lineBytes);
    const bytes = this.#window.subarray(start - this.#start, start - this.#start + lineBytes);
    if (isAnswerWhole(bytes, { start, lengthBytes: lineBytes, lineCrc32 })) return bytes;
    throw new PerigeeError(
      "output_changed",
      `the answer of line ${line} (bytes ${start} to ${start + lineBytes} of the output) is not what was recorded: put the file back, or start over with another output`,
    );
  }

  async #move(start: number, lengthBytes: number): Promise<void> {
    const window = new Uint8Array(Math.max(READ_BYTES, lengthBytes));
    this.#window = window.subarray(0, await this.#file.read(window, start));
    this.#start = start;
  }
}
