/**
 * Headers between a client, the router and the worker that answers: passed on unchanged, except those of one connection (RFC 9110, 7.6.1)
 * and those that only workers may set.
 */
import type { IncomingMessage } from "node:http";

/** The fleet's secret: proves that a worker sent the request. */
export const SECRET_HEADER = "x-perigee-fleet";
/** The partition that is to answer. */
export const PART_HEADER = "x-perigee-part";
/** In an answer of a worker that does not have the partition: the request was not read. */
export const ELSEWHERE_HEADER = "x-perigee-elsewhere";
/** Its value while the worker still has the partition, and hands it over. Workers of earlier versions read only that there is a value. */
export const DRAINING = "draining";

/** Each hop answers `expect` itself. `transfer-encoding` is passed on: Node sends the body accordingly. */
const OF_ONE_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "upgrade",
  "expect",
]);
const OF_WORKERS = new Set([SECRET_HEADER, PART_HEADER, ELSEWHERE_HEADER]);
const FORWARDED = "x-forwarded-for";
/** Meant for the service: a `Connection` that names them does not remove them. Without a length, a body would be read as a request. */
const OF_ALL_HOPS = new Set([
  "host",
  "authorization",
  "content-length",
  "transfer-encoding",
  "idempotency-key",
  FORWARDED,
]);

/** The headers for the next hop: names and values in turn, as in `rawHeaders`. `connection`: the value of that header. */
export function passedHeaders(raw: readonly string[], connection: string | undefined): string[] {
  const named = new Set(
    (connection ?? "")
      .toLowerCase()
      .split(",")
      .map((name) => name.trim()),
  );
  const passed: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = (raw[at] as string).toLowerCase();
    if (!OF_ONE_HOP.has(name) && !OF_WORKERS.has(name) && (!named.has(name) || OF_ALL_HOPS.has(name)))
      passed.push(raw[at] as string, raw[at + 1] as string);
  }
  return passed;
}

/** A body that is in memory is sent with its own length. */
export function withoutFraming(raw: readonly string[]): string[] {
  return without(raw, (name) => name === "transfer-encoding" || name === "content-length");
}

/** Without `transfer-encoding`: Node encodes the answer again, for the client's version of HTTP. */
export function withoutCoding(raw: readonly string[]): string[] {
  return without(raw, (name) => name === "transfer-encoding");
}

function without(raw: readonly string[], isDropped: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let at = 0; at < raw.length; at += 2)
    if (!isDropped((raw[at] as string).toLowerCase())) kept.push(raw[at] as string, raw[at + 1] as string);
  return kept;
}

/**
 * Sets a request's `X-Forwarded-For` to its client's address only, which the service then trusts: the address that a trusted proxy added
 * last, or that of the connection. A request of HTTP/1.0 may have no `Host`; it gets an empty one, because the next hop is HTTP/1.1 (RFC 9112, 3.2).
 */
export function noteClient(request: IncomingMessage, isBehindProxy: boolean): void {
  const given = request.headers[FORWARDED];
  const last = (Array.isArray(given) ? given.join(",") : given)?.split(",").at(-1)?.trim();
  const address = (isBehindProxy && last !== "" ? last : undefined) ?? request.socket.remoteAddress ?? "";
  dropHeaders(request, (name) => name === FORWARDED || OF_WORKERS.has(name));
  request.headers[FORWARDED] = address;
  request.rawHeaders.push("X-Forwarded-For", address);
  if (request.httpVersion !== "1.0" || request.headers.host !== undefined) return;
  request.headers.host = "";
  request.rawHeaders.push("Host", "");
}

/** Removes the headers that only workers read, before the service sees the request. */
export function dropWorkerHeaders(request: IncomingMessage): void {
  dropHeaders(request, (name) => OF_WORKERS.has(name) || name === "expect");
}

function dropHeaders(request: IncomingMessage, isDropped: (name: string) => boolean): void {
  const { rawHeaders, headers } = request;
  for (const name of Object.keys(headers)) if (isDropped(name)) delete headers[name];
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2)
    if (isDropped((rawHeaders[at] as string).toLowerCase())) rawHeaders.splice(at, 2);
}
