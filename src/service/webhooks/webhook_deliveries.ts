/**
 * Deliveries of webhooks: jobs (`jobs/job_queue.ts`) whose function sends one message to one endpoint, repeated under one id.
 *
 *   2xx -> delivered       410 -> failed, the endpoint is disabled       else -> again, until the waits are used up: failed
 *
 * Attempts: at once, then after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h (the schedule of Svix, docs.svix.com/retries,
 * 2026-11-21), each up to a tenth longer. A longer wait that the receiver asks for by Retry-After is kept, up to 24 h.
 *
 * At least once: an attempt whose outcome a crash keeps from the store is made again, with the same `webhook-id`. What a
 * crash or a closing process cuts off counts as no attempt.
 *
 * Limits: 15 s and 64 KiB of answer an attempt, 8 attempts to one endpoint at once, 12 to one host and 512 to all, 10,000 waiting
 * deliveries an endpoint (those beyond end as failed at once), an endpoint that fails for five days is disabled.
 */
import type { Clock } from "../../clock.ts";
import type { Egress, GuardedResult } from "../../egress/egress.ts";
import { signedHeaders } from "../../egress/webhook_signature.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import type { Destinations } from "../../jobs/destinations.ts";
import type {
  AttemptEnd,
  FailedAttempt,
  JobDestination,
  JobSender,
  JobTexts,
  Prepared,
} from "../../jobs/job.ts";
import { JobLog, type StoredJob } from "../../jobs/job_log.ts";
import { moveRecordedJobs } from "../../jobs/job_migration.ts";
import { JobQueue } from "../../jobs/job_queue.ts";
import { WORK_KINDS } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { retryAfterMs } from "../../providers/retry_after.ts";
import type { RecordStore } from "../../store/records.ts";
import type { Page, PageQuery } from "../../tasks/shapes/task_view.ts";
import { RECORDED_DELIVERIES } from "../recorded_deliveries.ts";
import {
  type Delivery,
  type DeliveryFacts,
  statusCode,
  storedDelivery,
  waitingDelivery,
} from "./delivery_record.ts";
import { type WebhookEndpoints, withoutFailures } from "./webhook_endpoints.ts";
import type { Endpoint } from "./webhook_records.ts";

const ATTEMPT_MS = 15_000;
const ANSWER_BYTES_MAX = 64 * 1024;
const FAILING_MS_MAX = 5 * 86_400_000;
const HOUR_MS = 3_600_000;
const DELAYS_MS: readonly number[] = [
  5_000,
  300_000,
  1_800_000,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  10 * HOUR_MS,
];
/** Of them, a single endpoint has 8 (`jobs/job_order.ts`). */
const PER_HOST = 12;
const LIMITS = {
  placesMax: 512,
  groupPendingMax: 10_000,
  pendingMax: 1_000_000,
  closeMs: 20_000,
  storesIntents: false,
};

export interface DeliveriesOptions {
  readonly clock: Clock;
  /** Keeps deliveries. */
  readonly workLog: WorkLog;
  readonly egress: Pick<Egress, "request">;
  readonly endpoints: WebhookEndpoints;
  readonly destinations: Destinations;
  /** Receives what ought not to happen; the delivery is tried again. */
  readonly onFault: (error: unknown) => void;
}

/** What is sent, to whichever endpoints. */
export interface Message {
  readonly id: string;
  readonly type: DeliveryFacts["type"];
  /** JSON. */
  readonly body: string;
}

/** At least once: a message may arrive twice, with the same id. */
export class WebhookDeliveries implements JobSender<DeliveryFacts> {
  readonly #options: DeliveriesOptions;
  readonly #jobs: JobLog<DeliveryFacts>;
  readonly #queue: JobQueue<DeliveryFacts>;
  /** Who waits for the end of a delivery. */
  readonly #watchers = new Map<string, () => void>();
  #isStopped = false;

  constructor(options: DeliveriesOptions) {
    this.#options = options;
    const { clock, workLog, destinations } = options;
    this.#jobs = new JobLog(workLog, WORK_KINDS.delivery, ({ endpointId }) => endpointId);
    this.#queue = new JobQueue({ clock, log: this.#jobs, sender: this, destinations, limits: LIMITS });
  }

