/**
 * The answers of a task as one file of lines: the files of its lots one after the other, and from a shared lot only its own lines, in
 * the order of submission.
 *
 * Views of some lines are read through a window of 4,096 lines, so that a million lines need no more memory.
 */
import { brokenAnswer } from "../../engine/journal/answer_check.ts";
import type { EngineStorage } from "../../engine/journal/storage.ts";
import { failedLine } from "../../jsonl/write.ts";
import { objectId } from "../../work/object_id.ts";
import type { Failure } from "../../work/outcome.ts";
import { type LinePlace, type ReadLine, readPlaces } from "../lots/answer_file.ts";
import type { Lot } from "../lots/lot.ts";
import type { Lots } from "../lots/lots.ts";
import { isPartCancelled, type TaskRecord } from "../lots/task_record.ts";
import { baseOf } from "../shapes/ids.ts";
import type { OutputView, TaskOutput } from "../shapes/task_view.ts";
import { basesOf, type Layer, layerOf, layersOf } from "./part_layers.ts";
import { cancelledUnsent, failureOf } from "./task_objects.ts";

const WINDOW_LINES = 4_096;
const READ_BYTES = 256 * 1024;

/** Bytes of the output: in a file, or in memory. */
type Piece = { readonly path: string; readonly start: number; readonly lengthBytes: number } | Uint8Array;

export interface OutputTerms {
  readonly storage: EngineStorage;
  readonly lots: Lots;
  readonly task: TaskRecord;
  /** Whether every object is final, and an id of this state of the objects. */
  readonly isFinal: boolean;
  readonly version: string;
}

/** What is durable now, without later answers. `answers` and `errors` are known only by reading, so they have no length. */
export async function openOutput(terms: OutputTerms, view: OutputView): Promise<TaskOutput> {
  if (view !== "all") {
    return {
      isComplete: terms.isFinal,
      bytes: undefined,
      etag: terms.isFinal ? `${terms.version}-${view}` : undefined,
      read: () => readView(terms, view),
    };
  }
  const pieces: Iterable<Piece>[] = [];
  for (const base of basesOf(terms.task)) {
    const layers = await layersOf(terms.lots, terms.task, base);
    if (layers[0]?.isShared === true) pieces.push(await sharedPieces(terms, layers));
    else for (const layer of layers) pieces.push(await ownPieces(terms, layer));
  }
  let bytes = 0;
  for (const some of pieces) for (const piece of some) bytes += lengthOf(piece);
  return {
    isComplete: terms.isFinal,
    bytes,
    etag: terms.isFinal ? `${terms.version}-all` : undefined,
    read: (range) => readPieces(terms, pieces, range),
  };
}

/** Lines of a part in a lot that belong to `view`, by windows of the lot's lines. */
export function* placesOf({ lot, part, stands }: Layer, view: OutputView): Generator<LinePlace[]> {
  const last = part.firstLine + part.lines - 1;
  for (let from = part.firstLine; from <= last; from += WINDOW_LINES) {
    const places: LinePlace[] = [];
    for (let line = from; line <= Math.min(last, from + WINDOW_LINES - 1); line += 1) {
      const { status, start, lengthBytes, lineCrc32 } = lot.index.get(line);
      if (status === undefined || lengthBytes === 0 || !stands(line - part.firstLine + 1)) continue;
      if (view === "all" || (status === "completed") === (view === "answers"))
        places.push({ line, start, lengthBytes, lineCrc32 });
    }
    if (places.length > 0) yield places;
  }
}

/** The file as it is, with an error in place of each broken answer, and without lines that a later layer has. Can be iterated again. */
async function ownPieces({ storage }: OutputTerms, layer: Layer): Promise<Iterable<Piece>> {
  const { lot, part } = layer;
  const path = lot.out ?? "";
  const end = lot.outEnd; // read first: excludes later answers
  const file = { path, end, isOver: lot.isOver, places: placesOf(layer, "all") };
  const found = await lot.broken.find(storage.disk, file);
  const current = found.filter(({ line }) => layer.stands(line - part.firstLine + 1));
  const broken = new Map(current.map((place) => [place.line, place]));
  const gone = [...broken.keys()];
  for (let line = 1; layer.isOverlaid && line <= part.lines; line += 1)
    if (!layer.stands(line) && lot.index.get(line).lengthBytes > 0) gone.push(line);
  gone.sort((a, b) => lot.index.get(a).start - lot.index.get(b).start);
  return {
    *[Symbol.iterator](): Generator<Piece> {
      let position = 0;
      for (const line of gone) {
        const { start, lengthBytes } = lot.index.get(line);
        if (start >= end) break;
        if (start > position) yield { path, start: position, lengthBytes: start - position };
        const place = broken.get(line);
        if (place !== undefined) yield brokenLine(lot, place);
        position = start + lengthBytes;
      }
      if (end > position) yield { path, start: position, lengthBytes: end - position };
    },
  };
}

