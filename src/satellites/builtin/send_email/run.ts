/**
 * One attempt of `send-email`: one message, through a mail server or a provider's API.
 *
 *   checked -> composed -> passed on   -> every recipient answered for: completed (those refused for good are in the output)
 *                                      -> some put off: kept in the notes, and the next attempt is only for them
 *                                      -> none taken: failed
 *
 * Whether a message was taken is not known when the connection is lost after its last byte: that is ambiguous, and not repeated
 * unless the config says so or the provider recognises repeats by a key.
 *
 * Limits: those of `input.ts` and `config.ts`; 10 min an attempt.
 */
import type { JsonObject } from "../../../work/json.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { errorOf, send } from "../exchange/exchange.ts";
import { type MailConfig, SMTP_PORTS, type SmtpConfig } from "./config.ts";
import type { MailInput } from "./input.ts";
import {
  type MailDelivery,
  type MailMessage,
  mailMessage,
  type Rejection,
  recipientsOf,
} from "./mail_message.ts";
import { type ProviderConfig, providerRequest } from "./mail_providers.ts";
import { deliverBySmtp, waitMsAfter, wholeMail } from "./smtp_delivery.ts";
import { SmtpPool } from "./smtp_pool.ts";

const NOTE = "recipients";

/** What the operator says of it. */
export interface SendEmailOptions {
  /** Ports of mail servers besides 25, 465, 587 and 2525. */
  readonly ports?: readonly number[];
}

type MailCall = SatelliteCall<MailInput, MailConfig>;

/** Connections to mail servers are shared by all calls. */
export function runWith({ ports = [] }: SendEmailOptions): (call: MailCall) => Promise<JsonObject> {
  const pool = new SmtpPool();
  return async (call) => {
    const { config } = call;
    const message = await mailMessage(call);
    if (config.provider !== "smtp") return await overApi(call, config, message);
    if (![...SMTP_PORTS, ...ports].includes(config.port))
      throw new SatelliteError(
        "permanent",
        "blocked_destination",
        `port ${config.port} is not open for mail`,
      );
    return await overSmtp(call, config, message, pool);
  };
}

/** Recipients that need no further attempt. */
interface Answered {
  readonly accepted: readonly string[];
  readonly rejected: readonly Rejection[];
}

async function overSmtp(
  call: MailCall,
  config: SmtpConfig,
  message: MailMessage,
  pool: SmtpPool,
): Promise<JsonObject> {
  const before = (call.notes.get(NOTE) ?? { accepted: [], rejected: [] }) as unknown as Answered; // written below
  const done = new Set([...before.accepted, ...before.rejected.map(({ address }) => address)]);
  const recipients = recipientsOf(message).filter((address) => !done.has(address));
  const delivery = await deliverBySmtp(call, config, { message, recipients }, pool);
  const accepted = [...before.accepted, ...delivery.accepted];
  const rejected = [...before.rejected, ...delivery.rejected];
  const waitMs = waitMsAfter(call.attempt);
  const isLast = call.clock.wallMs() + waitMs >= call.deadlineWallMs;
  if (delivery.deferred.length > 0 && (!isLast || accepted.length === 0)) {
    await call.notes.set(NOTE, { accepted, rejected: rejected.map((one) => ({ ...one })) });
    throw putOff(delivery, waitMs);
  }
  if (accepted.length === 0) throw refusedByAll(rejected);
  const { provider } = config;
  const refused = [...rejected, ...delivery.deferred].map((one) => ({ ...one }));
  return {
    message_id: message.messageId,
    provider,
    accepted,
    rejected: refused,
    response: delivery.response,
  };
}

function putOff({ deferred }: MailDelivery, retryAfterMs: number): SatelliteError {
  const [{ status, message } = { status: 0, message: "" }] = deferred;
  return new SatelliteError(
    "refused",
    `smtp_${status}`,
    `the mail server put ${deferred.length} of the recipients off: ${message}`,
    { retryAfterMs },
  );
}

function refusedByAll(rejected: readonly Rejection[]): SatelliteError {
  const [{ status, message } = { status: 0, message: "" }] = rejected;
  return new SatelliteError(
    "permanent",
    `smtp_${status}`,
    `the mail server refused every recipient: ${message}`,
  );
}

async function overApi(call: MailCall, config: ProviderConfig, message: MailMessage): Promise<JsonObject> {
  const { clock, executionId } = call;
  const { provider, timeout_ms } = config;
  if (message.to.length === 0)
    throw new SatelliteError("permanent", "no_recipient", "this provider needs a recipient in to");
  const isMime = provider === "ses";
  const request = await providerRequest(config, {
    ...message,
    executionId,
    mime: isMime ? await wholeMail(message) : new Uint8Array(),
    attachments: isMime ? [] : await Promise.all(message.attachments.map(loaded)),
  });
  const response = await send(call, request, { timeoutMs: timeout_ms });
  const answer = bodyOf(response.body);
  const reason = reasonOf(answer, response.headers);
  const isLater =
    response.status < 500 && /throttl|toomanyrequests|concurrent_idempotent/i.test(reason ?? "");
  const error = errorOf(response, {
    wallMs: clock.wallMs(),
    reason,
    ...(isLater ? { failure: "refused" } : {}),
  });
  if (error !== undefined) throw error;
  const id = [answer["MessageId"], answer["MessageID"], answer["id"], response.headers["x-message-id"]].find(
    (one) => typeof one === "string" && one.length <= 256,
  );
  return {
    message_id: message.messageId,
    provider,
    ...(typeof id === "string" ? { provider_message_id: id } : {}),
    accepted: recipientsOf(message),
    rejected: [],
  };
}

async function loaded(
  attachment: MailMessage["attachments"][number],
): Promise<MailMessage["attachments"][number] & { readonly content: Uint8Array }> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of attachment.open()) chunks.push(chunk);
  return { ...attachment, content: Buffer.concat(chunks) };
}

/** The object that was answered, or an empty one. */
function bodyOf(body: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const answer: unknown = JSON.parse(new TextDecoder().decode(body));
    return typeof answer === "object" && answer !== null ? (answer as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}

/** Where providers put a short code: SES in a header, Postmark a number, Resend a name. */
function reasonOf(
  answer: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string | string[] | undefined>>,
): string | undefined {
  const type = headers["x-amzn-errortype"];
  const reason = [
    typeof type === "string" ? type.split(":")[0] : undefined,
    answer["ErrorCode"],
    answer["name"],
  ].find((one) => typeof one === "string" || typeof one === "number");
  return reason === undefined ? undefined : String(reason);
}
