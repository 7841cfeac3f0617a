/**
 * Calls to destinations of users, of which a slow one must not delay the others.
 *
 *   waiting (in order, by destination) -> running -> done
 *
 * Limits: 8 calls to one destination at once, 512 to all; destinations take turns.
 */

const PER_DESTINATION = 8;
const IN_ALL = 512;

/** Must not reject. */
export type Call = () => Promise<void>;

interface Destination {
  readonly waiting: Call[];
  running: number;
}

/** In memory alone: what is pushed is stored by whoever pushes it. */
export class DestinationQueue {
  /** Those with something to do; the one served last comes last. */
  readonly #destinations = new Map<string, Destination>();
  #running = 0;
  #isClosed = false;
  #onIdle: (() => void) | undefined;

  /** Calls when there is room; `call` must not reject. */
  push(name: string, call: Call): void {
    if (this.#isClosed) return;
    const destination = this.#destinations.get(name) ?? { waiting: [], running: 0 };
    this.#destinations.set(name, destination);
    destination.waiting.push(call);
    this.#fill();
  }

  /** Starts nothing more; resolves when what runs has ended. */
  close(): Promise<void> {
    this.#isClosed = true;
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #fill(): void {
    for (const [name, destination] of [...this.#destinations]) {
      if (this.#isClosed || this.#running >= IN_ALL) return;
      if (destination.waiting.length === 0 || destination.running >= PER_DESTINATION) continue;
      this.#destinations.delete(name);
      this.#destinations.set(name, destination);
      this.#start(name, destination);
    }
  }

  #start(name: string, destination: Destination): void {
    while (destination.running < PER_DESTINATION && this.#running < IN_ALL) {
      const call = destination.waiting.shift();
      if (call === undefined) return;
      destination.running += 1;
      this.#running += 1;
      void call().finally(() => this.#ended(name, destination));
    }
  }

  #ended(name: string, destination: Destination): void {
    destination.running -= 1;
    this.#running -= 1;
    if (destination.running === 0 && destination.waiting.length === 0) this.#destinations.delete(name);
    if (this.#running === 0) this.#onIdle?.();
    this.#fill();
  }
}
