/**
 * The records of the write protocol, as bytes in a task's journal.
 *
 * One *step* is one group commit of one task. It holds, in this order:
 *
 *   header     version, the output range it covers (start, end, CRC32), what it voids, counts of the sections below,
 *              the machine's boot and the time since it (stamped when the step is appended)
 *   intents    a request is about to be sent for a line        (durable before its first byte leaves)
 *   closed     an attempt ended without settling its item      (so that a restart does not take it for in doubt)
 *   outcomes   a line is settled; its text stands in the output range, `lineBytes` long, in this order
 *   sent       requests and tokens reserved per lane in this step (what the limiter counts after a restart)
 *   lanes      which lanes are held back: cool-downs, ramps (absent in steps that recovery adds)
 *   held       output lines that found no room on the output's disk, kept here until they do
 *   prices     prices that are first met in this step; they number on from those of the steps before (price_table.ts)
 *
 * Life of a line in the journal:   (nothing) -> intent -> [closed -> intent]* -> outcome
 * An intent without a closed record or an outcome behind it is *in doubt* after a crash.
 *
 * The output is written before a step is appended and synced while it is appended, so after a power cut only the
 * last step's range may be damaged: its CRC tells, and a later step then voids it.
 *
 * Numbers are little-endian. Hot path: one intent and one outcome per item, about 0.3 us each (bench/engine.ts).
 */
import type { Moment } from "../clock.ts";
import type { FailureCode } from "../errors.ts";
import type { UsedPrice } from "../price/used_prices.ts";
import type { HeldBack } from "../schedule/limits.ts";
import type { JournalEntry } from "../store/store.ts";
import { codeOfNumber, numberOfCode } from "./failure_numbers.ts";

/** Version 1 had no boot in its header, which was shorter by it. */
const VERSION = 2;
const HEADER_BYTES = 96;
const HEADER_BYTES_1 = 64;
const SINCE_BOOT_AT = 64;
const BOOT_ID_AT = 72;
const BOOT_ID_END = 88;
/** Where the header keeps the bytes of each section; version 1 had no prices. */
const LENGTHS_AT = [32, 36, 40, 44, 48, 52, 88] as const;
const INTENT_BYTES = 28;
const CLOSED_BYTES = 48;
const OUTCOME_BYTES = 56;

/** A request about to be sent. */
export interface IntentRecord {
  readonly line: number;
  /** Where the line stands in the input, so that recovery can read its key. */
  readonly offset: number;
  readonly lengthBytes: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  readonly ambiguousAttempts: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Attempts that ended without an outcome for their item, with what they took all together. */
export interface ClosedRecord extends Spent {
  readonly line: number;
  /** All requests sent. */
  readonly attempts: number;
  readonly ambiguousAttempts: number;
  /** Of the attempts, those that met a stopped account: they say nothing of the item, and use up none of its tries. */
  readonly accountRefusals: number;
}

/** What was used and charged for an item. */
export interface Spent {
  readonly isEstimated: boolean;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly listUsd: number;
  readonly usd: number;
  /** Of the last price that this was reckoned with; 0 when nothing was. */
  readonly priceNumber: number;
}

export const NOTHING_SPENT: Spent = {
  isEstimated: false,
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  listUsd: 0,
  usd: 0,
  priceNumber: 0,
};

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
}

/** What was reserved on one lane in one step. */
export interface SentRecord {
  readonly lane: string;
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What holds a lane back at the time of the step. */
export interface LaneRecord extends HeldBack {
  readonly lane: string;
}

export interface StepHeader {
  /** First byte of the output that this step's lines take. */
  readonly outStart: number;
  /** First byte after them; equal to `outStart` when the step wrote nothing. */
  readonly outEnd: number;
  readonly outCrc32: number;
  /** Sequence of a step whose outcomes do not count because its output was damaged; 0 for none. */
  readonly voids: number;
  /** Money that was spent or may be, with all requests up to this step: what a cost cap counts after a crash. */
  readonly committedUsd: number;
}

export interface Step extends StepHeader {
  readonly intents: readonly IntentRecord[];
  readonly closed: readonly ClosedRecord[];
  readonly outcomes: readonly OutcomeRecord[];
  readonly sent: readonly SentRecord[];
  readonly held: Uint8Array;
  readonly prices: readonly UsedPrice[];
  /** All lanes that are held back; undefined where the step says nothing of lanes. */
  readonly lanes: readonly LaneRecord[] | undefined;
}

const STATUSES: readonly SettledStatus[] = ["completed", "failed", "expired", "cancelled"];

/** Collects the records of one step. Used once: fill, `finish`, drop. */
export class StepWriter {
  readonly #intents = new Section(INTENT_BYTES);
  readonly #closed = new Section(CLOSED_BYTES);
  readonly #outcomes = new Section(OUTCOME_BYTES);
  readonly #sent = new Map<string, { requests: number; inputTokens: number; outputTokens: number }>();
  #held: Uint8Array = new Uint8Array(0);
  readonly #prices: UsedPrice[] = [];
  #lanes: readonly LaneRecord[] | undefined;

