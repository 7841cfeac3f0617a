/**
 * Room and money of open tasks that earlier processes have accepted: some 24 bytes a task.
 *
 *   restored -> fewer open items, and less money, with each that ends -> final (its room and its money are free)
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
  /** Money that each may still take, in USD. */
  readonly #leftUsd: Float64Array;
  /** By the number of the project's name. */
  readonly #rooms = new Map<number, Share>();
  readonly #holds = new Map<number, SpendingHold>();
  readonly #holdOf: (project: number) => SpendingHold;

  constructor(
    tasks: readonly Pick<OpenTask, "number" | "left" | "project">[],
    roomOf: (project: number) => Share,
    holdOf: (project: number) => SpendingHold,
  ) {
    this.#holdOf = holdOf;
    const rising = [...tasks].sort((a, b) => a.number - b.number);
    this.#numbers = Float64Array.from(rising, ({ number }) => number);
    this.#left = Uint32Array.from(rising, ({ left }) => left);
    this.#projects = Uint32Array.from(rising, ({ project }) => project);
    this.#leftUsd = new Float64Array(rising.length);
    for (const { project, left } of rising) {
      const room = this.#rooms.get(project) ?? roomOf(project);
      this.#rooms.set(project, room);
      room.grow({ items: left, bytes: 0 });
    }
  }

  /** Money that a task may still take. */
  keep(number: number, usd: number): void {
    const place = this.#placeOf(number);
    const project = this.#projects[place];
    if (project === undefined) return;
    this.#leftUsd[place] = usd;
    const hold = this.#holds.get(project) ?? this.#holdOf(project);
    this.#holds.set(project, hold);
    hold.grow(usd);
  }

  /** So many items of a task have ended, or all of them; changes nothing for a task of this process. */
  settle(number: number, itemsMax: number = Number.POSITIVE_INFINITY): void {
    const place = this.#placeOf(number);
    const items = Math.min(itemsMax, this.#left[place] ?? 0);
    if (items === 0) return;
    this.#left[place] = (this.#left[place] ?? 0) - items;
    this.#rooms.get(this.#projects[place] ?? 0)?.settle(items);
  }

  /** A task took so much of its money, or takes no more; changes nothing for a task of this process. */
  take(number: number, usdMax: number): void {
    const place = this.#placeOf(number);
    const usd = Math.min(usdMax, this.#leftUsd[place] ?? 0);
    if (usd <= 0) return;
    this.#leftUsd[place] = (this.#leftUsd[place] ?? 0) - usd;
    this.#holds.get(this.#projects[place] ?? 0)?.take(usd);
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
