/**
 * The body of POST /v0/infer/: one JSON array of request items, checked one by one.
 *
 * Up to 1 MiB it arrives parsed; beyond that its elements are read as they arrive, in constant memory. Limits, unless the operator
 * has set lower ones: 1 GiB, 1,000,000 items; 64 levels. The error of a wrong item names its index; what follows it is read and
 * forgotten, so that a client that writes first can read the answer.
 *
 * What is not a list is refused in the same way in both cases; of one that does not begin as a list at most 10 MiB are kept to see whether it
 * is JSON at all.
 */
import type { IncomingMessage } from "node:http";
import type { RequestBounds } from "../../engine/config/config_options.ts";
import { PerigeeError } from "../../errors.ts";
import { arrayLines } from "../../jsonl/array.ts";
import type { RequestItem } from "../../tasks/shapes/requests.ts";
import { checkItem } from "../shapes/item_schema.ts";
import type { FastifyRequest } from "./fastify.ts";
import {
  JSON_BYTES_MAX,
  lengthOf,
  notJson,
  notUtf8,
  parseBody,
  parsePart,
  tooDeep,
  tooLarge,
} from "./json_body.ts";

/** How large a POST may be. */
export type BodyBounds = Pick<RequestBounds, "items" | "bodyBytes">;

const BODY_BYTES_MAX = 1024 * 1024 * 1024;
const ITEMS_MAX = 1_000_000;
/** Space, tab, line ends, and the three bytes of the mark. */
const BLANK = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
/** Node's code of what a decoder throws. */
const NOT_UTF8 = "ERR_ENCODING_INVALID_ENCODED_DATA";

/** Throws `usage`, `too_many` or `too_large`, at once for a body that has arrived, while it is iterated otherwise. `bytes` are read in place of a streamed body. */
export function itemsOf(
  request: FastifyRequest,
  bounds: BodyBounds | undefined,
  bytes?: AsyncIterable<Uint8Array>,
): readonly RequestItem[] | AsyncIterable<RequestItem> {
  const { body, raw } = request;
  if (body !== raw) return checkedItems(body, bounds);
  return streamedItems(raw, bytes ?? bodyBytes(raw, bounds), bounds?.items);
}

/** The bytes of a body that is streamed; throws `too_large` at once when it says that it is. */
export function bodyBytes(raw: IncomingMessage, bounds: BodyBounds | undefined): AsyncIterable<Uint8Array> {
  const bytesMax = bounds?.bodyBytes ?? BODY_BYTES_MAX;
  if (lengthOf(raw) > bytesMax) throw tooLarge(bytesMax);
  return boundedBytes(raw, bytesMax);
}

/** Items of a whole body. */
export function checkedItems(body: unknown, bounds: BodyBounds | undefined): readonly RequestItem[] {
  if (!Array.isArray(body)) throw noList();
  refuseCount(body.length, bounds?.items);
  return body.map(checkedItem);
}

function checkedItem(value: unknown, index: number): RequestItem {
  const found = checkItem(value);
  if (!("message" in found)) return found;
  throw wrongItem(index, found.field, found.message);
}

async function* streamedItems(
  raw: IncomingMessage,
  bytes: AsyncIterable<Uint8Array>,
  itemsMax = ITEMS_MAX,
): AsyncGenerator<RequestItem> {
  let index = 0;
  try {
    for await (const elements of arrayLines(listBytes(bytes))) {
      for (const element of elements) {
        if (element.kind === "refused") throw refusedElement(index, element.code);
        yield checkedItem(itemIn(element.text, index), index);
        index += 1;
        if (index > itemsMax) refuseCount(index, itemsMax);
      }
    }
    refuseCount(index, itemsMax);
  } catch (error) {
    throw asWhole(error);
  } finally {
    raw.resume();
  }
}

function itemIn(text: string, index: number): unknown {
  const value = parsePart(text, index);
  if (value instanceof PerigeeError) throw value;
  return value;
}

/** The bytes of a list as they arrive. What begins as something else is refused as a whole body would be. */
async function* listBytes(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const begun: Uint8Array[] = [];
  let begunBytes = 0;
  let isList: boolean | undefined;
  for await (const chunk of bytes) {
    isList ??= beginsList(chunk);
    if (isList !== true) {
      begun.push(chunk);
      begunBytes += chunk.length;
      if (begunBytes > JSON_BYTES_MAX) throw noList();
      continue;
    }
    yield* begun.splice(0);
    yield chunk;
  }
  if (isList === true) return;
  const parsed = parseBody(Buffer.concat(begun));
  throw parsed instanceof PerigeeError ? parsed : noList();
}

/** Undefined when there is nothing but blanks and parts of a byte order mark. */
function beginsList(chunk: Uint8Array): boolean | undefined {
  const first = chunk.find((byte) => !BLANK.has(byte));
  return first === undefined ? undefined : first === 0x5b;
}

/** What stops the reading of a list is reported in the words for a whole body, with its place. */
function asWhole(error: unknown): unknown {
  if (!(error instanceof PerigeeError) || error.code !== "invalid_array") return error;
  const { cause, details } = error;
  if (cause instanceof TypeError && "code" in cause && cause.code === NOT_UTF8) return notUtf8();
  return notJson(Number(details["fromElement"]));
}

function noList(): PerigeeError {
  return new PerigeeError("usage", "the body must be a JSON array of items", { details: { param: "body" } });
}

async function* boundedBytes(raw: IncomingMessage, bytesMax: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  // Leaving the loop must not destroy the request: its socket carries the answer.
  for await (const chunk of raw.iterator({ destroyOnReturn: false })) {
    bytes += (chunk as Buffer).length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    yield chunk as Buffer;
  }
}

function refuseCount(count: number, itemsMax = ITEMS_MAX): void {
  if (count === 0)
    throw new PerigeeError("usage", "a task needs at least one item", { details: { param: "body" } });
  if (count > itemsMax)
    throw new PerigeeError(
      "too_many",
      `a request has at most ${itemsMax} items; send the others as a further task`,
    );
}

function wrongItem(index: number, field: string | undefined, message: string): PerigeeError {
  const param = field === undefined ? String(index) : `${index}.${field}`;
  return new PerigeeError("usage", `item ${index}: ${message}`, { details: { param } });
}

function refusedElement(index: number, code: "line_too_long" | "too_deep"): PerigeeError {
  if (code === "too_deep") return tooDeep(`item ${index}`, String(index));
  return wrongItem(index, undefined, "larger than an item may be");
}
