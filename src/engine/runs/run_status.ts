/**
 * The state of a recorded run, read only from its journal: for reading a run from outside its process.
 */
import type { FailureCode } from "../../errors.ts";
import type { Taken } from "../../price/budget.ts";
import { roundedUsd } from "../../price/cost.ts";
import { plusUsd } from "../../price/nano.ts";
import type { StoredTask } from "../../store/store.ts";
import { settledLines } from "../files/settled_lines.ts";
import { decodeBody } from "../files/task_body.ts";
import { readHoldNote } from "../items/hold_note.ts";
import type { Hold } from "../items/holds.ts";
import { type ClosedRecord, endsIntent, type IntentRecord, type Step } from "../journal/journal.ts";
import type { RunFiles } from "../journal/storage.ts";
import { type ErrorGroup, ErrorGroups } from "./run_errors.ts";

/** The object that `perigee status --json` prints. */
export interface RunStatus {
  readonly counts: {
    readonly answered: number;
    /** Lines that ended in an error. */
    readonly failed: number;
    /** Neither ended nor held; of a stream, those that were begun. */
    readonly open: number;
    readonly held: number;
  };
  /** As the process that works on it said last; `next_try` is null where no process does. */
  readonly held: readonly Hold[];
  /** Without the cost of `unpriced_models`. */
  readonly billed_usd: number;
  /** Models that were used without a known price; the first 100. */
  readonly unpriced_models: readonly string[];
  /** The most that requests without a known end may have cost, including those under way; 0 if no price is known. */
  readonly ambiguous_usd: number;
  /** The number of these requests, with or without a known price. */
  readonly ambiguous_requests: number;
  /** How many of them have no recorded end: they are under way, or were cut off when the process ended. */
  readonly requests_under_way: number;
  /** Items whose last request failed and that are requested again; held ones included. */
  readonly retrying: number;
  /** How their last requests failed, the most frequent first; without those that an earlier version recorded. */
  readonly retrying_errors: readonly RetriedError[];
  readonly errors: readonly ErrorGroup[];
  /** Present when the input was not read to its end, as of a stream: lines that were not begun are open besides. */
  readonly input_unread?: true;
  /** Present when lines have ended and their output does not exist. */
  readonly output_missing?: true;
}

/** Items whose last requests failed alike. */
export interface RetriedError {
  readonly code: FailureCode;
  /** The HTTP status; absent when no answer came. */
  readonly provider_status?: number;
  readonly items: number;
}

const UNPRICED_MAX = 100;

/** Reads the journal once, and a line of the output for each error code. */
export async function readStatus(files: RunFiles, task: StoredTask): Promise<RunStatus> {
  const body = decodeBody(task.body);
  const groups = new ErrorGroups();
  const unsettled = new UnsettledLines();
  const unpriced = new Set<string>();
  const onStep = (step: Step): void => {
    unsettled.apply(step);
    for (const { model, source } of step.prices)
      if (source === null && unpriced.size < UNPRICED_MAX) unpriced.add(model);
  };
  let answered = 0;
  let failed = 0;
  let billedUsd = 0;
  let ambiguousUsd = 0;
  let ambiguousRequests = 0;
  for await (const line of settledLines(files.store, task.id, body, onStep)) {
    const { status } = line.outcome;
    if (status === "completed") answered += 1;
    else failed += 1;
    billedUsd = plusUsd(billedUsd, line.outcome.billedUsd);
    ambiguousUsd = plusUsd(ambiguousUsd, line.outcome.ambiguousUsd);
    ambiguousRequests += line.outcome.ambiguousAttempts;
    groups.add(line);
    unsettled.settled(line.outcome.line);
  }
  const total =
    body.lines === undefined ? undefined : body.lines - (body.blankLines ?? 0) + (body.keptLines ?? 0);
  const open = unsettled.taken();
  const isOver = body.status === "completed";
  const left = isOver ? 0 : Math.max(0, total === undefined ? unsettled.count : total - answered - failed);
  const holds = left === 0 ? [] : (await readHoldNote(files, task.id)).holds;
  const held = Math.min(
    left,
    holds.reduce((items, hold) => items + hold.items, 0),
  );
  const isMissing = answered + failed > 0 && (await files.disk.stat(body.out)) === undefined;
  return {
    counts: { answered, failed, open: left - held, held },
    held: holds,
    billed_usd: roundedUsd(billedUsd + open.billedUsd),
    unpriced_models: [...unpriced],
    ambiguous_usd: roundedUsd(ambiguousUsd + open.ambiguousUsd),
    ambiguous_requests: ambiguousRequests + open.ambiguousAttempts,
    requests_under_way: unsettled.underWay,
    retrying: isOver ? 0 : unsettled.retrying,
    retrying_errors: isOver ? [] : unsettled.retryingErrors(),
    errors: await groups.read(files, task.id, body),
    ...(total === undefined && !isOver ? { input_unread: true } : {}),
    ...(isMissing ? { output_missing: true } : {}),
  };
}

