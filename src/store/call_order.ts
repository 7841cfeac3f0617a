/**
 * Keeps the calls of a store in their order where one of them has to wait before it takes effect.
 *
 *   behind   at once while nothing waits, else in its turn
 *   after    waits for something first; what is called meanwhile waits for it
 */
export class CallOrder {
  /** Settles when the last call that waits has taken effect; undefined when no call waits. Never rejects. */
  #waiting: Promise<void> | undefined;

  /** Calls `act`, which takes effect when it is called, after all earlier calls. */
  behind<T>(act: () => Promise<T>): Promise<T> {
    return this.#waiting === undefined ? act() : this.#waiting.then(act);
  }

  /** Calls `act` as soon as `prepare` has ended, before all later calls. Without it when `prepare` rejects. */
  after<T>(prepare: () => Promise<void>, act: () => Promise<T>): Promise<T> {
    // In an object, lest the turn lasts until the act is answered.
    const turn = this.behind(prepare).then(() => ({ answer: act() }));
    const waiting: Promise<void> = turn.then(
      () => this.#end(waiting),
      () => this.#end(waiting),
    );
    this.#waiting = waiting;
    return turn.then(({ answer }) => answer);
  }

  #end(waiting: Promise<void>): void {
    if (this.#waiting === waiting) this.#waiting = undefined;
  }
}
