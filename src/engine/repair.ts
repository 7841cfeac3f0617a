/**
 * Repair: the output of a task written again from what is left of it, after it was moved, cut or changed.
 *
 *   journal -> the checksum of each line that was answered -> the file is searched for those lines, wherever they stand now
 *     -> the found ones are written beside it, in the order of the journal, and take its place
 *     -> the journal (its prices aside) restates them (`RESTATES`); the others are open again, with what they have cost
 *
 * A crash anywhere leaves a file that can be repaired again. What the file holds besides is kept as `<output>.damaged`,
 * that of a second repair as `<output>.damaged.2`, and so on.
 *
 * Limits: some 300 bytes of memory a line; lines of at most 64 MiB are found.
 */
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../disk.ts";
import { hasCode } from "../errors.ts";
import { readOutputLine } from "../jsonl/write.ts";
import type { JournalEntry, StoredTask } from "../store/store.ts";
import { checksumText } from "./checksum.ts";
import { type ClosedRecord, type OutcomeRecord, RESTATES, readStep, StepWriter, stamped } from "./journal.ts";
import { checkOutput } from "./output_check.ts";
import type { EngineParts } from "./parts.ts";
import { Replay } from "./replay.ts";
import { encodeBody, type TaskBody } from "./task_body.ts";
import { answersPath } from "./task_files.ts";
import { countingEntries } from "./task_journal.ts";

const READ_BYTES = 1024 * 1024;
const LINE_BYTES_MAX = 64 * 1024 * 1024;
const STEP_BYTES = 1024 * 1024;
const LINE_END = 0x0a;

/** What was found. */
export interface Repaired {
  readonly body: TaskBody;
  /** Lines that the new output holds, and those that were answered and are asked for again. */
  readonly kept: number;
  readonly lost: number;
  /** Whether the file was as it was written: then it was left alone. */
  readonly isIntact: boolean;
  /** Where the file is that it replaces; absent when that held nothing else. */
  readonly damaged?: string;
}

type RepairParts = Pick<EngineParts, "disk" | "store" | "room" | "clock" | "dataDir">;

/** Writes the output again, unless it is as it was written. Call it while the task is not at work. */
export async function repairOutput(parts: RepairParts, task: StoredTask, body: TaskBody): Promise<Repaired> {
  const { disk, store, room } = parts;
  const journal = await readJournal(parts, task.id, body);
  const path = answersPath(parts, task.id, body);
  const from = (await disk.stat(path)) === undefined ? body.out : path; // answers that were put in order
  if (!(await isIntact(disk, from, body, journal.replay))) return rewrite(parts, task, body, from, journal);
  const { isOutputChanged, ...rest } = body;
  if (isOutputChanged === true) await room.waitFor(() => store.putTask({ ...task, body: encodeBody(rest) }));
  return { body: rest, kept: journal.replay.done.size, lost: 0, isIntact: true };
}

async function isIntact(disk: Disk, path: string, body: TaskBody, replay: Replay): Promise<boolean> {
  const { outEnd, outCrc32, held } = replay;
  const written = held.length > 0 ? undefined : checksumText(outCrc32, outEnd);
  const checksum = body.status === "completed" ? body.outChecksum : written;
  if (checksum === undefined) return false;
  try {
    await checkOutput(disk, path, checksum);
    return true;
  } catch (error) {
    if (hasCode(error, "output_changed")) return false;
    throw error;
  }
}

async function rewrite(
  parts: RepairParts,
  task: StoredTask,
  body: TaskBody,
  from: string,
  { replay, lines }: ReadJournal,
): Promise<Repaired> {
  const { disk, store, room, clock } = parts;
  const path = answersPath(parts, task.id, body);
  const old = (await disk.stat(from)) === undefined ? undefined : await disk.open(from, "read");
  let damaged: string | undefined;
  try {
    if (old !== undefined) await findLines(old, lines);
    const writer = new Restatement(await fresh(disk, `${path}.part`));
    try {
      for await (const { records } of countingEntries(store, task.id, body))
        for (const outcome of readStep(records).outcomes) {
          if (!replay.done.has(outcome.line)) continue;
          const start = lines.take(outcome);
          if (start === undefined) continue; // another outcome of the line, before or behind this one
          await writer.add(
            outcome,
            start < 0 || old === undefined ? undefined : await readAt(old, start, outcome),
          );
        }
      const entries = await writer.finish(task.id, replay);
      if (old !== undefined && lines.strayBytes > 0) damaged = await freePath(disk, `${from}.damaged`);
      if (damaged !== undefined) await disk.rename(from, damaged);
      await disk.rename(`${path}.part`, path);
      const moment = clock.moment();
      await room.waitFor(() => store.append(entries.map((entry) => stamped(entry, moment))));
    } finally {
      await writer.close();
    }
    const { isOutputChanged: _told, outBytes: _bytes, outChecksum: _sum, summary: _summary, ...rest } = body;
    const repaired: TaskBody = { ...rest, status: "open" };
    await room.waitFor(() => store.putTask({ ...task, body: encodeBody(repaired) }));
    const { kept, lost } = writer;
    return { body: repaired, kept, lost, isIntact: false, ...(damaged === undefined ? {} : { damaged }) };
  } finally {
    await old?.close();
  }
}

/** What the journal says of lines: their checksums, and where the file has them. */
class SoughtLines {
  readonly #crc32 = new Map<number, number>();
  /** Lines by the checksum and length of their text; where the file has each, or -1. */
  readonly #lineOf = new Map<string, number>();
  readonly #starts = new Map<number, number>();
  /** Bytes of the file that are no line that is sought. */
  strayBytes = 0;

