/**
 * Posted tasks: accepts them into the work log, sends them by lanes, ends them there. A task needs nothing opened or closed for it.
 *
 *   accepted (row and record, one commit) -> in memory (a group, `posted_items.ts`) -> final
 *                                        \-> parked (a number and a deadline) -> read in the order of deadlines -> in memory
 *   open -> rest ended (cancelled, expired) -> final with its last request under way
 *   start: every open task of the log is parked
 *
 * Limits: `ITEMS_MAX` items in memory, `DIRECT_ITEMS_MAX` of those that were not parked before; the backlog limits their bytes.
 */
import type { Timer } from "../../clock.ts";
import type { WorkKind } from "../../log/work_kinds.ts";
import type { EndedItem } from "../../log/work_log.ts";
import { numberOfCode } from "../../work/failure_numbers.ts";
import { overAtMs } from "../../work/sla.ts";
import type { EngineCore } from "../core.ts";
import type { Hold } from "../items/holds.ts";
import { DRAIN_MS } from "../items/item_owner.ts";
import { asFailure } from "../journal/file_errors.ts";
import type { StagedOutcome } from "../journal/journal.ts";
import { allHolds } from "../lanes/run_holds.ts";
import { type CallerWaits, HeldCallers } from "./held_callers.ts";
import { MicroBatches } from "./micro_batches.ts";
import { ParkedReading } from "./parked_reading.ts";
import { ParkedTasks } from "./parked_tasks.ts";
import { type NewGroup, type PostedGroup, PostedGroups, type PostedGroupsOptions } from "./posted_groups.ts";
import { type PostedItems, type PostedTask, placeTasks } from "./posted_items.ts";
import type { PostedLog } from "./posted_log.ts";
import { type RestReport, restReport } from "./posted_reports.ts";
import { endDoubts } from "./tried_items.ts";

const ITEMS_MAX = 200_000;
const DIRECT_ITEMS_MAX = 16_384;
/** Time until a group that could not continue is read again. */
const AGAIN_MS = 60_000;

