/**
 * Deliveries of webhooks as jobs, and as they are shown.
 *
 *   waiting -> waiting (an attempt failed) -> delivered | failed
 *
 * Of answers nothing is kept but the status.
 */
import type { JobFacts, PendingJob } from "../../jobs/job.ts";
import type { StoredJob } from "../../jobs/job_log.ts";
import type { EventType } from "./webhook_records.ts";

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
  /** The result of the last attempt: a status, or why it got no answer. */
  readonly lastStatus?: number;
  readonly lastError?: string;
}

/** One that has ended; one that has not is about to be attempted. */
export function storedDelivery({ facts, end }: StoredJob<DeliveryFacts>): Delivery {
  const shown = shownOf(facts);
  if (end === undefined) return { ...shown, status: "waiting", attempts: 0 };
  const { status, output, error, attempts } = end;
  if (status === "completed")
    return { ...shown, status: "delivered", attempts, lastStatus: Number(output?.["status"]) };
  return { ...shown, status: "failed", attempts, ...lastOf(error?.code ?? status) };
}

/** One that waits, as it is now. */
export function waitingDelivery({ facts, progress }: PendingJob<DeliveryFacts>): Delivery {
  const { attempts, nextWallMs = facts.createdWallMs, last } = progress;
  const came = last === undefined ? {} : lastOf(last.code);
  return { ...shownOf(facts), attempts, nextWallMs, ...came, status: "waiting" };
}

/** The code of an attempt that was answered with a status other than 2xx. */
export function statusCode(status: number): string {
  return `http_${status}`;
}

function shownOf({
  id,
  project,
  endpointId,
  createdWallMs,
  messageId,
  type,
}: DeliveryFacts): Pick<Delivery, "id" | "project" | "endpointId" | "createdWallMs" | "messageId" | "type"> {
  return { id, project, endpointId, createdWallMs, messageId, type };
}

function lastOf(code: string): Pick<Delivery, "lastStatus" | "lastError"> {
  const status = /^http_(\d{3})$/.exec(code)?.[1];
  return status === undefined ? { lastError: code } : { lastStatus: Number(status) };
}