  seek({ line, lineBytes, lineCrc32 }: OutcomeRecord): void {
    this.#crc32.set(line, lineCrc32);
    this.#lineOf.set(`${lineCrc32}:${lineBytes}`, line);
  }

  found(bytes: Uint8Array, start: number): void {
    const line = this.#lineOf.get(`${crc32(bytes)}:${bytes.byteLength}`);
    if (line === undefined || this.#starts.has(line)) this.strayBytes += bytes.byteLength;
    else this.#starts.set(line, start);
  }

  /** Where the text of an outcome stands, -1 when it is lost; undefined for one that does not count, or was taken. */
  take({ line, lineCrc32 }: OutcomeRecord): number | undefined {
    if (this.#crc32.get(line) !== lineCrc32) return undefined;
    this.#crc32.delete(line);
    return this.#starts.get(line) ?? -1;
  }
}

interface ReadJournal {
  readonly replay: Replay;
  readonly lines: SoughtLines;
}

async function readJournal(
  { store }: Pick<EngineParts, "store">,
  taskId: string,
  body: TaskBody,
): Promise<ReadJournal> {
  const replay = new Replay();
  const lines = new SoughtLines();
  for await (const { sequence, records } of countingEntries(store, taskId, body)) {
    const step = readStep(records);
    replay.apply(sequence, step);
    for (const outcome of step.outcomes) lines.seek(outcome);
  }
  return { replay, lines };
}

/** Looks at every line of a file. */
async function findLines(file: DiskFile, lines: SoughtLines): Promise<void> {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let start = 0;
  const chunk = new Uint8Array(READ_BYTES);
  for (let position = 0; ; ) {
    const length = await file.read(chunk, position);
    if (length === 0) break;
    let from = 0;
    for (let end = chunk.indexOf(LINE_END); end >= 0 && end < length; end = chunk.indexOf(LINE_END, from)) {
      lines.found(Buffer.concat([...held, chunk.subarray(from, end + 1)]), start);
      held = [];
      heldBytes = 0;
      from = end + 1;
      start = position + from;
    }
    if (heldBytes < LINE_BYTES_MAX) held.push(chunk.slice(from, length));
    heldBytes += length - from;
    position += length;
  }
  lines.strayBytes += heldBytes;
}

async function readAt(file: DiskFile, start: number, { lineBytes }: OutcomeRecord): Promise<Uint8Array> {
  const bytes = new Uint8Array(lineBytes);
  return bytes.subarray(0, await file.read(bytes, start));
}

/** The path, or the first of `<path>.2`, `<path>.3`, ... where no file is. */
async function freePath(disk: Disk, path: string): Promise<string> {
  for (let number = 1; ; number += 1) {
    const free = number === 1 ? path : `${path}.${number}`;
    if ((await disk.stat(free)) === undefined) return free;
  }
}

async function fresh(disk: Disk, path: string): Promise<DiskFile> {
  await disk.remove(path);
  return disk.open(path, "write");
}

/** The new file, and the steps that say what is in it. */
class Restatement {
  readonly #file: DiskFile;
  readonly #steps: ((header: { readonly voids: number; readonly committedUsd: number }) => Uint8Array)[] = [];
  #step = new StepWriter();
  #lines: Uint8Array[] = [];
  #bytes = 0;
  #end = 0;
  kept = 0;
  lost = 0;

  constructor(file: DiskFile) {
    this.#file = file;
  }

  /** Without text it is asked for again, and what it took still counts. */
  async add(outcome: OutcomeRecord, text: Uint8Array | undefined): Promise<void> {
    if (text === undefined) {
      this.lost += 1;
      if (outcome.attempts > 0) this.#step.closed(askedAgain(outcome));
      return;
    }
    this.kept += 1;
    this.#step.outcome(outcome, text.byteLength, crc32(text));
    const { warnings } = readOutputLine(text) ?? {};
    if (warnings !== undefined) this.#step.warned(warnings);
    this.#lines.push(text);
    this.#bytes += text.byteLength;
    if (this.#bytes >= STEP_BYTES) await this.#seal();
  }

  /** The entries, to be appended together. */
  async finish(
    taskId: string,
    { open, spent, gone, committedUsd }: Replay,
  ): Promise<Omit<JournalEntry, "wallMs">[]> {
    if (gone !== undefined) this.#step.closed(gone);
    for (const record of spent.values()) this.#step.closed(record);
    for (const intent of open.values()) this.#step.intent(intent, undefined);
    await this.#seal();
    await this.#file.sync();
    return this.#steps.map((make, index) => ({
      taskId,
      records: make({ voids: index === 0 ? RESTATES : 0, committedUsd }),
    }));
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #seal(): Promise<void> {
    const [step, bytes, outStart] = [this.#step, Buffer.concat(this.#lines), this.#end];
    await this.#file.write(bytes, outStart);
    this.#end += bytes.byteLength;
    const range = { outStart, outEnd: this.#end, outCrc32: crc32(bytes) };
    this.#steps.push((header) => step.finish({ ...range, ...header }));
    this.#step = new StepWriter();
    this.#lines = [];
    this.#bytes = 0;
  }
}

/** The tries of an answer that was lost behind our back do not count against its item. */
function askedAgain(outcome: OutcomeRecord): ClosedRecord {
  const { attempts, ambiguousAttempts } = outcome;
  return { ...outcome, uncounted: attempts, uncountedAmbiguous: ambiguousAttempts };
}
