/**
 * Requests whose bodies name files: sent as streams in which the files' content is in its place.
 *
 *   sealed body -> its files are checked -> stream of the transport below -> its answer
 *                  --a file cannot be sent--> `source_refused`; `source_failed` where another try may find it otherwise;
 *                                             `source_away` where its disk or store is to blame
 *
 * Limit: an answer of 32 MiB, as of every other request.
 */
import { Buffer } from "node:buffer";
import type {
  FailedWire,
  SendOptions,
  StreamOptions,
  StreamRequest,
  Transport,
  WireRequest,
  WireResult,
  WireStream,
} from "../transport.ts";
import { WireError } from "../transport.ts";
import { InsertedBody, InsertFault, type InsertFiles } from "./inserted_body.ts";

const ANSWER_BYTES_MAX = 32 * 1024 * 1024;

/** For one call: `files` are those that it may read. Closing it is not its own. */
export class InsertTransport implements Transport {
  readonly #below: Transport;
  readonly #files: InsertFiles;

  constructor(below: Transport, files: InsertFiles) {
    this.#below = below;
    this.#files = files;
  }

  async send(request: WireRequest, options: SendOptions): Promise<WireResult> {
    const stream = await this.stream(request, { ...options, bytesMax: ANSWER_BYTES_MAX });
    return stream.ok ? readWhole(stream) : stream;
  }

  async stream(request: StreamRequest, options: StreamOptions): Promise<WireStream> {
    const { body } = request;
    if ("chunks" in body) return this.#below.stream(request, options);
    const { signal } = options;
    try {
      const stream = await this.#sent({ ...request, body }, options);
      if (stream.ok || stream.failure !== "source_away") return stream;
      await this.#files.pause(options.timeoutMs, signal);
      return stream;
    } catch (error) {
      if (signal?.aborted !== true) throw error;
      return { ok: false, failure: "aborted", message: "ended while its files were read" };
    }
  }

  async #sent(request: WireRequest, options: StreamOptions): Promise<WireStream> {
    let body: InsertedBody;
    try {
      body = await InsertedBody.open(request.body, this.#files, options.signal);
    } catch (error) {
      if (error instanceof InsertFault) return failed(error);
      throw error;
    }
    const stream = await this.#below.stream({ ...request, body: body.source }, options);
    if (stream.ok || stream.failure !== "source_failed") return stream;
    return body.fault === undefined ? stream : failed(body.fault);
  }

  close(): Promise<void> {
    return this.#below.close();
  }
}

const FAILURES = { file: "source_refused", change: "source_failed", place: "source_away" } as const;

function failed({ message, blamed }: InsertFault): FailedWire {
  return { ok: false, failure: FAILURES[blamed], message };
}

/** The whole answer of a stream. */
export async function readWhole({
  status,
  headers,
  chunks,
}: WireStream & { readonly ok: true }): Promise<WireResult> {
  const parts: Uint8Array[] = [];
  try {
    for await (const chunk of chunks) parts.push(chunk);
  } catch (error) {
    return failureOf(error);
  }
  return { ok: true, status, headers, body: Buffer.concat(parts) };
}

/** Why an answer broke off. */
export function failureOf(error: unknown): FailedWire {
  if (error instanceof WireError) return { ok: false, failure: error.failure, message: error.message };
  throw error;
}