  intent(record: IntentRecord, lane: string): void {
    const { view, at } = this.#intents.take();
    view.setUint32(at, record.line, true);
    view.setFloat64(at + 4, record.offset, true);
    view.setUint32(at + 12, record.lengthBytes, true);
    view.setUint16(at + 16, record.attempt, true);
    view.setUint16(at + 18, record.ambiguousAttempts, true);
    view.setUint32(at + 20, record.inputTokens, true);
    view.setUint32(at + 24, record.outputTokens, true);
    const sent = this.#sent.get(lane);
    if (sent === undefined) {
      const { inputTokens, outputTokens } = record;
      this.#sent.set(lane, { requests: 1, inputTokens, outputTokens });
    } else {
      sent.requests += 1;
      sent.inputTokens += record.inputTokens;
      sent.outputTokens += record.outputTokens;
    }
  }

  /** Tokens that an answer took beyond what was reserved for it. */
  sentMore(lane: string, inputTokens: number, outputTokens: number): void {
    const sent = this.#sent.get(lane) ?? { requests: 0, inputTokens: 0, outputTokens: 0 };
    sent.inputTokens += inputTokens;
    sent.outputTokens += outputTokens;
    this.#sent.set(lane, sent);
  }

  closed(record: ClosedRecord): void {
    const { view, at } = this.#closed.take();
    view.setUint32(at, record.line, true);
    view.setUint16(at + 4, record.attempts, true);
    view.setUint16(at + 6, record.ambiguousAttempts, true);
    view.setUint8(at + 8, record.isEstimated ? 1 : 0);
    view.setUint16(at + 10, record.accountRefusals, true);
    view.setUint16(at + 12, record.priceNumber, true);
    writeSpent(view, at + 16, record);
  }

  outcome(record: Omit<OutcomeRecord, "lineBytes">, lineBytes: number): void {
    const { view, at } = this.#outcomes.take();
    view.setUint32(at, record.line, true);
    view.setUint8(at + 4, record.status === "completed" ? 0 : STATUSES.indexOf(record.status));
    view.setUint8(at + 5, numberOfCode(record.code));
    view.setUint8(at + 6, record.isEstimated ? 1 : 0);
    view.setUint16(at + 8, record.attempts, true);
    view.setUint16(at + 10, record.ambiguousAttempts, true);
    view.setUint32(at + 12, lineBytes, true);
    writeSpent(view, at + 16, record);
    view.setUint16(at + 48, record.priceNumber, true);
  }

  /** Output lines to keep in the journal because the output's disk is full. */
  hold(lines: Uint8Array): void {
    this.#held = lines;
  }

  /** The next price of the task's table. */
  price(price: UsedPrice): void {
    this.#prices.push(price);
  }

  /** All lanes that are held back at the time of the step. */
  lanes(records: readonly LaneRecord[]): void {
    this.#lanes = records;
  }

