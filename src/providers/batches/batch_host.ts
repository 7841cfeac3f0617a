/**
 * Requests to a provider's batches, as data: to its own host with the credentials, and to addresses that its answers name.
 *
 * Limits: an address that an answer names gets the credentials only if its origin is the provider's own. It must be https, unless the
 * provider's base URL is http itself (a server on this machine).
 */
import { Buffer } from "node:buffer";
import type { BatchBody, BatchRequest } from "./batch_wire.ts";

type Query = Readonly<Record<string, string | undefined>>;

/** What a request holds beside its method and path. */
interface RequestContent {
  readonly query?: Query;
  /** More headers, lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON is what the headers say it is, unless they are given. */
  readonly body?: BatchBody;
}

/** The fixed part of a provider's requests. */
interface HostAddress {
  readonly origin: string;
  /** The base URL's query with its `?`, or empty; it stays in each request. */
  readonly search: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Makes requests to one provider. */
export interface BatchHost {
  request(method: BatchRequest["method"], path: string, parts?: RequestContent): BatchRequest;
  /** A request to an address that an answer named; undefined if it is not one that may be followed. */
  named(method: BatchRequest["method"], address: unknown, parts?: RequestContent): BatchRequest | undefined;
}

const NO_BODY: BatchBody = { kind: "bytes", bytes: new Uint8Array() };
/** All that a host gets that is not the provider's. */
const PUBLIC_HEADERS: readonly string[] = ["accept", "user-agent", "content-type"];

export function batchHost({ origin, search, headers }: HostAddress): BatchHost {
  return {
    request: (method, path, parts = {}) => ({
      method,
      origin,
      path: `${path}${queryOf(search, parts.query ?? {})}`,
      headers: { ...ofBody(headers, parts.body), ...parts.headers },
      body: parts.body ?? NO_BODY,
    }),
    named: (method, address, parts = {}) => {
      const url = typeof address === "string" && URL.canParse(address) ? new URL(address) : undefined;
      if (url === undefined || url.username !== "" || url.password !== "") return undefined;
      const isOwn = url.origin === origin;
      if (!isOwn && url.protocol !== "https:" && !(url.protocol === "http:" && origin.startsWith("http:")))
        return undefined;
      const sent = isOwn ? headers : withoutCredentials(headers);
      return {
        method,
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        headers: { ...ofBody(sent, parts.body), ...parts.headers },
        body: parts.body ?? NO_BODY,
      };
    },
  };
}

/** A body of JSON. */
export function jsonBody(value: unknown): BatchBody {
  return { kind: "bytes", bytes: Buffer.from(JSON.stringify(value)) };
}

/**
 * An id of a batch or a file as parts of a path; undefined for an invalid one: no id of a provider can lead to another path. `/` parts
 * what is before it from what is after it (`batches/abc`).
 */
export function remoteId(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= ID_CHARS_MAX && ID.test(value) ? value : undefined;
}

const ID_CHARS_MAX = 256;
const ID = /^[\w-][\w.:~-]*(?:\/[\w-][\w.:~-]*)*$/;

function queryOf(search: string, query: Query): string {
  const own = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) own.set(name, value);
  const added = own.toString();
  if (added === "") return search;
  return search === "" ? `?${added}` : `${search}&${added}`;
}

function ofBody(
  headers: Readonly<Record<string, string>>,
  body: BatchBody | undefined,
): Readonly<Record<string, string>> {
  if (body !== undefined) return headers;
  const { "content-type": _, ...others } = headers;
  return others;
}

function withoutCredentials(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => PUBLIC_HEADERS.includes(name)));
}
