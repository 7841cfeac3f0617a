/**
 * Decides which lines of a tail (`tail.ts`) are the run's own.
 *
 *   own        answers an open line of the input, found by the key of a request under way or by the keys of the input
 *   repeated   is, byte for byte, a line that is recorded
 *   nothing    is blank, torn, or has a gap of zeros where a power cut lost a write; or is an error that was recorded and whose
 *              line was opened again since: it is written again, or has ended otherwise
 *   foreign    everything else: another program wrote or changed it, or its line was opened again since (retry, update)
 *
 * After most crashes, the requests under way explain every line. Only if a line remains unexplained, the tail, the journal and the
 * input are read once more, which takes some 100 bytes of memory per line. Limit: a line above 256 MiB is foreign.
 */
import { crc32 } from "node:zlib";
import type { DiskFile } from "../../disk.ts";
import { OPENAI_LINE_START } from "../../jsonl/body_lines.ts";
import { hashKey, keyFilter, scanKeys } from "../../jsonl/keys.ts";
import { readKey } from "../../jsonl/layout.ts";
import { asBuffer, eachLine, isBlank } from "../../jsonl/lines.ts";
import { readBlocks } from "../../jsonl/read.ts";
import { type ReadOutput, readOutputLine } from "../../jsonl/write.ts";
import type { StoredEntry } from "../../store/store.ts";
import { RECORDED_CODES } from "../../work/failure_numbers.ts";
import { LineSet } from "../../work/line_set.ts";
import { type LineOfFile, writtenForms } from "../journal/changed_file.ts";
import { type IntentRecord, isOf, readStep, voidsOf } from "../journal/journal.ts";
import { readWhole } from "../journal/line_bytes.ts";
import type { Replay } from "../journal/replay.ts";
import { KeyLines } from "./key_lines.ts";
import { STATES_ANEW } from "./task_journal.ts";

const LINE_END = 0x0a;
const LINE_STARTS = ['{"key":', OPENAI_LINE_START].map((text) => Buffer.from(text));
/** No text has so many in a row. */
const GAP = Buffer.alloc(4);
/** Values in tables; numbers of lines follow them. */
const SOUGHT = 1;
const STALE = 2;

/** Where lines are looked up. */
export interface LineSources {
  /** All entries of the task's journal, whether they count or not. */
  readonly journal: () => AsyncIterable<StoredEntry>;
  readonly input: Pick<DiskFile, "read">;
  /** Of the input. */
  readonly lineBytesMax: number;
  /** Number of a journal entry: what was recorded up to it and not again since no longer counts as an answer. */
  readonly staleUntil: number;
  /** Whether a line of the input is unchanged since the run began; absent if all are. */
  readonly isUnchanged?: ((line: number) => boolean) | undefined;
}

/** A line that answers an open line of the input. */
export interface OwnLine {
  /** Of the input. */
  readonly line: number;
  readonly found: ReadOutput;
  /** Its last request, when it was under way. */
  readonly intent: IntentRecord | undefined;
  /** As the output must have it, with its line end. */
  readonly bytes: Uint8Array;
  /** Whether the file has these bytes; only the line end may be missing. */
  readonly isAsWritten: boolean;
}

export type TailVerdict =
  | { readonly kind: "own"; readonly own: OwnLine }
  | { readonly kind: "repeated" | "nothing" | "foreign" };

const REPEATED: TailVerdict = { kind: "repeated" };
const NOTHING: TailVerdict = { kind: "nothing" };
const FOREIGN: TailVerdict = { kind: "foreign" };

/** Judges lines one by one, in order. If two answer the same line of the input, only the first is own. */
export class TailLines {
  readonly #sources: LineSources;
  readonly #replay: Replay;
  readonly #lines: () => AsyncIterable<LineOfFile>;
  readonly #taken = new LineSet();
  #inDoubt: ReadonlyMap<string, IntentRecord> | undefined;
  #index: TailIndex | undefined;

  /** `lines` reads, from the start, the lines that will be judged. */
  constructor(sources: LineSources, replay: Replay, lines: () => AsyncIterable<LineOfFile>) {
    this.#sources = sources;
    this.#replay = replay;
    this.#lines = lines;
  }

