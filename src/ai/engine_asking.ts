/**
 * Calls answered by an engine of this process: each is a submitted list of one item, whose name is that of the call.
 *
 *   no list of this name                 -> submitted, and awaited
 *   a list that is open or answered      -> attached to: nothing is sent again
 *   a list that ended without an answer  -> run again, once for each call: it is of an earlier process, or was asked for by its key
 *   held, at once where it has no sla,
 *   or by what only the program can change (no provider, no key, a cap) -> cancelled, and the call rejects with what holds it
 */
import { systemClock, type Timer } from "../clock.ts";
import type { LibraryEngine, LibraryObject, LibraryTask } from "../engine/library.ts";
import { hasCode, ifFound } from "../errors.ts";
import { derivedId } from "../work/derived_id.ts";
import type { Item } from "../work/item.ts";
import { type Asks, answerIn, heldError, type ObjectAnswer, untilAborted } from "./asking.ts";
import { CallNames } from "./call_names.ts";

/** What it needs of an engine. */
export type AskedEngine = Pick<
  LibraryEngine,
  "submit" | "task" | "object" | "cancel" | "retryTask" | "holds"
>;

/** How often holds are read while calls wait, and how many of the calls are looked at each time while something holds. */
const LOOK_EVERY_MS = 1_000;
const LOOKS_MAX = 100;

/** Of each engine, because its lists are shared by all providers that are made of it. */
const namesOf = new WeakMap<AskedEngine, CallNames>();

/** One for an engine. */
export class EngineAsking implements Asks {
  readonly names: CallNames;
  readonly #engine: AskedEngine;
  /** Calls that wait, by their objects; the one looked at last is the last. */
  readonly #waiting = new Map<string, (held: LibraryObject) => void>();
  #timer: Timer | undefined;

  constructor(engine: AskedEngine) {
    this.#engine = engine;
    this.names = namesOf.get(engine) ?? new CallNames();
    namesOf.set(engine, this.names);
  }

  async ask(item: Item, name: string, signal: AbortSignal | undefined): Promise<ObjectAnswer> {
    signal?.throwIfAborted();
    const taskId = derivedId("submit", name);
    const asked = this.#finished(item, { name, taskId, signal });
    const { objects } = await untilAborted(asked, signal, () => void this.#leave(taskId));
    return answerIn(taskId, objects[0]);
  }

  async #finished(item: Item, { name, taskId, signal }: NamedCall): Promise<LibraryTask> {
    const before = await ifFound(this.#engine.task(taskId));
    const code = before?.objects[0]?.error?.code;
    if (code !== undefined)
      await this.#engine.retryTask(taskId, { codes: [code] }).catch((error: unknown) => {
        if (!hasCode(error, "conflict")) throw error; // another call has begun it
      });
    signal?.throwIfAborted(); // from here on a cancel finds it
    const submitted = this.#engine.submit([item], { id: name });
    const { objects } = await submitted;
    const [object] = objects;
    if (object?.status !== "submitted") return submitted;
    if (isHopeless(object, item.sla === undefined)) throw await this.#heldError(taskId, object);
    return this.#unlessHeld(taskId, object.objectId, submitted.finished);
  }

  /** Settles as the task does, or rejects when what holds its item does not pass by itself. */
  async #unlessHeld(taskId: string, objectId: string, finished: Promise<LibraryTask>): Promise<LibraryTask> {
    const held = new Promise<never>((_, reject) => {
      this.#waiting.set(objectId, (object) => void this.#heldError(taskId, object).then(reject));
    });
    this.#timer ??= this.#nextLook();
    try {
      return await Promise.race([finished, held]);
    } finally {
      this.#waiting.delete(objectId);
      if (this.#waiting.size === 0) this.#timer?.cancel();
      if (this.#waiting.size === 0) this.#timer = undefined;
    }
  }

  #nextLook(): Timer {
    return systemClock.timer(
      LOOK_EVERY_MS,
      () => {
        this.#timer = this.#nextLook();
        this.#look().catch(() => undefined); // the engine is closing, which ends the calls
      },
      { keepsAlive: false },
    );
  }

  async #look(): Promise<void> {
    if (!this.#engine.holds().some(({ nextTry }) => nextTry === null)) return;
    for (const [objectId, leave] of [...this.#waiting].slice(0, LOOKS_MAX)) {
      const object = await this.#engine.object(objectId);
      if (!this.#waiting.delete(objectId)) continue;
      if (isHopeless(object, false)) leave(object);
      else this.#waiting.set(objectId, leave);
    }
  }

  /** Of a task that is cancelled by then: nothing is sent of it later. The words of the hold say what to change. */
  async #heldError(taskId: string, object: LibraryObject): Promise<Error> {
    const { held } = object;
    const hold = this.#engine
      .holds()
      .find(({ reason, provider }) => reason === held?.reason && provider === held?.provider);
    await this.#leave(taskId);
    return heldError(taskId, object, hold?.message);
  }

  /** Never rejects. */
  async #leave(taskId: string): Promise<void> {
    await this.#engine.cancel(taskId).catch(() => undefined); // it may not be stored: then it was refused
  }
}

interface NamedCall {
  readonly name: string;
  readonly taskId: string;
  readonly signal: AbortSignal | undefined;
}

/** A call at once does not wait for what may pass: the engine has waited as long as a caller should. */
function isHopeless({ held }: LibraryObject, isAtOnce: boolean): boolean {
  return held !== undefined && (isAtOnce || held.nextTry === null);
}
