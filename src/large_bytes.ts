/**
 * Memory for large bytes, and collections after them and after many lines, so that both stay within the bound of the process.
 *
 * Buffers of 1 MiB and more are resizable ones: V8 maps these, so they return to the system when they are collected. What `malloc` gave for
 * such sizes stays in its arenas (40 lines of 8 MiB: 20 to 60 MiB at the peak). What a line leaves, its texts and
 * buffers, V8 collects only by its own measures, which let over 200 MiB pile up. So code that is done with large bytes notes them,
 * and this thread collects.
 *
 * `JSON.parse` keeps each text of up to 10 characters, such as the key of a line, in a table of its thread until a full collection. A
 * thread that only parses has a small heap, which V8 collects that way every few hundred thousand lines: its table took 20 MB of a
 * million lines. So it notes its lines, and collects after 65,536 of them (0.2 us a line).
 *
 * Buffers below 1 MiB count as memory that V8 should collect: those of 0.7 MB that live for some collections of the young generation
 * (answers of embeddings) made it collect the whole heap every 3,000 texts, and its threads took 20 us of CPU a text. So what is known to
 * be over is given back and used again.
 *
 * Limits: below 1 MiB nothing else differs, so ordinary lines never pay; a collection takes 5 to 30 ms, at most one for each 4 MiB
 * of large bytes. It needs V8's `--expose-gc`, which the command sets (`cli/heap.ts`); without it V8 decides.
 */
import { runInNewContext } from "node:vm";

export const LARGE_BYTES_MIN: number = 1024 * 1024;
const BYTES_BETWEEN = 4 * 1024 * 1024;
const LINES_BETWEEN = 65_536;
const PLAIN_STEP_BYTES = 64 * 1024;
/** At most 16 MiB, as bodies of such sizes may take together (dispatch/undici.ts). */
const PLAIN_SPARES_MAX = 16;

/** ES2024's resizable buffer: Node 20 has it, the types of ES2023 do not. */
const MappedBuffer = ArrayBuffer as unknown as new (
  bytes: number,
  options: { readonly maxByteLength: number },
) => ArrayBuffer;

const MappedSharedBuffer = SharedArrayBuffer as unknown as new (
  bytes: number,
  options: { readonly maxByteLength: number },
) => SharedArrayBuffer;

/** Of this thread. */
let bytesSince = 0;
let linesSince = 0;
let collect: (() => void) | undefined;

/** Separate memory, which can be transferred; not zeroed when it is small. */
export function allocate(bytes: number): Buffer<ArrayBuffer> {
  if (bytes < LARGE_BYTES_MIN) return Buffer.allocUnsafeSlow(bytes);
  return Buffer.from(new MappedBuffer(bytes, { maxByteLength: bytes }));
}

/** Memory that threads share and that is never transferred, zeroed; from 1 MiB. */
export function allocateShared(bytes: number): Buffer {
  return Buffer.from(new MappedSharedBuffer(bytes, { maxByteLength: bytes }));
}

/** Of this thread: memory that was given back. */
const spares: ArrayBuffer[] = [];
/** Memory that was taken and not given back. */
const taken = new WeakSet<ArrayBufferLike>();

/** At least so many bytes, for up to 1 MiB, not zeroed. They may be given back; otherwise they are collected as any others. */
export function takePlain(bytes: number): Uint8Array {
  const index = spares.findIndex(({ byteLength }) => byteLength >= bytes);
  const size = Math.ceil(bytes / PLAIN_STEP_BYTES) * PLAIN_STEP_BYTES;
  const buffer = spares.splice(index, index < 0 ? 0 : 1)[0] ?? Buffer.allocUnsafeSlow(size).buffer;
  taken.add(buffer);
  return new Uint8Array(buffer);
}

/** Nobody reads or writes any part of this memory any more. Other memory than that of `takePlain` is left alone. */
export function giveBackPlain({ buffer }: Uint8Array): void {
  if (taken.delete(buffer) && spares.length < PLAIN_SPARES_MAX) spares.push(buffer as ArrayBuffer); // as it was taken
}

/** Whether other threads may have it, too. */
export function isShared(buffer: ArrayBufferLike): buffer is SharedArrayBuffer {
  return buffer instanceof SharedArrayBuffer;
}

/** Bytes of that number, or a text of so many, have been used and are garbage now. May collect before it returns. */
export function noteLargeBytes(bytes: number): void {
  if (bytes < LARGE_BYTES_MIN) return;
  bytesSince += bytes;
  if (bytesSince < BYTES_BETWEEN) return;
  bytesSince = 0;
  collectNow();
}

/** So many lines were parsed by a thread that does little else. May collect before it returns. */
export function noteParsedLines(lines: number): void {
  linesSince += lines;
  if (linesSince < LINES_BETWEEN) return;
  linesSince = 0;
  collectNow();
}

function collectNow(): void {
  collect ??= exposedCollect();
  collect();
}

function exposedCollect(): () => void {
  const exposed: unknown = runInNewContext("typeof gc === 'function' ? gc : undefined");
  return typeof exposed === "function" ? () => exposed() : () => undefined;
}
