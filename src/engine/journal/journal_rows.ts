/**
 * The rows of a step in the journal, one size each: a request about to be sent, attempts that ended, a line that is settled.
 *
 *   intent    36 bytes   line 0, offset 4, length 12, attempt 16, ambiguous 18, tokens 20 and 24, most USD 28
 *   closed    72 bytes   line 0, attempts 4 and 6, estimated 8, unusable 9, refusals 10, price 12, spent 16, written to cache 64,
 *                        failure 68, HTTP status 70
 *   outcome   76 bytes   line 0, status 4, code 5, estimated 6, attempts 8 and 10, bytes 12, spent 16, price 64, CRC 68,
 *                        written to cache 72
 *   spent     48 bytes   tokens 0 to 15, list USD 16, charged USD 24, billed USD 32, USD in doubt 40
 *
 * Up to version 4 closed rows did not say how the last attempt failed. Up to version 3 rows did not say how many tokens were written to a cache. Up to version 2 rows had neither what was billed nor what is in doubt, and an outcome its price at 48 and its CRC at 52.
 * Numbers are little-endian.
 */
import { crc32 } from "node:zlib";
import type { FailureCode } from "../../errors.ts";
import { codeOfNumber, numberOfCode } from "../../work/failure_numbers.ts";
import type { SentFacts } from "./sent_rows.ts";

const INTENT_BYTES = 36;
const CLOSED_BYTES = 72;
const OUTCOME_BYTES = 76;
/** The same in version 4, in version 3, and up to version 2. */
const CLOSED_BYTES_4 = 68;
const ROW_BYTES_3 = { closed: 64, outcome: 72 } as const;
const ROW_BYTES_2 = { intent: 28, closed: 48, outcome: 56 } as const;

/** A request about to be sent. */
export interface IntentRecord {
  readonly line: number;
  /** The place of the line in the input, so that recovery can read its key. */
  readonly offset: number;
  readonly lengthBytes: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  readonly ambiguousAttempts: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The most that it may cost at its provider: what is in doubt when its end stays unknown. 0 up to version 2. */
  readonly mostUsd: number;
}

/** Attempts that ended without an outcome for their item, with what they took all together. */
export interface ClosedRecord extends Spent {
  readonly line: number;
  /** Those without a sent request included. */
  readonly attempts: number;
  readonly ambiguousAttempts: number;
  /** Of the attempts, those that do not count against the item: an outage, a rate limit, a stopped account. */
  readonly uncounted: number;
  /** Of the ambiguous attempts, those that do not count against the item. */
  readonly uncountedAmbiguous: number;
  /** Answers that could not be used, up to 255: each item is allowed some. 0 where an earlier version wrote the row. */
  readonly unusableAnswers: number;
  /** How the last of them failed; absent in sums, of an attempt that never left, and where an earlier version wrote the row. */
  readonly failure?: AttemptFailure | undefined;
}

/** How an attempt failed. */
export interface AttemptFailure {
  readonly code: FailureCode;
  /** 0 when no answer came. */
  readonly httpStatus: number;
}

/** What was used and charged for an item. */
export interface Spent {
  readonly isEstimated: boolean;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  /** Written to the provider's cache. 0 up to version 3. */
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** At list price. */
  readonly listUsd: number;
  /** What a service charges its caller for it: list price times price factor. */
  readonly usd: number;
  /** What the provider bills, as far as it is known. Up to version 2 the list price. */
  readonly billedUsd: number;
  /** The most that attempts of unknown end may have cost besides. 0 up to version 2. */
  readonly ambiguousUsd: number;
  /** Of the last price that this was reckoned with; 0 when nothing was. */
  readonly priceNumber: number;
}

export const NOTHING_SPENT: Spent = {
  isEstimated: false,
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  listUsd: 0,
  usd: 0,
  billedUsd: 0,
  ambiguousUsd: 0,
  priceNumber: 0,
};

/** Without what else the record holds. */
export function spentOf(spent: Spent): Spent {
  const { isEstimated, inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } = spent;
  const { listUsd, usd, billedUsd, ambiguousUsd, priceNumber } = spent;
  return {
    isEstimated,
    inputTokens,
    cachedTokens,
    cacheWriteTokens,
    outputTokens,
    reasoningTokens,
    listUsd,
    usd,
    billedUsd,
    ambiguousUsd,
    priceNumber,
  };
}

