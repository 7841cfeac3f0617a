/**
 * Deliveries of webhooks as jobs and as records.
 *
 *   waiting -> waiting (an attempt failed) -> delivered | failed
 *
 *   collection `webhook_delivery`  every one; parent: its endpoint; payload: the message while it waits
 *   collection `webhook_due`       each that waits; parent: its endpoint
 *
 * Of answers nothing is kept but the status.
 */
import type { JobEnd, JobFacts, PendingJob } from "../jobs/job.ts";
import type { JobCollections, JobForm, OpenJob } from "../jobs/job_records.ts";
import type { RecordStore, StoredRecord } from "../store/records.ts";
import type { EventType } from "./webhook_records.ts";

/** Where deliveries are stored. */
export const DELIVERIES: JobCollections = {
  shown: "webhook_delivery",
  open: "webhook_due",
  notes: undefined,
};

/** What of a delivery never changes. Its id is made of the endpoint's and the message's. */
export interface DeliveryFacts extends JobFacts {
  readonly endpointId: string;
  /** The same over all attempts, and for all endpoints: `webhook-id`. */
  readonly messageId: string;
  readonly type: EventType | "webhook.test";
}

/** One message to one endpoint, through all its attempts. */
export interface Delivery
  extends Pick<DeliveryFacts, "id" | "project" | "endpointId" | "createdWallMs" | "messageId" | "type"> {
  readonly status: "waiting" | "delivered" | "failed";
  readonly attempts: number;
  /** While it waits. */
  readonly nextWallMs?: number;
  /** What the last attempt came to: a status, or why there was none. */
  readonly lastStatus?: number;
  readonly lastError?: string;
}

/** How deliveries are stored. */
export const DELIVERY_FORM: JobForm<DeliveryFacts> = {
  collections: DELIVERIES,
  parentOf: ({ endpointId }) => ({ shown: endpointId, open: endpointId }),
  bodyOf: storedDelivery,
  keepsOutput: false,
  older: olderDelivery,
};

/** What `DELIVERY_FORM` stores to be shown. */
export function recordToDelivery({ id, project, parent, createdWallMs, body }: StoredRecord): Delivery {
  const stored = JSON.parse(body) as StoredDelivery; // written by this file
  return { ...stored, id, project, endpointId: parent, createdWallMs };
}

/** One that waits, as it is now. */
export function waitingDelivery({ facts, progress }: PendingJob<DeliveryFacts>): Delivery {
  const { id, project, endpointId, createdWallMs, messageId, type } = facts;
  const { attempts, nextWallMs = createdWallMs, last } = progress;
  return {
    ...{ id, project, endpointId, createdWallMs, messageId, type, attempts, nextWallMs },
    ...(last === undefined ? {} : lastOf(last.code)),
    status: "waiting",
  };
}

/** The code of an attempt that was answered with a status other than 2xx. */
export function statusCode(status: number): string {
  return `http_${status}`;
}

type StoredDelivery = Omit<Delivery, "id" | "project" | "endpointId" | "createdWallMs"> & {
  readonly updatedWallMs?: number;
};

function storedDelivery({ messageId, type }: DeliveryFacts, end: JobEnd | undefined): StoredDelivery {
  if (end === undefined) return { messageId, type, status: "waiting", attempts: 0 };
  const { status, output, error, attempts, wallMs: updatedWallMs } = end;
  const base = { messageId, type, attempts, updatedWallMs };
  if (status === "completed") return { ...base, status: "delivered", lastStatus: Number(output?.["status"]) };
  return { ...base, status: "failed", ...lastOf(error?.code ?? status) };
}

function lastOf(code: string): Pick<Delivery, "lastStatus" | "lastError"> {
  const status = /^http_(\d{3})$/.exec(code)?.[1];
  return status === undefined ? { lastError: code } : { lastStatus: Number(status) };
}

/** Versions before 2026-11-23 stored the time of the next attempt there, and all else in the delivery. */
async function olderDelivery(
  { id, project, parent: endpointId, createdWallMs, body }: StoredRecord,
  store: RecordStore,
): Promise<OpenJob<DeliveryFacts> | undefined> {
  const nextWallMs = Number(body);
  if (Number.isNaN(nextWallMs)) return undefined;
  const record = await store.record(project, DELIVERIES.shown, id);
  const stored = record === undefined ? undefined : recordToDelivery(record);
  const { messageId = "", type = "webhook.test", attempts = 0, lastStatus, lastError } = stored ?? {};
  const code = lastStatus === undefined ? lastError : statusCode(lastStatus);
  const failure = code === undefined ? undefined : ({ failure: "ambiguous", code, message: code } as const);
  const last = failure === undefined ? {} : { last: { ...failure, sinceWallMs: createdWallMs } };
  const counts = { attempts, ambiguousAttempts: 0, isUnderWay: false, isRepeatable: true };
  return {
    facts: {
      ...{ id, project, createdWallMs, endpointId, messageId, type },
      ...{ deadlineWallMs: undefined, destination: undefined },
    },
    progress: { ...counts, updatedWallMs: createdWallMs, nextWallMs, ...last },
  };
}
