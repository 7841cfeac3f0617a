/**
 * The answers of a task as one file of lines: the files of its lots one behind the other, and of a lot that it shares
 * the lines that are its own, in the order of submission.
 *
 * Views of some lines are read through a window of 4,096 lines, so that a million cost no more than that.
 */
import { brokenAnswer } from "../engine/answer_check.ts";
import type { EngineParts } from "../engine/parts.ts";
import { failedLine } from "../jsonl/write.ts";
import { objectId } from "../work/object_id.ts";
import type { Failure } from "../work/outcome.ts";
import { type LinePlace, type ReadLine, readPlaces } from "./answer_file.ts";
import { baseOf } from "./ids.ts";
import type { Lot } from "./lot.ts";
import type { Lots } from "./lots.ts";
import { cancelledUnsent, failureOf } from "./task_objects.ts";
import type { TaskPart, TaskRecord } from "./task_record.ts";
import type { OutputView, TaskOutput } from "./task_view.ts";

const WINDOW_LINES = 4_096;
const READ_BYTES = 256 * 1024;

/** Bytes of the output: in a file, or made here. */
type Piece = { readonly path: string; readonly start: number; readonly lengthBytes: number } | Uint8Array;

export interface OutputTerms {
  readonly parts: EngineParts;
  readonly lots: Lots;
  readonly task: TaskRecord;
  /** Whether every object is final, and a name for this state of them. */
  readonly isFinal: boolean;
  readonly version: string;
}

/**
 * What is durable now; what comes later is not in it. `answers` and `errors` are known only by reading, so they have no length.
 */
export async function openOutput(terms: OutputTerms, view: OutputView): Promise<TaskOutput> {
  if (view !== "all") {
    return {
      isComplete: terms.isFinal,
      bytes: undefined,
      etag: terms.isFinal ? `${terms.version}-${view}` : undefined,
      read: () => readView(terms, view),
    };
  }
  const pieces: Piece[] = [];
  for (const part of terms.task.parts.keys()) pieces.push(...(await piecesOf(terms, part)));
  return {
    isComplete: terms.isFinal,
    bytes: pieces.reduce((sum, piece) => sum + lengthOf(piece), 0),
    etag: terms.isFinal ? `${terms.version}-all` : undefined,
    read: (range) => readPieces(terms, pieces, range),
  };
}

/** Lines of a part that have ended so, by windows of the lot's lines. */
export function* placesOf(lot: Lot, part: TaskPart, view: OutputView): Generator<LinePlace[]> {
  const last = part.firstLine + part.lines - 1;
  for (let from = part.firstLine; from <= last; from += WINDOW_LINES) {
    const places: LinePlace[] = [];
    for (let line = from; line <= Math.min(last, from + WINDOW_LINES - 1); line += 1) {
      const { status, start, lengthBytes, lineCrc32 } = lot.index.get(line);
      if (status === undefined || lengthBytes === 0) continue;
      if (view === "all" || (status === "completed") === (view === "answers"))
        places.push({ line, start, lengthBytes, lineCrc32 });
    }
    if (places.length > 0) yield places;
  }
}

async function piecesOf(terms: OutputTerms, part: number): Promise<Piece[]> {
  const { lots, task } = terms;
  const { lotId } = task.parts[part] as TaskPart;
  const lot = await lots.find(lotId);
  if (lot.record.taskId === undefined) return sharedPieces(terms, lot, part);
  return ownPieces(terms, lot, task.parts[part] as TaskPart);
}

/** The file as it is, with an error in the place of each answer that is broken. */
async function ownPieces({ parts }: OutputTerms, lot: Lot, part: TaskPart): Promise<Piece[]> {
  const path = lot.out ?? "";
  const end = lot.outEnd; // before the look: what comes meanwhile is not in it
  const pieces: Piece[] = [];
  let position = 0;
  const file = { path, end, isOver: lot.isOver, places: placesOf(lot, part, "all") };
  for (const place of await lot.broken.find(parts.disk, file)) {
    if (place.start >= end) break;
    if (place.start > position) pieces.push({ path, start: position, lengthBytes: place.start - position });
    pieces.push(brokenLine(lot, place));
    position = place.start + place.lengthBytes;
  }
  if (end > position) pieces.push({ path, start: position, lengthBytes: end - position });
  return pieces;
}

function brokenLine(lot: Lot, place: LinePlace): Uint8Array {
  return Buffer.from(failedLine(null, place.line, brokenAnswer(lot.out ?? "", place)));
}

