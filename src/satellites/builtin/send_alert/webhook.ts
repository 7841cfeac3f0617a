/**
 * Alerts for your own receiver: the alert as JSON, signed by Standard Webhooks when there is a secret.
 *
 *   {"action","severity","title","message","source","dedup_key","time","details","links"}
 */
import { signedHeaders } from "../../../egress/webhook_signature.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { type Alert, jsonPost } from "./alert.ts";

/** With a token, a secret, both or neither. */
export interface AlertWebhook {
  readonly url: string;
  readonly token?: string | undefined;
  readonly secret?: string | undefined;
}

/** `wallMs` is the time in the signature; the message's id is that of the execution, the same for every attempt. */
export function alertWebhook(
  alert: Alert,
  { url, token, secret }: AlertWebhook,
  { executionId, wallMs }: { readonly executionId: string; readonly wallMs: number },
): Outgoing {
  const { dedupKey, details, ...rest } = alert;
  const request = jsonPost(
    url,
    { ...rest, dedup_key: dedupKey, details: Object.fromEntries(details) },
    token === undefined ? {} : { authorization: `Bearer ${token}` },
  );
  if (secret === undefined) return request;
  const signed = signedHeaders({ id: executionId, wallMs, body: request.body }, [secret]);
  return { ...request, headers: { ...request.headers, ...signed } };
}
