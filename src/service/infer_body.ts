/**
 * The body of POST /v0/infer/: one JSON array of request items, checked one by one.
 *
 * Up to 1 MiB it comes parsed; beyond that its elements are read as they come, in flat memory. Limits: 1 GiB,
 * 1,000,000 items, 64 levels. A wrong item is told by its index; what is behind it is read and forgotten, so that a
 * client that writes first can read the answer.
 */
import type { IncomingMessage } from "node:http";
import { PerigeeError } from "../errors.ts";
import { arrayLines } from "../jsonl/array.ts";
import type { RequestItem } from "../tasks/requests.ts";
import type { FastifyRequest } from "./fastify.ts";
import { checkItem } from "./infer_schema.ts";
import { lengthOf, tooLarge } from "./json_body.ts";

const BODY_BYTES_MAX = 1024 * 1024 * 1024;
const ITEMS_MAX = 1_000_000;

/** Throws `usage`, `too_many` or `too_large`, at once for a body that has come, while it is iterated otherwise. `bytes` are read in place of a streamed body. */
export function itemsOf(
  request: FastifyRequest,
  bytes?: AsyncIterable<Uint8Array>,
): readonly RequestItem[] | AsyncIterable<RequestItem> {
  const { body, raw } = request;
  return body === raw ? streamedItems(raw, bytes ?? bodyBytes(raw)) : checkedItems(body);
}

/** The bytes of a body that is streamed; throws `too_large` at once when it says that it is. */
export function bodyBytes(raw: IncomingMessage): AsyncIterable<Uint8Array> {
  if (lengthOf(raw) > BODY_BYTES_MAX) throw tooLarge(BODY_BYTES_MAX);
  return boundedBytes(raw);
}

/** Items of a whole body. */
export function checkedItems(body: unknown): readonly RequestItem[] {
  if (!Array.isArray(body))
    throw new PerigeeError("usage", "the body must be a JSON array of items", { details: { param: "body" } });
  refuseCount(body.length);
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
): AsyncGenerator<RequestItem> {
  let index = 0;
  try {
    for await (const elements of arrayLines(bytes)) {
      for (const element of elements) {
        if (element.kind === "refused") throw wrongItem(index, undefined, refusalText(element.code));
        yield checkedItem(JSON.parse(element.text), index);
        index += 1;
        if (index > ITEMS_MAX) refuseCount(index);
      }
    }
    refuseCount(index);
  } finally {
    raw.resume();
  }
}

async function* boundedBytes(raw: IncomingMessage): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  // Leaving the loop must not destroy the request: its socket carries the answer.
  for await (const chunk of raw.iterator({ destroyOnReturn: false })) {
    bytes += (chunk as Buffer).length;
    if (bytes > BODY_BYTES_MAX) throw tooLarge(BODY_BYTES_MAX);
    yield chunk as Buffer;
  }
}

function refuseCount(count: number): void {
  if (count === 0)
    throw new PerigeeError("usage", "a task needs at least one item", { details: { param: "body" } });
  if (count > ITEMS_MAX)
    throw new PerigeeError(
      "too_many",
      `a task has at most ${ITEMS_MAX} items; send the others as a further task`,
    );
}

function wrongItem(index: number, field: string | undefined, message: string): PerigeeError {
  const param = field === undefined ? String(index) : `${index}.${field}`;
  return new PerigeeError("usage", `item ${index}: ${message}`, { details: { param } });
}

function refusalText(code: "line_too_long" | "too_deep"): string {
  return code === "too_deep" ? "nested too deeply" : "larger than an item may be";
}
