/**
 * The records of the work log, as bytes in its entries: one size for each kind, no texts, numbers little-endian.
 *
 *   entry      header, then records in the order in which they take effect
 *   header     version u8, first sequence that is still needed f64, next task number f64, names so far u32, wall ms f64, ms since boot f64, boot id 16
 *   record     kind u8, then the fields of its kind in the order of `FIELDS`
 *
 * Texts that records speak of (projects, lanes, prices, reasons) are names, and are written here as their numbers; 0 means no name.
 *
 * Hot path: an intent and an outcome for each item, written once and read once (bench/jobs/work_log.ts).
 */
import type { Moment } from "../clock.ts";
import { PerigeeError } from "../errors.ts";
import { checkVersion } from "../store/folder/known_version.ts";

/**
 * In version 1 an attempt that ended did not say how it failed, nor which answers could not be used. In version 2 the answer of a posted
 * item did not say how it was sent (engine/posted/answer_text.ts); records were the same.
 */
const VERSION = 3;
const HEADER_BYTES = 1 + 4 * 8 + 4 + 16;
const BOOT_ID_AT = 37;
const U8_MAX = 0xff;
const U16_MAX = 0xffff;
const NO_NUMBERS: readonly number[] = [];

/** Items in one record of bits. */
export const BITS_ITEMS = 2_048;

/** How an item ended. */
export type EndedStatus = "completed" | "failed" | "expired" | "cancelled";

/** Append only, never reorder: entries hold the indexes. */
export const ENDED_STATUSES: readonly EndedStatus[] = ["completed", "failed", "expired", "cancelled"];

const SIZES = { u8: 1, u16: 2, u32: 4, f64: 8, status: 1, bits: 256 } as const;
type FieldType = keyof typeof SIZES;
type ValueOf<T extends FieldType> = T extends "status" ? EndedStatus : T extends "bits" ? Uint8Array : number;

/**
 * Append only, never reorder: a record's kind is its place here, from 1. Of money, `usd` is what a service charges, `billedUsd` what the
 * provider bills, `ambiguousUsd` what attempts of unknown end may have cost at most besides.
 */
