/**
 * Reads entries one by one, each with the place of its end, so that a repeat continues after what was acknowledged.
 *
 * A file is streamed, and a repeat reads from the byte that it had reached.
 *
 * Limits: of a line the first 1 MiB; blank lines are not entries.
 */
import type { Files } from "../../../tasks/files/files.ts";
import { type EntryBounds, type EntryInput, entryOf, entryOfLine, type LogEntry } from "./entry.ts";

const LINE_BYTES_MAX = 1024 * 1024;
const LF = 0x0a;

export interface SourcedEntry {
  readonly entry: LogEntry;
  /** From 0. */
  readonly index: number;
  /** Bytes of the file up to its line end; 0 for those of a list. */
  readonly offset: number;
}

/** What was reached before. */
export interface Reached {
  readonly entries: number;
  readonly offset: number;
}

/** Those of an input after `from`, in order. */
export function* listEntries(
  list: readonly EntryInput[],
  from: Reached,
  bounds: EntryBounds,
): Generator<SourcedEntry> {
  for (let index = from.entries; index < list.length; index++) {
    const input = list[index];
    if (input !== undefined) yield { entry: entryOf(input, bounds), index, offset: 0 };
  }
}

/** A file, and whose it is. */
export interface FileSource {
  readonly files: Pick<Files, "read">;
  readonly project: string;
  readonly id: string;
  readonly bytes: number;
}

/** Those of a file's lines after `from`, in order. Throws as `Files.read`. */
export async function* fileEntries(
  { files, project, id, bytes }: FileSource,
  from: Reached,
  bounds: EntryBounds,
): AsyncGenerator<SourcedEntry> {
  let index = from.entries;
  if (from.offset >= bytes) return;
  const chunks = files.read(project, id, { start: from.offset, end: bytes });
  for await (const { text, offset } of lines(chunks, from.offset)) {
    const line = offset.start === 0 ? text.replace(/^\uFEFF/, "") : text;
    if (line.trim() === "") continue;
    yield { entry: entryOfLine(line, bounds), index, offset: offset.end };
    index += 1;
  }
}

interface Line {
  readonly text: string;
  readonly offset: { readonly start: number; readonly end: number };
}

async function* lines(chunks: AsyncIterable<Uint8Array>, from: number): AsyncGenerator<Line> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let start = from;
  let at = from;
  const take = (bytes: Buffer): void => {
    const kept = bytes.subarray(0, LINE_BYTES_MAX - heldBytes);
    if (kept.length > 0) held.push(Buffer.from(kept));
    heldBytes += kept.length;
  };
  const end = (): Line => {
    const text = Buffer.concat(held).toString("utf8").replace(/\r$/, "");
    const line = { text, offset: { start, end: at } };
    [held, heldBytes, start] = [[], 0, at];
    return line;
  };
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let begun = 0;
    for (let newline = bytes.indexOf(LF); newline >= 0; newline = bytes.indexOf(LF, begun)) {
      take(bytes.subarray(begun, newline));
      at += newline + 1 - begun;
      begun = newline + 1;
      yield end();
    }
    take(bytes.subarray(begun));
    at += bytes.length - begun;
  }
  if (heldBytes > 0) yield end();
}
