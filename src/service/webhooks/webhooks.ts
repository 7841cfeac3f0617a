/**
 * Webhooks: notifies the endpoints of a project that one of its tasks has ended.
 *
 *   task final -> message -> a delivery for each endpoint that wants it (`webhook_deliveries.ts`)
 *
 * The message is `{type, timestamp, data}` with ids, status and counts; never a prompt or an answer. Its id is made of the
 * task's, so that a task whose end is reported twice is delivered once.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { Egress } from "../../egress/egress.ts";
import { hasCode, ifFound, PerigeeError } from "../../errors.ts";
import type { Destinations } from "../../jobs/destinations.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { Vault } from "../../satellites/secrets/vault.ts";
import type { RecordStore } from "../../store/records.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { TaskEvent, Tasks } from "../../tasks/shapes/tasks.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Delivery } from "./delivery_record.ts";
import { type Message, WebhookDeliveries } from "./webhook_deliveries.ts";
import { sealEndpoints, WebhookEndpoints } from "./webhook_endpoints.ts";
import type { EventType } from "./webhook_records.ts";

export interface WebhooksOptions {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly workLog: WorkLog;
  readonly egress: Pick<Egress, "check" | "request">;
  readonly tasks: Pick<Tasks, "task">;
  /** Shared by all requests to hosts of users. */
  readonly destinations: Destinations;
  /** Encrypts the secrets that sign. */
  readonly vault: Vault;
  /** Receives faults of perigee, for the log. */
  readonly onFault?: (error: unknown) => void;
}

/** Receives the ends of tasks, and notifies their endpoints. */
export interface Webhooks {
  readonly endpoints: WebhookEndpoints;
  readonly deliveries: WebhookDeliveries;
  /** For `Tasks.onFinished`: resolves when every delivery of the message is durable. */
  told(event: TaskEvent): Promise<void>;
  /** Sends a message to try an endpoint, once, also when it is disabled. Throws `not_found`. */
  test(project: string, endpointId: string): Promise<Delivery>;
  /** Begins no further attempt; those under way continue. */
  stop(): void;
  /** Cuts off what is under way; the next process continues it. */
  close(): Promise<void>;
}

const AGAIN_MS = 5_000;

/** Continues the deliveries that are stored. */
export async function openWebhooks(options: WebhooksOptions): Promise<Webhooks> {
  const { clock, store, workLog, egress, tasks, destinations, vault, onFault = () => undefined } = options;
  await sealEndpoints(store, vault);
  const endpoints = new WebhookEndpoints(clock, store, egress, vault);
  const deliveries = new WebhookDeliveries({ clock, workLog, egress, endpoints, destinations, onFault });
  const closing = new AbortController();
  await deliveries.start(store);
  return {
    endpoints,
    deliveries,
    told: (event) => told({ tasks, endpoints, deliveries, clock }, event, closing.signal),
    async test(project, endpointId) {
      const endpoint = await endpoints.get(project, endpointId);
      const body = messageBody("webhook.test", clock.wallMs(), { webhook_id: endpointId });
      return await deliveries.tryOnce(endpoint, {
        id: `msg_test_${randomUUID()}`,
        type: "webhook.test",
        body,
      });
    },
    stop: () => deliveries.stop(),
    async close() {
      closing.abort(new PerigeeError("closed", "the service is closing"));
      await deliveries.close();
    },
  };
}

interface Telling {
  readonly clock: Clock;
  readonly tasks: Pick<Tasks, "task">;
  readonly endpoints: WebhookEndpoints;
  readonly deliveries: WebhookDeliveries;
}

/** Resolves when all deliveries are durable; a disk without space is waited for. */
async function told(telling: Telling, event: TaskEvent, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      return await tell(telling, event);
    } catch (error) {
      if (!hasCode(error, "disk_full")) throw error;
      await telling.clock.sleep(AGAIN_MS, { signal });
    }
  }
}

async function tell({ tasks, endpoints, deliveries, clock }: Telling, event: TaskEvent): Promise<void> {
  const enabled = (await endpoints.list(event.project)).filter(({ disabled }) => disabled === null);
  if (enabled.length === 0) return;
  const task = await ifFound(tasks.task(event.project, event.taskId));
  if (task === undefined) return;
  const type = typeOf(event, task);
  const body = messageBody(type, task.finishedWallMs ?? clock.wallMs(), taskData(task, event));
  const again = task.retries === 0 ? "" : `_${task.retries}`;
  const message: Message = { id: `msg_${task.id.replaceAll("-", "")}_finished${again}`, type, body };
  for (const endpoint of enabled) if (endpoint.events.includes(type)) await deliveries.add(endpoint, message);
}

function typeOf(event: TaskEvent, task: TaskView): EventType {
  if (event.kind === "failed") return "task.failed";
  return task.isCancelled ? "task.cancelled" : "task.completed";
}

function taskData(task: TaskView, event: TaskEvent): object {
  const { usage } = task;
  return {
    task_id: task.id,
    status: event.kind,
    is_cancelled: task.isCancelled,
    total_items: task.totalItems,
    counts: task.counts,
    usage: { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens },
    created_at: timestamp(task.createdWallMs),
  };
}

function messageBody(type: string, wallMs: number, data: object): string {
  return JSON.stringify({ type, timestamp: timestamp(wallMs), data });
}
