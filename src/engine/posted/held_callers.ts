/**
 * Callers that wait for the end of posted tasks. A wait ends when the task is final, or earlier:
 *
 *   nothing left of its group can be sent   30 s after the last answer, sooner if only the operator can resolve it
 *   an answer takes long                    after 10 min, as long as one request may take by default
 *
 * The items continue in both cases, and the caller polls the task.
 */
import type { Clock, Timer } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { ATTEMPT_MS_MAX } from "../../queue/lanes.ts";
import { isCallers } from "../items/holds.ts";
import type { EngineHolds } from "../lanes/engine_holds.ts";
import type { PostedItems } from "./posted_items.ts";

const HELD_WAIT_MS = 30_000;

interface Caller {
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

interface Held {
  readonly timer: Timer;
  /** Number of items that had ended then. */
  readonly done: number;
}

/** One for an engine. */
export class HeldCallers {
  readonly #clock: Clock;
  readonly #holds: EngineHolds;
  readonly #ownerOf: (task: number) => PostedItems | undefined;
  readonly #callers = new Map<number, Caller[]>();
  readonly #held = new Map<PostedItems, Held>();
  readonly #unsubscribe: () => void;

  constructor(clock: Clock, holds: EngineHolds, ownerOf: (task: number) => PostedItems | undefined) {
    this.#clock = clock;
    this.#holds = holds;
    this.#ownerOf = ownerOf;
    this.#unsubscribe = holds.onChange(() => this.#lookAll());
  }

  /** Resolves as described in the header; rejects with the reason of `signal`. */
  wait(task: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => ended(() => reject(signal?.reason));
      const ended = (settle: () => void): void => {
        timer.cancel();
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
      const timer = this.#clock.timer(ATTEMPT_MS_MAX, caller.resolve);
      this.#callers.set(task, [...(this.#callers.get(task) ?? []), caller]);
      if (signal?.aborted === true) onAbort();
      else signal?.addEventListener("abort", onAbort, { once: true });
      const owner = this.#ownerOf(task);
      if (owner !== undefined) this.look(owner);
    });
  }

  /** The task is final. */
  end(task: number): void {
    for (const { resolve } of this.#callers.get(task) ?? []) resolve();
  }

  /** The holds of a group may have changed. */
  look(owner: PostedItems): void {
    if (this.#callers.size === 0 && this.#held.size === 0) return;
    const { holds, isAll } = this.#holds.of(owner);
    const known = this.#held.get(owner);
    if (isAll && known?.done === owner.items.done.size) return;
    known?.timer.cancel();
    this.#held.delete(owner);
    if (!isAll || !owner.isOpen) return;
    const isFinalHold = holds.every(
      ({ reason, was_accepted }) =>
        isCallers(reason) || (reason === "authentication" && was_accepted === false),
    );
    const delayMs = isFinalHold ? 0 : HELD_WAIT_MS;
    const timer = this.#clock.timer(delayMs, () => this.#tell(owner), { keepsAlive: false });
    this.#held.set(owner, { timer, done: owner.items.done.size });
  }

  /** Rejects all callers because the engine closes. */
  close(): void {
    this.#unsubscribe();
    for (const { timer } of this.#held.values()) timer.cancel();
    const closed = new PerigeeError("closed", "the engine is closed");
    for (const callers of [...this.#callers.values()]) for (const { reject } of callers) reject(closed);
  }

  #tell(owner: PostedItems): void {
    this.#held.delete(owner);
    for (const { number } of owner.tasks) this.end(number);
  }

  #lookAll(): void {
    const owners = new Set<PostedItems>(this.#held.keys());
    for (const task of this.#callers.keys()) {
      const owner = this.#ownerOf(task);
      if (owner !== undefined) owners.add(owner);
    }
    for (const owner of owners) this.look(owner);
  }
}
