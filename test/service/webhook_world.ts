/**
 * Webhooks on a store in memory and a clock of the test's, with receivers that are functions.
 */

import type { Egress, GuardedRequest, GuardedResult } from "../../src/egress/egress.ts";
import { PerigeeError } from "../../src/errors.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { openWebhooks, type Webhooks } from "../../src/service/webhooks/webhooks.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import type { TaskEvent } from "../../src/tasks/shapes/tasks.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { CountedDestinations } from "../jobs/counted_destinations.ts";
import { testVault } from "../satellites/test_vault.ts";

export interface Seen extends GuardedRequest {
  readonly atMs: number;
  readonly id: string;
  readonly text: string;
}

export type Receiver = (request: Seen) => GuardedResult | Promise<GuardedResult>;

export interface WebhookWorld {
  readonly clock: FakeClock;
  readonly store: Store;
  readonly seen: Seen[];
  readonly faults: unknown[];
  receiver: Receiver;
  webhooks: Webhooks;
  finish(task: string, given?: Partial<TaskView>, kind?: TaskEvent["kind"]): Promise<void>;
  /** Tells of a task that need not be there. */
  tell(event: TaskEvent): Promise<void>;
  /** Ends this process and begins another on the same store. */
  restart(): Promise<void>;
}

export function answer(status: number, headers: Record<string, string> = {}): GuardedResult {
  return { ok: true, status, headers, body: new Uint8Array(), isWhole: true };
}

export function taskView(id: string, given: Partial<TaskView> = {}): TaskView {
  return {
    id,
    project: "one",
    status: "completed",
    isCancelled: false,
    retries: 0,
    totalItems: 2,
    models: [],
    fileIds: [],
    counts: { submitted: 0, completed: 2, failed: 0, expired: 0, cancelled: 0 },
    createdWallMs: 1_767_225_600_000,
    finishedWallMs: 1_767_225_601_000,
    held: [],
    hasOutputFile: false,
    usage: { inputTokens: 7, outputTokens: 9, listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 },
    version: "1",
    ...given,
  };
}

/** Without an `egress` of its own, requests go to `receiver`. */
export async function openWebhookWorld(
  given: (clock: FakeClock) => Egress | undefined = () => undefined,
): Promise<WebhookWorld> {
  const clock = new FakeClock();
  const store = createMemoryStore();
  const tasks = new Map<string, TaskView>();
  const egress: Pick<Egress, "check" | "request"> = given(clock) ?? {
    check: (url) =>
      url.includes("blocked")
        ? { ok: false, message: "no" }
        : { ok: true, origin: "", path: "", host: "", isAddress: false, isAllowedOnly: false },
    async request(request) {
      const text = new TextDecoder().decode(request.body);
      const seen = { ...request, text, id: request.headers["webhook-id"] ?? "", atMs: clock.nowMs() };
      world.seen.push(seen);
      const aborted = new Promise<GuardedResult>((resolve) =>
        request.signal?.addEventListener("abort", () =>
          resolve({ ok: false, failure: "aborted", message: "stopped" }),
        ),
      );
      return await Promise.race([world.receiver(seen), aborted]);
    },
  };
  const workLog = await openWorkLog({ clock, store });
  const open = (): Promise<Webhooks> =>
    openWebhooks({
      ...{ clock, store, workLog },
      egress,
      vault: testVault,
      destinations: new CountedDestinations(),
      onFault: (error) => world.faults.push(error),
      tasks: {
        task: async (project, id) => {
          const task = tasks.get(id);
          if (task?.project === project) return task;
          throw new PerigeeError("not_found", "no such task");
        },
      },
    });
  const world: WebhookWorld = {
    clock,
    store,
    seen: [],
    faults: [],
    receiver: () => answer(200),
    webhooks: await open(),
    async finish(id, given = {}, kind = "completed") {
      const view = taskView(id, given);
      tasks.set(id, view);
      await world.tell({ kind, project: view.project, taskId: id });
    },
    tell: (event) => world.webhooks.told(event),
    async restart() {
      await world.webhooks.close();
      world.webhooks = await open();
    },
  };
  return world;
}
