/**
 * Lines of the files of OpenAI and its like:
 *
 *   request   {"custom_id","method":"POST","url","body":{}}                      Mistral and Together: only custom_id and body
 *   result    {"custom_id","response":{"status_code","request_id","body":{}},"error":null}
 *
 * Reading a result, in this order: an answer with a status or a body -> answered, whatever `error` says (OpenAI: a 400 with
 * `error: null`; vLLM: a 400 whose body is in `error`); an error whose code is an HTTP status below 500 -> answered with that; all
 * else, `batch_expired` and `batch_cancelled` among it -> unfinished. Without an id there is no result.
 *
 * Hot: `resultOf` is called for each line of a file.
 */
import { jsonOf } from "../../work/json.ts";
import { errorFacts } from "../error_body.ts";
import { nameOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";
import { isShownCode } from "../key_text.ts";
import type { HeaderBag } from "../provider.ts";
import { answered } from "./batch_json.ts";
import type { BatchResult } from "./batch_wire.ts";

/** Characters of an id in a result; those that perigee makes have 64 at most. */
const ID_CHARS_MAX = 512;
const BODY = ["response", "body"] as const;
const CLOSE_BRACE = 0x7d;

/** A request as a line, without a newline. `members`: JSON between id and body, empty or with a comma at its end. */
export function requestLine(id: string, members: string, body: Uint8Array): Uint8Array {
  const head = `{"custom_id":"${id}",${members}"body":`; // ASCII, as ids are
  const line = Buffer.allocUnsafe(head.length + body.byteLength + 1);
  line.write(head, "latin1");
  line.set(body, head.length);
  line[line.byteLength - 1] = CLOSE_BRACE;
  return line;
}

/** Bytes that `requestLine` and a newline add to a body. */
export function lineOverhead(members: string, idCharacters: number): number {
  return requestLine("", members, new Uint8Array()).byteLength + idCharacters + 1;
}

/** A result, from the bytes of a line. Total. */
export function resultOf(element: Uint8Array): BatchResult {
  const line = objectOf(parseJson(element));
  const id = stringOf(line?.["custom_id"]);
  if (line === undefined || id === undefined || id.length > ID_CHARS_MAX) {
    const what = line === undefined ? "torn or not JSON" : "without a custom_id";
    return { is: "unreadable", message: `a line of ${element.byteLength} bytes is ${what}` };
  }
  const error = line["error"] ?? undefined;
  const response = objectOf(line["response"]);
  return (
    (response === undefined ? undefined : answeredBy(id, element, line, error)) ??
    refusedBy(id, error) ??
    unfinished(id, error)
  );
}

function answeredBy(
  id: string,
  element: Uint8Array,
  line: Unchecked,
  error: unknown,
): BatchResult | undefined {
  const response = objectOf(line["response"]) ?? {};
  const status = statusOf(response["status_code"]);
  const requestId = nameOf(response["request_id"]);
  const headers: HeaderBag = requestId === undefined ? {} : { "x-request-id": requestId };
  const body = response["body"] ?? undefined;
  if (typeof body === "string") return answeredWith(id, status ?? 200, headers, body);
  if (body !== undefined) return answered(id, status ?? 200, { element, line, path: BODY }, headers);
  if (status === undefined || (status < 400 && error !== undefined)) return undefined;
  return answeredWith(id, status, headers, error === undefined ? "" : withError(error));
}

/** An error that names the status of its answer, which is below 500. */
function refusedBy(id: string, error: unknown): BatchResult | undefined {
  const status = error === undefined ? undefined : errorFacts(error).status;
  return status === undefined || status >= 500 ? undefined : answeredWith(id, status, {}, withError(error));
}

function unfinished(id: string, error: unknown): BatchResult {
  const code = errorFacts(error).codes.find(isShownCode) ?? "unknown";
  return { is: "unfinished", id, code, message: `the batch ended before this request (${code})` };
}

/** With a body that is not a member of its line. One that is a text is JSON in itself. */
function answeredWith(id: string, status: number, headers: HeaderBag, body: unknown): BatchResult {
  const json = typeof body === "string" ? body : jsonOf(body);
  if (json === undefined) return { is: "unreadable", message: "an answer is nested too deeply" };
  return { is: "answered", id, status, headers, body: Buffer.from(json) };
}

function withError(error: unknown): unknown {
  return objectOf(error)?.["error"] === undefined ? { error } : error;
}

function statusOf(value: unknown): number | undefined {
  const status = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return Number.isInteger(status) && (status as number) >= 100 && (status as number) <= 599
    ? (status as number) // an integer by the first test
    : undefined;
}
