/**
 * Deliveries as versions before 2026-11-24 stored them, to be moved into the work log.
 */
import type { JobError } from "../jobs/job.ts";
import type { RecordedJob, RecordedJobs } from "../jobs/job_migration.ts";
import type { StoredRecord } from "../store/records.ts";
import { type Delivery, type DeliveryFacts, statusCode } from "./webhooks/delivery_record.ts";

export const RECORDED_DELIVERIES: RecordedJobs<DeliveryFacts> = {
  ...{ shown: "webhook_delivery", open: "webhook_due" },
  endOf,
  older,
};

type RecordedDelivery = Pick<
  Delivery,
  "messageId" | "type" | "status" | "attempts" | "lastStatus" | "lastError"
> & { readonly updatedWallMs?: number };

function endOf(record: StoredRecord): ReturnType<RecordedJobs<DeliveryFacts>["endOf"]> {
  const { status, attempts, lastStatus, updatedWallMs: wallMs = record.createdWallMs } = recordedIn(record);
  const facts = factsOf(record);
  if (status === "delivered") {
    const output = { status: lastStatus ?? 200 };
    return { facts, end: { status: "completed", output, error: null, wallMs, attempts } };
  }
  const error: JobError = { ...codeOf(record), retryable: false };
  return { facts, end: { status: "failed", output: null, error, wallMs, attempts } };
}

/** Before 2026-11-23 the time of the next attempt was the body, and all else was in the delivery. */
function older(open: StoredRecord, record: StoredRecord): RecordedJob<DeliveryFacts> | undefined {
  const nextWallMs = Number(open.body);
  if (Number.isNaN(nextWallMs)) return undefined;
  const { attempts } = recordedIn(record);
  const { createdWallMs } = record;
  const last = { failure: "ambiguous" as const, ...codeOf(record), sinceWallMs: createdWallMs };
  const counts = { attempts, ambiguousAttempts: 0, isUnderWay: false, isRepeatable: true };
  const progress = { ...counts, updatedWallMs: createdWallMs, nextWallMs, ...(attempts > 0 ? { last } : {}) };
  return { facts: factsOf(record), progress };
}

function factsOf(record: StoredRecord): DeliveryFacts {
  const { id, project, parent: endpointId, createdWallMs } = record;
  const { messageId, type } = recordedIn(record);
  const free = { deadlineWallMs: undefined, destination: undefined };
  return { id, project, createdWallMs, endpointId, messageId, type, ...free };
}

function codeOf(record: StoredRecord): { readonly code: string; readonly message: string } {
  const { lastStatus, lastError = "failed" } = recordedIn(record);
  const code = lastStatus === undefined ? lastError : statusCode(lastStatus);
  return { code, message: code };
}

function recordedIn({ body }: StoredRecord): RecordedDelivery {
  return JSON.parse(body) as RecordedDelivery; // written by an earlier version of `delivery_record.ts`
}