  /** The step as bytes, to be stamped. */
  finish(header: StepHeader): Uint8Array {
    const sent = Buffer.from(JSON.stringify([...this.#sent].map(([lane, s]) => ({ lane, ...s }))));
    const lanes = Buffer.from(this.#lanes === undefined ? "" : JSON.stringify(this.#lanes));
    const prices = Buffer.from(this.#prices.length === 0 ? "" : JSON.stringify(this.#prices));
    const records = [this.#intents.bytes(), this.#closed.bytes(), this.#outcomes.bytes()];
    const sections = [...records, sent, this.#held, lanes, prices];
    const head = Buffer.alloc(HEADER_BYTES);
    head.writeUInt8(VERSION, 0);
    head.writeUInt32LE(header.outCrc32 >>> 0, 4);
    head.writeDoubleLE(header.outStart, 8);
    head.writeDoubleLE(header.outEnd, 16);
    head.writeDoubleLE(header.voids, 24);
    head.writeDoubleLE(header.committedUsd, 56);
    sections.forEach((section, index) => {
      head.writeUInt32LE(section.byteLength, LENGTHS_AT[index]);
    });
    return Buffer.concat([head, ...sections]);
  }
}

/** An entry before it is said when it is appended. */
export type UnstampedEntry = Omit<JournalEntry, "wallMs">;

/** The entry that says that a step, as `finish` or an earlier stamping left it, is appended now. Writes into the bytes. */
export function stamped(entry: UnstampedEntry, moment: Moment): JournalEntry {
  const { records } = entry;
  const bytes = Buffer.from(records.buffer, records.byteOffset, records.byteLength);
  bytes.writeDoubleLE(moment.sinceBootMs, SINCE_BOOT_AT);
  bytes.fill(0, BOOT_ID_AT, BOOT_ID_END);
  bytes.write((moment.bootId ?? "").replaceAll("-", ""), BOOT_ID_AT, BOOT_ID_END - BOOT_ID_AT, "hex");
  return { ...entry, wallMs: moment.wallMs };
}

/** When an entry was stamped; undefined for one of version 1. */
export function momentOf({ wallMs, records }: JournalEntry): Moment | undefined {
  const bytes = Buffer.from(records.buffer, records.byteOffset, records.byteLength);
  if (bytes.readUInt8(0) === 1) return undefined;
  const hex = bytes.toString("hex", BOOT_ID_AT, BOOT_ID_END);
  const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  const bootId = /^[0-]+$/.test(id) ? undefined : id;
  return { wallMs, bootId, sinceBootMs: bytes.readDoubleLE(SINCE_BOOT_AT) };
}

/** Reads a step back. The store has checked the bytes, so a wrong version is the only refusal (an assertion). */
export function readStep(bytes: Uint8Array): Step {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const version = all.readUInt8(0);
  if (version !== VERSION && version !== 1) throw new Error(`journal step of version ${version}`);
  const lengths = LENGTHS_AT.map((at) => (version === 1 && at >= HEADER_BYTES_1 ? 0 : all.readUInt32LE(at)));
  let from = version === 1 ? HEADER_BYTES_1 : HEADER_BYTES;
  const [intents, closed, outcomes, sent, held, lanes, prices] = lengths.map((length) => {
    const section = all.subarray(from, from + length);
    from += length;
    return section;
  }) as [Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer]; // seven lengths give seven sections
  return {
    outCrc32: all.readUInt32LE(4),
    outStart: all.readDoubleLE(8),
    outEnd: all.readDoubleLE(16),
    voids: all.readDoubleLE(24),
    committedUsd: all.readDoubleLE(56),
    intents: rows(intents, INTENT_BYTES, readIntent),
    closed: rows(closed, CLOSED_BYTES, readClosed),
    outcomes: rows(outcomes, OUTCOME_BYTES, readOutcome),
    // These texts are written by `finish` alone, and checked by the store's CRC.
    sent: JSON.parse(sent.toString()) as SentRecord[],
    held,
    lanes: lanes.byteLength === 0 ? undefined : (JSON.parse(lanes.toString()) as LaneRecord[]),
    prices:
      prices === undefined || prices.byteLength === 0 ? [] : (JSON.parse(prices.toString()) as UsedPrice[]),
  };
}

function rows<T>(section: Buffer, rowBytes: number, read: (section: Buffer, at: number) => T): T[] {
  const found: T[] = [];
  for (let at = 0; at < section.byteLength; at += rowBytes) found.push(read(section, at));
  return found;
}

function readIntent(section: Buffer, at: number): IntentRecord {
  return {
    line: section.readUInt32LE(at),
    offset: section.readDoubleLE(at + 4),
    lengthBytes: section.readUInt32LE(at + 12),
    attempt: section.readUInt16LE(at + 16),
    ambiguousAttempts: section.readUInt16LE(at + 18),
    inputTokens: section.readUInt32LE(at + 20),
    outputTokens: section.readUInt32LE(at + 24),
  };
}

function readClosed(section: Buffer, at: number): ClosedRecord {
  return {
    line: section.readUInt32LE(at),
    attempts: section.readUInt16LE(at + 4),
    ambiguousAttempts: section.readUInt16LE(at + 6),
    isEstimated: section.readUInt8(at + 8) === 1,
    accountRefusals: section.readUInt16LE(at + 10),
    priceNumber: section.readUInt16LE(at + 12),
    ...readSpent(section, at + 16),
  };
}

function readOutcome(section: Buffer, at: number): OutcomeRecord {
  return {
    line: section.readUInt32LE(at),
    status: STATUSES[section.readUInt8(at + 4)] ?? "failed",
    code: codeOfNumber(section.readUInt8(at + 5)),
    isEstimated: section.readUInt8(at + 6) === 1,
    attempts: section.readUInt16LE(at + 8),
    ambiguousAttempts: section.readUInt16LE(at + 10),
    lineBytes: section.readUInt32LE(at + 12),
    priceNumber: section.readUInt16LE(at + 48),
    ...readSpent(section, at + 16),
  };
}

/** 32 bytes. */
function writeSpent(view: DataView, at: number, spent: Spent): void {
  view.setUint32(at, spent.inputTokens, true);
  view.setUint32(at + 4, spent.cachedTokens, true);
  view.setUint32(at + 8, spent.outputTokens, true);
  view.setUint32(at + 12, spent.reasoningTokens, true);
  view.setFloat64(at + 16, spent.listUsd, true);
  view.setFloat64(at + 24, spent.usd, true);
}

function readSpent(section: Buffer, at: number): Omit<Spent, "isEstimated" | "priceNumber"> {
  return {
    inputTokens: section.readUInt32LE(at),
    cachedTokens: section.readUInt32LE(at + 4),
    outputTokens: section.readUInt32LE(at + 8),
    reasoningTokens: section.readUInt32LE(at + 12),
    listUsd: section.readDoubleLE(at + 16),
    usd: section.readDoubleLE(at + 24),
  };
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
