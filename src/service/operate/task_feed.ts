/**
 * What the operator page shows of tasks: a page of them, and when the open ones will be done and what they will have cost.
 *
 *   expected cost of a task = billed + items without an answer x billed per item that was answered or failed
 *
 * Limits: 50 tasks a page; the outlook is of the open ones of the newest 200, computed every 5 s.
 */
import type { Clock } from "../../clock.ts";
import { hasCode } from "../../errors.ts";
import { moneyBody } from "../../price/money.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import { taskHold } from "../infer/task_body.ts";
import type { TaskName, TaskNames } from "./task_names.ts";

const PAGE_TASKS = 50;
const OUTLOOK_TASKS = 200;
const OUTLOOK_MS = 5_000;
/** Projects whose outlook is kept. */
const KEPT_MAX = 200;

/** Of all open tasks of a project. */
export interface Outlook {
  readonly open_tasks: number;
  readonly open_items: number;
  /** Unix milliseconds: when the last of them is expected to end; null while that of none is known. */
  readonly expected_end_at: number | null;
  /** Open tasks whose end is not known. */
  readonly unknown_tasks: number;
  /** Open tasks that are expected to end after their deadline. */
  readonly late_tasks: number;
  readonly billed_usd: number;
  /** When they are done, without those whose cost is not known; null while that of none is. */
  readonly expected_usd: number | null;
  /** Open tasks whose cost is not known, because no item of them has ended. */
  readonly uncosted_tasks: number;
  /** Older tasks exist that are not included. */
  readonly is_partial: boolean;
}

/** What a feed needs. */
export interface TaskFeedOptions {
  readonly clock: Clock;
  readonly tasks: Pick<Tasks, "list">;
  readonly names: Pick<TaskNames, "of">;
}

/** One for a process. */
export class TaskFeed {
  readonly #options: TaskFeedOptions;
  readonly #outlooks = new Map<string, { readonly atMs: number; readonly outlook: Promise<Outlook> }>();

  constructor(options: TaskFeedOptions) {
    this.#options = options;
  }

  /** Tasks after another one; after one that does not exist any more, the first ones. */
  async page(project: string, after: string | undefined): Promise<Record<string, unknown>> {
    const { tasks, names, clock } = this.#options;
    try {
      const query = { limit: PAGE_TASKS, ...(after === undefined ? {} : { after }) };
      const { items, hasMore } = await tasks.list(project, query);
      const nowMs = clock.wallMs();
      const bodies = await Promise.all(
        items.map(async (task) => taskBody(task, await names.of(task), nowMs)), // 50 at most
      );
      return { items: bodies, has_more: hasMore, after: after ?? null };
    } catch (error) {
      if (after === undefined || !hasCode(error, "not_found")) throw error;
      return this.page(project, undefined);
    }
  }

  outlook(project: string): Promise<Outlook> {
    const nowMs = this.#options.clock.nowMs();
    const known = this.#outlooks.get(project);
    if (known !== undefined && nowMs - known.atMs < OUTLOOK_MS) return known.outlook;
    const outlook = this.#computed(project);
    this.#outlooks.delete(project);
    this.#outlooks.set(project, { atMs: nowMs, outlook });
    outlook.catch(() => this.#outlooks.delete(project));
    for (const oldest of this.#outlooks.keys()) {
      if (this.#outlooks.size <= KEPT_MAX) break;
      this.#outlooks.delete(oldest);
    }
    return outlook;
  }

  async #computed(project: string): Promise<Outlook> {
    const { tasks, clock } = this.#options;
    const { items, hasMore } = await tasks.list(project, { limit: OUTLOOK_TASKS });
    return { ...outlookOf(items, clock.wallMs()), is_partial: hasMore };
  }
}

/** The outlook of those of the tasks that are open. */
export function outlookOf(tasks: readonly TaskView[], nowMs: number): Omit<Outlook, "is_partial"> {
  const open = tasks.filter(({ status }) => status === "submitted");
  const ends = open.flatMap(({ expectedEndWallMs: endMs }) =>
    endMs === undefined ? [] : [Math.max(endMs, nowMs)],
  );
  const costs = open.flatMap((task) => expectedUsd(task) ?? []);
  return {
    open_tasks: open.length,
    open_items: sum(open.map(({ counts }) => counts.submitted)),
    expected_end_at: ends.length === 0 ? null : Math.max(...ends),
    unknown_tasks: open.length - ends.length,
    late_tasks: open.filter((task) => (slackMs(task, nowMs) ?? 0) < 0).length,
    billed_usd: sum(open.map(({ usage }) => usage.billedUsd)),
    expected_usd: costs.length === 0 ? null : sum(costs),
    uncosted_tasks: open.length - costs.length,
  };
}

/** What providers will have billed for it; undefined before anything of it has ended. */
function expectedUsd({ usage, counts, isCancelled }: TaskView): number | undefined {
  const ended = counts.completed + counts.failed;
  if (counts.submitted === 0 || isCancelled) return usage.billedUsd;
  return ended === 0 ? undefined : usage.billedUsd + (counts.submitted * usage.billedUsd) / ended;
}

function taskBody(task: TaskView, name: TaskName | undefined, nowMs: number): Record<string, unknown> {
  const { usage } = task;
  return {
    task_id: task.id,
    name: name?.name ?? null,
    named_by: name?.named_by ?? null,
    models: task.models.slice(0, 5),
    status: task.status,
    is_cancelled: task.isCancelled,
    retries: task.retries,
    total_items: task.totalItems,
    counts: task.counts,
    created_at: task.createdWallMs,
    deadline_at: task.deadlineWallMs ?? null,
    finished_at: task.finishedWallMs ?? null,
    expected_end_at: task.expectedEndWallMs ?? null,
    slack_ms: slackMs(task, nowMs) ?? null,
    held: task.held.map(taskHold),
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    expected_usd: expectedUsd(task) ?? null,
    ...moneyBody(usage),
  };
}

/** Time left when it ended, or is expected to end; undefined without deadline or while nothing is known. */
function slackMs(task: TaskView, nowMs: number): number | undefined {
  const { deadlineWallMs, finishedWallMs, expectedEndWallMs } = task;
  if (deadlineWallMs === undefined) return undefined;
  const endMs = finishedWallMs ?? (expectedEndWallMs && Math.max(expectedEndWallMs, nowMs));
  return endMs === undefined ? undefined : deadlineWallMs - endMs;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
