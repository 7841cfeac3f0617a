/**
 * Secrets and signatures of webhooks, by Standard Webhooks (standardwebhooks.com, version 1.0).
 *
 *   webhook-signature: v1,<base64 of HMAC-SHA256 over "id.timestamp.body">     one for each secret, blanks between
 *
 * Those that are sent are signed here, and those that arrive are checked.
 *
 * The only import of standardwebhooks. To leave: one HMAC with Node's crypto.
 */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { Webhook } from "standardwebhooks";

/** 256 bits; the standard asks for 192 to 512. */
const SECRET_BYTES = 32;
/** How far the time of a message may be from now. */
const TOLERANCE_MS = 300_000;
/** More signatures of one message are not tried. */
const SIGNATURES_MAX = 10;

/** `whsec_` and base64. */
export function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** The three headers of one attempt: the id stays over all attempts, the time is the attempt's own. */
export function signedHeaders(
  message: { readonly id: string; readonly wallMs: number; readonly body: string },
  secrets: readonly string[],
): Record<string, string> {
  const { id, wallMs, body } = message;
  const time = new Date(wallMs);
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(wallMs / 1_000)),
    "webhook-signature": secrets.map((secret) => new Webhook(secret).sign(id, time, body)).join(" "),
  };
}

/** A message that arrived, with the three headers as they are; an absent one is empty. */
export interface ReceivedMessage {
  readonly id: string;
  /** Unix time in seconds. */
  readonly timestamp: string;
  /** One or more, blanks between. */
  readonly signature: string;
  readonly body: string;
}

/** Whether one of the secrets has signed a message at most 5 minutes ago or ahead. Signatures are compared in constant time. */
export function isSignedBy(
  { id, timestamp, signature, body }: ReceivedMessage,
  secrets: readonly string[],
  nowWallMs: number,
): boolean {
  if (id === "" || !/^\d{1,11}$/.test(timestamp)) return false;
  const wallMs = Number(timestamp) * 1_000;
  if (Math.abs(nowWallMs - wallMs) > TOLERANCE_MS) return false;
  const given = signature.split(" ").slice(0, SIGNATURES_MAX).map(bytesOf);
  let isSigned = false;
  for (const secret of secrets) {
    const expected = bytesOf(new Webhook(secret).sign(id, new Date(wallMs), body));
    for (const one of given)
      if (one.byteLength === expected.byteLength && timingSafeEqual(one, expected)) isSigned = true;
  }
  return isSigned;
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text);
}
