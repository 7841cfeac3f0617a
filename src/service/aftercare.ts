/**
 * What happens to tasks after they have ended: webhooks are told, and what is old enough is removed.
 *
 *   webhooks and tasks opened together (each needs the other) -> open -> tasks closed -> webhooks and retention closed
 */
import type { Clock } from "../clock.ts";
import { type AllowList, parseAllowList } from "../egress/address.ts";
import { createEgress } from "../egress/egress.ts";
import { PerigeeError } from "../errors.ts";
import type { RecordStore } from "../store/records.ts";
import type { Files } from "../tasks/files.ts";
import { type Kept, keptFiles, keptTasks, startRetention } from "../tasks/retention.ts";
import { USAGE_SOURCES } from "../tasks/spending.ts";
import type { OpenedTasks } from "../tasks/task_desk.ts";
import type { TaskEvent } from "../tasks/tasks.ts";
import { keptBatches } from "./batch_record.ts";
import { IDEMPOTENCY, IDEMPOTENCY_MS } from "./idempotency.ts";
import { DELIVERIES } from "./webhook_records.ts";
import { openWebhooks, type Webhooks } from "./webhooks.ts";

export interface AftercareOptions {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly files: Files;
  /** Opens the tasks with a listener from the start. */
  readonly openTasks: (onFinished: (event: TaskEvent) => Promise<void>) => Promise<OpenedTasks>;
  /** CIDRs, or the text of `PERIGEE_EGRESS_ALLOW`. */
  readonly egressAllow: AllowList | string | undefined;
  /** Ports besides 80, 443 and 8443. */
  readonly egressPorts?: readonly number[] | undefined;
  /** Default 30. */
  readonly retentionDays: number | undefined;
  readonly onFault?: ((error: unknown) => void) | undefined;
}

export interface Aftercare {
  readonly tasks: OpenedTasks;
  readonly webhooks: Webhooks;
  close(): Promise<void>;
}

const DAY_MS = 86_400_000;
const DAYS_MAX = 3_650;

/** Throws `invalid_config` for networks and days that are none. */
export async function openAftercare(options: AftercareOptions): Promise<Aftercare> {
  const { clock, store, files, egressAllow, retentionDays = 30, onFault } = options;
  if (!(retentionDays >= 1 && retentionDays <= DAYS_MAX))
    throw new PerigeeError("invalid_config", `retentionDays must be 1 to ${DAYS_MAX}, got ${retentionDays}`);
  const allow = typeof egressAllow === "object" ? egressAllow : parseAllowList(egressAllow);
  const fault = onFault === undefined ? {} : { onFault };
  // Each needs the other: what is left from before is told to webhooks while tasks are being opened.
  const opening: { tasks?: Promise<OpenedTasks> } = {};
  const webhooks = await openWebhooks({
    clock,
    store,
    egress: createEgress({ clock, allow, ports: options.egressPorts ?? [] }),
    tasks: {
      task: async (project, id) => {
        const tasks = await opening.tasks;
        if (tasks === undefined) throw new PerigeeError("internal_error", "told before tasks are opened");
        return tasks.task(project, id);
      },
    },
    ...fault,
  });
  opening.tasks = options.openTasks((event) => webhooks.told(event));
  const tasks = await opening.tasks;
  const kinds = keptKinds(store, tasks, files, retentionDays * DAY_MS);
  const retention = startRetention({ clock, store, kinds, ...fault });
  return {
    tasks,
    webhooks,
    close: async () => {
      await retention.close();
      await tasks.close();
      await webhooks.close();
    },
  };
}

function keptKinds(store: RecordStore, tasks: OpenedTasks, files: Files, keepMs: number): readonly Kept[] {
  return [
    keptBatches(store, keepMs),
    keptTasks(tasks, keepMs),
    keptFiles(files, keepMs),
    { collection: DELIVERIES, keepMs },
    { collection: IDEMPOTENCY, keepMs: IDEMPOTENCY_MS },
    // A task is told of again until it has gone: longer than that, so that it is not counted twice.
    { collection: USAGE_SOURCES, keepMs: keepMs + 45 * DAY_MS },
  ];
}