/** The place of a task in memory. */
export interface PostedHome {
  readonly owner: PostedItems;
  readonly task: PostedTask;
}

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
  readonly #owners = new Map<PostedItems, Timer | undefined>();
  readonly #homes = new Map<number, PostedHome>();
  /** The latest group of each project. */
  readonly #lastOf = new Map<string, PostedItems>();
  readonly callers: HeldCallers;
  #itemsInMemory = 0;
  readonly #gathered: MicroBatches;
  readonly #reading: ParkedReading;
  #isClosed = false;

  constructor(core: EngineCore, log: PostedLog, listeners: PostedListeners) {
    this.#core = core;
    this.#log = log;
    this.#listeners = listeners;
    const { clock } = core.storage;
    this.#gathered = new MicroBatches(clock);
    this.#parked = new ParkedTasks(clock, (number) => this.#expireRest(number));
    this.groups = new PostedGroups({
      ...{ ...listeners, core, log },
      onEnded: (owner, record, endedWallMs) => this.#ended(owner.taskAt(record.line), record, endedWallMs),
      onChange: (owner) => this.#look(owner),
    });
    this.#reading = new ParkedReading({
      ...{ clock, log, backlog: core.sending.backlog, parked: this.#parked, groups: this.groups },
      work: {
        onFault: listeners.onFault,
        lastOf: (project) => this.#lastOf.get(project),
        mayRead: () => !this.#isClosed && this.#itemsInMemory < ITEMS_MAX,
        enter: (group) => this.#enter(group, true),
      },
    });
    this.callers = new HeldCallers(clock, core.sending.holds, listeners.waits, (task) => this.homeOf(task));
  }

  /** Continues the open tasks of the work log. Tasks that were final before are in `ended` of the log; its reader reports them. */
  open(): void {
    const { log } = this.#log;
    log.onFinal((task, kind) => {
      if (kind === this.#listeners.kind) this.#final(task);
    });
    for (const { number, kind, left, deadlineMs, project } of log.openTasks()) {
      if (kind !== this.#listeners.kind || left === 0) continue;
      for (const tried of log.triedItems(number).values())
        if (tried.intents.length > 0) this.#log.write((into) => endDoubts(into, tried));
      this.#parked.add(log.text(project) ?? "", { number, left, deadlineMs: this.#monotonic(deadlineMs) });
    }
    this.#log.settled().then(
      () => this.#reading.feed(),
      () => undefined,
    );
  }

  /** Items that forecasts do not see in lanes yet, due by then (monotonic): parked and just accepted ones. */
  unreadItems(project: string, deadlineMs: number): number {
    return this.#parked.items(project, deadlineMs) + this.#gathered.items(project, deadlineMs);
  }

  /** Makes commits that are not urgent wait for the next `accept`. Call the returned function after it, or instead of it. */
  expect(): () => void {
    return this.#log.log.expect();
  }

  /** Resolves with their numbers when they are durable. Rejects with `conflict` for an id in use, `disk_full`. */
  async accept(group: NewGroup): Promise<readonly number[]> {
    const { createdWallMs, deadlineWallMs: deadlineMs, project } = group;
    const { log } = this.#log;
    const wallOffsetMs = createdWallMs - this.#core.storage.clock.nowMs();
    const numbers = await this.#core.storage.room.once(async () => {
      let durable: Promise<void> | undefined;
      const accepted = group.tasks.map((task) => {
        const work = log.accept({
          ...task,
          ...{ project, deadlineMs, createdWallMs, kind: this.#listeners.kind },
        });
        durable = work.durable;
        return work.task;
      });
      await durable;
      return accepted;
    });
    const dueMs = this.#monotonic(deadlineMs ?? Number.POSITIVE_INFINITY);
    const items = group.tasks.reduce((sum, task) => sum + task.items, 0);
    this.groups.accepted(group, numbers, dueMs);
    this.#gathered.add({ project, deadlineMs: dueMs, items }, () => {
      this.groups.entered(numbers);
      this.#came(group, { numbers, wallOffsetMs }, dueMs).catch(this.#listeners.onFault);
    });
    return numbers;
  }

  /** Sends nothing more of a task, durably: items not under way end as cancelled. `body` replaces its present one. */
  async cancel(number: number, body: string): Promise<void> {
    let report: RestReport | undefined;
    await this.#core.storage.room.answerFor(async () => {
      report = restReport(this.#core.recording.observer, this.#log.log, number, "cancelled");
      void this.#log.log.rewrite(number, body);
      await this.#log.log.endRest(number, "cancelled", numberOfCode("cancelled"));
    });
    this.#restEnded(number, report);
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
    const home = this.#homes.get(number);
    if (home?.owner.isOpen === true) {
      home.task.isCancelled = false;
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
    return this.#homes.get(number);
  }

  /** Whether items of a project are in memory. */
  has(project: string): boolean {
    return this.#lastOf.has(project);
  }

  /** Resolves when a task is final, or its caller should not wait any longer; rejects with the reason of `signal`. */
  untilFinal(number: number, signal: AbortSignal | undefined): Promise<void> {
    if (!this.#log.log.has(number)) return Promise.resolve();
    return this.callers.wait(number, signal);
  }

  get isBusy(): boolean {
    return this.#owners.size > 0;
  }

  holds(): readonly Hold[] {
    return allHolds([...this.#owners.keys()].map((owner) => this.#core.sending.holds.of(owner).holds));
  }

  /** Reads items again that were held for this reason. */
  wakeHeld(reason: Hold["reason"]): void {
    for (const owner of [...this.#owners.keys()]) if (owner.items.isHeldBy(reason)) this.#again(owner);
  }

  #final(number: number): void {
    this.#homes.delete(number);
    this.#parked.forget(number);
    this.callers.end(number);
    this.#listeners.onFinal(number);
  }

  /** Sends nothing new and waits for requests in flight, at most as long as a run does. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#gathered.close();
    this.#parked.close();
    this.callers.close();
    const { sending, storage } = this.#core;
    for (const owner of this.#owners.keys()) {
      if (owner.isOpen) owner.phase = "stopping";
      sending.lanes.drop(owner);
    }
    await this.#drained();
    for (const owner of this.#owners.keys()) this.#leave(owner);
    const settled = new AbortController();
    const timeout = storage.clock.sleep(DRAIN_MS, { signal: settled.signal }).catch(() => undefined);
    await Promise.race([this.#log.settled(), timeout]);
    settled.abort();
    this.#log.close();
  }

  #monotonic(deadlineWallMs: number): number {
    return deadlineWallMs === Number.POSITIVE_INFINITY
      ? deadlineWallMs
      : overAtMs(this.#core.storage.clock, deadlineWallMs);
  }

  async #came(
    group: NewGroup,
    { numbers, wallOffsetMs }: { readonly numbers: readonly number[]; readonly wallOffsetMs: number },
    deadlineMs: number,
  ): Promise<void> {
    const { project, measured, factors, terms } = group;
    if (!this.#mayEnter(project, deadlineMs)) {
      for (const number of numbers) {
        const left = this.#log.log.task(number)?.left ?? 0;
        if (left > 0) this.#parked.add(project, { number, left, deadlineMs });
      }
      this.#reading.feed();
      return;
    }
    const tasks = placeTasks(group.tasks, numbers, wallOffsetMs);
    const isCancelled = numbers.some((number) => !this.#log.log.has(number));
    await this.#enter({ project, deadlineMs, tasks, measured, factors, terms }, isCancelled);
  }

  /** Whether a group may enter at once: few items are in memory, and it is due before all parked tasks. */
  #mayEnter(project: string, deadlineMs: number): boolean {
    if (this.#isClosed || this.#itemsInMemory >= DIRECT_ITEMS_MAX) return false;
    const dueMs = deadlineMs === Number.POSITIVE_INFINITY ? this.#core.storage.clock.nowMs() : deadlineMs;
    return dueMs < this.#parked.firstDueMs(project);
  }

  /** Resolves when its items wait in their lanes. */
  async #enter(group: PostedGroup, isRestored: boolean): Promise<void> {
    if (this.#isClosed) return; // the next process reads it
    const { onFault } = this.#listeners;
    const { clock } = this.#core.storage;
    const owner = this.groups.open(group);
    if (isRestored) this.groups.restore(owner);
    for (const task of group.tasks)
      if (this.#log.log.has(task.number)) this.#homes.set(task.number, { owner, task });
    const leftMs = group.deadlineMs - clock.nowMs();
    const timer = Number.isFinite(leftMs)
      ? clock.timer(Math.max(0, leftMs), () => this.#expire(owner), { keepsAlive: false })
      : undefined;
    this.#owners.set(owner, timer);
    this.#itemsInMemory += owner.lineCount;
    this.#lastOf.set(group.project, owner);
    await this.groups.send(owner, group.measured).catch((error: unknown) => {
      onFault(error);
      owner.fail(asFailure(error));
    });
  }

  #ended({ number, firstLine }: PostedTask, record: StagedOutcome, endedWallMs: number): void {
    this.#listeners.onEnded(number, record, endedWallMs, record.line - firstLine);
    if (this.#homes.has(number) && !this.#log.log.has(number)) this.#final(number);
  }

  #look(owner: PostedItems): void {
    if (!this.#owners.has(owner)) return;
    if (owner.failure !== undefined) this.#failed(owner, owner.failure);
    else if (owner.items.done.size === owner.lineCount) {
      this.#leave(owner);
      this.#reading.feed();
    } else this.callers.look(owner);
  }

  #leave(owner: PostedItems): void {
    this.#owners.get(owner)?.cancel();
    this.#owners.delete(owner);
    this.#itemsInMemory -= owner.lineCount;
    const { project, budget } = owner.settings;
    if (this.#lastOf.get(project) === owner) this.#lastOf.delete(project);
    owner.phase = "done";
    if (owner.items.waitingItems > 0 || owner.items.held.size > 0) this.#core.sending.lanes.drop(owner);
    budget.close();
  }

  #failed(owner: PostedItems, error: Error): void {
    this.#leave(owner);
    this.#core.sending.lanes.drop(owner);
    if (this.#isClosed) return;
    this.#listeners.onFault(error);
    this.#core.storage.clock.timer(AGAIN_MS, () => this.#parkAll(owner), { keepsAlive: false });
  }

  /** Reads its open tasks again. */
  #again(owner: PostedItems): void {
    if (owner.items.claimed.size > 0) return; // what is in flight ends first
    this.#leave(owner);
    this.#parkAll(owner);
  }

  #parkAll(owner: PostedItems): void {
    const { project, deadlineMs } = owner.settings;
    for (const { number } of owner.tasks) {
      const open = this.#log.log.task(number);
      if (this.#homes.get(number)?.owner !== owner || open === undefined) continue;
      this.#homes.delete(number);
      this.#parked.add(project, { number, left: open.left, deadlineMs });
    }
    this.#reading.feed();
  }

  #expire(owner: PostedItems): void {
    if (!owner.isOpen) return;
    owner.holds = this.#core.sending.holds.of(owner).holds;
    owner.phase = "expired";
    this.#core.sending.lanes.drop(owner);
    for (const { number } of owner.tasks) this.#expireRest(number);
  }

  #expireRest(number: number): void {
    if (!this.#log.log.has(number)) return;
    let report: RestReport | undefined;
    this.#log.write(
      (log) => {
        report = restReport(this.#core.recording.observer, log, number, "expired");
        return log.endRest(number, "expired", numberOfCode("expired"));
      },
      () => this.#restEnded(number, report),
    );
  }

  /** The items of a task that were not under way have ended, durably. */
  #restEnded(number: number, report: RestReport | undefined): void {
    const { log } = this.#log;
    const home = this.#homes.get(number);
    report?.((item) => home?.owner.items.isOpen(home.task.firstLine + item) ?? true);
    if (home !== undefined) {
      const { owner, task } = home;
      task.isCancelled = true;
      for (let item = 0; item < task.items; item += 1) {
        const line = task.firstLine + item;
        if (!log.isOpen(number, item) && !owner.items.claimed.has(line)) owner.items.done.add(line);
      }
    }
    this.#parked.forget(number);
    if (home === undefined) return;
    this.#core.sending.lanes.pumpAll(); // its waiting retries are refused now
    this.#look(home.owner);
  }

  async #drained(): Promise<void> {
    const { clock } = this.#core.storage;
    const untilMs = clock.nowMs() + DRAIN_MS;
    const isBusy = (): boolean => [...this.#owners.keys()].some(({ items }) => items.claimed.size > 0);
    while (isBusy() && clock.nowMs() < untilMs) await clock.sleep(20);
  }
}
