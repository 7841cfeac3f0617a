/**
 * What is stored of webhooks: endpoints, deliveries, and which deliveries are still to be made.
 *
 *   endpoint:  enabled <-> disabled (`manual`); enabled -> disabled (`gone`: it answered 410, `failing`: for five days)
 *   delivery:  waiting -> waiting (an attempt failed) -> delivered | failed
 *
 * The secrets of an endpoint are its payload, encrypted (`satellites/vault.ts`). `webhook_due` has a record for each waiting delivery and nothing else, so that a start reads those alone. The message is
 * the delivery's payload until it has ended. Of answers nothing is kept but the status.
 */
import type { Vault } from "../satellites/secrets/vault.ts";
import type { StoredRecord } from "../store/records.ts";

export const ENDPOINTS = "webhook_endpoint";
export const DELIVERIES = "webhook_delivery";
export const DUE = "webhook_due";

export const EVENT_TYPES = ["task.completed", "task.failed", "task.cancelled"] as const;
/** What a webhook can be told of. */
export type EventType = (typeof EVENT_TYPES)[number];

/** `whsec_` and base64. */
export interface Secret {
  readonly text: string;
  /** Until when it signs too, once another has taken its place. */
  readonly expiresWallMs?: number;
}

/** A webhook as stored. Its newest secret is the first. */
export interface Endpoint {
  readonly id: string;
  readonly project: string;
  readonly createdWallMs: number;
  readonly url: string;
  readonly events: readonly EventType[];
  readonly description: string;
  readonly disabled: "manual" | "gone" | "failing" | null;
  /** The newest first; two while they rotate. */
  readonly secrets: readonly Secret[];
  /** Since when every attempt has failed. */
  readonly failingSinceWallMs?: number;
}

/** One message to one endpoint, through all its attempts. */
export interface Delivery {
  /** Of the endpoint and the message. */
  readonly id: string;
  readonly project: string;
  readonly endpointId: string;
  readonly createdWallMs: number;
  /** The same over all attempts, and for all endpoints: `webhook-id`. */
  readonly messageId: string;
  readonly type: EventType | "webhook.test";
  readonly status: "waiting" | "delivered" | "failed";
  readonly attempts: number;
  /** While it waits. */
  readonly nextWallMs?: number;
  /** What the last attempt came to: a status, or why there was none. */
  readonly lastStatus?: number;
  readonly lastError?: string;
  /** What is sent, while it waits. */
  readonly message?: string;
}

/** Secrets are sealed in the payload. */
export function endpointToRecord(endpoint: Endpoint, vault: Vault): StoredRecord {
  const { id, project, createdWallMs, secrets, ...body } = endpoint;
  const place = { collection: ENDPOINTS, id, project };
  const payload = vault.seal(place, JSON.stringify(secrets));
  return { ...place, parent: "", createdWallMs, body: JSON.stringify(body), payload };
}

/** Throws `store_damaged` for secrets under another key. Those of records without a payload stood in the body. */
export function recordToEndpoint(record: StoredRecord, vault: Vault): Endpoint {
  const { id, project, createdWallMs, body, payload } = record;
  const own = JSON.parse(body) as Omit<Endpoint, "id" | "project" | "createdWallMs">; // written by this file
  const secrets = payload === undefined ? own.secrets : (JSON.parse(vault.open(record)) as readonly Secret[]); // as above
  return { ...own, id, project, createdWallMs, secrets };
}

/** The message is the payload; it goes with the end. */
export function deliveryToRecord(delivery: Delivery): StoredRecord {
  const { id, project, endpointId, createdWallMs, message, ...body } = delivery;
  const record = { collection: DELIVERIES, id, project, parent: endpointId, createdWallMs };
  const payload = message === undefined ? undefined : new TextEncoder().encode(message);
  return { ...record, body: JSON.stringify(body), ...(payload === undefined ? {} : { payload }) };
}

/** What `deliveryToRecord` made. */
export function recordToDelivery({
  id,
  project,
  parent,
  createdWallMs,
  body,
  payload,
}: StoredRecord): Delivery {
  const own = JSON.parse(body) as Omit<
    Delivery,
    "id" | "project" | "endpointId" | "createdWallMs" | "message"
  >; // as above
  const message = payload === undefined ? {} : { message: new TextDecoder().decode(payload) };
  return { ...own, id, project, endpointId: parent, createdWallMs, ...message };
}

/** That a delivery waits, and until when. */
export function dueRecord({
  id,
  project,
  endpointId,
  createdWallMs,
  nextWallMs = 0,
}: Delivery): StoredRecord {
  return { collection: DUE, id, project, parent: endpointId, createdWallMs, body: String(nextWallMs) };
}
