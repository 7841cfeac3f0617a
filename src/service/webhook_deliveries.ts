/**
 * Deliveries of webhooks: durable before their first attempt, repeated by the schedule of `webhook_schedule.ts`, under
 * one id. States in `webhook_records.ts`.
 *
 *   stored -> (timer) -> queued for its destination -> attempt -> ended, or stored anew with the time of the next attempt
 *
 * At least once: an attempt whose outcome a crash keeps from the store is made again, with the same `webhook-id`. What a
 * closing process cuts off counts as no attempt.
 *
 * Limits: 15 s and 64 KiB of answer an attempt, 10,000 waiting deliveries an endpoint (those beyond end as failed at once), an
 * endpoint that fails for five days is disabled.
 */
import { setMaxListeners } from "node:events";
import type { Clock, Timer } from "../clock.ts";
import type { Egress, GuardedResult } from "../egress/egress.ts";
import { signedHeaders } from "../egress/webhook_signature.ts";
import { hasCode, PerigeeError } from "../errors.ts";
import { EVERY_PROJECT, type RecordStore } from "../store/records.ts";
import type { Page, PageQuery } from "../tasks/task_view.ts";
import { DestinationQueue } from "./destination_queue.ts";
import { type WebhookEndpoints, withoutFailures } from "./webhook_endpoints.ts";
import {
  DELIVERIES,
  type Delivery,
  DUE,
  deliveryToRecord,
  dueRecord,
  type Endpoint,
  recordToDelivery,
} from "./webhook_records.ts";
import { decide } from "./webhook_schedule.ts";

const ATTEMPT_MS = 15_000;
const ANSWER_BYTES_MAX = 64 * 1024;
const WAITING_MAX = 10_000;
const FAILING_MS_MAX = 5 * 86_400_000;
const PAGE = 1_000;
/** No wait is longer; one that seems so was stored by a clock that was put right since. */
const DELAY_MS_MAX = 86_400_000;
/** After a disk without room, or a fault. */
const AGAIN_MS = 30_000;

export interface DeliveryParts {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly egress: Pick<Egress, "check" | "request">;
  readonly endpoints: WebhookEndpoints;
  /** Told of what ought not to happen; the delivery is tried again. */
  readonly onFault: (error: unknown) => void;
}

/** What is sent, to whichever endpoints. */
export interface Message {
  readonly id: string;
  readonly type: Delivery["type"];
  /** JSON. */
  readonly body: string;
}

/** A waiting delivery, as it is kept in memory. */
interface Waiting {
  readonly id: string;
  readonly project: string;
  readonly endpointId: string;
}

/** At least once: a message may arrive twice, and its id tells. */
export class WebhookDeliveries {
  readonly #parts: DeliveryParts;
  readonly #queue = new DestinationQueue();
  readonly #timers = new Map<string, Timer>();
  /** Waiting deliveries by endpoint. */
  readonly #counts = new Map<string, number>();
  /** Who waits for the first attempt of a delivery. */
  readonly #watchers = new Map<string, () => void>();
  readonly #closing = new AbortController();

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    setMaxListeners(0, this.#closing.signal); // one for each attempt under way
  }

  /** Goes on with what an earlier process has left. */
  async start(): Promise<void> {
    const { store, clock } = this.#parts;
    for (let after: string | undefined; ; ) {
      const query = { collection: DUE, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const records = await store.records(EVERY_PROJECT, query);
      for (const { id, project, parent, body } of records) {
        this.#count(parent, 1);
        this.#schedule(
          { id, project, endpointId: parent },
          Math.min(Number(body) - clock.wallMs(), DELAY_MS_MAX),
        );
      }
      after = records.at(-1)?.id;
      if (records.length < PAGE) return;
    }
  }