const FIELDS = {
  /** A task is accepted, and nothing of it is done. The highest count of items means that they are not counted yet. */
  accepted: { task: "f64", items: "u32", deadlineMs: "f64", project: "u32", kind: "u8" },
  /** The items of a task are counted now. */
  counted: { task: "f64", items: "u32" },
  /** A request is about to be sent; `attempt` counts from 1. `offset` and `lengthBytes`: its place in an input, 0 without. */
  intent: {
    task: "f64",
    item: "u32",
    attempt: "u16",
    lane: "u32",
    inputTokens: "u32",
    outputTokens: "u32",
    mostUsd: "f64",
    offset: "f64",
    lengthBytes: "u32",
  },
  /**
   * An attempt ended without an outcome, with this code and HTTP status; 0 without one. The rest counts all attempts of the item so
   * far; the next may begin at `nextMs`.
   */
  attemptEnded: {
    task: "f64",
    item: "u32",
    attempt: "u16",
    attempts: "u16",
    ambiguousAttempts: "u16",
    uncounted: "u16",
    uncountedAmbiguous: "u16",
    nextMs: "f64",
    isEstimated: "u8",
    price: "u32",
    inputTokens: "u32",
    cachedTokens: "u32",
    cacheWriteTokens: "u32",
    outputTokens: "u32",
    reasoningTokens: "u32",
    listUsd: "f64",
    usd: "f64",
    billedUsd: "f64",
    ambiguousUsd: "f64",
    unusableAnswers: "u8",
    code: "u16",
    httpStatus: "u16",
  },
  /** An item ended. Money and tokens are those of all its attempts; bytes and CRC-32 those of its text. */
  outcome: {
    task: "f64",
    item: "u32",
    status: "status",
    code: "u16",
    attempts: "u16",
    ambiguousAttempts: "u16",
    isEstimated: "u8",
    price: "u32",
    inputTokens: "u32",
    cachedTokens: "u32",
    cacheWriteTokens: "u32",
    outputTokens: "u32",
    reasoningTokens: "u32",
    listUsd: "f64",
    usd: "f64",
    billedUsd: "f64",
    ambiguousUsd: "f64",
    textBytes: "u32",
    textCrc32: "u32",
    /** 1 if its text is a line of the output, 0 if it is an answer. */
    isLine: "u8",
  },
  /** All items of a task that are neither done nor under way ended so. */
  restEnded: { task: "f64", status: "status", code: "u16" },
  /** An item that had ended `status` is open again; an `attemptEnded` of attempt 0 after it says what it took before. */
  reopened: { task: "f64", item: "u32", status: "status" },
  /** All items ended, and the sums of the task are stored beside its answers. */
  final: { task: "f64" },
  /** A task waits for a reason that is not its own; reason 0: no more. */
  held: { task: "f64", reason: "u32", sinceMs: "f64", nextMs: "f64" },
  /** Bytes of the output file of a task were written with this entry: those of its outcomes and `moved` lines, in order. */
  wrote: { task: "f64", start: "f64", end: "f64", crc32: "u32" },
  /** The text of an item that had ended before was written to the output file. */
  moved: { task: "f64", item: "u32", textBytes: "u32", textCrc32: "u32" },
  /** What ended items of a task took together: part of a statement. */
  sums: {
    task: "f64",
    completed: "u32",
    failed: "u32",
    expired: "u32",
    cancelled: "u32",
    outBytes: "f64",
    attempts: "f64",
    ambiguousAttempts: "f64",
    inputTokens: "f64",
    cachedTokens: "f64",
    cacheWriteTokens: "f64",
    outputTokens: "f64",
    reasoningTokens: "f64",
    listUsd: "f64",
    usd: "f64",
    billedUsd: "f64",
    ambiguousUsd: "f64",
  },
  /** These items are done: part of a statement. */
  doneRange: { task: "f64", first: "u32", count: "u32" },
  /** Of the `BITS_ITEMS` items from `first` on, those whose bit is set are done: part of a statement. */
  doneBits: { task: "f64", first: "u32", bits: "bits" },
  /** What was learnt of a lane `ageMs` before the entry; `fact` is its owner's number. Replaces the last of lane and fact. */
  laneFact: { lane: "u32", fact: "u8", value: "f64", forMs: "f64", ageMs: "f64" },
  /** Requests and tokens that count against the limits of a lane besides those of intents, since `ageMs` before the entry. */
  sent: { lane: "u32", requests: "u32", inputTokens: "f64", outputTokens: "f64", ageMs: "f64" },
  /** A task is removed, with its rows. */
  removed: { task: "f64" },
} as const;

type Fields = typeof FIELDS;
export type RecordKind = keyof Fields;
/** The fields of one kind of record. */
export type FieldsOf<K extends RecordKind> = {
  readonly [F in keyof Fields[K]]: ValueOf<Fields[K][F] & FieldType>;
};
/** How an item ended; the log adds what it says of the text. */
export type OutcomeFields = Omit<FieldsOf<"outcome">, "textBytes" | "textCrc32" | "isLine">;
/** A record as read back. */
export type LogRecord = { [K in RecordKind]: { readonly is: K } & FieldsOf<K> }[RecordKind];

/** `items` of a task whose items are not counted yet, and one more than the highest number of an item. */
export const UNCOUNTED_ITEMS = 0xffff_ffff;
/** The place of the sums of a final task among its answers. */
export const SUMS_ITEM = 0xffff_ffff;
/** The place of the notes of an open task among its answers: above the last number of an item. */
export const NOTES_ITEM = 0xffff_fffe;

interface RecordLayout {
  readonly is: RecordKind;
  readonly kind: number;
  readonly names: readonly string[];
  readonly types: readonly FieldType[];
  readonly bytes: number;
}

const FIELDS_BY_KIND: Readonly<Record<string, Readonly<Record<string, FieldType>>>> = FIELDS;
const LAYOUTS: readonly RecordLayout[] = (Object.keys(FIELDS) as RecordKind[]).map((is, index) => {
  const types = Object.values(FIELDS_BY_KIND[is] ?? {});
  const bytes = types.reduce((sum, type) => sum + SIZES[type], 1);
  return { is, kind: index + 1, names: Object.keys(FIELDS[is]), types, bytes };
});
const LAYOUT_OF = Object.fromEntries(LAYOUTS.map((layout) => [layout.is, layout])) as Readonly<
  Record<RecordKind, RecordLayout>
