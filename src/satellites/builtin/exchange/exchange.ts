/**
 * The one place where the satellites of this folder send HTTP requests: through the guard, once, and statuses as the
 * failures of attempts.
 *
 *   2xx                         fine
 *   408, 425, 429, 503          refused: nothing was done, try later (Retry-After is kept)
 *   other 5xx                   ambiguous: it may have been done
 *   410, 3xx, all others        permanent; redirects are not followed
 */
import { retryAfterMs } from "../../../providers/retry_after.ts";
import type { GuardedResponse } from "../../sdk/guarded_http.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError, type SatelliteFailure } from "../../sdk/satellite_error.ts";
import { holdsSecret, TIMEOUT_MS } from "./receiver_fields.ts";

/** One request, as an encoder makes it. */
export interface Outgoing {
  readonly url: string;
  /** Default `POST`. */
  readonly method?: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
}

/** Bounds of one exchange; those of the runtime hold besides. */
export interface ExchangeOptions {
  readonly timeoutMs?: number;
  /** Of the answer's body, the first bytes. Default 64 KiB. */
  readonly answerBytesMax?: number;
}

/**
 * Of an execution, with an answer of 5xx or no answer: some eight hours at the runtime's waits of up to 5 minutes, so that it is the sla
 * that ends most. A receiver that is down for lunch has its webhook after it.
 */
export const ATTEMPTS_MAX: number = 200;

const ANSWER_BYTES_MAX = 64 * 1024;
const USER_AGENT = "perigee-satellites/1";
const REFUSED: readonly number[] = [408, 425, 429, 503];

/** Resolves with any status; throws `SatelliteError` as `GuardedHttp` does. */
export function send(
  { http, signal }: Pick<SatelliteCall, "http" | "signal">,
  { url, method = "POST", headers, body }: Outgoing,
  { timeoutMs = TIMEOUT_MS, answerBytesMax = ANSWER_BYTES_MAX }: ExchangeOptions = {},
): Promise<GuardedResponse> {
  return http.request({
    url,
    method,
    headers: { "user-agent": USER_AGENT, ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? new TextEncoder().encode(body) : body }),
    timeoutMs,
    responseBytesMax: answerBytesMax,
    signal,
  });
}

/** Undefined for 2xx. */
export function failureOf(status: number): SatelliteFailure | undefined {
  if (status >= 200 && status < 300) return undefined;
  if (REFUSED.includes(status)) return "refused";
  return status >= 500 ? "ambiguous" : "permanent";
}

/** Undefined for 2xx. `reason` is the receiver's own short code, when it gave one. */
export function errorOf(
  response: Pick<GuardedResponse, "status" | "headers">,
  { wallMs, reason, failure = failureOf(response.status) }: ServiceErrorFacts,
): SatelliteError | undefined {
  if (failure === undefined) return undefined;
  const { status, headers } = response;
  const waitMs = failure === "permanent" ? undefined : retryAfterMs(headers, wallMs);
  const told = shortCode(reason);
  return new SatelliteError(
    failure,
    codeOf(status),
    `the receiver answered ${status}${told === undefined ? "" : ` (${told})`}`,
    waitMs === undefined ? {} : { retryAfterMs: waitMs },
  );
}

/** What an error is made of besides the answer itself. */
export interface ServiceErrorFacts {
  /** Unix time, for a Retry-After that is a date. */
  readonly wallMs: number;
  readonly reason?: unknown;
  /** When the receiver's rules differ from those above. */
  readonly failure?: SatelliteFailure | undefined;
}

/** What a receiver calls its error, when that is a code and no text: texts may repeat what was sent. */
export function shortCode(reason: unknown): string | undefined {
  if (typeof reason === "number") return String(reason);
  return typeof reason === "string" && /^[A-Za-z0-9_.:-]{1,64}$/.test(reason) ? reason : undefined;
}

/**
 * The host and port of a URL: what executions are kept apart by. Of one that is a secret, the secret's name, so that a slow host
 * of one service does not delay others either. Undefined for what is neither.
 */
export function hostOf(url: string): string | undefined {
  if (/^https?:/i.test(url) && URL.canParse(url)) {
    const { protocol, hostname, port } = new URL(url);
    return `${hostname}:${port === "" ? (protocol === "https:" ? "443" : "80") : port}`;
  }
  return holdsSecret(url) ? url : undefined;
}

function codeOf(status: number): string {
  if (status === 410) return "gone";
  return status >= 300 && status < 400 ? "redirected" : `http_${status}`;
}