  /** Stores the message for an endpoint, and begins; nothing when the endpoint has it already. */
  async add({ id: endpointId, project }: Endpoint, { id: messageId, type, body }: Message): Promise<string> {
    const { clock, store } = this.#parts;
    const id = `${endpointId}.${messageId}`;
    const base = { id, project, endpointId, createdWallMs: clock.wallMs(), messageId, type, attempts: 0 };
    const isTooMany = type !== "webhook.test" && (this.#counts.get(endpointId) ?? 0) >= WAITING_MAX;
    const delivery: Delivery = isTooMany
      ? { ...base, status: "failed", lastError: "too_many_waiting" }
      : { ...base, status: "waiting", nextWallMs: clock.wallMs(), message: body };
    try {
      await store.change([
        { kind: "insert", record: deliveryToRecord(delivery) },
        ...(isTooMany ? [] : [{ kind: "put" as const, record: dueRecord(delivery) }]),
      ]);
    } catch (error) {
      if (hasCode(error, "conflict")) return id;
      throw error;
    }
    if (isTooMany) return id;
    this.#count(endpointId, 1);
    this.#schedule({ id, project, endpointId }, 0);
    return id;
  }

  /** As `add`, and waits for the first attempt. */
  async tryOnce(endpoint: Endpoint, message: Message): Promise<Delivery> {
    const id = `${endpoint.id}.${message.id}`;
    const attempted = new Promise<void>((resolve) => {
      this.#watchers.set(id, resolve);
    });
    try {
      await this.add(endpoint, message);
      await attempted;
    } finally {
      this.#watchers.delete(id);
    }
    const record = await this.#parts.store.record(endpoint.project, DELIVERIES, id);
    if (record === undefined) throw new PerigeeError("not_found", "the webhook was removed meanwhile");
    return recordToDelivery(record);
  }

  /** The newest first. Throws `not_found` when `after` is none. */
  async list(project: string, endpointId: string, { after, limit }: PageQuery): Promise<Page<Delivery>> {
    const { store } = this.#parts;
    const isKnown =
      after === undefined || (await store.record(project, DELIVERIES, after))?.parent === endpointId;
    if (!isKnown) throw new PerigeeError("not_found", "no such delivery", { details: { param: "after" } });
    const records = await store.records(project, {
      collection: DELIVERIES,
      parent: endpointId,
      limit: limit + 1,
      isNewestFirst: true,
      ...(after === undefined ? {} : { after }),
    });
    return { items: records.slice(0, limit).map(recordToDelivery), hasMore: records.length > limit };
  }

  /** Cuts off attempts under way; they are made again by the next process. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    await this.#queue.close();
    for (const watcher of this.#watchers.values()) watcher();
  }

  #schedule(waiting: Waiting, delayMs: number): void {
    if (this.#closing.signal.aborted) return;
    this.#timers.set(
      waiting.id,
      this.#parts.clock.timer(delayMs, () => void this.#enqueue(waiting), { keepsAlive: false }),
    );
  }

  async #enqueue(waiting: Waiting): Promise<void> {
    this.#timers.delete(waiting.id);
    try {
      const endpoint = await this.#parts.endpoints.find(waiting.project, waiting.endpointId);
      const destination = endpoint === undefined ? "" : new URL(endpoint.url).host;
      this.#queue.push(destination, () => this.#run(waiting));
    } catch (error) {
      this.#failed(waiting, error);
    }
  }

  async #run(waiting: Waiting): Promise<void> {
    try {
      await this.#attempt(waiting);
    } catch (error) {
      this.#failed(waiting, error);
    }
  }

  /** What is stored still says that it waits: it is tried again later, or by the next process. */
  #failed(waiting: Waiting, error: unknown): void {
    const code = error instanceof PerigeeError ? error.code : undefined;
    if (code === "closed" || this.#closing.signal.aborted) return;
    if (code !== "disk_full") this.#parts.onFault(error);
    this.#schedule(waiting, AGAIN_MS);
  }

  async #attempt(waiting: Waiting): Promise<void> {
    const { store, endpoints, clock } = this.#parts;
    const record = await store.record(waiting.project, DELIVERIES, waiting.id);
    const delivery = record === undefined ? undefined : recordToDelivery(record);
    const endpoint = await endpoints.find(waiting.project, waiting.endpointId);
    if (endpoint === undefined || delivery?.status !== "waiting") return this.#forget(waiting);
    const isTest = delivery.type === "webhook.test";
    if (endpoint.disabled !== null && !isTest)
      return this.#end(endOf(delivery, { status: "failed", lastError: "endpoint_disabled" }));
    const result = await this.#send(endpoint, delivery);
    if (!result.ok && result.failure === "aborted") return;
    const attempts = delivery.attempts + 1;
    const wallMs = clock.wallMs();
    const decided = decide(result, { attempts, wallMs, random: clock.random() });
    const shown = result.ok ? { lastStatus: result.status } : { lastError: result.failure };
    if (decided.kind === "retry" && !isTest) {
      const nextWallMs = wallMs + decided.delayMs;
      await this.#again({ ...withoutLast(delivery), ...shown, attempts, nextWallMs }, decided.delayMs);
    } else {
      const status = decided.kind === "delivered" ? "delivered" : "failed";
      await this.#end(endOf(delivery, { ...shown, attempts, status }));
    }
    if (!isTest)
      await endpoints.note(endpoint.project, endpoint.id, (one) => taught(one, decided.kind, wallMs));
  }

