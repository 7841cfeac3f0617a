/**
 * Backlog space and money of open tasks that earlier processes have accepted: some 24 bytes a task.
 *
 *   restored -> fewer open items, and less money, with each that ends -> final, or retried (its space and its money are free)
 */
import type { OpenTask } from "../../log/open_columns.ts";
import type { Share } from "../usage/backlog.ts";
import type { SpendingHold } from "../usage/spending.ts";

/** One for a store. */
export class RestoredTasks {
  /** Rising task numbers; the next two arrays have their open items and their projects at the same positions. */
  readonly #numbers: Float64Array;
  readonly #left: Uint32Array;
  readonly #projects: Uint32Array;
  /** Estimate for the open items of each task, in USD. */
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

  /** Holds this estimate for each open item of a task, in USD. */
  keep(number: number, itemUsd: number): void {
    const place = this.#placeOf(number);
    this.#hold(place, itemUsd * (this.#left[place] ?? 0));
  }

  /** The open items of a task, and the money held for them; both 0 for a task of this process. */
  of(number: number): { readonly items: number; readonly usd: number } {
    const place = this.#placeOf(number);
    return { items: this.#left[place] ?? 0, usd: this.#leftUsd[place] ?? 0 };
  }

  /** At most `leftMax` items of a task are open; changes nothing for a task of this process. */
  settle(number: number, leftMax = 0): void {
    const place = this.#placeOf(number);
    const before = this.#left[place] ?? 0;
    if (before <= leftMax) return;
    this.#left[place] = leftMax;
    this.#rooms.get(this.#projects[place] ?? 0)?.settle(before - leftMax);
    this.#hold(place, ((this.#leftUsd[place] ?? 0) * leftMax) / before);
  }

  #hold(place: number, usd: number): void {
    const [project, before = 0] = [this.#projects[place], this.#leftUsd[place]];
    if (project === undefined || usd === before) return;
    this.#leftUsd[place] = usd;
    const hold = this.#holds.get(project) ?? this.#holdOf(project);
    this.#holds.set(project, hold);
    hold.set(hold.usd + usd - before);
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
