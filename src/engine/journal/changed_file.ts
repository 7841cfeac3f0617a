/**
 * Reads an output that another program has changed: what was done to it, and which of its lines are still as they were written.
 *
 *   bytes -> unpacked (gzip) -> in UTF-8 (from UTF-16) -> lines -> each in the forms that it may have been written in: without
 *   a byte order mark and a carriage return, with a line end, and with JSON as this engine writes it
 *
 * A line is found if one of its forms has the recorded length and checksum; blank lines are ignored. Limits: of lines above
 * 64 MiB, or another bound that the caller passes, only the beginning is read, so they are not found; compressed or UTF-16
 * files are first written out beside the file.
 */
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { type Disk, type DiskFile, errorCodeOf } from "../../disk.ts";
import { headOf, sniff } from "../../jsonl/sniff.ts";

const READ_BYTES = 1024 * 1024;
/** Of the first piece, and of the one after a piece that was not full: most files are smaller. */
const FIRST_READ_BYTES = 64 * 1024;
const LINE_BYTES_MAX = 64 * 1024 * 1024;
const LINE_END = 0x0a;
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Where a line is in a file, its line end included. */
export interface FoundPlace {
  readonly start: number;
  readonly lengthBytes: number;
}

/** What was done to a file whose lines may be whole, in words that follow "it"; undefined if its first 4 KiB do not show it. */
export async function changeOf(file: Pick<DiskFile, "read">): Promise<string | undefined> {
  const head = await headOf(file);
  const foreign = sniff(head);
  if (foreign !== undefined) return `is ${foreign.words} now`;
  if (head.subarray(0, 3).equals(MARK)) return "begins with a byte order mark now";
  return head.includes("\r\n") ? "has CRLF line ends now" : undefined;
}

/** Opens a file for reading as lines of UTF-8. A compressed or UTF-16 file is written out to `at`, which the caller removes. */
export async function openAsLines(disk: Disk, path: string, at: string): Promise<DiskFile> {
  const file = await disk.open(path, "read");
  const decode = decoderOf(await headOf(file));
  if (decode === undefined) return file;
  let decoded: DiskFile | undefined;
  try {
    await disk.remove(at);
    decoded = await disk.open(at, "write");
    let end = 0;
    for await (const bytes of decode(chunksOf(file))) {
      await decoded.write(bytes, end);
      end += bytes.byteLength;
    }
  } catch (error) {
    await decoded?.close();
    throw error;
  } finally {
    await file.close();
  }
  return decoded;
}

/** A line of a file; its last one may lack the line end. */
export interface LineOfFile extends FoundPlace {
  readonly bytes: Uint8Array;
}

/** The lines of a file from byte `from` on, with their places. Of lines above `lineBytesMax` (default: 64 MiB), `bytes` lacks the end. */
export async function* linesOf(
  file: Pick<DiskFile, "read">,
  {
    from: first = 0,
    lineBytesMax = LINE_BYTES_MAX,
  }: { readonly from?: number; readonly lineBytesMax?: number } = {},
): AsyncGenerator<LineOfFile> {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let start = first;
  for await (const chunk of chunksOf(file, first)) {
    let from = 0;
    for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, from)) {
      const lengthBytes = heldBytes + end + 1 - from;
      yield { bytes: Buffer.concat([...held, chunk.subarray(from, end + 1)]), start, lengthBytes };
      held = [];
      heldBytes = 0;
      from = end + 1;
      start += lengthBytes;
    }
    if (heldBytes < lineBytesMax) held.push(chunk.slice(from));
    heldBytes += chunk.byteLength - from;
  }
  if (heldBytes > 0) yield { bytes: Buffer.concat(held), start, lengthBytes: heldBytes };
}

/** Where other content of a file is kept: the first of `<path>.damaged`, `<path>.damaged.2`, ... that does not exist. */
export async function damagedPath(disk: Disk, path: string): Promise<string> {
  for (let number = 1; ; number += 1) {
    const free = `${path}.damaged${number === 1 ? "" : `.${number}`}`;
    if ((await disk.stat(free)) === undefined) return free;
  }
}

/** Where `openAsLines` may write a compressed or UTF-16 file out. */
export function decodedPath(path: string): string {
  return `${path}.perigee-decoded`;
}

/** The forms in which a line may have been written, the likeliest first; empty for a blank line. */
export function* writtenForms(bytes: Uint8Array): Generator<Uint8Array> {
  let line = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (line.subarray(0, 3).equals(MARK)) line = line.subarray(3);
  while (line.at(-1) === LINE_END || line.at(-1) === 0x0d) line = line.subarray(0, -1);
  if (line.byteLength === 0) return;
  yield line.byteLength + 1 === bytes.byteLength && bytes.at(-1) === LINE_END
    ? bytes
    : Buffer.concat([line, Buffer.of(LINE_END)]);
  const value = parsed(line);
  if (value !== undefined) yield Buffer.from(`${JSON.stringify(value)}\n`);
}

/** The value of a line, because programs that rewrite JSON change its spaces and escapes; undefined if it is not JSON. */
function parsed(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString());
  } catch {
    return undefined;
  }
}

/** The bytes of a file from byte `from` on, in pieces of up to 1 MiB. */
export async function* chunksOf(file: Pick<DiskFile, "read">, from = 0): AsyncGenerator<Buffer> {
  let isFull = false;
  for (let position = from; ; ) {
    const chunk = Buffer.allocUnsafeSlow(isFull ? READ_BYTES : FIRST_READ_BYTES);
    const length = await file.read(chunk, position);
    if (length === 0) return;
    yield chunk.subarray(0, length);
    position += length;
    isFull = length === chunk.byteLength;
  }
}

type Decode = (chunks: AsyncIterable<Buffer>) => AsyncGenerator<Uint8Array>;

function decoderOf(head: Buffer): Decode | undefined {
  if (head[0] === 0x1f && head[1] === 0x8b) return unpacked;
  if (sniff(head)?.kind !== "utf16") return undefined;
  const isBig = head[0] === 0xfe || head[0] === 0;
  return (chunks) => decoded(chunks, new TextDecoder(isBig ? "utf-16be" : "utf-16le"));
}

async function* decoded(
  chunks: AsyncIterable<Buffer>,
  decoder: InstanceType<typeof TextDecoder>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) yield Buffer.from(decoder.decode(chunk, { stream: true }));
  yield Buffer.from(decoder.decode());
}

/** Unpacks gzip; of a file that is cut or damaged, everything before the damage. */
async function* unpacked(chunks: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  const source = Readable.from(chunks);
  const stream = source.pipe(createGunzip());
  source.on("error", (error) => stream.destroy(error));
  try {
    for await (const chunk of stream) yield chunk as Buffer; // of a stream in binary mode
  } catch (error) {
    if (!/^Z_/.test(errorCodeOf(error) ?? "")) throw error;
  }
}
