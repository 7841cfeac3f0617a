/**
 * The bytes of a request whose body names files (providers/inserts.ts): its JSON with the content of each in its place.
 *
 *   all files checked (their sizes make the length of the request) -> sent: each read in turn -> all checked again
 *     --missing, no regular file, empty, too large, no text---> refused: nothing is sent
 *     --a fault of its place, or changed since it was found---> failed: the last bytes are not sent, so nobody answers it
 *
 * Limits: one chunk of a file and what it becomes in memory, one file open at a time. A text is read twice: its length is known when its
 * escapes are.
 */
import { Buffer } from "node:buffer";
import { errorCodeOf } from "../../disk.ts";
import { type InsertSource, piecesOf, type SealedInsert } from "../../providers/inserts.ts";
import type { RequestSource } from "../transport.ts";

/** A file as it was found. */
export interface InsertFile {
  readonly sizeBytes: number;
  /** Another one when the content may be another. */
  readonly state: string;
  /** Whether `read` has the content of this state or rejects; else it is checked again when it was read. */
  readonly isReadAsFound?: true;
}

/** Port: the files of one item. `look` and `read` reject with an `InsertFault` or the signal's reason. */
export interface InsertFiles {
  look(source: InsertSource, signal?: AbortSignal): Promise<InsertFile>;
  /** The content from its start; closed when the iterator ends or returns. Each chunk is valid until the next is asked for. */
  read(source: InsertSource, file: InsertFile, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  /** After a fault of a place: resolves, within `mostMs`, when the attempt may end. Rejects with the signal's reason. */
  pause(mostMs: number, signal?: AbortSignal): Promise<void>;
}

/**
 * Why a file was not sent; the message names it. `file`: another try would find the same. `change`: it is being written, and another
 * try may find it whole. `place`: its disk or store cannot be read for now, which says nothing of the file.
 */
export class InsertFault extends Error {
  readonly blamed: "file" | "change" | "place";

  constructor(message: string, blamed: InsertFault["blamed"]) {
    super(message);
    this.name = "InsertFault";
    this.blamed = blamed;
  }
}

interface FoundInsert {
  readonly insert: SealedInsert;
  readonly file: InsertFile;
  /** In the request. */
  readonly lengthBytes: number;
}

/** One attempt's request. */
export class InsertedBody {
  readonly source: RequestSource;
  readonly #pieces: readonly (Uint8Array | FoundInsert)[];
  readonly #files: InsertFiles;
  readonly #signal: AbortSignal | undefined;
  #fault: InsertFault | undefined;

  private constructor(
    pieces: readonly (Uint8Array | FoundInsert)[],
    files: InsertFiles,
    signal: AbortSignal | undefined,
  ) {
    this.#pieces = pieces;
    this.#files = files;
    this.#signal = signal;
    let lengthBytes = 0;
    for (const piece of pieces) lengthBytes += "insert" in piece ? piece.lengthBytes : piece.byteLength;
    this.source = { lengthBytes, chunks: this.#chunks() };
  }

  /** Looks at the files that a sealed body names. Throws an `InsertFault`, or the signal's reason. */
  static async open(body: Uint8Array, files: InsertFiles, signal?: AbortSignal): Promise<InsertedBody> {
    const found: (Uint8Array | FoundInsert)[] = [];
    for (const piece of piecesOf(body))
      found.push(piece instanceof Uint8Array ? piece : await find(piece, files, signal));
    return new InsertedBody(found, files, signal);
  }

  /** Why reading failed; undefined where it did not. */
  get fault(): InsertFault | undefined {
    return this.#fault;
  }

  async *#chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (const piece of this.#pieces) {
        if ("insert" in piece) yield* writtenOf(piece, this.#files, this.#signal);
        else yield piece;
      }
      for (const piece of this.#pieces) if ("insert" in piece) await this.#assertSame(piece);
    } catch (error) {
      if (error instanceof InsertFault) this.#fault = error;
      throw error;
    }
  }

  async #assertSame({ insert: { source }, file }: FoundInsert): Promise<void> {
    if (file.isReadAsFound === true) return;
    const now = await this.#files.look(source, this.#signal);
    if (now.state !== file.state || now.sizeBytes !== file.sizeBytes) throw changed(source);
  }
}

async function find(insert: SealedInsert, files: InsertFiles, signal?: AbortSignal): Promise<FoundInsert> {
  const { source, encoding } = insert;
  const file = await files.look(source, signal);
  if (encoding === "base64") return { insert, file, lengthBytes: 4 * Math.ceil(file.sizeBytes / 3) };
  let lengthBytes = 0;
  for await (const chunk of escaped(files.read(source, file, signal), source))
    lengthBytes += chunk.byteLength;
  return { insert, file, lengthBytes };
}

function writtenOf(
  { insert: { source, encoding }, file }: FoundInsert,
  files: InsertFiles,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const bytes = bounded(files.read(source, file, signal), file.sizeBytes, source);
  return encoding === "base64" ? base64(bytes) : escaped(bytes, source);
}

async function* bounded(
  chunks: AsyncIterable<Uint8Array>,
  sizeBytes: number,
  source: InsertSource,
): AsyncGenerator<Uint8Array> {
  let readBytes = 0;
  for await (const chunk of chunks) {
    readBytes += chunk.byteLength;
    if (readBytes > sizeBytes) throw changed(source);
    yield chunk;
  }
  if (readBytes < sizeBytes) throw changed(source);
}

async function* base64(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let rest: Uint8Array = new Uint8Array(0);
  for await (const chunk of chunks) {
    const bytes = rest.byteLength === 0 ? chunk : Buffer.concat([rest, chunk]);
    const wholeBytes = bytes.byteLength - (bytes.byteLength % 3);
    rest = Uint8Array.from(bytes.subarray(wholeBytes));
    yield base64Of(bytes.subarray(0, wholeBytes));
  }
  yield base64Of(rest);
}

function base64Of(bytes: Uint8Array): Uint8Array {
  return Buffer.from(
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64"),
    "latin1",
  );
}

/** UTF-8 as the inside of a JSON string. */
async function* escaped(chunks: AsyncIterable<Uint8Array>, source: InsertSource): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const written = (text: string): Uint8Array => Buffer.from(JSON.stringify(text).slice(1, -1));
  try {
    for await (const chunk of chunks) yield written(decoder.decode(chunk, { stream: true }));
    yield written(decoder.decode());
  } catch (error) {
    if (errorCodeOf(error) !== "ERR_ENCODING_INVALID_ENCODED_DATA") throw error;
    throw new InsertFault(`${nameOf(source)} is sent as text, and is not UTF-8`, "file");
  }
}

function changed(source: InsertSource): InsertFault {
  const message = `${nameOf(source)} changed while it was read; leave it as it is while the run goes on`;
  return new InsertFault(message, "change");
}

/** As the line names it. */
export function nameOf(source: InsertSource): string {
  if ("path" in source) return `the file ${JSON.stringify(source.path)}`;
  if ("fileId" in source) return `the file ${source.fileId}`;
  return "s3" in source ? source.s3 : "a file at the provider";
}
