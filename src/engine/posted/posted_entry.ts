/**
 * The way of posted tasks from their acceptance into memory.
 *
 *   with an sla     accepted, durable -> in memory a moment later | waits for others of its like (`waiting_posts.ts`) | parked
 *   without an sla  accepted and in memory in one turn: its intents are in the commit of its acceptance
 *                      -> durable -> sent
 *                      -> refused (the disk is full): nothing was sent; its money and its places are free again, and it is forgotten
 *                   as with an sla, where memory is full or others are due before it
 *
 * Limit: `DIRECT_ITEMS_MAX` items in memory of tasks that were not parked before.
 */
import type { WorkKind } from "../../log/work_kinds.ts";
import { overAtMs } from "../../work/sla.ts";
import { MicroBatches } from "../arrivals/micro_batches.ts";
import type { EngineCore } from "../core.ts";
import { asFailure } from "../journal/file_errors.ts";
import type { BatchedGroups } from "./batched_groups.ts";
import { READ_ITEMS_MAX } from "./parked_reading.ts";
import type { ParkedTasks } from "./parked_tasks.ts";
import type { NewGroup, PostedGroup, PostedGroups } from "./posted_groups.ts";
import type { PostedHomes } from "./posted_homes.ts";
import { type PostedItems, placeTasks } from "./posted_items.ts";
import type { PostedLog } from "./posted_log.ts";
import { WaitingPosts } from "./waiting_posts.ts";

const DIRECT_ITEMS_MAX = 16_384;
/** How often it is checked whether a refused group holds nothing any more. */
const LEAVING_MS = 20;

/** The parts of posted work that an entry needs. */
export interface PostedEntryOptions {
  readonly core: EngineCore;
  readonly log: PostedLog;
  readonly kind: WorkKind;
  readonly homes: PostedHomes;
  readonly parked: ParkedTasks;
  readonly groups: PostedGroups;
  readonly batched: BatchedGroups;
  readonly work: EnteredWork;
}

/** The work that groups enter. */
export interface EnteredWork {
  readonly isClosed: () => boolean;
  /** A group that is in memory expires at its deadline from here on. */
  readonly expireLater: (owner: PostedItems) => void;
  readonly leave: (owner: PostedItems) => void;
  /** Tasks were parked. */
  readonly feed: () => void;
  readonly onFault: (error: unknown) => void;
}

/** Tasks that were accepted together. */
interface Entrants {
  readonly group: NewGroup;
  readonly numbers: readonly number[];
  /** Monotonic. */
  readonly deadlineMs: number;
  readonly wallOffsetMs: number;
}

/** One for a kind of tasks of an engine. */
export class PostedEntry {
  readonly #options: PostedEntryOptions;
  readonly #microBatches: MicroBatches;
  readonly #waiting: WaitingPosts;