  /** Call it once for each line, in their order. Reads the journal and the input at the first line that needs them. */
  async judge(each: LineOfFile): Promise<TailVerdict> {
    const { bytes, lengthBytes } = each;
    if (isBlank(bytes) || hasGap(bytes)) return NOTHING;
    const [form] = writtenForms(bytes);
    const isEnded = bytes.at(-1) === LINE_END;
    const found = form === undefined || bytes.byteLength < lengthBytes ? undefined : readOutputLine(form);
    if (form === undefined || found === undefined) return isEnded || !isBegun(bytes) ? FOREIGN : NOTHING;
    const verdict = await this.#verdict(bytes, form, found);
    if (verdict.kind === "own") this.#taken.add(verdict.own.line);
    return verdict;
  }

  async #verdict(bytes: Uint8Array, form: Uint8Array, found: ReadOutput): Promise<TailVerdict> {
    if (!found.ok && !RECORDED_CODES.some((code) => code === found.errorCode)) return FOREIGN;
    const isAsWritten = Buffer.compare(form.subarray(0, bytes.byteLength), bytes) === 0;
    const intent = await this.#intentOf(found);
    if (intent !== undefined && this.#isOpen(intent.line)) {
      if (found.ok && this.#isChanged(intent.line, bytes)) return FOREIGN;
      return { kind: "own", own: { line: intent.line, found, intent, bytes: form, isAsWritten } };
    }
    this.#index ??= await TailIndex.of(this.#sources, this.#lines());
    const recorded = this.#index.recordedLine(bytes);
    if (recorded === "stale") return found.ok ? FOREIGN : NOTHING;
    const line = this.#index.lineOf(found) ?? recorded;
    if (line === undefined) return FOREIGN;
    if (!this.#isOpen(line)) return recorded === undefined ? FOREIGN : REPEATED;
    if (found.ok && recorded === undefined && this.#index.isRecorded(line)) return FOREIGN; // the recorded answer was changed
    if (this.#sources.isUnchanged?.(line) === false) return FOREIGN;
    return {
      kind: "own",
      own: { line, found, intent: this.#replay.open.get(line), bytes: form, isAsWritten },
    };
  }

  /** Whether the line was recorded with other bytes in the range that a power cut damaged: it is then requested again, as in a finished output. */
  #isChanged(line: number, bytes: Uint8Array): boolean {
    const voided = this.#replay.voided.get(line);
    if (voided === undefined || voided.lineCrc32 === 0) return false;
    return ![...writtenForms(bytes)].some((form) => isOf(voided, form));
  }

  #isOpen(line: number): boolean {
    return !this.#replay.done.has(line) && !this.#taken.has(line);
  }

  /** The request under way for the key of a line; an error names the line of the input, too. */
  async #intentOf({ key, line }: ReadOutput): Promise<IntentRecord | undefined> {
    if (key === null) return undefined;
    this.#inDoubt ??= await keysInDoubt(this.#sources.input, this.#replay);
    const intent = this.#inDoubt.get(key);
    return line === undefined || line === intent?.line ? intent : undefined;
  }
}

/** Whether a write within a line of this engine was lost. Bytes of other programs may have zeros too, for example gzip. */
function hasGap(bytes: Uint8Array): boolean {
  const start = asBuffer(bytes).indexOf(GAP);
  return start >= 0 && isBegun(bytes.subarray(0, start));
}

/** Whether a line without its end is the beginning of one that this engine writes. */
function isBegun(bytes: Uint8Array): boolean {
  return LINE_STARTS.some((start) => {
    const length = Math.min(bytes.byteLength, start.byteLength);
    return Buffer.compare(bytes.subarray(0, length), start.subarray(0, length)) === 0;
  });
}

/** Keys of the lines whose request was under way, read from the input. */
async function keysInDoubt(
  input: Pick<DiskFile, "read">,
  replay: Replay,
): Promise<ReadonlyMap<string, IntentRecord>> {
  const keys = new Map<string, IntentRecord>();
  for (const intent of replay.open.values()) {
    const found = readKey(await readWhole(input, intent.offset, intent.lengthBytes));
    if (found.ok) keys.set(found.key, intent);
  }
  return keys;
}

/** What the journal and the input say about the lines of a tail. */
class TailIndex {
  /** By checksum and length: `SOUGHT`, `STALE`, or `STALE` plus the line that was recorded with them. */
  readonly #recorded = new KeyLines();
  /** Lines that were recorded, with any bytes. */
  readonly #recordedLines = new LineSet();
  /** By the hash of a key: `SOUGHT`, or `SOUGHT` plus its first line in the input. */
  readonly #keys = new KeyLines();
  /** Lines of a stream whose key an earlier line has. */
  readonly #repeating = new LineSet();
  /** Lines of the input that errors without a key name, and those of them that have no readable key. */
  readonly #numbers = new Set<number>();
  readonly #unreadable = new LineSet();

