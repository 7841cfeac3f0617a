/**
 * The bytes of a request whose body names files (providers/inserts.ts): its JSON with the content of each in its place.
 *
 *   all files looked at (their sizes make the length of the request) -> sent: each read in turn -> all looked at again
 *     --missing, no regular file, empty, too large, no text---> refused: nothing is sent
 *     --the disk's fault, or changed since it was looked at---> failed: the last bytes are not sent, so nobody answers it
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
}

/** Port: the files of one item. Both reject with an `InsertFault`, or with the system's own errors. */
export interface InsertFiles {
  look(source: InsertSource): Promise<InsertFile>;
  /** The content from its start; closed when the iterator ends or returns. Each chunk is valid until the next is asked for. */
  read(source: InsertSource): AsyncIterable<Uint8Array>;
}

/** Why a file was not sent; the message names it. */
export class InsertFault extends Error {
  /** Whether another try would find the same. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal: boolean) {
    super(message);
    this.name = "InsertFault";
    this.isFinal = isFinal;
  }
}

interface FoundInsert {
  readonly insert: SealedInsert;
  readonly file: InsertFile;
  /** In the request. */
  readonly lengthBytes: number;
}

/** The codes for what stays as it is until somebody changes it. */
const FINAL_CODES: ReadonlySet<string | undefined> = new Set([
  ...["ENOENT", "ENOTDIR", "EISDIR", "EACCES", "EPERM", "ELOOP", "ENAMETOOLONG", "ERR_INVALID_ARG_VALUE"],
  ...["not_found", "file_damaged"], // of stored files
]);

/** One attempt's request. */
export class InsertedBody {
  readonly source: RequestSource;
  readonly #pieces: readonly (Uint8Array | FoundInsert)[];
  readonly #files: InsertFiles;
  #fault: InsertFault | undefined;

  private constructor(pieces: readonly (Uint8Array | FoundInsert)[], files: InsertFiles) {
    this.#pieces = pieces;
    this.#files = files;
    let lengthBytes = 0;
    for (const piece of pieces) lengthBytes += "insert" in piece ? piece.lengthBytes : piece.byteLength;
    this.source = { lengthBytes, chunks: this.#chunks() };
  }

  /** Looks at the files that a sealed body names. Throws an `InsertFault`. */
  static async open(body: Uint8Array, files: InsertFiles): Promise<InsertedBody> {
    const found: (Uint8Array | FoundInsert)[] = [];
    for (const piece of piecesOf(body))
      found.push(piece instanceof Uint8Array ? piece : await find(piece, files));
    return new InsertedBody(found, files);
  }

  /** Why reading failed; undefined where it did not. */
  get fault(): InsertFault | undefined {
    return this.#fault;
  }

  async *#chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (const piece of this.#pieces) {
        if ("insert" in piece) yield* writtenOf(piece, this.#files);
        else yield piece;
      }
      for (const piece of this.#pieces) if ("insert" in piece) await assertSame(piece, this.#files);
    } catch (error) {
      this.#fault = error as InsertFault; // nothing else is thrown there
      throw error;
    }
  }
}

async function find(insert: SealedInsert, files: InsertFiles): Promise<FoundInsert> {
  try {
    const file = await files.look(insert.source);
    if (insert.encoding === "base64") return { insert, file, lengthBytes: 4 * Math.ceil(file.sizeBytes / 3) };
    let lengthBytes = 0;
    for await (const chunk of escaped(files.read(insert.source))) lengthBytes += chunk.byteLength;
    return { insert, file, lengthBytes };
  } catch (error) {
    throw faultOf(error, insert.source);
  }
}

async function* writtenOf({ insert, file }: FoundInsert, files: InsertFiles): AsyncGenerator<Uint8Array> {
  const { source, encoding } = insert;
  try {
    const bytes = bounded(files.read(source), file.sizeBytes, source);
    yield* encoding === "base64" ? base64(bytes) : escaped(bytes);
  } catch (error) {
    throw faultOf(error, source);
  }
}

async function assertSame({ insert: { source }, file }: FoundInsert, files: InsertFiles): Promise<void> {
  try {
    const now = await files.look(source);
    if (now.state !== file.state || now.sizeBytes !== file.sizeBytes) throw changed(source);
  } catch (error) {
    throw faultOf(error, source);
  }
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
async function* escaped(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const written = (text: string): Uint8Array => Buffer.from(JSON.stringify(text).slice(1, -1));
  for await (const chunk of chunks) yield written(decoder.decode(chunk, { stream: true }));
  yield written(decoder.decode());
}

function changed(source: InsertSource): InsertFault {
  return new InsertFault(
    `${nameOf(source)} changed while it was read; leave it as it is while the run goes on`,
    false,
  );
}

function faultOf(error: unknown, source: InsertSource): InsertFault {
  if (error instanceof InsertFault) return error;
  const code = errorCodeOf(error);
  if (code === "ERR_ENCODING_INVALID_ENCODED_DATA")
    return new InsertFault(`${nameOf(source)} is sent as text, and is not UTF-8`, true);
  const isFinal = FINAL_CODES.has(code);
  return new InsertFault(`${nameOf(source)} cannot be read (${code ?? "unknown reason"})`, isFinal);
}

/** As the line names it. */
export function nameOf(source: InsertSource): string {
  if ("path" in source) return `the file ${JSON.stringify(source.path)}`;
  if ("fileId" in source) return `the file ${source.fileId}`;
  return "s3" in source ? source.s3 : "a file at the provider";
}
