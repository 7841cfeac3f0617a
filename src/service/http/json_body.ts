/**
 * JSON bodies: read whole and parsed up to 10 MiB, or passed on unread to a route that streams them.
 *
 * Hot path: every POST of one item; a body of 100 bytes takes some microseconds.
 */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { PerigeeError } from "../../errors.ts";
import { readDocument } from "../../jsonl/document.ts";
import { shown } from "../../jsonl/fault.ts";
import { DEPTH_MAX as LINE_DEPTH_MAX } from "../../jsonl/record.ts";
import type { FastifyInstance, FastifyRequest } from "./fastify.ts";

/** A body that is parsed at once has at most so many bytes. */
export const JSON_BYTES_MAX: number = 10 * 1024 * 1024;
/** From here on a route that streams gets the body unread. */
const STREAMED_BYTES_MIN = 1024 * 1024;

/** Objects and lists around a value, at most: the depth of a line in a file, and the list of items. */
const DEPTH_MAX = LINE_DEPTH_MAX + 1;

/** With it the bytes of a request's body are kept, too. */
export const KEY_HEADER = "idempotency-key";

type Done = (error: Error | null, body?: unknown) => void;

/** Takes only `application/json`; everything else is 415. */
export function registerJsonBody(app: FastifyInstance): void {
  app.decorateRequest("wholeBody", undefined);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", readJson);
}

function readJson(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  const length = lengthOf(payload);
  if (!isUtf8Charset(payload.headers["content-type"])) {
    done(Object.assign(new Error("charset"), { statusCode: 415 }));
    return;
  }
  if (request.routeOptions.config.streamsBody === true && !(length <= STREAMED_BYTES_MIN)) {
    done(null, payload);
    return;
  }
  if (length > JSON_BYTES_MAX) done(tooLarge(JSON_BYTES_MAX));
  else collect(request, payload, done);
}

/** NaN without the header. */
export function lengthOf({ headers }: IncomingMessage): number {
  return Number(headers["content-length"] ?? Number.NaN);
}

export function tooLarge(bytesMax: number): PerigeeError {
  return new PerigeeError("too_large", `the body has more than ${bytesMax} bytes`);
}

function collect(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isOver = false;
  const finish = (error: Error | null, body?: unknown): void => {
    if (isOver) return;
    isOver = true;
    done(error, body);
  };
  payload.on("data", (chunk: Buffer) => {
    if (isOver) return; // read on, so that the answer can be read by a client that writes first
    bytes += chunk.length;
    if (bytes > JSON_BYTES_MAX) finish(tooLarge(JSON_BYTES_MAX));
    else chunks.push(chunk);
  });
  payload.on("end", () => {
    if (isOver) return;
    const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    if (payload.headers[KEY_HEADER] !== undefined) request.wholeBody = whole;
    const parsed = parseBody(whole);
    if (parsed instanceof PerigeeError) finish(parsed);
    else finish(null, parsed);
  });
  payload.on("error", (error) => finish(error));
}

/** Undefined for an empty or blank body; an error for one that is not valid JSON, is too deep, or has a member twice. */
export function parseBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) return notUtf8();
  const text = bytes.toString("utf8");
  const read = readDocument(text, DEPTH_MAX);
  switch (read.kind) {
    case "value":
      return read.value;
    case "not_json": // V8's message quotes the text, which may be a prompt
      return text.trim() === "" ? undefined : notJson();
    case "too_deep":
      return tooDeep("the body");
    case "repeated": {
      const { name, path, element } = read.member;
      return path.startsWith("[") ? repeated(name, `item ${element}: `, String(element)) : repeated(name);
    }
  }
}

/** Reads an item of a streamed body as `parseBody` does; `index` is its place in the list, from 0. */
export function parsePart(text: string, index: number): unknown {
  const read = readDocument(text, DEPTH_MAX);
  if (read.kind === "value") return read.value;
  if (read.kind === "repeated") return repeated(read.member.name, `item ${index}: `, String(index));
  return read.kind === "too_deep" ? tooDeep(`item ${index}`, String(index)) : notJson(index + 1);
}

/** As in files: readers do not agree on which of two members with one name counts. */
function repeated(name: string, place = "", param = "body"): PerigeeError {
  const message = `${place}the member ${shown(name)} occurs twice in one object`;
  return new PerigeeError("usage", message, { details: { param } });
}

/** The refusal of a text that is nested too deeply; `what` names it in the message. */
export function tooDeep(what: string, param = "body"): PerigeeError {
  return new PerigeeError("too_deep", `${what} is nested deeper than ${DEPTH_MAX} levels`, {
    details: { param },
  });
}

export function notUtf8(): PerigeeError {
  return new PerigeeError("invalid_request", "the body is not UTF-8");
}

/** `fromElement`: of a long list, the first that may be at fault, from 1. */
export function notJson(fromElement?: number): PerigeeError {
  return new PerigeeError("invalid_request", "the body is not JSON", {
    details: fromElement === undefined ? {} : { fromElement },
  });
}

/** JSON is UTF-8 (RFC 8259, 8.1). */
function isUtf8Charset(contentType: string | undefined): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType ?? "")?.[1];
  return charset === undefined || /^(utf-?8|us-ascii)$/i.test(charset);
}
