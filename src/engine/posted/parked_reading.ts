/**
 * Reads parked tasks into memory while there is space, each project's earliest deadlines first.
 *
 *   resting --something is parked, or memory has space--> reading -> resting
 *   what cannot be read is tried again a minute later
 *
 * Where batches are possible, tasks of far deadlines are read together that are further apart: as far as posts wait for each other.
 */
import type { Clock } from "../../clock.ts";
import type { Backlog } from "../items/backlog.ts";
import type { ParkedTask, ParkedTasks } from "./parked_tasks.ts";
import type { PostedGroup, PostedGroups } from "./posted_groups.ts";
import type { PostedItems } from "./posted_items.ts";
import type { PostedLog } from "./posted_log.ts";
import { waitForOthersMs } from "./waiting_posts.ts";

/** Items that are read together, and the largest difference of their deadlines: the group ends by the earliest. */
export const READ_ITEMS_MAX = 1_024;
export const READ_WITHIN_MS = 250;
/** Time until what could not be read, or a group that could not continue, is tried again. */
export const AGAIN_MS = 60_000;

export interface ParkedReadingOptions {
  readonly clock: Clock;
  readonly backlog: Pick<Backlog, "hasRoomFor" | "change">;
  readonly log: PostedLog;
  readonly parked: ParkedTasks;
  readonly groups: PostedGroups;
  readonly work: ParkedWork;
}

/** The work that parked tasks enter. */
export interface ParkedWork {
  /** The latest group of a project. */
  readonly lastOf: (project: string) => PostedItems | undefined;
  /** Whether memory has space. */
  readonly mayRead: () => boolean;
  /** Whether anything goes with batches. */
  readonly hasBatches: boolean;
  /** Resolves when the items of a group wait in their lanes. */
  readonly enter: (group: PostedGroup) => Promise<void>;
  readonly onFault: (error: unknown) => void;
}

/** One for an engine. */
export class ParkedReading {
  readonly #options: ParkedReadingOptions;
  #isReading = false;

  constructor(options: ParkedReadingOptions) {
    this.#options = options;
  }

  /** Call it when something was parked, or space may be free. */
  feed(): void {
    const { parked, work } = this.#options;
    if (this.#isReading || parked.size === 0 || !work.mayRead()) return;
    this.#isReading = true;
    this.#readAll()
      .catch(work.onFault)
      .finally(() => {
        this.#isReading = false;
      });
  }

  async #readAll(): Promise<void> {
    const { parked, work, backlog } = this.#options;
    for (let hasRead = true; hasRead; ) {
      hasRead = false;
      for (const project of parked.projects) {
        const last = work.lastOf(project);
        if (last !== undefined && !backlog.hasRoomFor(last.id)) continue;
        if (!work.mayRead()) return;
        const taken = parked.take(project, READ_ITEMS_MAX, this.#withinMs(project));
        if (taken.length === 0) continue;
        await this.#read(project, taken);
        hasRead = true;
      }
    }
    if (parked.size > 0) void backlog.change().then(() => this.feed());
  }

  #withinMs(project: string): number {
    const { parked, clock, work } = this.#options;
    const leftMs = parked.firstDueMs(project) - clock.nowMs();
    return work.hasBatches ? Math.max(READ_WITHIN_MS, waitForOthersMs(leftMs)) : READ_WITHIN_MS;
  }

  async #read(project: string, taken: readonly ParkedTask[]): Promise<void> {
    const { groups, work } = this.#options;
    try {
      const group = await groups.read(project, taken);
      if (group !== undefined) await work.enter(group);
    } catch (error) {
      this.#again(project, taken, error);
    }
  }

  #again(project: string, taken: readonly ParkedTask[], error: unknown): void {
    const { log, parked, clock, work } = this.#options;
    work.onFault(error);
    const again = (): void => {
      for (const task of taken) if (log.log.has(task.number)) parked.add(project, task);
      this.feed();
    };
    clock.timer(AGAIN_MS, again, { keepsAlive: false });
  }
}