  /** Continues what an earlier process has left; deliveries of earlier versions are moved from `store`. */
  async start(store: RecordStore): Promise<void> {
    await moveRecordedJobs(store, this.#jobs, RECORDED_DELIVERIES);
    await this.#queue.start();
  }

  /** Stores the message for an endpoint, and begins; nothing when the endpoint has it already. */
  async add(endpoint: Endpoint, { id: messageId, type, body }: Message): Promise<void> {
    const { id: endpointId, project } = endpoint;
    const id = `${endpointId}.${messageId}`;
    if (await this.#jobs.isTaken(id)) return;
    const createdWallMs = this.#options.clock.wallMs();
    const facts: DeliveryFacts = {
      ...{ id, project, createdWallMs, endpointId, messageId, type },
      ...{ deadlineWallMs: undefined, destination: destinationOf(endpoint) },
    };
    try {
      await this.#queue.accept(facts, new TextEncoder().encode(body));
    } catch (error) {
      if (hasCode(error, "too_many"))
        await this.#refuse(facts); // in the turn of the check of its id
      else if (!hasCode(error, "conflict")) throw error;
    }
  }

  /** As `add`, and waits for the end, which for a test message is that of its first attempt. */
  async tryOnce(endpoint: Endpoint, message: Message): Promise<Delivery> {
    const id = `${endpoint.id}.${message.id}`;
    const ended = new Promise<void>((resolve) => {
      this.#watchers.set(id, resolve);
    });
    try {
      await this.add(endpoint, message);
      if (!this.#isStopped) await ended;
    } finally {
      this.#watchers.delete(id);
    }
    const job = await this.#jobs.find(endpoint.project, id);
    if (job === undefined) throw new PerigeeError("not_found", "the webhook was removed meanwhile");
    return this.#view(job);
  }

  /** The newest first. Throws `not_found` when `after` does not exist. */
  async list(project: string, endpointId: string, { after, limit }: PageQuery): Promise<Page<Delivery>> {
    const { items, hasMore } = await this.#jobs.list(project, { parent: endpointId, after, limit });
    return { items: items.map((job) => this.#view(job)), hasMore };
  }

  /** Removes an endpoint with its deliveries. Throws `not_found`. */
  async removeEndpoint(project: string, endpointId: string): Promise<void> {
    const isOfIt = (facts: DeliveryFacts): boolean => facts.endpointId === endpointId;
    await this.#queue.remove(isOfIt, async () => {
      await this.#options.endpoints.remove(project, endpointId); // first: what is left of its deliveries ends without it
      await this.#jobs.removeOf(endpointId);
    });
    for (const [id, told] of this.#watchers) if (id.startsWith(`${endpointId}.`)) told();
  }

  /** Begins no further attempt; those under way continue, and nobody waits for the others. */
  stop(): void {
    this.#isStopped = true;
    this.#queue.stop();
    for (const told of this.#watchers.values()) told();
  }

  /** Cuts off attempts under way; they are made again by the next process. */
  async close(): Promise<void> {
    await this.#queue.close();
    for (const told of this.#watchers.values()) told();
  }

  groupOf({ type, endpointId }: DeliveryFacts): string {
    return type === "webhook.test" ? type : endpointId;
  }

  async prepare(facts: DeliveryFacts, texts: JobTexts): Promise<Prepared> {
    const endpoint = await this.#options.endpoints.find(facts.project, facts.endpointId);
    const isTest = facts.type === "webhook.test";
    if (endpoint === undefined) return refused("endpoint_removed");
    if (endpoint.disabled !== null && !isTest) return refused("endpoint_disabled");
    const message = await texts.given();
    if (message === undefined) return refused("lost");
    const delaysMs = isTest ? [] : DELAYS_MS;
    return {
      ok: true,
      retries: { attemptsMax: delaysMs.length + 1, isRepeatable: true, delaysMs },
      destination: destinationOf(endpoint),
      run: async ({ signal }) => {
        const result = await this.#send(endpoint, facts.messageId, message, signal);
        const wallMs = this.#options.clock.wallMs();
        if (!isTest && (result.ok || result.failure !== "aborted"))
          await this.#teach(endpoint, result, wallMs);
        return endOf(result, wallMs);
      },
    };
  }

  ended({ id }: DeliveryFacts): void {
    this.#watchers.get(id)?.();
  }

  fault(error: unknown): void {
    this.#options.onFault(error);
  }

  async #refuse(facts: DeliveryFacts): Promise<void> {
    const error = { code: "too_many_waiting", message: "too many deliveries wait", retryable: true };
    const wallMs = this.#options.clock.wallMs();
    await this.#jobs.acceptEnded(facts, { status: "failed", output: null, error, wallMs, attempts: 0 });
    this.ended(facts);
  }

  /** One that waits as it is in memory. */
  #view(job: StoredJob<DeliveryFacts>): Delivery {
    const waiting = job.end === undefined ? this.#queue.find(job.facts.id) : undefined;
    return waiting === undefined ? storedDelivery(job) : waitingDelivery(waiting);
  }

  #send(
    { url, secrets }: Endpoint,
    id: string,
    message: Uint8Array,
    signal: AbortSignal,
  ): Promise<GuardedResult> {
    const { clock, egress } = this.#options;
    const wallMs = clock.wallMs();
    const valid = secrets.filter(({ expiresWallMs = Number.POSITIVE_INFINITY }) => wallMs < expiresWallMs);
    const signed = signedHeaders(
      { id, wallMs, body: new TextDecoder().decode(message) },
      valid.map(({ text }) => text),
    );
    return egress.request({
      ...{ url, method: "POST", body: message, signal },
      headers: { "content-type": "application/json", "user-agent": "perigee-webhooks/1", ...signed },
      timeoutMs: ATTEMPT_MS,
      responseBytesMax: ANSWER_BYTES_MAX,
    });
  }

  /** What cannot be stored of it is learnt from the next attempt: the delivery is not made again for it. */
  async #teach({ project, id }: Endpoint, result: GuardedResult, wallMs: number): Promise<void> {
    try {
      await this.#options.endpoints.note(project, id, (endpoint) => taught(endpoint, result, wallMs));
    } catch (error) {
      if (!hasCode(error, "disk_full") && !hasCode(error, "closed")) this.#options.onFault(error);
    }
  }
}

function destinationOf({ id, url }: Endpoint): JobDestination {
  return { name: `webhook ${new URL(url).host}`, concurrency: PER_HOST, share: id };
}

function refused(code: string): Prepared {
  return { ok: false, error: { code, message: code, retryable: false } };
}

function endOf(result: GuardedResult, wallMs: number): AttemptEnd {
  if (!result.ok) {
    const { failure: code, message } = result;
    const isUnsent = code === "not_sent" || code === "blocked_destination";
    return { kind: "failed", failed: { failure: isUnsent ? "not_sent" : "ambiguous", code, message } };
  }
  const { status, headers } = result;
  if (isTaken(status)) return { kind: "completed", output: { status } };
  const code = statusCode(status);
  const failure: FailedAttempt["failure"] = status === 410 ? "permanent" : "refused";
  const failed = { failure, code, message: code, retryAfterMs: retryAfterMs(headers, wallMs) };
  return { kind: "failed", failed };
}

function isTaken(status: number): boolean {
  return status >= 200 && status < 300;
}

/** The endpoint after an attempt; itself when nothing changes. */
function taught(endpoint: Endpoint, result: GuardedResult, wallMs: number): Endpoint {
  if (result.ok && isTaken(result.status)) return withoutFailures(endpoint);
  if (endpoint.disabled !== null) return endpoint;
  if (result.ok && result.status === 410) return { ...endpoint, disabled: "gone" };
  const { failingSinceWallMs } = endpoint;
  if (failingSinceWallMs === undefined) return { ...endpoint, failingSinceWallMs: wallMs };
  return wallMs - failingSinceWallMs >= FAILING_MS_MAX ? { ...endpoint, disabled: "failing" } : endpoint;
}
