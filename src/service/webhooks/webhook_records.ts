/**
 * The endpoints of webhooks as records.
 *
 *   enabled <-> disabled (`manual`); enabled -> disabled (`gone`: it answered 410, `failing`: for five days)
 *
 * The secrets of an endpoint are its payload, encrypted (`satellites/secrets/vault.ts`).
 */
import type { Vault } from "../../satellites/secrets/vault.ts";
import type { StoredRecord } from "../../store/records.ts";

export const ENDPOINTS = "webhook_endpoint";

export const EVENT_TYPES = ["task.completed", "task.failed", "task.cancelled"] as const;
/** The events of webhooks. */
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

/** Secrets are sealed in the payload. */
export function endpointToRecord(endpoint: Endpoint, vault: Vault): StoredRecord {
  const { id, project, createdWallMs, secrets, ...body } = endpoint;
  const place = { collection: ENDPOINTS, id, project };
  const payload = vault.seal(place, JSON.stringify(secrets));
  return { ...place, parent: "", createdWallMs, body: JSON.stringify(body), payload };
}

/** Throws `store_damaged` for secrets under another key. Records without a payload had them in the body. */
export function recordToEndpoint(record: StoredRecord, vault: Vault): Endpoint {
  const { id, project, createdWallMs, body, payload } = record;
  const own = JSON.parse(body) as Omit<Endpoint, "id" | "project" | "createdWallMs">; // written by this file
  const secrets = payload === undefined ? own.secrets : (JSON.parse(vault.open(record)) as readonly Secret[]); // as above
  return { ...own, id, project, createdWallMs, secrets };
}
