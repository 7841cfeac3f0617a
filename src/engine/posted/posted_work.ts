/**
 * Posted tasks: accepts them into the work log, sends them by lanes, ends them there. A task needs nothing opened or closed for it.
 *
 *   accepted (row and record, one commit) -> in memory (`posted_entry.ts`; a group, `posted_items.ts`) -> final
 *                                        |-> waits, because enough of its like would go with a batch (`waiting_posts.ts`) -> parked
 *                                        \-> parked (a number and a deadline) -> read in the order of deadlines -> in memory
 *   read from the log, enough for a batch -> recorded (`batched_groups.ts`) -> in memory -> with batches -> final
 *   open -> rest ended (cancelled, expired) -> final with its last request under way, and with the last batch of its items
 *   start: `posted_start.ts`
 *
 * Limits: `ITEMS_MAX` items in memory, fewer of those that were not parked before (`posted_entry.ts`); the backlog limits their bytes.
 */
import type { WorkKind } from "../../log/work_kinds.ts";
import type { EndedItem } from "../../log/work_log.ts";
import { overAtMs } from "../../work/sla.ts";
import type { EngineCore } from "../core.ts";
import type { Hold } from "../items/holds.ts";
import { DRAIN_MS } from "../items/item_owner.ts";
import type { StagedOutcome } from "../journal/journal.ts";
import { allHolds } from "../lanes/run_holds.ts";
import { BatchedGroups } from "./batched_groups.ts";
import { type CallerWaits, HeldCallers } from "./held_callers.ts";
import { AGAIN_MS, ParkedReading } from "./parked_reading.ts";
import { ParkedTasks } from "./parked_tasks.ts";
import { PostedEnds } from "./posted_ends.ts";
import { type EnteredWork, PostedEntry } from "./posted_entry.ts";
import { type NewGroup, PostedGroups, type PostedGroupsOptions } from "./posted_groups.ts";
import { type PostedHome, PostedHomes } from "./posted_homes.ts";
import type { PostedItems, PostedTask } from "./posted_items.ts";
import type { PostedLog } from "./posted_log.ts";
import { PostedStart } from "./posted_start.ts";
import { type ResumedWork, Resuming } from "./resuming.ts";

const ITEMS_MAX = 200_000;

/** Callbacks of the modules above. */
export interface PostedListeners extends Pick<PostedGroupsOptions, "capsOf" | "onTried"> {
  readonly kind: WorkKind;
  readonly waits: CallerWaits;
  /** Called for each final task, durably, with its number. */
  readonly onFinal: (task: number) => void;
  /** Called for each item (from 0) that has ended with its own outcome, durably. */
  readonly onEnded: (task: number, record: StagedOutcome, endedWallMs: number, item: number) => void;
  /** Called with the reason when some tasks could not continue; they are tried again a minute later. */
  readonly onFault: (error: unknown) => void;
}

