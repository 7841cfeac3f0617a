/**
 * The progress of a posted list whose failed items are run again. It has no forecast.
 */
import type { TaskSums } from "../../log/open_work.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { roundedUsd } from "../../price/cost.ts";
import type { EngineCore } from "../core.ts";
import { type Progress, Rate } from "../items/progress.ts";
import type { PostedRecord } from "../posted/posted_record.ts";
import type { PostedWork } from "../posted/posted_work.ts";
import { lanesProgress } from "../runs/run_report.ts";
import { pausedByText } from "../runs/watch.ts";

/** Update it after each end. */
export class ListProgress {
  readonly #core: EngineCore;
  readonly #log: WorkLog;
  readonly #work: PostedWork;
  readonly #task: PostedRecord;
  readonly #items = new Rate();
  readonly #tokens = new Rate();
  /** Of ended items. */
  #sums: TaskSums | undefined;

  constructor(core: EngineCore, log: WorkLog, work: PostedWork, task: PostedRecord) {
    this.#core = core;
    this.#log = log;
    this.#work = work;
    this.#task = task;
  }

  async update(): Promise<void> {
    this.#sums = await this.#log.sumsOf(this.#task.number);
  }

  now(): Progress {
    const { number, totalItems } = this.#task;
    const { clock, room } = this.#core.storage;
    const nowMs = clock.nowMs();
    const home = this.#work.homeOf(number);
    const { holds: held = [], isAll = false } =
      home === undefined ? {} : this.#core.sending.holds.of(home.owner);
    const pausedBy = isAll ? pausedByText(held) : room.waitText;
    const isOpen = this.#log.has(number);
    const taken = this.#log.takenOf(number);
    const sums = this.#sums ?? taken;
    const settled = sums.completed + sums.failed + sums.expired + sums.cancelled;
    let [inFlight, retrying] = [0, 0];
    for (const { intents, ended, before } of this.#log.triedItems(number).values())
      if (intents.length > 0) inFlight += 1;
      else if (ended !== undefined && ended !== before) retrying += 1;
    return {
      state: !isOpen ? "done" : pausedBy === undefined ? "running" : "paused",
      ...(isOpen && pausedBy !== undefined ? { pausedBy } : {}),
      held,
      linesTotal: totalItems,
      linesRead: totalItems,
      settled,
      completed: sums.completed,
      errors: settled - sums.completed,
      ...{ inFlight, retrying },
      itemsPerSecond: this.#items.update(nowMs, settled),
      tokensPerSecond: this.#tokens.update(nowMs, sums.inputTokens + sums.outputTokens),
      billedUsd: roundedUsd(sums.billedUsd + taken.billedUsd),
      ambiguousUsd: roundedUsd(sums.ambiguousUsd + taken.ambiguousUsd),
      listUsd: sums.listUsd,
      usd: sums.usd,
      lanes: lanesProgress(this.#core, nowMs),
    };
  }
}