>; // from the same names

/** Fields that version 1 did not have, the last of their record: 0 when it is read. */
const ADDED_FIELDS = 3;
const ADDED_TO: RecordKind = "attemptEnded";
const LAYOUTS_1 = LAYOUTS.map((layout) =>
  layout.is === ADDED_TO ? withoutLast(layout, ADDED_FIELDS) : layout,
);

function withoutLast(layout: RecordLayout, fields: number): RecordLayout {
  const types = layout.types.slice(0, -fields);
  return { ...layout, types, bytes: types.reduce((sum, type) => sum + SIZES[type], 1) };
}

/** What a record of this kind takes in an entry. */
export function recordBytes(is: RecordKind): number {
  return LAYOUT_OF[is].bytes;
}

/** What an entry says besides its records. */
export interface EntryHeader {
  /** The oldest entry that is needed to read the log, after the cut in this one. */
  readonly firstSequence: number;
  readonly nextTask: number;
  /** How many names there are with it. */
  readonly names: number;
  readonly moment: Moment;
}

/** Collects records end to end, in a buffer that grows. */
export class LogRecords {
  #buffer: Buffer;
  #view: DataView;
  #end = 0;

  /** `bytes`: room to begin with. */
  constructor(bytes = 1_024) {
    this.#buffer = Buffer.allocUnsafeSlow(bytes);
    this.#view = viewOf(this.#buffer);
  }

  get byteLength(): number {
    return this.#end;
  }

  add<K extends RecordKind>(is: K, fields: FieldsOf<K>): void {
    this.#add(LAYOUT_OF[is], fields, NO_NUMBERS);
  }

  /** Returns where it begins, for `slice`. Its text is passed separately, because V8 is slow to spread objects with fractions. */
  addOutcome(fields: OutcomeFields, textBytes: number, textCrc32: number, isLine: boolean): number {
    const start = this.#end;
    this.#add(LAYOUT_OF.outcome, fields, [textBytes, textCrc32, isLine ? 1 : 0]);
    return start;
  }