  static async of(sources: LineSources, lines: AsyncIterable<LineOfFile>): Promise<TailIndex> {
    const index = new TailIndex();
    for await (const line of lines) index.#seek(line);
    await index.#readJournal(sources);
    await index.#readInput(sources);
    return index;
  }

  /** The line that was recorded with these bytes; "stale" if it no longer counts, undefined if none was. */
  recordedLine(bytes: Uint8Array): number | "stale" | undefined {
    for (const form of writtenForms(bytes)) {
      const value = this.#recorded.get(crc32(form), form.byteLength);
      if (value >= STALE) return value === STALE ? "stale" : value - STALE;
    }
    return undefined;
  }

  /** Whether an answer of this line was recorded and still counts. */
  isRecorded(line: number): boolean {
    return this.#recordedLines.has(line);
  }

  /** The line of the input that a line answers; undefined if no line has its key, or if it names another one. */
  lineOf({ key, line }: ReadOutput): number | undefined {
    if (key === null) return line !== undefined && this.#unreadable.has(line) ? line : undefined;
    const { high, low } = hashKey(Buffer.from(key));
    const first = this.#keys.get(high, low) - SOUGHT;
    if (first <= 0) return undefined;
    if (line === undefined || line === first) return first;
    return this.#repeating.has(line) ? line : undefined;
  }

  #seek({ bytes, lengthBytes }: LineOfFile): void {
    if (bytes.byteLength < lengthBytes) return;
    const [form] = writtenForms(bytes);
    const found = form === undefined ? undefined : readOutputLine(form);
    if (found === undefined) return;
    for (const each of writtenForms(bytes)) this.#recorded.set(crc32(each), each.byteLength, SOUGHT);
    if (found.key === null) {
      if (found.line !== undefined) this.#numbers.add(found.line);
      return;
    }
    const { high, low } = hashKey(Buffer.from(found.key));
    this.#keys.set(high, low, SOUGHT);
  }

  /** An abandoned restatement may have other line numbers, so entries of a run at work have precedence. */
  async #readJournal({ journal, staleUntil }: LineSources): Promise<void> {
    for await (const entry of journal()) {
      const isRestating = voidsOf(entry) === STATES_ANEW;
      const isStale = entry.sequence <= staleUntil;
      for (const { line, lineCrc32, lineBytes } of readStep(entry.records).outcomes) {
        if (!isStale && lineCrc32 !== 0) this.#recordedLines.add(line);
        const before = this.#recorded.get(lineCrc32, lineBytes);
        if (before === 0 || (isRestating && before > STALE)) continue;
        this.#recorded.set(lineCrc32, lineBytes, isStale ? STALE : line + STALE);
      }
    }
  }

  async #readInput({ input, lineBytesMax }: LineSources): Promise<void> {
    const options = { wantKeys: true, filter: keyFilter(this.#keys.highs()) };
    for await (const event of readBlocks(input, { lineBytesMax })) {
      if (event.kind === "refused") {
        if (this.#numbers.has(event.refused.line)) this.#unreadable.add(event.refused.line);
        continue;
      }
      const { block } = event;
      const { count, lines, hashes } = scanKeys(block, options);
      for (let index = 0; index < count; index += 1)
        this.#found(hashes[index * 2] as number, hashes[index * 2 + 1] as number, lines[index] as number);
      if (this.#numbers.size === 0) continue;
      let line = block.firstLine;
      eachLine(block.bytes, (start, end) => {
        const content = block.bytes.subarray(start, end);
        if (this.#numbers.has(line) && !isBlank(content) && !readKey(content).ok) this.#unreadable.add(line);
        line += 1;
      });
    }
  }

  #found(high: number, low: number, line: number): void {
    const before = this.#keys.get(high, low);
    if (before === SOUGHT) this.#keys.set(high, low, line + SOUGHT);
    else if (before > SOUGHT) this.#repeating.add(line);
  }
}
