/**
 * Callers that wait for the end of posted tasks. A wait ends when the task is final, or earlier:
 *
 *   nothing left of its group can be sent   as long after the last answer as the owner of the tasks says
 *   an answer takes long                    after a time that the owner sets
 *   nothing is sent any more                when nothing of its group is in flight
 *   another process takes the work over     at once
 *
 * The items continue in each case, and the caller polls the task.
 */
import type { Clock, Timer } from "../../clock.ts";
import { Release } from "../../release.ts";
import type { Hold } from "../items/holds.ts";
import type { EngineHolds } from "../lanes/engine_holds.ts";
import { engineClosed } from "../open_calls.ts";
import type { PostedItems } from "./posted_items.ts";

/** Where a task is in memory. */
interface TaskHome {
  readonly owner: PostedItems;
}

/** How long callers wait; Infinity: until the task is final. */
export interface CallerWaits {
  readonly answerMs: number;
  /** While this holds all that is left. */
  readonly heldMs: (holds: readonly Hold[]) => number;
}

interface Caller {
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

interface Held {
  readonly timer: Timer | undefined;
  /** Number of items that had ended then. */
  readonly done: number;
}

/** One for an engine. */
export class HeldCallers {
  readonly #clock: Clock;
  readonly #holds: EngineHolds;
  readonly #waits: CallerWaits;
  readonly #homeOf: (task: number) => TaskHome | undefined;
  readonly #callers = new Map<number, Caller[]>();
  readonly #held = new Map<PostedItems, Held>();
  /** How many items of a group had ended when that last changed, and when (monotonic). */
  readonly #ended = new WeakMap<PostedItems, { readonly items: number; readonly atMs: number }>();
  readonly #unsubscribe: () => void;
  readonly #release: Release;
  /** Tasks of which nothing was in flight at the last look. */
  #idle: ReadonlySet<number> = new Set();

  constructor(
    clock: Clock,
    holds: EngineHolds,
    waits: CallerWaits,
    homeOf: (task: number) => TaskHome | undefined,
  ) {
    this.#clock = clock;
    this.#waits = waits;
    this.#holds = holds;
    this.#homeOf = homeOf;
    this.#release = new Release(clock, () => this.#endIdle());
    this.#unsubscribe = holds.onChange(() => this.#lookAll());
  }

  /** Resolves as described in the header; rejects with the reason of `signal`. */
  wait(task: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => ended(() => reject(signal?.reason));
      const ended = (settle: () => void): void => {
        timer?.cancel();
        signal?.removeEventListener("abort", onAbort);
        const left = this.#callers.get(task)?.filter((each) => each !== caller) ?? [];
        if (left.length > 0) this.#callers.set(task, left);
        else this.#callers.delete(task);
        settle();
      };
      const caller: Caller = {
        resolve: () => ended(resolve),
        reject: (reason) => ended(() => reject(reason)),
      };
      const timer = this.#timer(this.#waits.answerMs, caller.resolve);
      this.#callers.set(task, [...(this.#callers.get(task) ?? []), caller]);
      if (signal?.aborted === true) onAbort();
      else signal?.addEventListener("abort", onAbort, { once: true });
      const owner = this.#homeOf(task)?.owner;
      if (this.#release.isForNothing) caller.resolve();
      else if (owner !== undefined) this.look(owner);
    });
  }

  /** The task is final. */
  end(task: number): void {
    for (const { resolve } of this.#callers.get(task) ?? []) resolve();
  }

  /** The holds of a group may have changed. */
  look(owner: PostedItems): void {
    if (this.#callers.size === 0 && this.#held.size === 0) return;
    const { holds, isAll, sinceMs } = this.#holds.of(owner);
    const endedMs = this.#endedMs(owner);
    const known = this.#held.get(owner);
    if (isAll && known?.done === owner.items.done.size) return;
    known?.timer?.cancel();
    this.#held.delete(owner);
    if (!isAll || !owner.isOpen) return;
    const leftMs = Math.max(sinceMs, endedMs) + this.#waits.heldMs(holds) - this.#clock.nowMs();
    const timer = this.#timer(Math.max(0, leftMs), () => this.#tell(owner), false);
    this.#held.set(owner, { timer, done: owner.items.done.size });
  }

  /** Nothing is sent any more: callers wait for what is in flight, and for its record. May be called twice. */
  release(): void {
    this.#release.release();
  }

  /** Another process takes the work over: nobody waits here from now on. May be called twice, and without `release`. */
  releaseAll(): void {
    if (this.#release.isClosed) return;
    this.#release.releaseAll();
    for (const callers of [...this.#callers.values()]) for (const { resolve } of callers) resolve();
  }

  /** Rejects all callers because the engine closes. */
  close(): void {
    this.#unsubscribe();
    this.#release.close();
    for (const { timer } of this.#held.values()) timer?.cancel();
    const closed = engineClosed();
    for (const callers of [...this.#callers.values()]) for (const { reject } of callers) reject(closed);
  }

  /** Callers of tasks without a request in flight wait no longer, if it was so at the last look, too. */
  #endIdle(): void {
    const idle = new Set<number>();
    for (const [task, callers] of [...this.#callers]) {
      if ((this.#homeOf(task)?.owner.items.inFlight ?? 0) > 0) continue;
      idle.add(task);
      if (this.#idle.has(task)) for (const { resolve } of callers) resolve();
    }
    this.#idle = idle;
  }

  /** When the last item of a group ended, or it began. */
  #endedMs(owner: PostedItems): number {
    const items = owner.items.done.size;
    const known = this.#ended.get(owner) ?? { items: 0, atMs: owner.settings.startedMs };
    const ended = known.items === items ? known : { items, atMs: this.#clock.nowMs() };
    this.#ended.set(owner, ended);
    return ended.atMs;
  }

  #timer(delayMs: number, callback: () => void, keepsAlive = true): Timer | undefined {
    return Number.isFinite(delayMs) ? this.#clock.timer(delayMs, callback, { keepsAlive }) : undefined;
  }

  #tell(owner: PostedItems): void {
    this.#held.delete(owner);
    for (const { number } of owner.tasks) this.end(number);
  }

  #lookAll(): void {
    const owners = new Set<PostedItems>(this.#held.keys());
    for (const task of this.#callers.keys()) {
      const owner = this.#homeOf(task)?.owner;
      if (owner !== undefined) owners.add(owner);
    }
    for (const owner of owners) this.look(owner);
  }
}
