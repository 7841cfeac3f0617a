/**
 * What happens to tasks after they have ended: webhooks are notified, and what is old enough is removed.
 *
 *   webhooks and tasks opened together (each needs the other) -> open -> tasks closed -> webhooks and retention closed
 */
import type { Clock } from "../clock.ts";
import { keptClusters } from "../clusters/runs/cluster_retention.ts";
import type { Disk } from "../disk.ts";
import type { Egress } from "../egress/egress.ts";
import { PerigeeError } from "../errors.ts";
import type { Destinations } from "../jobs/destinations.ts";
import { removeEndedJobs } from "../jobs/job_retention.ts";
import { WORK_KINDS } from "../log/work_kinds.ts";
import type { WorkLog } from "../log/work_log.ts";
import type { Vault } from "../satellites/secrets/vault.ts";
import type { Audit } from "../store/audit/audit_log.ts";
import type { StoredRecord } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import { isClockTrusted } from "../tasks/clock_trust.ts";
import type { Files } from "../tasks/files/files.ts";
import { LEFTOVER_KEEP_MS, sweepLeftovers } from "../tasks/leftovers.ts";
import { recordToTask } from "../tasks/lots/task_record.ts";
import type { OpenedTasks } from "../tasks/open_tasks.ts";
import {
  type Kept,
  type KeptRecords,
  keptFiles,
  keptPosted,
  keptTasks,
  startRetention,
} from "../tasks/retention.ts";
import { startScrubbing } from "../tasks/scrubbing.ts";
import type { TaskEvent } from "../tasks/shapes/tasks.ts";
import { USAGE_SOURCES } from "../tasks/usage/spending.ts";
import { IDEMPOTENCY, IDEMPOTENCY_MS } from "./http/idempotency.ts";
import { keptBatches } from "./openai/batch_record.ts";
import { openWebhooks, type Webhooks } from "./webhooks/webhooks.ts";

export interface CompletionOptions {
  readonly clock: Clock;
  readonly store: Store;
  readonly workLog: WorkLog;
  readonly disk: Disk;
  readonly dataDir: string;
  readonly notice: (message: string) => void;
  readonly files: Files;
  /** Opens the tasks with a listener from the start. */
  readonly openTasks: (onFinished: (event: TaskEvent) => Promise<void>) => Promise<OpenedTasks>;
  readonly egress: Egress;
  readonly vault: Vault;
  readonly destinations: Destinations;
  /** Default 30. */
  readonly retentionDays: number | undefined;
  readonly onFault?: ((error: unknown) => void) | undefined;
  /** Receives the tasks and files that were removed for their age. */
  readonly audit?: Audit | undefined;
}

/** Tasks and webhooks, opened together because each needs the other, with what removes the old. */
export interface Completion {
  readonly tasks: OpenedTasks;
  readonly webhooks: Webhooks;
  close(): Promise<void>;
}

const DAY_MS = 86_400_000;
const DAYS_MAX = 3_650;

/** Throws `invalid_config` for `retentionDays` out of range. */
export async function openCompletion(options: CompletionOptions): Promise<Completion> {
  const { clock, store, workLog, files, egress, vault, destinations, onFault } = options;
  const { retentionDays = 30 } = options;
  if (!(retentionDays >= 1 && retentionDays <= DAYS_MAX))
    throw new PerigeeError("invalid_config", `retentionDays must be 1 to ${DAYS_MAX}, got ${retentionDays}`);
  const fault = onFault === undefined ? {} : { onFault };
  // Each needs the other: webhooks are notified of ends left from before while tasks are being opened.
  const opening: { tasks?: Promise<OpenedTasks> } = {};
  const webhooks = await openWebhooks({
    clock,
    ...{ store, workLog },
    egress,
    ...{ vault, destinations },
    tasks: {
      task: async (project, id) => {
        const tasks = await opening.tasks;
        if (tasks === undefined) throw new PerigeeError("internal_error", "called before tasks are opened");
        return tasks.task(project, id);
      },
    },
    ...fault,
  });
  opening.tasks = options.openTasks((event) => webhooks.told(event));
  const tasks = await opening.tasks;
  const keepMs = retentionDays * DAY_MS;
  const kinds = keptKinds({ store, files, audit: options.audit }, tasks, keepMs);
  const retention = startRetention({
    clock,
    store,
    kinds,
    isClockTrusted: () => isClockTrusted(options),
    sweeps: [
      { keepMs: LEFTOVER_KEEP_MS, sweep: (oldestWallMs) => sweepLeftovers(options, oldestWallMs) },
      {
        keepMs,
        sweep: (...range) => removeEndedJobs(workLog, [WORK_KINDS.execution, WORK_KINDS.delivery], ...range),
      },
    ],
    ...fault,
  });
  const scrubbing = startScrubbing({ clock, store, ...fault });
  return {
    tasks,
    webhooks,
    close: async () => {
      await retention.close();
      await scrubbing.close();
      await tasks.close();
      await webhooks.close();
    },
  };
}

function keptKinds(
  { store, files, audit }: Pick<CompletionOptions, "store" | "files" | "audit">,
  tasks: OpenedTasks,
  keepMs: number,
): readonly Kept[] {
  const by = "retention";
  return [
    keptBatches(store, keepMs),
    keptClusters(store, keepMs),
    noted(keptTasks(tasks, keepMs), (record) =>
      audit?.note({ kind: "task.deleted", project: record.project, taskId: recordToTask(record).id, by }),
    ),
    keptPosted(tasks, keepMs, (project, taskId) =>
      audit?.note({ kind: "task.deleted", project, taskId, by }),
    ),
    noted(keptFiles(files, keepMs), ({ project, id }) =>
      audit?.note({ kind: "file.deleted", project, fileId: id, by }),
    ),
    { collection: IDEMPOTENCY, keepMs: IDEMPOTENCY_MS },
    // The end of a task is reported again until the task is removed: kept longer than that, so that it is not counted twice.
    { collection: USAGE_SOURCES, keepMs: keepMs + 45 * DAY_MS },
  ];
}

/** Reports each record that was removed. */
function noted(kind: KeptRecords, note: (record: StoredRecord) => void): KeptRecords {
  return {
    ...kind,
    remove: async (record, oldestWallMs) => {
      const isRemoved = (await kind.remove?.(record, oldestWallMs)) === true;
      if (isRemoved) note(record);
      return isRemoved;
    },
  };
}
