/**
 * Writes that wait while the disk is full, and callers that do not.
 *
 *   whenRoom: written | full, tried again until there is space, or the signal aborts
 *   orRefuse: done    | full, refused with `disk_full` at once, while what it began is still written
 */
import type { Clock } from "../clock.ts";
import { Room } from "../engine/room.ts";
import { PerigeeError } from "../errors.ts";

interface WriteOptions {
  readonly clock: Clock;
  /** Ends all waiting. */
  readonly signal: AbortSignal;
  /** Called with false when space runs out and true when it is back. */
  readonly onRoom: (hasRoom: boolean) => void;
}

export class PatientWrites {
  readonly #signal: AbortSignal;
  readonly #room: Room;
  readonly #impatient = new Set<(error: PerigeeError) => void>();
  #hasRoom = true;

  constructor({ clock, signal, onRoom }: WriteOptions) {
    this.#signal = signal;
    const changed = (hasRoom: boolean): void => {
      this.#hasRoom = hasRoom;
      onRoom(hasRoom);
      if (!hasRoom) for (const refuse of this.#impatient) refuse(noRoom());
    };
    this.#room = new Room({ clock, waitMs: Number.POSITIVE_INFINITY, onRoom: changed });
  }

  /** Nothing is waited for any more. */
  get isClosed(): boolean {
    return this.#signal.aborted;
  }

  /** `write` may be called again and again. */
  whenRoom(write: () => Promise<void>): Promise<void> {
    return this.#room.waitFor(write, { signal: this.#signal });
  }

  /** Throws `disk_full` when `work` would have to wait for space. */
  async orRefuse(work: () => Promise<void>): Promise<void> {
    if (!this.#hasRoom) throw noRoom();
    let refuse: (error: PerigeeError) => void = () => undefined;
    const refused = new Promise<never>((_resolve, reject) => {
      refuse = reject;
      this.#impatient.add(reject);
    });
    try {
      await Promise.race([work(), refused]);
    } finally {
      this.#impatient.delete(refuse);
    }
  }
}

function noRoom(): PerigeeError {
  return new PerigeeError("disk_full", "no space left on the disk");
}