  constructor(options: PostedEntryOptions) {
    this.#options = options;
    const { core, log, parked, work } = options;
    const { clock } = core.storage;
    this.#microBatches = new MicroBatches(clock);
    this.#waiting = new WaitingPosts({
      clock,
      minItems: core.config.lanes.minItems,
      itemsMax: READ_ITEMS_MAX,
      onReady: (project, tasks) => {
        for (const task of tasks) if (log.log.has(task.number)) parked.add(project, task);
        work.feed();
      },
    });
  }

  /** Items that forecasts do not see in lanes yet, due by then (monotonic). */
  items(project: string, deadlineMs: number): number {
    return this.#microBatches.items(project, deadlineMs) + this.#waiting.items(project, deadlineMs);
  }

  /** See `PostedWork.accept`. */
  async accept(group: NewGroup): Promise<readonly number[]> {
    const { createdWallMs, deadlineWallMs, project, tasks } = group;
    const { core, log, kind, homes, groups, work } = this.#options;
    const { clock } = core.storage;
    const deadlineMs =
      deadlineWallMs === undefined ? Number.POSITIVE_INFINITY : overAtMs(clock, deadlineWallMs);
    const wallOffsetMs = createdWallMs - clock.nowMs();
    const isDirect = deadlineWallMs === undefined && this.#mayEnter(project, deadlineMs);
    const numbers: number[] = [];
    const entrants = { group, numbers, deadlineMs, wallOffsetMs };
    const staged: { owner?: PostedItems } = {};
    try {
      await core.storage.room.once(async () => {
        let durable: Promise<void> | undefined;
        for (const task of tasks) {
          const terms = { project, deadlineMs: deadlineWallMs, createdWallMs, kind };
          const accepted = log.log.accept({ ...task, ...terms });
          durable = accepted.durable;
          numbers.push(accepted.task);
        }
        if (isDirect) staged.owner = this.#enterStaged(entrants);
        await durable;
      });
    } catch (error) {
      if (staged.owner !== undefined) this.#refused(staged.owner, numbers);
      throw error;
    } finally {
      homes.entered(numbers);
    }
    if (staged.owner !== undefined) {
      if (!homes.has(staged.owner)) this.#park(entrants); // it was read again meanwhile, when the log did not have it yet
      return numbers;
    }
    groups.accepted(group, numbers, deadlineMs);
    this.#microBatches.add({ project, deadlineMs, items: itemsOf(group) }, () => {
      groups.entered(numbers);
      this.#came(entrants).catch(work.onFault);
    });
    return numbers;
  }

  /** Resolves when the items of a group wait in their lanes. */
  async enter(group: PostedGroup, isRestored: boolean): Promise<void> {
    if (this.#options.work.isClosed()) return; // the next process reads it
    await this.#open(group, isRestored).sent;
  }

  /** Nothing is entered any more. */
  close(): void {
    this.#microBatches.close();
    this.#waiting.close();
  }

  /** Into memory before the acceptance is durable: intents that follow in this turn are in its commit, and later ones after it. */
  #enterStaged(entrants: Entrants): PostedItems {
    const { group, numbers, deadlineMs } = entrants;
    const { homes, groups } = this.#options;
    const { project } = group;
    homes.entering(numbers);
    groups.accepted(group, numbers, deadlineMs);
    groups.entered(numbers);
    this.#microBatches.entered({ project, deadlineMs, items: itemsOf(group) });
    return this.#open(placed(entrants), false).owner;
  }

  /** The acceptance of a group in memory was refused: nothing of it was sent, and nothing will be. */
  #refused(owner: PostedItems, numbers: readonly number[]): void {
    const { core, homes, groups, work } = this.#options;
    owner.phase = "done";
    for (const number of numbers) {
      homes.forget(number);
      groups.ended(number);
    }
    // What its intents hold is given back before its budget is closed, which would count it as spent.
    const leave = async (): Promise<void> => {
      while (owner.items.inFlight > 0) await core.storage.clock.sleep(LEAVING_MS);
      work.leave(owner);
    };
    core.storage.clock.soon(() => void leave().catch(work.onFault));
  }

  async #came(entrants: Entrants): Promise<void> {
    const { group, numbers, deadlineMs } = entrants;
    const { log, batched, work } = this.#options;
    const { project, measured, createdWallMs, deadlineWallMs = Number.POSITIVE_INFINITY } = group;
    const windowMs = deadlineWallMs - createdWallMs;
    if (!work.isClosed() && batched.isWorthWaiting(project, windowMs, measured))
      this.#waiting.add(project, windowMs, this.#openTasks(entrants));
    else if (this.#mayEnter(project, deadlineMs)) {
      const isCancelled = numbers.some((number) => !log.log.has(number));
      await this.enter(placed(entrants), isCancelled);
      return;
    } else this.#park(entrants);
    work.feed();
  }

  #park(entrants: Entrants): void {
    const { parked, work } = this.#options;
    for (const task of this.#openTasks(entrants)) parked.add(entrants.group.project, task);
    work.feed();
  }

  #openTasks({ numbers, deadlineMs }: Entrants): { number: number; left: number; deadlineMs: number }[] {
    return numbers.flatMap((number) => {
      const left = this.#options.log.log.task(number)?.left ?? 0;
      return left > 0 ? [{ number, left, deadlineMs }] : [];
    });
  }

  /** Whether a group may enter at once: few items are in memory, and it is due before all parked tasks. */
  #mayEnter(project: string, deadlineMs: number): boolean {
    const { core, homes, parked, work } = this.#options;
    if (work.isClosed() || homes.items >= DIRECT_ITEMS_MAX) return false;
    const dueMs = deadlineMs === Number.POSITIVE_INFINITY ? core.storage.clock.nowMs() : deadlineMs;
    return dueMs < parked.firstDueMs(project);
  }

  #open(
    group: PostedGroup,
    isRestored: boolean,
  ): { readonly owner: PostedItems; readonly sent: Promise<void> } {
    const { log, homes, groups, batched, work } = this.#options;
    const owner = groups.open(group);
    if (isRestored) groups.restore(owner);
    if (group.batchedAs !== undefined) batched.limit(owner);
    homes.enter(owner, ({ number }) => homes.isEntering(number) || log.log.has(number));
    work.expireLater(owner);
    const sent = groups.send(owner, group.measured).catch((error: unknown) => {
      work.onFault(error);
      owner.fail(asFailure(error));
    });
    return { owner, sent };
  }
}

function itemsOf({ tasks }: NewGroup): number {
  return tasks.reduce((sum, task) => sum + task.items, 0);
}

function placed({ group, numbers, deadlineMs, wallOffsetMs }: Entrants): PostedGroup {
  const { project, measured, factors, terms, cacheMs } = group;
  const tasks = placeTasks(
    group.tasks.map(({ items, request }, index) => {
      const number = numbers[index] as number;
      return { number, items, requestBytes: request.byteLength, wallOffsetMs };
    }),
  );
  return { project, deadlineMs, tasks, measured, factors, terms, cacheMs };
}