function brokenLine(lot: Lot, place: LinePlace): Uint8Array {
  return Buffer.from(failedLine(null, place.line, brokenAnswer(lot.out ?? "", place)));
}

/** Writes errors again, because their line number is that of a lot unknown to the caller. */
async function sharedPieces(
  { storage, task }: OutputTerms,
  layers: readonly Layer[],
): Promise<readonly Piece[]> {
  const made = new Map<number, Uint8Array>();
  for (const layer of layers)
    for (const places of placesOf(layer, "all"))
      for await (const read of readPlaces(storage.disk, layer.lot.out ?? "", places)) {
        const isAnswer = layer.lot.index.statusOf(read.place.line) === "completed";
        if (isAnswer && read.bytes !== undefined) continue;
        const number = numberIn(layer, read.place.line);
        made.set(number, errorLine(layer.lot, read, keyOf(task, layer, number)));
      }
  const pieces: Piece[] = [];
  for (let number = 1; number <= (layers[0]?.part.lines ?? 0); number += 1) {
    const layer = layerOf(layers, number);
    const { lot, part } = layer;
    const line = part.firstLine + number - 1;
    const { status, start, lengthBytes } = lot.index.get(line);
    const own = made.get(number);
    if (own !== undefined) pieces.push(own);
    else if (status !== undefined && lengthBytes > 0)
      pieces.push({ path: lot.out ?? "", start, lengthBytes });
    else if (lot.statusOf(line, isPartCancelled(task, layer.index)) === "cancelled")
      pieces.push(cancelledLine(keyOf(task, layer, number)));
  }
  return pieces;
}

function numberIn({ part }: Layer, line: number): number {
  return line - part.firstLine + 1;
}

function keyOf(task: TaskRecord, { base }: Layer, number: number): string {
  return objectId(task.id, baseOf(base) + number);
}

/** The error of a line of a shared lot; `key` is its object's. */
function errorLine(lot: Lot, { place, bytes }: ReadLine, key: string): Uint8Array {
  if (bytes !== undefined) return withoutLine(lot, bytes);
  return Buffer.from(failedLine(JSON.stringify(key), undefined, brokenAnswer(lot.out ?? "", place)));
}

interface FailedLine {
  readonly key: string;
  readonly output: null;
  readonly error: Failure;
}

function withoutLine(lot: Lot, bytes: Uint8Array): Uint8Array {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  const line = JSON.parse(text) as FailedLine; // written by this service
  return Buffer.from(`${JSON.stringify({ ...line, error: failureOf(lot, line.error) })}\n`);
}

function cancelledLine(key: string): Uint8Array {
  return Buffer.from(failedLine(JSON.stringify(key), undefined, cancelledUnsent()));
}

async function* readView(terms: OutputTerms, view: OutputView): AsyncGenerator<Uint8Array> {
  for (const base of basesOf(terms.task))
    for (const layer of await layersOf(terms.lots, terms.task, base)) yield* readLayer(terms, layer, view);
}

async function* readLayer(
  { storage, task }: OutputTerms,
  layer: Layer,
  view: OutputView,
): AsyncGenerator<Uint8Array> {
  const { lot, part, isShared } = layer;
  for (const places of placesOf(layer, view))
    for await (const read of readPlaces(storage.disk, lot.out ?? "", places)) {
      if (isShared && (view === "errors" || read.bytes === undefined))
        yield errorLine(lot, read, keyOf(task, layer, numberIn(layer, read.place.line)));
      else yield read.bytes ?? brokenLine(lot, read.place);
    }
  if (!isShared || view === "answers" || !isPartCancelled(task, layer.index)) return;
  for (let number = 1; number <= part.lines; number += 1) {
    const line = part.firstLine + number - 1;
    if (!layer.stands(number) || lot.index.statusOf(line) !== undefined) continue;
    if (lot.statusOf(line, true) === "cancelled") yield cancelledLine(keyOf(task, layer, number));
  }
}

async function* readPieces(
  { storage }: OutputTerms,
  pieces: readonly Iterable<Piece>[],
  range: { readonly start: number; readonly end: number } | undefined,
): AsyncGenerator<Uint8Array> {
  let position = 0;
  for (const some of pieces)
    for (const piece of some) {
      const lengthBytes = lengthOf(piece);
      const from = Math.max(0, (range?.start ?? 0) - position);
      const to = Math.min(lengthBytes, (range?.end ?? Number.POSITIVE_INFINITY) - position);
      position += lengthBytes;
      if (from >= to) continue;
      if (piece instanceof Uint8Array) yield piece.subarray(from, to);
      else yield* readFile(storage, piece.path, piece.start + from, piece.start + to);
    }
}

async function* readFile(
  { disk }: EngineStorage,
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