/** Errors are written again: the line number in them is that of a lot which the caller knows nothing of. */
async function sharedPieces({ parts, task }: OutputTerms, lot: Lot, part: number): Promise<Piece[]> {
  const { firstLine, lines } = task.parts[part] as TaskPart;
  const made = new Map<number, Uint8Array>();
  for (const places of placesOf(lot, task.parts[part] as TaskPart, "all"))
    for await (const read of readPlaces(parts.disk, lot.out ?? "", places)) {
      const isAnswer = lot.index.statusOf(read.place.line) === "completed";
      if (isAnswer && read.bytes !== undefined) continue;
      const number = read.place.line - firstLine + 1;
      made.set(read.place.line, errorLine(lot, read, objectId(task.id, baseOf(part) + number)));
    }
  const pieces: Piece[] = [];
  for (let number = 1; number <= lines; number += 1) {
    const line = firstLine + number - 1;
    const { status, start, lengthBytes } = lot.index.get(line);
    const own = made.get(line);
    if (own !== undefined) pieces.push(own);
    else if (status !== undefined && lengthBytes > 0)
      pieces.push({ path: lot.out ?? "", start, lengthBytes });
    else if (lot.statusOf(line, task.isCancelled === true) === "cancelled")
      pieces.push(cancelledLine(objectId(task.id, baseOf(part) + number)));
  }
  return pieces;
}

/** The error of a line of a shared lot; `key` is its object's. */
function errorLine(lot: Lot, { place, bytes }: ReadLine, key: string): Uint8Array {
  if (bytes !== undefined) return withoutLine(lot, bytes);
  return Buffer.from(failedLine(JSON.stringify(key), undefined, brokenAnswer(lot.out ?? "", place)));
}

interface FailedLine {
  readonly key: string;
  readonly error: Failure;
  readonly warnings?: unknown;
}

function withoutLine(lot: Lot, bytes: Uint8Array): Uint8Array {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  const { key, error, warnings } = JSON.parse(text) as FailedLine; // a line of our own
  const list = warnings === undefined ? "" : JSON.stringify(warnings);
  return Buffer.from(failedLine(JSON.stringify(key), undefined, failureOf(lot, error), list));
}

function cancelledLine(key: string): Uint8Array {
  return Buffer.from(failedLine(JSON.stringify(key), undefined, cancelledUnsent()));
}

async function* readView({ parts, lots, task }: OutputTerms, view: OutputView): AsyncGenerator<Uint8Array> {
  for (const [index, part] of task.parts.entries()) {
    const lot = await lots.find(part.lotId);
    const isShared = lot.record.taskId === undefined;
    for (const places of placesOf(lot, part, view))
      for await (const read of readPlaces(parts.disk, lot.out ?? "", places)) {
        if (isShared && (view === "errors" || read.bytes === undefined)) {
          const number = read.place.line - part.firstLine + 1;
          yield errorLine(lot, read, objectId(task.id, baseOf(index) + number));
        } else yield read.bytes ?? brokenLine(lot, read.place);
      }
    if (!isShared || view === "answers" || task.isCancelled !== true) continue;
    for (let number = 1; number <= part.lines; number += 1) {
      const line = part.firstLine + number - 1;
      if (lot.index.statusOf(line) === undefined && lot.statusOf(line, true) === "cancelled")
        yield cancelledLine(objectId(task.id, baseOf(index) + number));
    }
  }
}

async function* readPieces(
  { parts }: OutputTerms,
  pieces: readonly Piece[],
  range: { readonly start: number; readonly end: number } | undefined,
): AsyncGenerator<Uint8Array> {
  let position = 0;
  for (const piece of pieces) {
    const lengthBytes = lengthOf(piece);
    const from = Math.max(0, (range?.start ?? 0) - position);
    const to = Math.min(lengthBytes, (range?.end ?? Number.POSITIVE_INFINITY) - position);
    position += lengthBytes;
    if (from >= to) continue;
    if (piece instanceof Uint8Array) yield piece.subarray(from, to);
    else yield* readFile(parts, piece.path, piece.start + from, piece.start + to);
  }
}

async function* readFile(
  { disk }: EngineParts,
  path: string,
  start: number,
  end: number,
): AsyncGenerator<Uint8Array> {
  const file = await disk.open(path, "read");
  try {
    for (let position = start; position < end; ) {
      const bytes = new Uint8Array(Math.min(READ_BYTES, end - position));
      const read = await file.read(bytes, position);
      if (read === 0) return;
      yield bytes.subarray(0, read);
      position += read;
    }
  } finally {
    await file.close();
  }
}

function lengthOf(piece: Piece): number {
  return piece instanceof Uint8Array ? piece.byteLength : piece.lengthBytes;
}
