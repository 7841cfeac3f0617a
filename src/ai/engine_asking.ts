/**
 * Calls answered by an engine of this process: each is a submitted list, whose name is that of the call.
 *
 *   no list of this name                 -> submitted, and awaited
 *   a list that is open or answered      -> attached to: nothing is sent again
 *   a list that ended without an answer  -> run again, once for each call: it is of an earlier process, or was asked for by its key
 *   held, at once where it has no sla,
 *   or by what only the program can change (no provider, no key, a cap) -> cancelled, and the call rejects with what holds it
 */
import { systemClock, type Timer } from "../clock.ts";
import { unlessAborted } from "../engine/abort.ts";
import type { LibraryEngine, LibraryObject, LibraryTask } from "../engine/library.ts";
import { hasCode, ifFound } from "../errors.ts";
import { derivedId } from "../work/derived_id.ts";
import type { Item } from "../work/item.ts";
import {
  type AnsweredItems,
  type Asks,
  type AskTerms,
  answersIn,
  errorCodesIn,
  heldError,
  otherCall,
} from "./asking.ts";
import { CallNames } from "./call_names.ts";

/** What it needs of an engine. */
export type AskedEngine = Pick<
  LibraryEngine,
  "submit" | "task" | "object" | "cancel" | "retryTask" | "holds"
>;

/** How often holds are read while calls wait, and how many of the calls are checked each time while something holds. */
const LOOK_EVERY_MS = 1_000;
const LOOKS_MAX = 100;

/** Of each engine, because its lists are shared by all providers that are made of it. */
const namesOf = new WeakMap<AskedEngine, CallNames>();

/** One for an engine. */
export class EngineAsking implements Asks {
  readonly names: CallNames;
  readonly #engine: AskedEngine;
  /** Calls that wait; the one checked last is the last. */
  readonly #waiting = new Set<WaitingCall>();
  #timer: Timer | undefined;

  /** How long its lists are kept. */
  readonly #retentionDays: number;

  constructor(engine: AskedEngine, retentionDays: number) {
    this.#engine = engine;
    this.#retentionDays = retentionDays;
    this.names = namesOf.get(engine) ?? new CallNames();
    namesOf.set(engine, this.names);
  }

  async ask(items: readonly Item[], name: string, terms: AskTerms): Promise<AnsweredItems> {
    const { signal } = terms;
    signal?.throwIfAborted();
    const taskId = derivedId("submit", name);
    const asked = this.#finished(items, { name, taskId, ...terms });
    return answersIn(await unlessAborted(asked, signal, () => void this.#leave(taskId)));
  }

  async #finished(
    items: readonly Item[],
    { name, taskId, signal, onChunk, keyed }: NamedCall,
  ): Promise<LibraryTask> {
    const before = await ifFound(this.#engine.task(taskId));
    const codes = errorCodesIn(before?.objects ?? []);
    if (codes.length > 0)
      await this.#engine.retryTask(taskId, { codes }).catch((error: unknown) => {
        if (!hasCode(error, "conflict")) throw error; // another call has begun it
      });
    signal?.throwIfAborted(); // from here on a cancel finds it
    const read = onChunk === undefined || signal === undefined ? {} : { onChunk, signal };
    const submitted = this.#engine.submit(items, { id: name, retentionDays: this.#retentionDays, ...read });
    const { objects } = await submitted.catch((error: unknown) => {
      const isOther = keyed !== undefined && hasCode(error, "conflict");
      throw isOther ? otherCall(keyed, { code: "conflict", earlier: taskId }, error) : error;
    });
    const open = objects.filter(({ status }) => status === "submitted");
    const last = open.at(-1);
    if (last === undefined) return submitted;
    const isAtOnce = items[0]?.sla === undefined;
    const held = open.find((object) => isHopeless(object, isAtOnce));
    if (held !== undefined) throw await this.#heldError(taskId, held);
    return this.#unlessHeld({ taskId, objectId: last.objectId }, submitted.finished);
  }

  /** Settles as the task does, or rejects when what holds an item of it does not pass by itself. */
  async #unlessHeld(call: Omit<WaitingCall, "leave">, finished: Promise<LibraryTask>): Promise<LibraryTask> {
    let waiting: WaitingCall | undefined;
    let isLeft = false;
    const held = new Promise<never>((_, reject) => {
      const leave = (object: LibraryObject): void => {
        isLeft = true;
        void this.#heldError(call.taskId, object).then(reject);
      };
      waiting = { ...call, leave };
      this.#waiting.add(waiting);
    });
    this.#timer ??= this.#nextLook();
    try {
      const task = await Promise.race([finished, held]);
      // It is cancelled when it is left, and may end by that before the refusal is there.
      return isLeft && task.objects.some(({ status }) => status !== "completed") ? await held : task;
    } finally {
      if (waiting !== undefined) this.#waiting.delete(waiting);
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
    for (const call of [...this.#waiting].slice(0, LOOKS_MAX)) {
      const held = await this.#heldOf(call);
      if (!this.#waiting.delete(call)) continue;
      if (held === undefined) this.#waiting.add(call);
      else call.leave(held);
    }
  }

  /** An object of a call that waits in vain. The last one that was open says it of all, unless it was answered before others. */
  async #heldOf({ taskId, objectId }: WaitingCall): Promise<LibraryObject | undefined> {
    const last = await this.#engine.object(objectId);
    const objects = last.status === "submitted" ? [last] : (await this.#engine.task(taskId)).objects;
    return objects.find((object) => object.status === "submitted" && isHopeless(object, false));
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

interface NamedCall extends AskTerms {
  readonly name: string;
  readonly taskId: string;
}

/** A call that waits for its task. */
interface WaitingCall {
  readonly taskId: string;
  /** The last object that was open. */
  readonly objectId: string;
  readonly leave: (held: LibraryObject) => void;
}

/** A call at once does not wait for what may pass: the engine has waited as long as a caller should. */
function isHopeless({ held }: LibraryObject, isAtOnce: boolean): boolean {
  return held !== undefined && (isAtOnce || held.nextTry === null);
}
