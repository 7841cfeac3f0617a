/**
 * The work log of an engine, and what is posted in it: tasks of the module above, and lists of `submit`.
 *
 *   closed -> open      with the first list, by the module above, or at the start where an earlier process had lists
 *   open   -> closed    with the engine: the work first, then the log
 *
 * Runs need no work log, and its tables make earlier versions refuse the folder.
 */
import { openWorkLog, type WorkLog } from "../log/work_log.ts";
import type { EngineCore } from "./core.ts";
import type { Hold, HoldReason } from "./items/holds.ts";
import { openPosted, type PostedOptions } from "./posted/open_posted.ts";
import type { PostedWork } from "./posted/posted_work.ts";
import { hasPostedLists, openPostedLists, type PostedLists } from "./submissions/posted_lists.ts";
import { RetentionDays } from "./submissions/retention_days.ts";

/** One for an engine. */
export class EngineLog {
  readonly #core: EngineCore;
  readonly #works: PostedWork[] = [];
  #log: Promise<WorkLog> | undefined;
  #lists: Promise<PostedLists> | undefined;
  /** Lanes go on as the log says. */
  #hasRestored = false;
  #retention: RetentionDays | undefined;
  readonly #forget: (taskId: string) => Promise<void>;

  /** `forget`: removes a list. */
  constructor(core: EngineCore, forget: (taskId: string) => Promise<void>) {
    this.#core = core;
    this.#forget = forget;
  }

  /** Goes on with lists of earlier processes. */
  async start(): Promise<void> {
    if (!(await hasPostedLists(this.#core.storage.store))) return;
    await this.#openLists(true);
    this.retain();
  }

  /** From now on, lists are removed by their age, as far as they say so. */
  retain(): void {
    const { clock, store } = this.#core.storage;
    const log = async (): Promise<WorkLog | undefined> => this.#log;
    this.#retention ??= new RetentionDays({ clock, store, log, forget: this.#forget });
  }

  /** The log, which stays this one's to close. */
  open(): Promise<WorkLog> {
    this.#log ??= this.#read().catch((error: unknown) => {
      this.#log = undefined; // for another try
      throw error;
    });
    return this.#log;
  }

  openPosted(options: PostedOptions): PostedWork {
    const restores = !this.#hasRestored;
    this.#hasRestored = true;
    return this.#openPosted(options, restores);
  }

  /** Undefined before the first one, in this process or before. */
  get lists(): Promise<PostedLists> | undefined {
    return this.#lists;
  }

  openLists(): Promise<PostedLists> {
    return this.#openLists(false);
  }

  get isBusy(): boolean {
    return this.#works.some(({ isBusy }) => isBusy);
  }

  holds(): (readonly Hold[])[] {
    return this.#works.map((work) => work.holds());
  }

  wakeHeld(reason: HoldReason): void {
    for (const work of this.#works) work.wakeHeld(reason);
  }

  /** Sends nothing new and waits for what is in flight, at most as long as a run does. */
  async stop(): Promise<void> {
    this.#retention?.close();
    const lists = await this.#lists?.catch(() => undefined);
    await Promise.allSettled(this.#works.map((work) => work.close()));
    lists?.close();
  }

  /** After `stop`, and before the store. */
  async close(): Promise<void> {
    const log = await this.#log?.catch(() => undefined);
    await log?.close();
  }

  async #read(): Promise<WorkLog> {
    const { store, clock, notice } = this.#core.storage;
    const log = await openWorkLog({ store, clock });
    for (const note of log.notes) notice(note);
    return log;
  }

  /** Later than at the start, what the log says of lanes is older than what they know. */
  #openLists(isStart: boolean): Promise<PostedLists> {
    const open = (options: PostedOptions): PostedWork =>
      isStart ? this.openPosted(options) : this.#openPosted(options, false);
    this.#lists ??= this.open()
      .then((log) => openPostedLists(this.#core, log, open))
      .catch((error: unknown) => {
        this.#lists = undefined; // for another try
        throw error;
      });
    return this.#lists;
  }

  #openPosted(options: PostedOptions, restores: boolean): PostedWork {
    const work = openPosted(this.#core, options, restores);
    this.#works.push(work);
    return work;
  }
}
