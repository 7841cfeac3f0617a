/**
 * Groups that go on: those of earlier processes that have batches, and all after a failure or a hold.
 *
 *   start:  read -> their tasks are not parked -> owner with its old lines -> its batches go on, the rest of these tasks is sent
 *   failed: with batches -> the same, a minute later         without -> its open tasks are parked
 *   held:   with items under way -> what was held is sent    without -> its open tasks are parked
 */
import type { WorkLog } from "../../log/work_log.ts";
import type { LineSet } from "../../work/line_set.ts";
import type { EngineCore } from "../core.ts";
import { asFailure } from "../journal/file_errors.ts";
import { type BatchedGroups, type EarlierGroup, hasLine } from "./batched_groups.ts";
import { AGAIN_MS } from "./parked_reading.ts";
import type { ParkedTasks } from "./parked_tasks.ts";
import type { PostedGroups } from "./posted_groups.ts";
import type { PostedHomes } from "./posted_homes.ts";
import type { PostedItems } from "./posted_items.ts";

/** The lines of a group that are with batches, and the first line of a task. */
export interface BatchedPlace {
  readonly lines: LineSet;
  readonly firstLine: number;
}

export interface ResumingOptions {
  readonly core: EngineCore;
  readonly log: WorkLog;
  readonly groups: PostedGroups;
  readonly batched: BatchedGroups;
  readonly homes: PostedHomes;
  readonly parked: ParkedTasks;
  readonly work: ResumedWork;
}

/** The work that groups enter. */
export interface ResumedWork {
  readonly isClosed: () => boolean;
  /** A group that is in memory expires at its deadline from here on. */
  readonly expireLater: (owner: PostedItems) => void;
  /** It may be over. */
  readonly look: (owner: PostedItems) => void;
  /** A task was parked. */
  readonly feed: () => void;
  /** It cannot go on. */
  readonly leave: (owner: PostedItems) => void;
  readonly onFault: (error: unknown) => void;
}

/** One for a kind of tasks of an engine. */
export class Resuming {
  readonly #options: ResumingOptions;
  #earlier: readonly EarlierGroup[] = [];
  /** How to end that caps count what batches may cost, by the id of their group: it holds that itself once it has them. */
  readonly #counted = new Map<string, () => void>();
  /** Groups whose fresh items are being measured. */
  readonly #sending = new Set<PostedItems>();

  constructor(options: ResumingOptions) {
    this.#options = options;
  }

  /** Reads which groups of earlier processes have batches. */
  async read(): Promise<void> {
    this.#earlier = await this.#options.batched.earlier();
    for (const { record, batches } of this.#earlier) {
      const usd = batches.reduce((sum, { mostUsd }) => sum + mostUsd, 0);
      this.#counted.set(record.id, await this.#options.groups.countHeld(record.project, usd));
    }
  }

  /** Of the groups that were read: their tasks with items that are with batches. */
  places(): ReadonlyMap<number, BatchedPlace> {
    const places = new Map<number, BatchedPlace>();
    for (const { record, lines } of this.#earlier) {
      let firstLine = 1;
      for (const { number, items } of record.tasks) {
        if (hasLine(lines, { firstLine, items })) places.set(number, { lines, firstLine });
        firstLine += items;
      }
    }
    return places;
  }

  /** Resolves when all that were read have their batches. */
  async start(): Promise<void> {
    const earlier = this.#earlier;
    this.#earlier = [];
    await Promise.all(earlier.map((group) => this.#resume(group)));
  }

  /** A group that was held. */
  again(owner: PostedItems): void {
    const { core, homes, work } = this.#options;
    const { items, settings, measureAgain } = owner;
    if (items.claimed.size === 0) {
      work.leave(owner);
      this.#parkAll(owner);
    } else if (measureAgain === undefined) {
      return; // what is in flight ends first
    } else if (items.waitingItems > 0 || this.#sending.has(owner)) {
      const again = (): void => {
        if (homes.has(owner) && items.held.size > 0) this.again(owner);
      };
      core.storage.clock.timer(AGAIN_MS, again, { keepsAlive: false });
    } else {
      items.held.clear(); // its batches may take hours
      settings.budget.wantNothing();
      this.#sendFresh(owner);
    }
  }

  /** A group that has failed and was left. Never rejects. */
  async readAgain(owner: PostedItems): Promise<void> {
    const { core, batched, homes, work } = this.#options;
    if (work.isClosed()) return;
    try {
      const group = owner.measureAgain === undefined ? undefined : await batched.find(owner.id);
      for (const task of owner.tasks)
        if (group !== undefined && hasLine(group.lines, task)) homes.forget(task.number);
      this.#parkAll(owner);
      if (group !== undefined) await this.#resume(group);
    } catch (error) {
      work.onFault(error); // what is with batches must not be sent again before it is known
      core.storage.clock.timer(AGAIN_MS, () => void this.readAgain(owner), { keepsAlive: false });
    }
  }

  /** Resolves when it has its batches. Never rejects. */
  async #resume(group: EarlierGroup): Promise<void> {
    const { core, log, groups, batched, homes, work } = this.#options;
    let owner: PostedItems | undefined;
    try {
      const restored = await batched.restored(group, groups);
      if (work.isClosed()) return; // the next process goes on
      owner = restored;
      homes.enter(owner, (task) => log.has(task.number) && hasLine(group.lines, task));
      await core.sending.batches.adopt(owner);
      this.#counted.get(owner.id)?.();
      this.#counted.delete(owner.id);
      work.expireLater(owner); // only now: items with batches do not end with the rest of their tasks
      this.#sendFresh(owner);
    } catch (error) {
      if (owner !== undefined) work.leave(owner);
      if (owner !== undefined) core.sending.lanes.drop(owner);
      if (work.isClosed()) return;
      work.onFault(error);
      core.storage.clock.timer(AGAIN_MS, () => void this.#resume(group), { keepsAlive: false });
    }
  }

  /** Sends the items of a group that are neither done nor with a lane or a batch. */
  #sendFresh(owner: PostedItems): void {
    const { homes, groups, work } = this.#options;
    const send = async (): Promise<void> => {
      for (const task of owner.tasks) {
        if (homes.of(task.number)?.owner !== owner) continue;
        const items = Array.from(owner.freshLines(task), (line) => line - task.firstLine);
        if (items.length > 0) await groups.sendAgain(owner, task, items);
      }
    };
    this.#sending.add(owner);
    send()
      .catch((error: unknown) => owner.fail(asFailure(error)))
      .finally(() => {
        this.#sending.delete(owner);
        work.look(owner);
      });
  }

  #parkAll(owner: PostedItems): void {
    const { log, homes, parked, work } = this.#options;
    const { project, deadlineMs } = owner.settings;
    for (const { number } of owner.tasks) {
      const open = log.task(number);
      if (homes.of(number)?.owner !== owner || open === undefined) continue;
      homes.forget(number);
      parked.add(project, { number, left: open.left, deadlineMs });
    }
    work.feed();
  }
}