  /** A copy of the record that begins here. */
  slice(start: number): Uint8Array {
    const bytes = LAYOUTS[(this.#buffer[start] ?? 0) - 1]?.bytes ?? 0;
    return new Uint8Array(this.#buffer.subarray(start, start + bytes));
  }

  /** `last`: the values of its last fields. */
  #add({ kind, names, types, bytes }: RecordLayout, fields: object, last: readonly number[]): void {
    if (this.#end + bytes > this.#buffer.byteLength) this.#grow(bytes);
    const values = fields as Readonly<Record<string, unknown>>; // by the names of its layout
    const given = types.length - last.length;
    let at = this.#end;
    this.#buffer[at] = kind;
    at += 1;
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as FieldType; // within the bounds
      write(this.#view, at, type, index < given ? values[names[index] as string] : last[index - given]);
      at += SIZES[type];
    }
    this.#end = at;
  }

  /** A view, until more is added. */
  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.#end);
  }

  #grow(bytes: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#end + bytes, this.#buffer.byteLength * 2));
    larger.set(this.bytes());
    this.#buffer = larger;
    this.#view = viewOf(larger);
  }
}

/** An entry of these records, one part after the other. */
export function writeEntry(header: EntryHeader, parts: readonly LogRecords[]): Uint8Array<ArrayBuffer> {
  const entry = Buffer.alloc(parts.reduce((sum, { byteLength }) => sum + byteLength, HEADER_BYTES));
  const { moment } = header;
  entry.writeUInt8(VERSION, 0);
  entry.writeDoubleLE(header.firstSequence, 1);
  entry.writeDoubleLE(header.nextTask, 9);
  entry.writeUInt32LE(header.names, 17);
  entry.writeDoubleLE(moment.wallMs, 21);
  entry.writeDoubleLE(moment.sinceBootMs, 29);
  entry.write((moment.bootId ?? "").replaceAll("-", ""), BOOT_ID_AT, 16, "hex");
  let at = HEADER_BYTES;
  for (const part of parts) {
    entry.set(part.bytes(), at);
    at += part.byteLength;
  }
  return new Uint8Array(entry.buffer as ArrayBuffer, entry.byteOffset, entry.byteLength);
}

/** Throws `data_dir_newer`, `data_dir_older` for another version, `store_damaged` for bytes that are not an entry. */
export function readHeader(bytes: Uint8Array): EntryHeader {
  const entry = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (entry.byteLength < HEADER_BYTES) throw noEntry("an entry is shorter than its header");
  checkVersion("an entry of the work log has version", entry.readUInt8(0), {
    oldest: 1,
    newest: VERSION,
  });
  const hex = entry.toString("hex", BOOT_ID_AT, HEADER_BYTES);
  const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  const moment = {
    wallMs: entry.readDoubleLE(21),
    sinceBootMs: entry.readDoubleLE(29),
    bootId: /^[0-]+$/.test(id) ? undefined : id,
  };
  const [firstSequence, nextTask] = [entry.readDoubleLE(1), entry.readDoubleLE(9)];
  return { firstSequence, nextTask, names: entry.readUInt32LE(17), moment };
}

/** The records of an entry, in order. Throws `store_damaged` for a kind that is not known, or half a record. */
export function eachRecord(bytes: Uint8Array, visit: (record: LogRecord) => void): void {
  const view = viewOf(bytes);
  const layouts = view.getUint8(0) === 1 ? LAYOUTS_1 : LAYOUTS;
  for (let at = HEADER_BYTES; at < bytes.byteLength; ) {
    const layout = layouts[view.getUint8(at) - 1];
    if (layout === undefined) throw noEntry(`an entry has a record of the unknown kind ${view.getUint8(at)}`);
    if (at + layout.bytes > bytes.byteLength) throw noEntry("an entry ends within a record");
    visit(readRecord(view, at + 1, layout));
    at += layout.bytes;
  }
}

/** The fields of one record, without its kind, as it is stored with an answer. */
export function recordOf<K extends RecordKind>(is: K, bytes: Uint8Array): FieldsOf<K> {
  const layout = LAYOUT_OF[is];
  if (bytes.byteLength !== layout.bytes || bytes[0] !== layout.kind)
    throw noEntry(`bytes are not a record of kind ${is}`);
  return readRecord(viewOf(bytes), 1, layout) as unknown as FieldsOf<K>; // read by this kind's layout
}

/** One record as bytes of its own. */
export function bytesOfRecord<K extends RecordKind>(is: K, fields: FieldsOf<K>): Uint8Array {
  const records = new LogRecords(recordBytes(is));
  records.add(is, fields);
  return records.bytes();
}

function readRecord(view: DataView, start: number, { is, names, types }: RecordLayout): LogRecord {
  const record: Record<string, unknown> = { is };
  let at = start;
  for (let index = 0; index < types.length; index += 1) {
    const type = types[index] as FieldType; // within the bounds
    record[names[index] as string] = read(view, at, type);
    at += SIZES[type];
  }
  for (let index = types.length; index < names.length; index += 1) record[names[index] as string] = 0;
  return record as unknown as LogRecord; // by the names and types of its layout
}

function write(view: DataView, at: number, type: FieldType, value: unknown): void {
  if (type === "u8") view.setUint8(at, Math.min(value as number, U8_MAX));
  else if (type === "u16")
    view.setUint16(at, Math.min(value as number, U16_MAX), true); // a count, which stops there
  else if (type === "u32") view.setUint32(at, value as number, true);
  else if (type === "f64") view.setFloat64(at, value as number, true);
  else if (type === "status") view.setUint8(at, ENDED_STATUSES.indexOf(value as EndedStatus));
  else new Uint8Array(view.buffer, view.byteOffset + at, SIZES.bits).set(value as Uint8Array);
}

function read(view: DataView, at: number, type: FieldType): unknown {
  switch (type) {
    case "u8":
      return view.getUint8(at);
    case "u16":
      return view.getUint16(at, true);
    case "u32":
      return view.getUint32(at, true);
    case "f64":
      return view.getFloat64(at, true);
    case "status":
      return ENDED_STATUSES[view.getUint8(at)] ?? "failed";
    case "bits":
      return new Uint8Array(view.buffer, view.byteOffset + at, SIZES.bits).slice();
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function noEntry(message: string): PerigeeError {
  return new PerigeeError("store_damaged", `the work log: ${message}`);
}
