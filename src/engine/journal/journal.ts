/**
 * The records of the write protocol, as bytes in a task's journal.
 *
 * One *step* is one group commit of one task. It holds, in this order:
 *
 *   header     version, the output range it covers (start, end, CRC32), what it voids, counts of the sections below,
 *              the machine's boot and the time since it (stamped when the step is appended)
 *   intents    a request is about to be sent for a line        (durable before its first byte leaves)
 *   closed     an attempt ended without settling its item      (so that a restart does not take it for in doubt)
 *   outcomes   a line is settled; its text is in the output range, `lineBytes` long, in this order, with a CRC-32 of
 *              its own (0 where an earlier version wrote the step)
 *   sent       requests and tokens reserved per lane in this step (what the limiter counts after a restart)
 *   lanes      which lanes are held back: cool-downs, ramps (absent in steps that recovery adds)
 *   held       output lines that found no space on the output's disk, kept here until they do
 *   prices     prices that are first met in this step; they number on from those of the steps before (price_table.ts)
 *   warned     lists of warnings, and how many of the step's lines have each (absent when no line has one)
 *   as, sent   how ended items were sent, and when (sent_rows.ts)
 *
 * Life of a line in the journal:   (nothing) -> intent -> [closed -> intent]* -> outcome
 * An intent without a later closed record or outcome is *in doubt* after a crash. A closed record in a later step that
 * counts fewer attempts than the intent says that its request never left.
 *
 * The output is written before a step is appended and synced while it is appended, so after a power cut only the
 * last step's range may be damaged: its CRC shows it, and a later step then voids it.
 *
 * Numbers are little-endian. Hot path: one intent and one outcome per item, about 0.3 us each (bench/jobs/engine.ts).
 */
import type { Moment } from "../../clock.ts";
import type { HeldBack } from "../../limits/limits.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import { checkVersion } from "../../store/folder/known_version.ts";
import type { JournalEntry } from "../../store/store.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  type OutcomeRecord,
  RowsWriter,
  readRows,
  type StagedOutcome,
} from "./journal_rows.ts";
import { eachSent, SentWriter } from "./sent_rows.ts";

export {
  type AttemptFailure,
  type ClosedRecord,
  type IntentRecord,
  isOf,
  NOTHING_SPENT,
  type OutcomeRecord,
  type SettledStatus,
  type Spent,
  type StagedOutcome,
  spentOf,
} from "./journal_rows.ts";

/**
 * Version 1 had no boot in its header, which was shorter by it; rows of versions 1 to 4 were shorter (journal_rows.ts), and up to
 * version 5 nothing said how items were sent.
 */
const VERSION = 6;
const HEADER_BYTES = 104;
const HEADER_BYTES_5 = 96;
const HEADER_BYTES_1 = 64;
const VOIDS_AT = 24;
const SINCE_BOOT_AT = 64;
const BOOT_ID_AT = 72;
const BOOT_ID_END = 88;
/** Where the header keeps the bytes of each section; those beyond the header of an earlier version were not there. */
const LENGTHS_AT = [32, 36, 40, 44, 48, 52, 88, 92, 96, 100] as const;
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
  /** For how long it has been in trouble; absent where that is ordinary. */
  readonly troubleMs?: number;
}

/** So many lines of a step have this list of warnings, which is JSON. */
export type WarnedRecord = readonly [list: string, lines: number];

export interface StepHeader {
  /** First byte of the output that this step's lines take. */
  readonly outStart: number;
  /** First byte after them; equal to `outStart` when the step wrote nothing. */
  readonly outEnd: number;
  readonly outCrc32: number;
  /** Sequence of a step whose outcomes do not count because its output was damaged; 0: no step; see also `RESTATES`. */
  readonly voids: number;
  /** What providers billed or may bill, with all requests up to this step. */
  readonly committedUsd: number;
}

export interface Step extends StepHeader {
  /** False up to version 2, where only `committedUsd` says what is in doubt. */
  readonly hasMoney: boolean;
  readonly intents: readonly IntentRecord[];
  readonly closed: readonly ClosedRecord[];
  readonly outcomes: readonly OutcomeRecord[];
  readonly sent: readonly SentRecord[];
  readonly held: Uint8Array;
  readonly prices: readonly UsedPrice[];
  readonly warned: readonly WarnedRecord[];
  /** All lanes that are held back; undefined where the step says nothing of lanes. */
  readonly lanes: readonly LaneRecord[] | undefined;
}

/**
 * `voids` of a step before which nothing counts any more: it, and those appended with it, say again what is left. Repairs
 * of earlier versions wrote it; `restate.ts` has taken its place.
 */
export const RESTATES = -2;