/** One for a kind of tasks of an engine. Close it before the engine. */
export class PostedWork {
  readonly groups: PostedGroups;
  readonly #core: EngineCore;
  readonly #listeners: PostedListeners;
  readonly #log: PostedLog;
  readonly #parked: ParkedTasks;
  readonly #homes = new PostedHomes();
  readonly callers: HeldCallers;
  readonly #entry: PostedEntry;
  readonly #batched: BatchedGroups;
  readonly #reading: ParkedReading;
  readonly #resuming: Resuming;
  readonly #start: PostedStart;
  readonly #ends: PostedEnds;
  /** Resolves when the groups of earlier processes have their batches. */
  #resumed: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(core: EngineCore, log: PostedLog, listeners: PostedListeners) {
    this.#core = core;
    this.#log = log;
    this.#listeners = listeners;
    const { clock } = core.storage;
    this.#batched = new BatchedGroups(core, log.log, listeners.kind);
    this.#parked = new ParkedTasks(clock, (number) => this.#ends.expireTask(number));
    this.groups = new PostedGroups({
      ...{ ...listeners, core, log },
      isEntering: (number) => this.#homes.isEntering(number),
      onEnded: (owner, record, endedWallMs) => this.#ended(owner.taskAt(record.line), record, endedWallMs),
      onChange: (owner) => this.#look(owner),
    });
    this.#reading = new ParkedReading({
      ...{ clock, log, backlog: core.sending.backlog, parked: this.#parked, groups: this.groups },
      work: {
        onFault: listeners.onFault,
        lastOf: (project) => this.#homes.lastOf(project),
        mayRead: () => !this.#isClosed && this.#homes.items < ITEMS_MAX,
        hasBatches: this.#batched.isPossible,
        enter: async (group) =>
          this.#entry.enter(await this.#batched.begun(group, this.#homes.batchedItems), true),
      },
    });
    const { groups } = this;
    const [homes, parked, batched] = [this.#homes, this.#parked, this.#batched];
    this.#ends = new PostedEnds({
      ...{ core, log, homes, parked, batched },
      onParked: () => this.#reading.feed(),
      onChange: (owner) => this.#look(owner),
    });
    const work: ResumedWork & EnteredWork = {
      isClosed: () => this.#isClosed,
      expireLater: (owner) => this.#expireLater(owner),
      look: (owner) => this.#look(owner),
      leave: (owner) => this.#leave(owner),
      feed: () => this.#reading.feed(),
      onFault: listeners.onFault,
    };
    this.#resuming = new Resuming({ ...{ core, log: log.log, groups, batched, homes, parked }, work });
    const { kind } = listeners;
    this.#entry = new PostedEntry({ ...{ core, log, kind, homes, parked, groups, batched }, work });
    const [ends, resuming] = [this.#ends, this.#resuming];
    this.#start = new PostedStart({ ...{ core, log, kind, parked }, ends, resuming });
    this.callers = new HeldCallers(clock, core.sending.holds, listeners.waits, (task) => this.homeOf(task));
  }

  /** Reads what earlier processes have left open. Before `open`. */
  prepare(): Promise<void> {
    return this.#start.prepare();
  }

  /** Continues the open tasks of the work log. Tasks that were final before are in `ended` of the log; its reader reports them. */
  open(): void {
    this.#log.log.onFinal((task, kind) => {
      if (kind === this.#listeners.kind) this.#final(task);
    });
    this.#resumed = this.#start.open(() => this.#reading.feed());
  }

  /** Items that forecasts do not see in lanes yet, due by then (monotonic): parked and just accepted ones. */
  unreadItems(project: string, deadlineMs: number): number {
    return this.#parked.items(project, deadlineMs) + this.#entry.items(project, deadlineMs);
  }

  /** Makes commits that are not urgent wait for the next `accept`. Call the returned function after it, or instead of it. */
  expect(): () => void {
    return this.#log.log.expect();
  }

  /** Resolves with their numbers when they are durable. Rejects with `conflict` for an id in use, `disk_full`: nothing was sent then. */
  accept(group: NewGroup): Promise<readonly number[]> {
    return this.#entry.accept(group);
  }

  /** Sends nothing more of a task, durably: items not under way end as cancelled. `body` replaces its present one. */
  async cancel(number: number, body: string): Promise<void> {
    await this.#resumed;
    await this.#ends.cancel(number, body);
  }

  /** Opens items of a task again, final or not. A task that is not final keeps its deadline. */
  async reopen(
    number: number,
    project: string,
    again: {
      readonly items: readonly EndedItem[];
      readonly deadlineWallMs: number | undefined;
      readonly body: string;
    },
  ): Promise<void> {
    const { log } = this.#log;
    const { items, deadlineWallMs, body } = again;
    await this.#core.storage.room.answerFor(() => log.reopen(number, items, deadlineWallMs, body));
    const open = log.task(number);
    if (open === undefined) return;
    const home = this.#homes.of(number);
    if (home?.owner.isOpen === true) {
      home.task.isCancelled = false;
      for (const { item } of items) home.owner.items.notBatched.add(home.task.firstLine + item); // its first batch may be recorded still
      await this.groups.sendAgain(
        home.owner,
        home.task,
        items.map(({ item }) => item),
      );
      return;
    }
    const deadlineMs = this.#monotonic(deadlineWallMs ?? Number.POSITIVE_INFINITY);
    this.#parked.add(project, { number, left: open.left, deadlineMs });
    this.#reading.feed();
  }

  /** The place of a task in memory; undefined if it is parked or final. */
  homeOf(number: number): PostedHome | undefined {
    return this.#homes.of(number);
  }

  /** Whether items of a project are in memory. */
  has(project: string): boolean {
    return this.#homes.lastOf(project) !== undefined;
  }

  /** Resolves when a task is final, or its caller should not wait any longer; rejects with the reason of `signal`. */
  untilFinal(number: number, signal: AbortSignal | undefined): Promise<void> {
    if (!this.#log.log.has(number)) return Promise.resolve();
    return this.callers.wait(number, signal);
  }

  get isBusy(): boolean {
    return !this.#homes.isEmpty;
  }

  holds(): readonly Hold[] {
    return allHolds(this.#homes.owners.map((owner) => this.#core.sending.holds.of(owner).holds));
  }

  /** Reads items again that were held for this reason. */
  wakeHeld(reason: Hold["reason"]): void {
    for (const owner of this.#homes.owners) if (owner.items.isHeldBy(reason)) this.#resuming.again(owner);
  }

  #final(number: number): void {
    this.#homes.forget(number);
    this.#parked.forget(number);
    this.groups.ended(number);
    this.callers.end(number);
    this.#listeners.onFinal(number);
  }

  /** Sends nothing new and waits for requests in flight, at most as long as a run does. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#entry.close();
    this.#parked.close();
    this.callers.close();
    await this.#resumed;
    const { sending, storage } = this.#core;
    for (const owner of this.#homes.owners) {
      if (owner.isOpen) owner.phase = "stopping";
      sending.lanes.drop(owner);
    }
    await this.#drained();
    for (const owner of this.#homes.owners) await sending.batches.stored(owner);
    for (const owner of this.#homes.owners) this.#leave(owner);
    const settled = new AbortController();
    const timeout = storage.clock.sleep(DRAIN_MS, { signal: settled.signal }).catch(() => undefined);
    await Promise.race([this.#log.settled(), timeout]);
    settled.abort();
    await this.groups.close();
    this.#log.close();
  }

  #monotonic(deadlineWallMs: number): number {
    return deadlineWallMs === Number.POSITIVE_INFINITY
      ? deadlineWallMs
      : overAtMs(this.#core.storage.clock, deadlineWallMs);
  }

  #expireLater(owner: PostedItems): void {
    const { clock } = this.#core.storage;
    const leftMs = owner.settings.deadlineMs - clock.nowMs();
    if (!Number.isFinite(leftMs)) return;
    const timer = clock.timer(Math.max(0, leftMs), () => this.#ends.expire(owner), { keepsAlive: false });
    this.#homes.expires(owner, timer);
  }

  #ended({ number, firstLine }: PostedTask, record: StagedOutcome, endedWallMs: number): void {
    this.#listeners.onEnded(number, record, endedWallMs, record.line - firstLine);
    if (this.#homes.of(number) !== undefined && !this.#log.log.has(number)) this.#final(number);
  }

  #look(owner: PostedItems): void {
    if (!this.#homes.has(owner)) return;
    if (owner.failure !== undefined) this.#failed(owner, owner.failure);
    else if (owner.items.done.size < owner.lineCount) this.callers.look(owner);
    else if (owner.measureAgain !== undefined) void this.#endBatched(owner);
    else this.#end(owner);
  }

  #end(owner: PostedItems): void {
    this.#leave(owner);
    this.#reading.feed();
  }

  /** All its items have ended; their batches may not have been removed yet. */
  async #endBatched(owner: PostedItems): Promise<void> {
    await this.#core.sending.batches.over(owner);
    if (this.#homes.has(owner) && owner.items.done.size === owner.lineCount) this.#end(owner);
  }

  #leave(owner: PostedItems): void {
    this.#homes.leave(owner);
    owner.phase = "done";
    if (owner.items.waitingItems > 0 || owner.items.held.size > 0) this.#core.sending.lanes.drop(owner);
    owner.settings.budget.close();
    if (owner.measureAgain !== undefined && !this.#isClosed) this.#batched.left(owner).catch(() => undefined); // at the next start, then
  }

  #failed(owner: PostedItems, error: Error): void {
    this.#leave(owner);
    this.#core.sending.lanes.drop(owner);
    if (this.#isClosed) return;
    this.#listeners.onFault(error);
    this.#core.storage.clock.timer(AGAIN_MS, () => void this.#resuming.readAgain(owner), {
      keepsAlive: false,
    });
  }

  async #drained(): Promise<void> {
    const { clock } = this.#core.storage;
    const untilMs = clock.nowMs() + DRAIN_MS;
    const isBusy = (): boolean => this.#homes.owners.some(({ items }) => items.claimed.size > 0);
    while (isBusy() && clock.nowMs() < untilMs) await clock.sleep(20);
  }
}