export type SettledStatus = "completed" | "failed" | "expired" | "cancelled";

/** How a line ended. */
export interface OutcomeRecord extends Spent {
  readonly line: number;
  readonly status: SettledStatus;
  readonly code: FailureCode | undefined;
  readonly attempts: number;
  readonly ambiguousAttempts: number;
  /** Bytes of its output line, line end included. */
  readonly lineBytes: number;
  /** Of those bytes, so that each line can be checked when it is read; 0 when it is not known. */
  readonly lineCrc32: number;
  /** How it was sent, and when: another section of the step, absent up to version 5. */
  sent?: SentFacts | undefined;
}

/** Whether these bytes are the output line that was recorded. */
export function isOf({ lineBytes, lineCrc32 }: OutcomeRecord, bytes: Uint8Array): boolean {
  return bytes.byteLength === lineBytes && crc32(bytes) === lineCrc32;
}

/** How a line ended, before its text is written. */
export type StagedOutcome = Omit<OutcomeRecord, "lineBytes" | "lineCrc32">;

const STATUSES: readonly SettledStatus[] = ["completed", "failed", "expired", "cancelled"];

/** Collects the rows of one step. */
export class RowsWriter {
  readonly #intents = new Section(INTENT_BYTES);
  readonly #closed = new Section(CLOSED_BYTES);
  readonly #outcomes = new Section(OUTCOME_BYTES);

  /** Outcomes so far. */
  get outcomes(): number {
    return this.#outcomes.count;
  }

  intent(record: IntentRecord): void {
    const { view, at } = this.#intents.take();
    view.setUint32(at, record.line, true);
    view.setFloat64(at + 4, record.offset, true);
    view.setUint32(at + 12, record.lengthBytes, true);
    view.setUint16(at + 16, record.attempt, true);
    view.setUint16(at + 18, record.ambiguousAttempts, true);
    view.setUint32(at + 20, record.inputTokens, true);
    view.setUint32(at + 24, record.outputTokens, true);
    view.setFloat64(at + 28, record.mostUsd, true);
  }

  closed(record: ClosedRecord): void {
    const { view, at } = this.#closed.take();
    view.setUint32(at, record.line, true);
    view.setUint16(at + 4, record.attempts, true);
    view.setUint16(at + 6, record.ambiguousAttempts, true);
    view.setUint8(at + 8, record.isEstimated ? 1 : 0);
    view.setUint8(at + 9, Math.min(record.unusableAnswers, 0xff));
    view.setUint16(at + 10, record.uncounted, true);
    view.setUint16(at + 12, record.priceNumber, true);
    view.setUint16(at + 14, record.uncountedAmbiguous, true);
    writeSpent(view, at + 16, record);
    view.setUint32(at + 64, record.cacheWriteTokens, true);
    view.setUint8(at + 68, numberOfCode(record.failure?.code));
    view.setUint16(at + 70, record.failure?.httpStatus ?? 0, true);
  }

  outcome(record: StagedOutcome, lineBytes: number, lineCrc32: number): void {
    const { view, at } = this.#outcomes.take();
    view.setUint32(at, record.line, true);
    view.setUint8(at + 4, record.status === "completed" ? 0 : STATUSES.indexOf(record.status));
    view.setUint8(at + 5, numberOfCode(record.code));
    view.setUint8(at + 6, record.isEstimated ? 1 : 0);
    view.setUint16(at + 8, record.attempts, true);
    view.setUint16(at + 10, record.ambiguousAttempts, true);
    view.setUint32(at + 12, lineBytes, true);
    writeSpent(view, at + 16, record);
    view.setUint16(at + 64, record.priceNumber, true);
    view.setUint32(at + 68, lineCrc32, true);
    view.setUint32(at + 72, record.cacheWriteTokens, true);
  }

