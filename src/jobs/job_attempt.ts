/**
 * An attempt under way: how its function is stopped, and what it may still say.
 *
 *   current -> stopping (stopped, cancelled, expired, closed) -> over
 *        \-> over                                               its function has settled
 *
 * Its signal is made when it is first read: most attempts never need one.
 */
import { setMaxListeners } from "node:events";
import { PerigeeError } from "../errors.ts";
import type { JobAttempt, JobShown } from "./job.ts";

export class RunningAttempt implements JobAttempt {
  readonly number: number;
  readonly #release: () => void;
  readonly #keep: (notes: Uint8Array) => Promise<void>;
  #controller: AbortController | undefined;
  #stopped: { readonly reason: unknown } | undefined;
  #onStop: (() => void) | undefined;
  #isCurrent = true;
  #shown: JobShown | undefined;

  constructor(number: number, release: () => void, keep: (notes: Uint8Array) => Promise<void>) {
    this.number = number;
    this.#release = release;
    this.#keep = keep;
  }

  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  get shown(): JobShown | undefined {
    return this.#shown;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      setMaxListeners(0, this.#controller.signal); // one for each call that an attempt makes at the same time
      if (this.#stopped !== undefined) this.#controller.abort(this.#stopped.reason);
    }
    return this.#controller.signal;
  }

  get stopReason(): unknown {
    return this.#stopped?.reason;
  }

  onStop(stopped: () => void): void {
    this.#onStop = stopped;
    if (this.#stopped !== undefined) stopped();
  }

  stop(reason: unknown): void {
    if (!this.#isCurrent || this.#stopped !== undefined) return;
    this.#stopped = { reason };
    this.#controller?.abort(reason);
    this.#onStop?.();
  }

  /** What its function says from now on is ignored. */
  end(): void {
    this.#isCurrent = false;
  }

  assertCurrent(): void {
    if (!this.#isCurrent) throw new PerigeeError("closed", "this attempt is over");
  }

  show(shown: JobShown): void {
    if (this.#isCurrent) this.#shown = shown;
  }

  releasePlace(): void {
    this.#release();
  }

  async keepNotes(notes: Uint8Array): Promise<void> {
    this.assertCurrent();
    await this.#keep(notes);
  }
}
