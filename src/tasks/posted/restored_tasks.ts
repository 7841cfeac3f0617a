/**
 * Room and money of open tasks that earlier processes have accepted: some 16 bytes a task, and a hold where a project has a cap.
 *
 *   restored -> fewer open items with each that ends -> final (its room is free) -> noted (its money is free)
 */
import type { OpenTask } from "../../log/open_columns.ts";
import type { Share } from "../usage/backlog.ts";
import type { SpendingHold } from "../usage/spending.ts";

/** One for a store. */
export class RestoredTasks {
  /** Rising, and in the same places how many of their items are open, and whose they are. */
  readonly #numbers: Float64Array;
  readonly #left: Uint32Array;
  readonly #projects: Uint32Array;
  /** By the number of the project's name. */
  readonly #rooms = new Map<number, Share>();
  readonly #holds = new Map<number, SpendingHold>();

  constructor(
    tasks: readonly Pick<OpenTask, "number" | "left" | "project">[],
    roomOf: (project: number) => Share,
  ) {
    const rising = [...tasks].sort((a, b) => a.number - b.number);
    this.#numbers = Float64Array.from(rising, ({ number }) => number);
    this.#left = Uint32Array.from(rising, ({ left }) => left);
    this.#projects = Uint32Array.from(rising, ({ project }) => project);
    for (const { project, left } of rising) {
      const room = this.#rooms.get(project) ?? roomOf(project);
      this.#rooms.set(project, room);
      room.grow({ items: left, bytes: 0 });
    }
  }

  /** Money that is kept until `release`. */
  keep(number: number, hold: SpendingHold): void {
    this.#holds.set(number, hold);
  }

  /** So many items of a task have ended, or all of them; changes nothing for a task of this process. */
  settle(number: number, itemsMax: number = Number.POSITIVE_INFINITY): void {
    const place = this.#placeOf(number);
    const items = Math.min(itemsMax, this.#left[place] ?? 0);
    if (items === 0) return;
    this.#left[place] = (this.#left[place] ?? 0) - items;
    this.#rooms.get(this.#projects[place] ?? 0)?.settle(items);
  }

  /** What a task used is noted. */
  release(number: number): void {
    this.#holds.get(number)?.release();
    this.#holds.delete(number);
  }

  /** Below 0 for a task that is not one of these. */
  #placeOf(number: number): number {
    let [low, high] = [0, this.#numbers.length - 1];
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const found = this.#numbers[middle] as number;
      if (found === number) return middle;
      if (found < number) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}
