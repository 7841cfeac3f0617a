/**
 * What holds the items of an engine: lanes in trouble, and a full disk. It notifies runs when that changes.
 */
import type { Clock } from "../../clock.ts";
import { type HoldReason, isEndUnknown, type RunHolds } from "../items/holds.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { DiskSpace } from "../journal/disk_space.ts";
import { Listeners } from "../listeners.ts";
import type { Lanes } from "./lanes.ts";
import { diskHold } from "./run_holds.ts";

/** One for an engine. */
export class EngineHolds {
  readonly #lanes: Lanes;
  readonly #room: DiskSpace;
  readonly #clock: Clock;
  readonly #changed = new Listeners<[]>();
  readonly #woken = new Listeners<[HoldReason]>();

  constructor(lanes: Lanes, room: DiskSpace, clock: Clock) {
    this.#lanes = lanes;
    this.#room = room;
    this.#clock = clock;
  }

  /** What holds the items of a run; with the next tries of its next call if it `isStopping`. */
  of(owner: ItemOwner, isStopping = false): RunHolds {
    const found = this.#lanes.holdsOf(owner, isStopping);
    const { lackingSinceMs, fullPath } = this.#room;
    if (lackingSinceMs === undefined) return found;
    // The room says how long a full disk is waited for.
    const full = diskHold(owner, fullPath, lackingSinceMs, this.#clock);
    return { ...found, holds: [full, ...found.holds], isAll: false };
  }

  /** Whether the end of a run depends on what holds its items, or on space on the disk: nobody knows when that is over. */
  isEndUnknown(owner: ItemOwner): boolean {
    return this.#lanes.isHeldByStop(owner) || isEndUnknown(this.of(owner), this.#clock.wallMs());
  }

  /** Calls back when something is held, or no longer; returns how to stop listening. */
  onChange(listener: () => void): () => void {
    return this.#changed.add(listener);
  }

  changed(): void {
    this.#changed.tell();
  }

  /** Calls back when lines that are held for a reason are to be read again; returns how to stop listening. */
  onWake(listener: (reason: HoldReason) => void): () => void {
    return this.#woken.add(listener);
  }

  /** What held lines for that reason has changed: they are read again. */
  wake(reason: HoldReason): void {
    this.#woken.tell(reason);
  }
}
