/**
 * The start of posted work: what becomes of the tasks that earlier processes have left open.
 *
 *   open -> some items are with batches      -> their group goes on (`resuming.ts`)
 *        |-> its caller has left with the process -> cancelled: what was under way counts as in doubt, and nothing is sent
 *        \-> parked
 */
import type { WorkKind } from "../../log/work_kinds.ts";
import { overAtMs } from "../../work/sla.ts";
import type { EngineCore } from "../core.ts";
import type { ParkedTasks } from "./parked_tasks.ts";
import type { PostedEnds } from "./posted_ends.ts";
import type { PostedLog } from "./posted_log.ts";
import { bodyOf, type PostedBody } from "./posted_record.ts";
import type { Resuming } from "./resuming.ts";
import { endDoubts } from "./tried_items.ts";

/** Rows read at a time. */
const PAGE_ROWS = 500;

/** The parts of posted work that a start needs. */
export interface PostedStartOptions {
  readonly core: Pick<EngineCore, "storage">;
  readonly log: PostedLog;
  readonly kind: WorkKind;
  readonly parked: ParkedTasks;
  readonly ends: PostedEnds;
  readonly resuming: Resuming;
}

/** One for a kind of tasks of an engine, for its start. */
export class PostedStart {
  readonly #options: PostedStartOptions;
  /** The bodies of tasks whose callers have left, as those of cancelled tasks, by their numbers. */
  readonly #left = new Map<number, string>();

  constructor(options: PostedStartOptions) {
    this.#options = options;
  }

  /** Reads which groups have batches, and of which tasks the callers have left. Call it before `open`. */
  async prepare(): Promise<void> {
    const { core, log, kind, resuming } = this.#options;
    await resuming.read();
    const numbers: number[] = [];
    for (const task of log.log.openTasks())
      if (task.kind === kind && task.deadlineMs === Number.POSITIVE_INFINITY) numbers.push(task.number); // calls have no deadline
    const cancelledWallMs = core.storage.clock.wallMs();
    for (let start = 0; start < numbers.length; start += PAGE_ROWS) {
      const page = numbers.slice(start, start + PAGE_ROWS);
      for (const { number, body } of await log.log.rows.loggedTasks({ numbers: page, limit: PAGE_ROWS })) {
        const task = JSON.parse(body) as PostedBody; // written by `bodyOf`
        if (task.endsWithCaller === true && task.isCancelled !== true)
          this.#left.set(number, bodyOf({ ...task, isCancelled: true, cancelledWallMs }));
      }
    }
  }

  /** Parks open tasks, and calls back when they may be read. Resolves when the groups that go on have their batches. */
  open(feed: () => void): Promise<void> {
    const { core, log, kind, parked, ends, resuming } = this.#options;
    const batched = resuming.places();
    for (const { number, kind: is, left, deadlineMs, project } of log.log.openTasks()) {
      if (is !== kind || left === 0) continue;
      const place = batched.get(number);
      for (const [item, tried] of log.log.triedItems(number))
        if (tried.intents.length > 0 && place?.lines.has(place.firstLine + item) !== true)
          log.write((into) => endDoubts(into, tried));
      if (place !== undefined) this.#left.delete(number);
      else if (!this.#left.has(number)) {
        const { clock } = core.storage;
        const dueMs = Number.isFinite(deadlineMs) ? overAtMs(clock, deadlineMs) : deadlineMs;
        parked.add(log.log.text(project) ?? "", { number, left, deadlineMs: dueMs });
      }
    }
    const resumed = resuming.start();
    log.settled().then(
      () => {
        for (const [number, body] of this.#left) ends.cancelLeft(number, body);
        this.#left.clear();
        feed();
      },
      () => undefined,
    );
    return resumed;
  }
}
