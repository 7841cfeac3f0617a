/**
 * One message over SMTP: one attempt, and what its answers mean.
 *
 *   5xx                        permanent: the message, the sender, or this recipient
 *   4xx, 503                   for now: greylisting, a full mailbox, too many connections
 *   lost before the last byte  not sent: a server takes no message without its end (RFC 5321, section 4.1.1.4)
 *   lost after it              ambiguous: it may have been taken
 *
 * Recipients are answered for one by one: some may be taken, others refused, others put off.
 */
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import type { SmtpConfig } from "./config.ts";
import type { MailDelivery, MailMessage, Rejection } from "./mail_message.ts";
import { composeMail, openSmtp, type SmtpFault, type SmtpSession } from "./smtp.ts";
import type { SmtpPool } from "./smtp_pool.ts";

const CONNECT_MS = 15_000;
const TOLD_LENGTH_MAX = 200;
/** The first wait after "try later"; greylisting needs some minutes (RFC 6647). */
const WAIT_MS = 60_000;
const WAIT_MS_MAX = 900_000;
const CERTIFICATE = /CERT|SELF_SIGNED|ALTNAME|UNABLE_TO/;

type Call = Pick<SatelliteCall, "http" | "signal" | "clock" | "project" | "attempt">;

/** Throws `SatelliteError` when no recipient has been answered for. */
export async function deliverBySmtp(
  call: Call,
  config: SmtpConfig,
  { message, recipients }: { readonly message: MailMessage; readonly recipients: readonly string[] },
  pool: SmtpPool,
): Promise<MailDelivery> {
  const sending: Sending = { isBodySent: false, fault: undefined };
  const stream = await composeMail(message, {
    dkim: config.dkim,
    onFault: (error) => {
      sending.fault = error;
    },
  });
  stream.once("end", () => {
    sending.isBodySent = true;
  });
  const key = poolKey(call, config);
  let session: SmtpSession | undefined;
  try {
    session = pool.take(key) ?? (await open(call, config, heloOf(config, message)));
    const sent = await untilAborted(call.signal, session.send(message.from.address, recipients, stream));
    const refused = sent.rejectedErrors.map(rejectionOf);
    pool.give(key, session, call.clock);
    return {
      accepted: sent.accepted,
      rejected: refused.filter(isFinal),
      deferred: refused.filter((one) => !isFinal(one)),
      response: clipped(sent.response),
    };
  } catch (error) {
    stream.on("error", () => undefined).destroy();
    session?.close();
    call.signal.throwIfAborted();
    return refusalOf(error, sending, call.attempt);
  }
}

/** How far a message was sent. */
interface Sending {
  isBodySent: boolean;
  /** What reading an attachment threw. */
  fault: unknown;
}

/** Doubled with every attempt, 15 min at most. */
export function waitMsAfter(attempt: number): number {
  return Math.min(WAIT_MS * 2 ** Math.min(attempt - 1, 10), WAIT_MS_MAX);
}

async function open(call: Call, config: SmtpConfig, helo: string): Promise<SmtpSession> {
  const { host, port } = config;
  const { signal } = call;
  const result = await call.http.egress.connect({ host, port, timeoutMs: CONNECT_MS, signal });
  if (!result.ok) {
    signal.throwIfAborted();
    const { failure, message } = result;
    if (failure === "blocked_destination") throw new SatelliteError("permanent", failure, message);
    throw new SatelliteError("not_sent", failure === "timeout" ? "timeout" : "connection_failed", message);
  }
  const { socket } = result;
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await openSmtp(socket, config, helo);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Rejects at once, so that the caller can close the session. */
function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** Sessions are shared by who would sign in alike, within one project. */
function poolKey(
  { project }: Call,
  { host, port, security, username, password, helo, ca }: SmtpConfig,
): string {
  const parts = JSON.stringify([project, host, port, security, username, password, helo, ca]);
  return createHash("sha256").update(parts).digest("hex");
}

function heloOf({ helo }: SmtpConfig, { from }: MailMessage): string {
  return helo ?? from.address.slice(from.address.lastIndexOf("@") + 1);
}

/** Recipients that were all refused, or the failure of the whole. */
function refusalOf(error: unknown, { isBodySent, fault: cause }: Sending, attempt: number): MailDelivery {
  if (cause instanceof SatelliteError) throw cause;
  if (cause !== undefined)
    throw new SatelliteError("not_sent", "file_unreadable", "an attachment could not be read", { cause });
  if (error instanceof SatelliteError) throw error;
  const fault = error as SmtpFault; // checked member by member
  const refused = (fault.rejectedErrors ?? []).map(rejectionOf);
  if (refused.length > 0)
    return {
      accepted: [],
      rejected: refused.filter(isFinal),
      deferred: refused.filter((one) => !isFinal(one)),
      response: clipped(fault.response ?? ""),
    };
  throw failureOf(fault, { isBodySent, attempt });
}

function failureOf(
  fault: SmtpFault,
  { isBodySent, attempt }: { readonly isBodySent: boolean; readonly attempt: number },
): SatelliteError {
  const status = fault.responseCode ?? 0;
  const told = status === 0 ? "" : `: ${clipped(fault.response ?? "")}`;
  // Also 503: OpenSMTPD answers so to a STARTTLS that it does not have.
  if (fault.code === "ETLS" && (status >= 500 || fault.message === "no TLS"))
    return new SatelliteError("permanent", "tls_required", `the mail server does not offer TLS${told}`);
  if (status > 0 && !isPermanent(status))
    return new SatelliteError("refused", `smtp_${status}`, `the mail server wants the message later${told}`, {
      retryAfterMs: waitMsAfter(attempt),
    });
  if (fault.code === "EAUTH")
    return new SatelliteError(
      "permanent",
      "authentication_failed",
      `the mail server did not take the username and password${told}`,
    );
  if (status > 0)
    return new SatelliteError("permanent", `smtp_${status}`, `the mail server refused the message${told}`);
  if (CERTIFICATE.test(fault.originalCode ?? ""))
    return new SatelliteError("permanent", "tls_failed", "the mail server's certificate is not accepted");
  if (fault.code === "EMESSAGE")
    return new SatelliteError("permanent", "too_large", "the message is larger than the mail server takes");
  const isHandshake = fault.code === "ETLS" || /^ERR_(SSL|TLS)/.test(fault.originalCode ?? "");
  if (isHandshake && !isBodySent)
    return new SatelliteError("not_sent", "tls_failed", "TLS could not be agreed on with the mail server");
  const code = fault.code === "ETIMEDOUT" ? "timeout" : "connection_lost";
  return isBodySent
    ? new SatelliteError("ambiguous", code, "the mail server did not answer whether it took the message")
    : new SatelliteError(
        "not_sent",
        code,
        "the connection to the mail server ended before the message was sent",
      );
}

/** 503 is about the session, not about the message. */
function isPermanent(status: number): boolean {
  return status >= 500 && status < 600 && status !== 503;
}

function isFinal({ status }: Rejection): boolean {
  return isPermanent(status);
}

function rejectionOf({ recipient = "", responseCode = 0, response = "" }: SmtpFault): Rejection {
  return { address: recipient, status: responseCode, message: clipped(response) };
}

/** One line of what a server said. */
function clipped(text: string): string {
  return text
    .replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, " ")
    .slice(0, TOLD_LENGTH_MAX)
    .trim();
}

/** All of a message, for where it has to be whole. */
export async function wholeMail(message: MailMessage): Promise<Uint8Array> {
  const stream: Readable = await composeMail(message);
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}
