/**
 * The results of a batch, element by element, as they arrive.
 *
 *   lines   split at newlines; a last line without one is an element, too, and may be torn
 *   array   the elements of one JSON array in the answer, which is read whole
 *   page    the same, page by page
 *   whole   the answer is the only element
 *
 * Limits: a line of 64 MiB; an answer with an array 32 MiB. Hot path: 50,000 lines a second and more (bench/lanes.ts).
 */
import type { BatchRequest, PageMembers, ResultSource } from "../../providers/batches/batch_wire.ts";
import { isObject } from "../../work/json.ts";
import { type BatchCalls, type LostAnswer, lostBy } from "./batch_calls.ts";

const LINE_BYTES_MAX = 64 * 1024 * 1024;
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
const NEWLINE = 0x0a;
const EMPTY: Buffer = Buffer.alloc(0);

/** One result. */
export interface ResultElement {
  readonly bytes: Uint8Array;
  /** Bytes of the source up to its end, this included; 0 where a source cannot be continued. */
  readonly endBytes: number;
}

/** Results that have arrived together, to be read before the next ones are asked for; or why no more can be read. */
export type ResultPart =
  | { readonly is: "elements"; readonly elements: Iterable<ResultElement> }
  | { readonly is: "refused"; readonly status: number; readonly body: Uint8Array }
  | { readonly is: "lost"; readonly lost: LostAnswer };

/** Reads a source from `skipBytes` on; ends after the first `refused` or `lost`. */
export async function* resultsOf(
  calls: BatchCalls,
  source: ResultSource,
  skipBytes: number,
  signal: AbortSignal,
): AsyncGenerator<ResultPart> {
  if (source.format === "lines") {
    yield* linesOf(calls, source.request, skipBytes, signal);
    return;
  }
  for (let request: BatchRequest | undefined = source.request; request !== undefined; ) {
    const answer = await calls.send(request, signal);
    if (!answer.ok) {
      yield { is: "lost", lost: answer };
      return;
    }
    if (answer.status === 200 && source.format === "whole") {
      yield { is: "elements", elements: [{ bytes: answer.body, endBytes: 0 }] };
      return;
    }
    const page = answer.status === 200 ? pageOf(answer.body, source.path ?? []) : undefined;
    if (page === undefined) {
      yield { is: "refused", status: answer.status, body: answer.body };
      return;
    }
    yield { is: "elements", elements: written(page.elements) };
    request = source.format === "page" ? source.next?.(page.members) : undefined;
  }
}

function* written(elements: readonly unknown[]): Generator<ResultElement> {
  for (const element of elements) yield { bytes: Buffer.from(JSON.stringify(element)), endBytes: 0 };
}

async function* linesOf(
  calls: BatchCalls,
  request: BatchRequest,
  skipBytes: number,
  signal: AbortSignal,
): AsyncGenerator<ResultPart> {
  const stream = await calls.stream(request, signal);
  if (!stream.ok) {
    yield { is: "lost", lost: stream };
    return;
  }
  if (stream.status !== 200) {
    yield { is: "refused", status: stream.status, body: await wholeOf(stream.chunks) };
    return;
  }
  let rest = EMPTY;
  let readBytes = 0;
  try {
    for await (const chunk of stream.chunks) {
      const before = readBytes;
      readBytes += chunk.byteLength;
      if (readBytes <= skipBytes) continue;
      const fresh = before < skipBytes ? chunk.subarray(skipBytes - before) : chunk;
      const bytes = rest.byteLength === 0 ? Buffer.from(fresh) : Buffer.concat([rest, fresh]);
      const { elements, restStart } = wholeLines(bytes, readBytes - bytes.byteLength);
      if (elements.length > 0) yield { is: "elements", elements };
      rest = bytes.subarray(restStart);
      if (rest.byteLength > LINE_BYTES_MAX) throw new Error("a line of the results is too long");
    }
  } catch (error) {
    yield { is: "lost", lost: lostBy(error) };
    return;
  }
  if (rest.byteLength > 0) yield { is: "elements", elements: [{ bytes: rest, endBytes: readBytes }] };
}

/** The lines that end in `bytes`, which begin after `beforeBytes` of the source; and where the rest begins. */
function wholeLines(
  bytes: Buffer,
  beforeBytes: number,
): { readonly elements: readonly ResultElement[]; readonly restStart: number } {
  const elements: ResultElement[] = [];
  let start = 0;
  for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
    if (end > start) elements.push({ bytes: bytes.subarray(start, end), endBytes: beforeBytes + end + 1 });
    start = end + 1;
  }
  return { elements, restStart: start };
}

async function wholeOf(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of chunks) {
      all.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > ANSWER_BYTES_MAX) break;
    }
  } catch (error) {
    lostBy(error); // what has arrived says enough of a refusal
  }
  return Buffer.concat(all);
}

/** The array at a path of an answer and the members beside its root; undefined if it has no array there. */
function pageOf(
  body: Uint8Array,
  path: readonly string[],
): { readonly elements: readonly unknown[]; readonly members: PageMembers } | undefined {
  let root: unknown;
  try {
    root = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch {
    return undefined;
  }
  let found = root;
  for (const name of path) found = isObject(found) ? found[name] : undefined;
  if (!Array.isArray(found)) return undefined;
  const members: Record<string, string | number | boolean | null> = {};
  if (isObject(root))
    for (const [name, value] of Object.entries(root))
      if (value === null || typeof value !== "object")
        members[name] = value as string | number | boolean | null; // of JSON
  return { elements: found, members };
}
