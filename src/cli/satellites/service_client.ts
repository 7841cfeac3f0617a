/**
 * Requests of the command line to a running service, with the key in `PERIGEE_API_KEY`.
 *
 * Limits: 30 s a request. Redirects are errors: they would carry the key elsewhere. Without TLS only this machine is called.
 */
import { PerigeeError } from "../../errors.ts";

const REQUEST_MS = 30_000;
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

export interface ServiceCall {
  readonly method: string;
  /** Below `/v1`, where the bare key is taken. */
  readonly path: string;
  readonly body?: unknown;
}

/** What a service says of a refusal. */
interface Refusal {
  readonly error?: { readonly code?: unknown; readonly message?: unknown };
}

/**
 * Resolves with the body of an answer of 2xx. Throws `usage` for a URL or key that is not valid and for a service that does not
 * answer, `unauthenticated`, `forbidden` and `not_found` as the service says, `invalid_request` for its other refusals.
 */
export async function callService(
  { url, key }: { readonly url: string; readonly key: string | undefined },
  { method, path, body }: ServiceCall,
): Promise<unknown> {
  const base = checkedUrl(url);
  if (key === undefined || !/^[\x21-\x7e]+$/.test(key))
    throw new PerigeeError("usage", "PERIGEE_API_KEY must hold a key of the project");
  const response = await fetch(base + path, {
    method,
    headers: { authorization: key, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    redirect: "error",
    signal: AbortSignal.timeout(REQUEST_MS),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch((cause: unknown) => {
    throw new PerigeeError("usage", `${base} does not answer`, { cause });
  });
  const text = await response.text();
  const answer: unknown = text.startsWith("{") ? JSON.parse(text) : {};
  if (response.ok) return answer;
  const { error } = answer as Refusal; // checked member by member
  const message = typeof error?.message === "string" ? error.message : `${base} answered ${response.status}`;
  throw new PerigeeError(codeOf(response.status), message);
}

function checkedUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol))
    throw new PerigeeError("usage", `--url must begin with https:// or http://, got ${JSON.stringify(url)}`);
  if (parsed.protocol === "http:" && !LOOPBACK.test(parsed.hostname))
    throw new PerigeeError("usage", "refusing to send a key over http: it would be readable on the network");
  return url.replace(/\/+$/, "");
}

function codeOf(status: number): "unauthenticated" | "forbidden" | "not_found" | "invalid_request" {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "forbidden";
  return status === 404 ? "not_found" : "invalid_request";
}
