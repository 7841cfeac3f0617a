/**
 * How the rest of posted tasks ends: at their deadlines, and when they are cancelled.
 *
 *   its caller has left with an earlier process -> cancelled at the start, before anything of it is sent
 *   its items with batches and under way -> end by themselves     all others -> cancelled or expired, with one record for the task
 *   all tasks of a group are cancelled   -> its batches are, too
 *   a group is over                      -> tasks that are due later, of which nothing is under way, are parked until then
 */
import { numberOfCode } from "../../work/failure_numbers.ts";
import { overAtMs } from "../../work/sla.ts";
import type { EngineCore } from "../core.ts";
import type { BatchedGroups } from "./batched_groups.ts";
import { READ_WITHIN_MS } from "./parked_reading.ts";
import type { ParkedTasks } from "./parked_tasks.ts";
import type { PostedHomes } from "./posted_homes.ts";
import type { PostedItems, PostedTask } from "./posted_items.ts";
import type { PostedLog } from "./posted_log.ts";
import { type RestReport, restReport } from "./posted_reports.ts";

export interface PostedEndsOptions {
  readonly core: EngineCore;
  readonly log: PostedLog;
  readonly homes: PostedHomes;
  readonly parked: ParkedTasks;
  readonly batched: BatchedGroups;
  /** A task was parked. */
  readonly onParked: () => void;
  /** A group may be over. */
  readonly onChange: (owner: PostedItems) => void;
}

/** One for a kind of tasks of an engine. */
export class PostedEnds {
  readonly #options: PostedEndsOptions;

  constructor(options: PostedEndsOptions) {
    this.#options = options;
  }

  /** Sends nothing more of a task, durably: items not under way end as cancelled. `body` replaces its present one. */
  async cancel(number: number, body: string): Promise<void> {
    const { core, log } = this.#options;
    let report: RestReport | undefined;
    await core.storage.room.answerFor(async () => {
      report = restReport(core.recording.observer, log.log, number, "cancelled");
      void log.log.rewrite(number, body);
      this.#holdBatched(number);
      await log.log.endRest(number, "cancelled", numberOfCode("cancelled"));
    });
    this.#restEnded(number, report);
  }

  /** The caller of a task that is not in memory has left: ends it as cancelled, when the disk has space. `body` as of `cancel`. */
  cancelLeft(number: number, body: string): void {
    const { core, log } = this.#options;
    if (!log.log.has(number)) return;
    let report: RestReport | undefined;
    log.write(
      (into) => {
        report = restReport(core.recording.observer, into, number, "cancelled");
        void into.rewrite(number, body);
        return into.endRest(number, "cancelled", numberOfCode("cancelled"));
      },
      () => this.#restEnded(number, report),
    );
  }

  /** The deadline of a group has passed. */
  expire(owner: PostedItems): void {
    if (!owner.isOpen) return;
    const { sending } = this.#options.core;
    owner.holds = sending.holds.of(owner).holds;
    owner.phase = "expired";
    sending.lanes.drop(owner);
    for (const task of owner.tasks) if (!this.#isParkedAgain(owner, task)) this.expireTask(task.number);
    this.#options.onParked();
  }

  /** The deadline of a task has passed. */
  expireTask(number: number): void {
    const { core, log } = this.#options;
    if (!log.log.has(number)) return;
    let report: RestReport | undefined;
    this.#holdBatched(number);
    log.write(
      (into) => {
        report = restReport(core.recording.observer, into, number, "expired");
        return into.endRest(number, "expired", numberOfCode("expired"));
      },
      () => this.#restEnded(number, report),
    );
  }

  #isParkedAgain(owner: PostedItems, task: PostedTask): boolean {
    const { core, log, homes, parked } = this.#options;
    const { number, firstLine, items } = task;
    const open = log.log.task(number);
    if (open === undefined || homes.of(number)?.owner !== owner) return false;
    const { clock } = core.storage;
    const deadlineMs = overAtMs(clock, open.deadlineMs);
    if (!(deadlineMs > clock.nowMs() + READ_WITHIN_MS)) return false;
    const { claimed, done } = owner.items;
    if (claimed.countWithin(firstLine, firstLine + items - 1) > 0) return false;
    homes.forget(number);
    done.addRange(firstLine, items);
    parked.add(owner.settings.project, { number, left: open.left, deadlineMs });
    return true;
  }

  #holdBatched(number: number): void {
    const home = this.#options.homes.of(number);
    if (home?.owner.measureAgain !== undefined) this.#options.batched.holdBatched(home.owner, home.task);
  }

  /** The items of a task that were not under way have ended, durably. */
  #restEnded(number: number, report: RestReport | undefined): void {
    const { core, homes, parked, onChange } = this.#options;
    const { log } = this.#options.log;
    const home = homes.of(number);
    report?.((item) => home?.owner.items.isOpen(home.task.firstLine + item) ?? true);
    if (home !== undefined) {
      const { owner, task } = home;
      task.isCancelled = true;
      const isRefused = core.sending.batches.refusedItems(owner) > 0; // by their batches' key: nothing else ends them
      for (let item = 0; item < task.items; item += 1) {
        const line = task.firstLine + item;
        if (!log.isOpen(number, item) && (isRefused || !owner.items.claimed.has(line)))
          owner.items.finished(line);
      }
    }
    parked.forget(number);
    if (home === undefined) return;
    this.#cancelBatches(home.owner);
    core.sending.lanes.pumpAll(); // its waiting retries are refused now
    onChange(home.owner);
  }

  /** If nobody waits for a group any more. */
  #cancelBatches(owner: PostedItems): void {
    if (owner.measureAgain === undefined || !owner.isOpen) return;
    const { log, core } = this.#options;
    if (!owner.tasks.every(({ number, isCancelled }) => isCancelled || !log.log.has(number))) return;
    owner.phase = "cancelled";
    core.sending.lanes.drop(owner);
  }
}
