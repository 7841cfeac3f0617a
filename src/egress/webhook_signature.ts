/**
 * Secrets and signatures of webhooks, by Standard Webhooks (standardwebhooks.com, version 1.0).
 *
 *   webhook-signature: v1,<base64 of HMAC-SHA256 over "id.timestamp.body">     one for each secret, blanks between
 *
 * The only import of standardwebhooks. To leave: one HMAC with Node's crypto.
 */
import { randomBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";

/** 256 bits; the standard asks for 192 to 512. */
const SECRET_BYTES = 32;

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
