/**
 * Requests of batch wires on their way through the transport: their bodies are streamed from the disk, and so are their results.
 *
 * Limits: 64 KiB of a body in memory, all of one whose lines are rewritten (15 MB); an answer of at most 32 MiB unless it is read as a stream; 30 s for small requests,
 * 10 min and the time of 256 KiB/s for those that carry lines, an hour for results.
 */
import type { Clock } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import type { RequestSource, Transport, WireFailure, WireStream } from "../../dispatch/transport.ts";
import { WireError } from "../../dispatch/transport.ts";
import type { BatchFailure, BatchRequest } from "../../providers/batches/batch_wire.ts";
import type { WireAnswer } from "../../providers/provider.ts";

const SMALL_MS = 30_000;
const LARGE_MS = 600_000;
const BYTES_PER_MS_MIN = 256;
const RESULTS_MS = 3_600_000;
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
const RESULT_BYTES_MAX = Number.MAX_SAFE_INTEGER;
const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 0x0a;
const EMPTY = new Uint8Array(0);

/** The lines of a batch, in a file. */
export interface LinesFile {
  readonly path: string;
  readonly bytes: number;
  /** Where lines end, by their place; set before a request that carries some of them. */
  endOf: ((place: number) => number) | undefined;
}

/** A request that brought no whole answer. */
export interface LostAnswer {
  readonly ok: false;
  readonly failure: WireFailure;
  readonly message: string;
}

/** One for an engine. */
export class BatchCalls {
  readonly #clock: Clock;
  readonly #transport: Transport;
  readonly #disk: Disk;

  constructor(clock: Clock, transport: Transport, disk: Disk) {
    this.#clock = clock;
    this.#transport = transport;
    this.#disk = disk;
  }

  /** Never rejects. `lines`: of a request that carries some. */
  async send(
    request: BatchRequest,
    signal: AbortSignal,
    lines?: LinesFile,
  ): Promise<(WireAnswer & { readonly ok: true }) | LostAnswer> {
    const body = await this.#bodyOf(request, lines);
    const isLarge = !(body instanceof Uint8Array);
    const timeoutMs = isLarge ? LARGE_MS + body.lengthBytes / BYTES_PER_MS_MIN : SMALL_MS;
    const options = { timeoutMs, signal, bytesMax: ANSWER_BYTES_MAX };
    const stream = await this.#transport.stream({ ...request, body }, options);
    if (!stream.ok) return stream;
    try {
      const chunks: Uint8Array[] = [];
      for await (const chunk of stream.chunks) chunks.push(chunk);
      const { status, headers } = stream;
      return { ok: true, status, headers, body: Buffer.concat(chunks), wallMs: this.#clock.wallMs() };
    } catch (error) {
      return lostBy(error);
    }
  }

  async #bodyOf(request: BatchRequest, lines: LinesFile | undefined): Promise<Uint8Array | RequestSource> {
    const { body } = request;
    if (body.kind === "bytes" || body.rewritten === undefined || lines === undefined)
      return bodyOf(request, lines, this.#disk);
    const { before, separator, after, rewritten } = body;
    const file = await this.#disk.open(lines.path, "read");
    try {
      const bytes = Buffer.alloc(lines.bytes);
      await file.read(bytes, 0);
      const rows = bytes.toString().trimEnd().split("\n");
      const sent = rows.map((row) => Buffer.from(rewritten(Buffer.from(row))).toString());
      return Buffer.from(`${before}${sent.join(separator)}${after}`);
    } finally {
      await file.close();
    }
  }

  /** The answer to a request for results, to be read. */
  stream(request: BatchRequest, signal: AbortSignal): Promise<WireStream> {
    const body = bodyOf(request, undefined, this.#disk);
    return this.#transport.stream(
      { ...request, body },
      { timeoutMs: RESULTS_MS, signal, bytesMax: RESULT_BYTES_MAX },
    );
  }
}

/** It may have had its effect unless no byte of it, or not all of it, has left. */
export function lostFailure({ failure, message }: LostAnswer): BatchFailure {
  const hadNoEffect = failure === "not_sent" || failure === "source_failed";
  return { ok: false, is: hadNoEffect ? "refused" : "unknown", message, status: 0 };
}

/** Of an error that ended the reading of an answer. */
export function lostBy(error: unknown): LostAnswer {
  if (error instanceof WireError) return { ok: false, failure: error.failure, message: error.message };
  throw error;
}

function bodyOf(
  { body }: BatchRequest,
  lines: LinesFile | undefined,
  disk: Disk,
): Uint8Array | RequestSource {
  if (body.kind === "bytes") return body.bytes;
  if (lines === undefined) return EMPTY;
  const { endOf = () => lines.bytes } = lines;
  const start = body.from === undefined ? 0 : endOf(body.from - 1);
  const end = body.count === undefined ? lines.bytes : endOf((body.from ?? 0) + body.count - 1);
  const before = Buffer.from(body.before);
  const after = Buffer.from(body.after);
  const isJoined = body.separator !== "\n";
  const linesBytes = end - start - (isJoined && end > start ? 1 : 0);
  const separator = body.separator.charCodeAt(0);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    if (before.byteLength > 0) yield before;
    const file = await disk.open((lines as LinesFile).path, "read");
    try {
      for (let at = start; at < start + linesBytes; ) {
        const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, start + linesBytes - at));
        const readBytes = await file.read(chunk, at);
        if (readBytes === 0) return; // the source is shorter than stated, and the call fails
        const read = chunk.subarray(0, readBytes);
        if (isJoined) replaceNewlines(read, separator);
        yield read;
        at += readBytes;
      }
    } finally {
      await file.close();
    }
    if (after.byteLength > 0) yield after;
  }
  return { lengthBytes: before.byteLength + linesBytes + after.byteLength, chunks: chunks() };
}

/** JSON on one line has no other newlines. */
function replaceNewlines(bytes: Buffer, separator: number): void {
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) bytes[at] = separator;
}