/** Collects the records of one step. Used once: fill, `finish`, drop. */
export class StepWriter {
  readonly #rows = new RowsWriter();
  readonly #sent = new Map<string, { requests: number; inputTokens: number; outputTokens: number }>();
  #held: Uint8Array = new Uint8Array(0);
  readonly #prices: UsedPrice[] = [];
  readonly #warned = new Map<string, number>();
  readonly #sentAs = new SentWriter();
  #lanes: readonly LaneRecord[] | undefined;

  /** `lane` is where it is reserved; without one nothing is reserved, as when an earlier intent is stated again. */
  intent(record: IntentRecord, lane?: string): void {
    this.#rows.intent(record);
    if (lane === undefined) return;
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
    this.#rows.closed(record);
  }

  /** Of a line that is written `lineBytes` long with this checksum. */
  outcome(record: StagedOutcome, lineBytes: number, lineCrc32: number): void {
    if (record.sent !== undefined) this.#sentAs.add(this.#rows.outcomes, record.sent);
    this.#rows.outcome(record, lineBytes, lineCrc32);
  }

  /** Output lines to keep in the journal because the output's disk is full. */
  hold(lines: Uint8Array): void {
    this.#held = lines;
  }

  /** The next price of the task's table. */
  price(price: UsedPrice): void {
    this.#prices.push(price);
  }

  /** One line more of the step has these warnings. */
  warned(list: string): void {
    this.#warned.set(list, (this.#warned.get(list) ?? 0) + 1);
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
    const warned = Buffer.from(this.#warned.size === 0 ? "" : JSON.stringify([...this.#warned]));
    const rows = this.#rows.sections();
    const sections = [...rows, sent, this.#held, lanes, prices, warned, ...this.#sentAs.sections()];
    const head = Buffer.alloc(HEADER_BYTES);
    head.writeUInt8(VERSION, 0);
    head.writeUInt32LE(header.outCrc32 >>> 0, 4);
    head.writeDoubleLE(header.outStart, 8);
    head.writeDoubleLE(header.outEnd, 16);
    head.writeDoubleLE(header.voids, VOIDS_AT);
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

/** When an entry was stamped: of one of version 1 only the wall time is known. */
export function stampOf(entry: JournalEntry): Moment {
  return momentOf(entry) ?? { wallMs: entry.wallMs, bootId: undefined, sinceBootMs: 0 };
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

/** `voids` of an entry's header, without reading the rest. */
export function voidsOf({ records }: Pick<JournalEntry, "records">): number {
  return Buffer.from(records.buffer, records.byteOffset, records.byteLength).readDoubleLE(VOIDS_AT);
}

/** Whether a closed record of a step ends the line's last intent, and not the attempt before it. */
export function endsIntent(step: Step, closed: ClosedRecord, intent: IntentRecord): boolean {
  return intent.attempt <= closed.attempts || !step.intents.includes(intent);
}

/** Reads a step back. The store has checked the bytes; throws `data_dir_newer`, `data_dir_older` for another version. */
export function readStep(bytes: Uint8Array): Step {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const version = all.readUInt8(0);
  if (version < 1 || version > VERSION)
    checkVersion("a step of the journal has version", version, { oldest: 1, newest: VERSION });
  const headerBytes = version === 1 ? HEADER_BYTES_1 : version <= 5 ? HEADER_BYTES_5 : HEADER_BYTES;
  const lengths = LENGTHS_AT.map((at) => (at >= headerBytes ? 0 : all.readUInt32LE(at)));
  let from = headerBytes;
  const [intents, closed, outcomes, sent, held, lanes, prices, warned, as, sentAs] = lengths.map((length) => {
    const section = all.subarray(from, from + length);
    from += length;
    return section;
  }) as [Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer]; // ten lengths give ten sections
  const rows = readRows(version, { intents, closed, outcomes });
  eachSent(as, sentAs, (index, facts) => {
    const outcome = rows.outcomes[index];
    if (outcome !== undefined) outcome.sent = facts;
  });
  return {
    outCrc32: all.readUInt32LE(4),
    outStart: all.readDoubleLE(8),
    outEnd: all.readDoubleLE(16),
    voids: all.readDoubleLE(VOIDS_AT),
    committedUsd: all.readDoubleLE(56),
    hasMoney: version >= 3,
    ...rows,
    // These texts are written only by `finish`, and checked by the store's CRC.
    sent: JSON.parse(sent.toString()) as SentRecord[],
    held,
    lanes: lanes.byteLength === 0 ? undefined : (JSON.parse(lanes.toString()) as LaneRecord[]),
    prices: prices.byteLength === 0 ? [] : (JSON.parse(prices.toString()) as UsedPrice[]),
    warned: warned.byteLength === 0 ? [] : (JSON.parse(warned.toString()) as WarnedRecord[]),
  };
}