/** The cost of lines, and how many of their requests may have been billed without an answer. */
type TakenByLines = Taken & Pick<ClosedRecord, "ambiguousAttempts">;

const NOTHING: TakenByLines = { billedUsd: 0, ambiguousUsd: 0, ambiguousAttempts: 0 };

/** Lines that were begun and have not ended, with what they took so far. */
class UnsettledLines {
  readonly #closed = new Map<number, TakenByLines & Pick<ClosedRecord, "failure">>();
  /** Requests whose end is not recorded: under way, or in doubt after a crash. */
  readonly #intents = new Map<number, IntentRecord>();
  /** By lines that are no longer in the input. */
  #gone: TakenByLines = NOTHING;

  apply(step: Step): void {
    const ended = new Map(step.closed.map(({ line, attempts }) => [line, attempts]));
    for (const intent of step.intents) {
      const last = this.#intents.get(intent.line);
      const isAnother = last !== undefined && last.attempt < intent.attempt; // else stated again, by when it left
      if (isAnother && last.attempt > (ended.get(intent.line) ?? 0)) this.#doubt(last);
      this.#intents.set(intent.line, intent);
    }
    for (const record of step.closed) this.#close(step, record);
  }

  /** Called after the step that ended the line. */
  settled(line: number): void {
    this.#closed.delete(line);
    this.#intents.delete(line);
  }

  get count(): number {
    return new Set([...this.#closed.keys(), ...this.#intents.keys()]).size;
  }

  /** Requests without a recorded end. */
  get underWay(): number {
    return this.#intents.size;
  }

  get retrying(): number {
    return this.count - this.#intents.size;
  }

  retryingErrors(): RetriedError[] {
    const errors = new Map<string, RetriedError>();
    for (const [line, { failure }] of this.#closed) {
      if (failure === undefined || this.#intents.has(line)) continue;
      const { code, httpStatus } = failure;
      const key = `${code} ${httpStatus}`;
      const status = httpStatus === 0 ? {} : { provider_status: httpStatus };
      errors.set(key, { code, ...status, items: (errors.get(key)?.items ?? 0) + 1 });
    }
    return [...errors.values()].sort((left, right) => right.items - left.items);
  }

  taken(): TakenByLines {
    const doubts = [...this.#intents.values()].map(doubtOf);
    return [...this.#closed.values(), ...doubts].reduce(sum, this.#gone);
  }

  /** Another request followed before its end was recorded. */
  #doubt(intent: IntentRecord): void {
    const { line } = intent;
    this.#closed.set(line, sum(this.#closed.get(line) ?? NOTHING, doubtOf(intent)));
  }

  #close(step: Step, record: ClosedRecord): void {
    if (record.line === 0) {
      this.#gone = sum(this.#gone, record);
      return;
    }
    this.#closed.set(record.line, record);
    const intent = this.#intents.get(record.line);
    if (intent !== undefined && endsIntent(step, record, intent)) this.#intents.delete(record.line);
  }
}

function doubtOf({ mostUsd }: IntentRecord): TakenByLines {
  return { billedUsd: 0, ambiguousUsd: mostUsd, ambiguousAttempts: 1 };
}

function sum(a: TakenByLines, b: TakenByLines): TakenByLines {
  return {
    billedUsd: a.billedUsd + b.billedUsd,
    ambiguousUsd: a.ambiguousUsd + b.ambiguousUsd,
    ambiguousAttempts: a.ambiguousAttempts + b.ambiguousAttempts,
  };
}
