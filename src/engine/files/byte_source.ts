/**
 * Sources that can be read once, as bytes of lines: streams, pipes, iterables of items. One array is turned into
 * lines while it arrives (`jsonl/array_start.ts` says what is an array).
 */
import { Readable } from "node:stream";
import type { DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { arrayAsLines } from "../../jsonl/array_as_lines.ts";
import { ArrayStart } from "../../jsonl/array_start.ts";
import { itemLine, type KeyedItem } from "../../jsonl/items.ts";
import { type Foreign, sniff } from "../../jsonl/sniff.ts";
import type { Item, LineItem } from "../../work/item.ts";

/** Bytes of JSONL, or items; read once and in order. */
export type OnceSource = AsyncIterable<LineItem | Item | Uint8Array> | Iterable<LineItem | Item | Uint8Array>;

/** Bytes that can be read once, and how to release them without waiting for the next ones. */
export interface ByteSource {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Whether all of it is there already, as in an array: its end is near, and reading on waits for nobody. */
  readonly isThere?: boolean;
  leave?(): void;
}

const CHUNK_BYTES = 1024 * 1024;
const LF = 0x0a;
/** So much of a stream is checked before its first bytes are taken, unless its first line is shorter. */
const HEAD_BYTES = 64;

/** The lines of a stream or of items. They throw `unsupported_encoding` when it is not text, `invalid_array`. */
export function iterableBytes(source: OnceSource): ByteSource {
  const bytes = async function* (): AsyncGenerator<Uint8Array> {
    let number = 1;
    for await (const one of source) {
      yield one instanceof Uint8Array
        ? one
        : Buffer.from(`${itemLine(keyed(one, number), `item ${number}`)}\n`);
      number += 1;
    }
  };
  return source instanceof Readable
    ? { bytes: asLines(sniffed(bytes())), leave: () => void source.destroy() }
    : { bytes: asLines(sniffed(bytes())), isThere: Array.isArray(source) };
}

/**
 * The lines of a pipe, which is closed when it is left. A read may wait for ever, and closing waits for it: nobody waits
 * for either.
 */
export function pipeBytes(file: DiskFile): ByteSource {
  let isClosed = false;
  const leave = (): void => {
    if (!isClosed) file.close().catch(() => undefined); // of no concern any more
    isClosed = true;
  };
  return { bytes: asLines(sniffed(readAll(file))), leave };
}

/** Releases a source that `taken` was reading: what it yields from now on is not taken. */
export function leaveSource(source: ByteSource, taken: AsyncIterator<Uint8Array>): void {
  source.leave?.();
  void returned(taken); // its next value may never arrive
}

async function returned(bytes: AsyncIterator<Uint8Array>): Promise<void> {
  try {
    await bytes.return?.();
  } catch {
    // the source is of no concern any more
  }
}

/** Throws `unsupported_encoding`; `head` are the first bytes of what `name` names. */
export function refuseEncoding(head: Uint8Array, name: string): void {
  const found = sniff(head, name);
  if (found === undefined) return;
  throw new PerigeeError(
    "unsupported_encoding",
    `${name} is ${found.words}, expected JSON lines in UTF-8; ${WAYS_ON[found.kind]}`,
    { details: { kind: found.kind } },
  );
}

const A_LINE = '{"key":"1","request":{"model":"openai:gpt-4o-mini","contents":[{"parts":[{"text":"..."}]}]}}';
/** How a caller asks a table; the command line replaces these words (cli/run/library_words.ts). */
export const LINE_FOR_ROW = "write a line like this for each row";
const WAYS_ON: Readonly<Record<Foreign["kind"], string>> = {
  utf16: "convert it first, for example with iconv -f UTF-16 -t UTF-8",
  compressed: "unpack it first",
  workbook: `save the sheet as CSV, and ${LINE_FOR_ROW}: ${A_LINE}`,
  table: `${LINE_FOR_ROW}: ${A_LINE}`,
  binary: "pass a file of requests instead",
};

/** The item under its key, or under its number. A run has one window for all that it answers. */
function keyed(item: LineItem | Item, number: number): LineItem | KeyedItem {
  if (typeof item !== "object" || item === null) return item;
  if ("sla" in item)
    throw new PerigeeError("usage", `item ${number}: sla is an option of the run, not of its items`);
  if ("request" in item || "body" in item) return item;
  return { ...item, key: item.key ?? String(number) };
}

/** The same bytes, unless the first line or the first bytes show that they are not text. */
async function* sniffed(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head: Uint8Array | undefined = new Uint8Array(0);
  for await (const chunk of bytes) {
    if (head === undefined) {
      yield chunk;
      continue;
    }
    head = Buffer.concat([head, chunk]);
    if (head.byteLength < HEAD_BYTES && !head.includes(LF)) continue;
    refuseEncoding(head, "the input");
    yield head;
    head = undefined;
  }
  if (head === undefined || head.byteLength === 0) return;
  refuseEncoding(head, "the input");
  yield head;
}

/** The same bytes, or the elements of the array that they are. */
async function* asLines(bytes: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  const start = new ArrayStart();
  const held: Uint8Array[] = [];
  let kind: "array" | "lines" | undefined;
  try {
    while (kind === undefined) {
      const next = await bytes.next();
      if (next.done !== true) held.push(next.value);
      kind = next.done === true ? start.end() : start.take(next.value);
    }
    const all = chained(held, bytes);
    yield* kind === "array" ? arrayAsLines(all) : all;
  } finally {
    await bytes.return(undefined);
  }
}

async function* chained(first: Uint8Array[], then: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (let next = first.shift(); next !== undefined; next = first.shift()) yield next;
  yield* then;
}

/** The bytes of a file, from its beginning to its end. */
export async function* readAll(file: DiskFile): AsyncGenerator<Uint8Array> {
  for (let position = 0; ; ) {
    const chunk = new Uint8Array(CHUNK_BYTES);
    const length = await file.read(chunk, position);
    if (length === 0) return;
    position += length;
    yield chunk.subarray(0, length);
  }
}
