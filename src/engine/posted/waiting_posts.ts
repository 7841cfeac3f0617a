/**
 * Small posts with a far deadline, of which enough together would go with a batch: they wait for each other, as numbers and deadlines.
 *
 *   waiting -> together: as many as one group holds, or at least `minItems` and none came for ten seconds, or the time is over
 *           -> alone:    at their pace `minItems` would not come in that time
 *
 * The time is a hundredth of the window, and five minutes at most; it is reckoned every ten seconds. Nothing of this is stored: after
 * a restart the tasks are parked, as all others.
 *
 * Limit: `itemsMax` items of a project and window; the backlog limits all together.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { ParkedTask } from "./parked_tasks.ts";

const LOOK_MS = 10_000;
const WAIT_MS_MAX = 300_000;
const WAIT_SHARE = 1 / 100;

/** How long posts may wait for others, if so much time is left: a group ends by its earliest deadline. */
export function waitForOthersMs(leftMs: number): number {
  return Math.min(WAIT_MS_MAX, leftMs * WAIT_SHARE);
}

type WaitingTask = Omit<ParkedTask, "dueMs">;

/** Tasks of one project and one window. */
interface WaitingGroup {
  readonly project: string;
  readonly limitMs: number;
  readonly sinceMs: number;
  /** Of the first of them. */
  readonly deadlineMs: number;
  tasks: WaitingTask[];
  items: number;
  /** Monotonic: when the last one came. */
  cameMs: number;
  timer?: Timer;
}

export interface WaitingPostsOptions {
  readonly clock: Clock;
  /** Of a batch, at least. */
  readonly minItems: number;
  /** Of a group, at most. */
  readonly itemsMax: number;
  /** They wait no more. */
  readonly onReady: (project: string, tasks: readonly WaitingTask[]) => void;
}

/** One for an engine. */
export class WaitingPosts {
  readonly #options: WaitingPostsOptions;
  /** By window and project. */
  readonly #waiting = new Map<string, WaitingGroup>();

  constructor(options: WaitingPostsOptions) {
    this.#options = options;
  }

  /** `windowMs`: between acceptance and deadline. */
  add(project: string, windowMs: number, tasks: readonly WaitingTask[]): void {
    const key = `${windowMs} ${project}`;
    for (const task of tasks) {
      const waiting = this.#waiting.get(key) ?? this.#begun(key, { project, windowMs, first: task });
      if (waiting.items > 0 && waiting.items + task.left > this.#options.itemsMax) {
        this.#ready(key, waiting);
        this.add(project, windowMs, [task]);
        continue;
      }
      waiting.tasks.push(task);
      waiting.items += task.left;
      waiting.cameMs = this.#options.clock.nowMs();
    }
  }

  /** Items of a project that are due by then (monotonic), as far as the first of their group is. */
  items(project: string, deadlineMs: number): number {
    let items = 0;
    for (const waiting of this.#waiting.values())
      if (waiting.project === project && waiting.deadlineMs <= deadlineMs) items += waiting.items;
    return items;
  }

  /** None is ready any more. */
  close(): void {
    for (const { timer } of this.#waiting.values()) timer?.cancel();
    this.#waiting.clear();
  }

  #begun(
    key: string,
    {
      project,
      windowMs,
      first,
    }: { readonly project: string; readonly windowMs: number; readonly first: WaitingTask },
  ): WaitingGroup {
    const nowMs = this.#options.clock.nowMs();
    const { deadlineMs } = first;
    const times = { limitMs: waitForOthersMs(windowMs), sinceMs: nowMs, cameMs: nowMs, deadlineMs };
    const waiting: WaitingGroup = { project, ...times, tasks: [], items: 0 };
    this.#waiting.set(key, waiting);
    this.#lookLater(key, waiting);
    return waiting;
  }

  #ready(key: string, { project, tasks, timer }: WaitingGroup): void {
    timer?.cancel();
    this.#waiting.delete(key);
    this.#options.onReady(project, tasks);
  }

  #lookLater(key: string, waiting: WaitingGroup): void {
    const { clock } = this.#options;
    const leftMs = waiting.sinceMs + waiting.limitMs - clock.nowMs();
    waiting.timer = clock.timer(Math.min(LOOK_MS, leftMs), () => this.#look(key, waiting), {
      keepsAlive: false,
    });
  }

  #look(key: string, waiting: WaitingGroup): void {
    const { clock, minItems } = this.#options;
    const { sinceMs, items, cameMs, limitMs } = waiting;
    const nowMs = clock.nowMs();
    const waitedMs = nowMs - sinceMs;
    const isSlow = items * limitMs < minItems * waitedMs;
    const isIdle = items >= minItems && nowMs - cameMs >= LOOK_MS;
    if (waitedMs >= limitMs || isSlow || isIdle) this.#ready(key, waiting);
    else this.#lookLater(key, waiting);
  }
}
