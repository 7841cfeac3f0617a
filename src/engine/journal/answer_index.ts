/**
 * The place of each answer of a submitted list: columns by line, kept up to date step by step.
 *
 * 26 bytes an item. Fed with the journal's steps in order, first by replay, then live.
 */
import type { FailureCode } from "../../errors.ts";
import { codeOfNumber, numberOfCode } from "../../work/failure_numbers.ts";
import { RESTATES, type SettledStatus, type Step } from "./journal.ts";
import { RELEASES_HELD } from "./task_log.ts";

const STATUSES: readonly (SettledStatus | undefined)[] = [
  undefined,
  "completed",
  "failed",
  "expired",
  "cancelled",
];

/** What is known of one line. */
export interface IndexedAnswer {
  /** Undefined while it is not settled. */
  readonly status: SettledStatus | undefined;
  /** The place of its output line; of length 0 while it waits for space on the disk. */
  readonly start: number;
  readonly lengthBytes: number;
  /** CRC-32 of that line; 0 when it is not known. */
  readonly lineCrc32: number;
  /** An attempt failed, and the next has not begun. */
  readonly isRetrying: boolean;
  /** How that attempt failed; undefined where it is not known. */
  readonly lastCode: FailureCode | undefined;
  /** As the provider counted, 0 when it did not answer. */
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** A line of the output, its line end included. */
export interface PlacedLine {
  readonly line: number;
  readonly lineBytes: number;
  readonly lineCrc32: number;
}

/** Lines count from 1 to `count`. */
export class AnswerIndex {
  readonly #status: Uint8Array;
  /** 0, or one more than the number of the code with which the last attempt failed. */
  readonly #retrying: Uint8Array;
  readonly #starts: Float64Array;
  readonly #lengths: Uint32Array;
  readonly #checksums: Uint32Array;
  readonly #inputTokens: Uint32Array;
  readonly #outputTokens: Uint32Array;
  /** The last step that wrote output, with the held lines in it. */
  #last:
    | { readonly sequence: number; readonly step: Step; readonly released: readonly PlacedLine[] }
    | undefined;
  #held: PlacedLine[] = [];

  constructor(count: number) {
    this.#status = new Uint8Array(count + 1);
    this.#retrying = new Uint8Array(count + 1);
    this.#starts = new Float64Array(count + 1);
    this.#lengths = new Uint32Array(count + 1);
    this.#checksums = new Uint32Array(count + 1);
    this.#inputTokens = new Uint32Array(count + 1);
    this.#outputTokens = new Uint32Array(count + 1);
  }

  get(line: number): IndexedAnswer {
    return {
      status: STATUSES[this.#status[line] ?? 0],
      start: this.#starts[line] ?? 0,
      lengthBytes: this.#lengths[line] ?? 0,
      lineCrc32: this.#checksums[line] ?? 0,
      isRetrying: (this.#retrying[line] ?? 0) > 0,
      lastCode: codeOfNumber((this.#retrying[line] ?? 0) - 1),
      inputTokens: this.#inputTokens[line] ?? 0,
      outputTokens: this.#outputTokens[line] ?? 0,
    };
  }

  /** Undefined while the line is not settled. */
  statusOf(line: number): SettledStatus | undefined {
    return STATUSES[this.#status[line] ?? 0];
  }

  /** How many of the lines from `first` to `last` have ended in each way, and are in the output. */
  counts(first: number, last: number): Readonly<Record<SettledStatus, number>> {
    const counts = [0, 0, 0, 0, 0];
    for (let line = first; line <= last; line += 1) {
      const status = this.#lengths[line] === 0 ? 0 : (this.#status[line] ?? 0);
      counts[status] = (counts[status] as number) + 1;
    }
    const [, completed = 0, failed = 0, expired = 0, cancelled = 0] = counts;
    return { completed, failed, expired, cancelled };
  }

  /** Tokens of the lines from `first` to `last`, as the provider counted. */
  tokens(first: number, last: number): { readonly inputTokens: number; readonly outputTokens: number } {
    let inputTokens = 0;
    let outputTokens = 0;
    for (let line = first; line <= last; line += 1) {
      inputTokens += this.#inputTokens[line] ?? 0;
      outputTokens += this.#outputTokens[line] ?? 0;
    }
    return { inputTokens, outputTokens };
  }

  /** `sequence` is the step's number in the journal where known (replay), 0 live. Returns what it wrote to the output. */
  apply(sequence: number, step: Step): readonly PlacedLine[] {
    if (step.voids === RESTATES) this.forget();
    if (step.voids > 0 && this.#last?.sequence === step.voids) this.#void(this.#last);
    const released = step.voids === RELEASES_HELD ? this.#held : [];
    if (step.voids === RELEASES_HELD) {
      this.#place(released, step.outStart);
      this.#held = [];
    }
    for (const { line, attempts, failure } of step.closed)
      this.#retrying[line] = attempts > 0 ? 1 + numberOfCode(failure?.code) : 0;
    for (const { line } of step.intents) this.#retrying[line] = 0; // of one line in one step: the later attempt's
    for (const outcome of step.outcomes) {
      this.#retrying[outcome.line] = 0;
      this.#status[outcome.line] = STATUSES.indexOf(outcome.status);
      this.#inputTokens[outcome.line] = outcome.inputTokens;
      this.#outputTokens[outcome.line] = outcome.outputTokens;
    }
    let placed: readonly PlacedLine[] = released;
    if (step.held.byteLength > 0) this.#held.push(...step.outcomes);
    else if (step.voids !== RELEASES_HELD) {
      this.#place(step.outcomes, step.outStart);
      placed = step.outcomes;
    }
    if (step.outEnd > step.outStart) this.#last = { sequence, step, released };
    return placed;
  }

  /** Lines that were written by themselves are open again; those that were held wait for space again. */
  #void({ step, released }: { readonly step: Step; readonly released: readonly PlacedLine[] }): void {
    for (const { line } of released) this.#lengths[line] = 0;
    this.#held = [...released, ...this.#held];
    if (step.voids !== RELEASES_HELD) for (const { line } of step.outcomes) this.#status[line] = 0;
  }

  /** Nothing is known of any line; the following steps say it again. */
  forget(): void {
    for (const column of [this.#status, this.#retrying, this.#lengths, this.#inputTokens, this.#outputTokens])
      column.fill(0);
    this.#held = [];
    this.#last = undefined;
  }

  #place(lines: readonly PlacedLine[], from: number): void {
    let start = from;
    for (const { line, lineBytes, lineCrc32 } of lines) {
      this.#starts[line] = start;
      this.#lengths[line] = lineBytes;
      this.#checksums[line] = lineCrc32;
      start += lineBytes;
    }
  }
}