  /** Intents, closed attempts, outcomes. */
  sections(): readonly [Uint8Array, Uint8Array, Uint8Array] {
    return [this.#intents.bytes(), this.#closed.bytes(), this.#outcomes.bytes()];
  }
}

/** Three sections of a step. */
export interface Rows<Intents, Closed, Outcomes> {
  readonly intents: Intents;
  readonly closed: Closed;
  readonly outcomes: Outcomes;
}

/** Reads the result of `sections`, of this version or an older one. */
export function readRows(
  version: number,
  { intents, closed, outcomes }: Rows<Buffer, Buffer, Buffer>,
): Rows<IntentRecord[], ClosedRecord[], OutcomeRecord[]> {
  if (version >= 4)
    return {
      intents: rows(intents, INTENT_BYTES, readIntent),
      closed:
        version === 4 ? rows(closed, CLOSED_BYTES_4, readClosed4) : rows(closed, CLOSED_BYTES, readClosed),
      outcomes: rows(outcomes, OUTCOME_BYTES, readOutcome),
    };
  if (version === 3)
    return {
      intents: rows(intents, INTENT_BYTES, readIntent),
      closed: rows(closed, ROW_BYTES_3.closed, readClosed3),
      outcomes: rows(outcomes, ROW_BYTES_3.outcome, readOutcome3),
    };
  return {
    intents: rows(intents, ROW_BYTES_2.intent, readIntent2),
    closed: rows(closed, ROW_BYTES_2.closed, readClosed2),
    outcomes: rows(outcomes, ROW_BYTES_2.outcome, readOutcome2),
  };
}

function rows<T>(section: Buffer, rowBytes: number, read: (section: Buffer, at: number) => T): T[] {
  const found: T[] = [];
  for (let at = 0; at < section.byteLength; at += rowBytes) found.push(read(section, at));
  return found;
}

function readIntent(section: Buffer, at: number): IntentRecord {
  return intentAt(section, at, section.readDoubleLE(at + 28));
}

function readIntent2(section: Buffer, at: number): IntentRecord {
  return intentAt(section, at, 0);
}

function intentAt(section: Buffer, at: number, mostUsd: number): IntentRecord {
  return {
    line: section.readUInt32LE(at),
    offset: section.readDoubleLE(at + 4),
    lengthBytes: section.readUInt32LE(at + 12),
    attempt: section.readUInt16LE(at + 16),
    ambiguousAttempts: section.readUInt16LE(at + 18),
    inputTokens: section.readUInt32LE(at + 20),
    outputTokens: section.readUInt32LE(at + 24),
    mostUsd,
  };
}

function readClosed(section: Buffer, at: number): ClosedRecord {
  const code = codeOfNumber(section.readUInt8(at + 68));
  const failure = code === undefined ? undefined : { code, httpStatus: section.readUInt16LE(at + 70) };
  return { ...readClosed4(section, at), failure };
}

function readClosed4(section: Buffer, at: number): ClosedRecord {
  const money = { billedUsd: section.readDoubleLE(at + 48), ambiguousUsd: section.readDoubleLE(at + 56) };
  return closedAt(section, at, money, section.readUInt32LE(at + 64));
}

function readClosed3(section: Buffer, at: number): ClosedRecord {
  const money = { billedUsd: section.readDoubleLE(at + 48), ambiguousUsd: section.readDoubleLE(at + 56) };
  return closedAt(section, at, money, 0);
}

function readClosed2(section: Buffer, at: number): ClosedRecord {
  return closedAt(section, at, { billedUsd: section.readDoubleLE(at + 32), ambiguousUsd: 0 }, 0);
}

function closedAt(
  section: Buffer,
  at: number,
  { billedUsd, ambiguousUsd }: Pick<Spent, "billedUsd" | "ambiguousUsd">,
  cacheWriteTokens: number,
): ClosedRecord {
  return {
    line: section.readUInt32LE(at),
    attempts: section.readUInt16LE(at + 4),
    ambiguousAttempts: section.readUInt16LE(at + 6),
    uncounted: section.readUInt16LE(at + 10),
    uncountedAmbiguous: section.readUInt16LE(at + 14),
    unusableAnswers: section.readUInt8(at + 9),
    isEstimated: section.readUInt8(at + 8) === 1,
    inputTokens: section.readUInt32LE(at + 16),
    cachedTokens: section.readUInt32LE(at + 20),
    cacheWriteTokens,
    outputTokens: section.readUInt32LE(at + 24),
    reasoningTokens: section.readUInt32LE(at + 28),
    listUsd: section.readDoubleLE(at + 32),
    usd: section.readDoubleLE(at + 40),
    billedUsd,
    ambiguousUsd,
    priceNumber: section.readUInt16LE(at + 12),
  };
}

function readOutcome(section: Buffer, at: number): OutcomeRecord {
  const money = { billedUsd: section.readDoubleLE(at + 48), ambiguousUsd: section.readDoubleLE(at + 56) };
  return outcomeAt(section, at, money, section.readUInt32LE(at + 72), at + 64);
}

function readOutcome3(section: Buffer, at: number): OutcomeRecord {
  const money = { billedUsd: section.readDoubleLE(at + 48), ambiguousUsd: section.readDoubleLE(at + 56) };
  return outcomeAt(section, at, money, 0, at + 64);
}

function readOutcome2(section: Buffer, at: number): OutcomeRecord {
  return outcomeAt(section, at, { billedUsd: section.readDoubleLE(at + 32), ambiguousUsd: 0 }, 0, at + 48);
}

/** Hot path while steps are read. Names each part, because V8 is slow to spread objects with fractions. */
function outcomeAt(
  section: Buffer,
  at: number,
  { billedUsd, ambiguousUsd }: Pick<Spent, "billedUsd" | "ambiguousUsd">,
  cacheWriteTokens: number,
  endAt: number,
): OutcomeRecord {
  return {
    line: section.readUInt32LE(at),
    status: STATUSES[section.readUInt8(at + 4)] ?? "failed",
    code: codeOfNumber(section.readUInt8(at + 5)),
    attempts: section.readUInt16LE(at + 8),
    ambiguousAttempts: section.readUInt16LE(at + 10),
    isEstimated: section.readUInt8(at + 6) === 1,
    inputTokens: section.readUInt32LE(at + 16),
    cachedTokens: section.readUInt32LE(at + 20),
    cacheWriteTokens,
    outputTokens: section.readUInt32LE(at + 24),
    reasoningTokens: section.readUInt32LE(at + 28),
    listUsd: section.readDoubleLE(at + 32),
    usd: section.readDoubleLE(at + 40),
    billedUsd,
    ambiguousUsd,
    priceNumber: section.readUInt16LE(endAt),
    lineBytes: section.readUInt32LE(at + 12),
    lineCrc32: section.readUInt32LE(endAt + 4),
  };
}

/** 48 bytes; 32 up to version 2. */
function writeSpent(view: DataView, at: number, spent: Spent): void {
  view.setUint32(at, spent.inputTokens, true);
  view.setUint32(at + 4, spent.cachedTokens, true);
  view.setUint32(at + 8, spent.outputTokens, true);
  view.setUint32(at + 12, spent.reasoningTokens, true);
  view.setFloat64(at + 16, spent.listUsd, true);
  view.setFloat64(at + 24, spent.usd, true);
  view.setFloat64(at + 32, spent.billedUsd, true);
  view.setFloat64(at + 40, spent.ambiguousUsd, true);
}

/** Rows of one size in a buffer that doubles. */
class Section {
  readonly #rowBytes: number;
  #buffer: Buffer = Buffer.alloc(0);
  #view: DataView = new DataView(this.#buffer.buffer);
  count = 0;

  constructor(rowBytes: number) {
    this.#rowBytes = rowBytes;
  }

  take(): { readonly view: DataView; readonly at: number } {
    const at = this.count * this.#rowBytes;
    if (at + this.#rowBytes > this.#buffer.byteLength) this.#grow();
    this.count += 1;
    return { view: this.#view, at };
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.count * this.#rowBytes);
  }

  #grow(): void {
    const larger = Buffer.alloc(Math.max(64 * this.#rowBytes, this.#buffer.byteLength * 2));
    larger.set(this.#buffer);
    this.#buffer = larger;
    this.#view = new DataView(larger.buffer, larger.byteOffset, larger.byteLength);
  }
}