  #send({ url, secrets }: Endpoint, { messageId, message = "" }: Delivery): Promise<GuardedResult> {
    const { clock, egress } = this.#parts;
    const wallMs = clock.wallMs();
    const valid = secrets.filter(({ expiresWallMs = Number.POSITIVE_INFINITY }) => wallMs < expiresWallMs);
    const signed = signedHeaders(
      { id: messageId, wallMs, body: message },
      valid.map(({ text }) => text),
    );
    return egress.request({
      url,
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": "perigee-webhooks/1", ...signed },
      body: new TextEncoder().encode(message),
      timeoutMs: ATTEMPT_MS,
      responseBytesMax: ANSWER_BYTES_MAX,
      signal: this.#closing.signal,
    });
  }

  async #again(delivery: Delivery, delayMs: number): Promise<void> {
    if ((await this.#parts.endpoints.find(delivery.project, delivery.endpointId)) === undefined) {
      return this.#forget(delivery);
    }
    await this.#parts.store.change([
      { kind: "put", record: deliveryToRecord(delivery) },
      { kind: "put", record: dueRecord(delivery) },
    ]);
    this.#schedule(delivery, delayMs);
  }

  async #end(delivery: Delivery): Promise<void> {
    if ((await this.#parts.endpoints.find(delivery.project, delivery.endpointId)) === undefined) {
      return this.#forget(delivery);
    }
    await this.#parts.store.change([
      { kind: "put", record: deliveryToRecord(delivery) },
      { kind: "delete", collection: DUE, id: delivery.id },
    ]);
    this.#over(delivery);
  }

  /** Of an endpoint that was removed, or ended before. */
  async #forget(waiting: Waiting): Promise<void> {
    await this.#parts.store.change([{ kind: "delete", collection: DUE, id: waiting.id }]);
    this.#over(waiting);
  }

  #over({ id, endpointId }: Waiting): void {
    this.#count(endpointId, -1);
    this.#watchers.get(id)?.();
  }

  #count(endpointId: string, change: number): void {
    const count = (this.#counts.get(endpointId) ?? 0) + change;
    if (count > 0) this.#counts.set(endpointId, count);
    else this.#counts.delete(endpointId);
  }
}

function withoutLast({ lastStatus: _status, lastError: _error, ...rest }: Delivery): Delivery {
  return rest;
}

/** The message is not kept once it is over. */
function endOf(delivery: Delivery, end: Partial<Delivery>): Delivery {
  const { nextWallMs: _next, message: _message, ...rest } = withoutLast(delivery);
  return { ...rest, ...end };
}

/** The endpoint after an attempt; itself when nothing changes. */
function taught(endpoint: Endpoint, kind: ReturnType<typeof decide>["kind"], wallMs: number): Endpoint {
  if (kind === "delivered") return withoutFailures(endpoint);
  if (endpoint.disabled !== null) return endpoint;
  if (kind === "gone") return { ...endpoint, disabled: "gone" };
  const { failingSinceWallMs } = endpoint;
  if (failingSinceWallMs === undefined) return { ...endpoint, failingSinceWallMs: wallMs };
  return wallMs - failingSinceWallMs >= FAILING_MS_MAX ? { ...endpoint, disabled: "failing" } : endpoint;
}
