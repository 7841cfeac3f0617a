/** Runs steps one after another. A step that has not to wait begins in the turn of its call. */
export class TurnSlot {
  /** Settles when the last step has ended; undefined without any. Never rejects. */
  #last: Promise<void> | undefined;

  /** Whether no step runs or waits. */
  get isFree(): boolean {
    return this.#last === undefined;
  }

  /** Settles like `step`, which begins when the steps before it have ended. */
  take(step: () => Promise<void>): Promise<void> {
    const done = this.#last === undefined ? step() : this.#last.then(step);
    const end = (): void => {
      if (this.#last === last) this.#last = undefined;
    };
    const last: Promise<void> = done.then(end, end);
    this.#last = last;
    return done;
  }

  /** Resolves when the steps before this call have ended in any way. */
  async ended(): Promise<void> {
    await this.#last;
  }
}
