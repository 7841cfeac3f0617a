/**
 * Usage of posted tasks that is not in the stored sums yet, by project and day.
 *
 *   added -> taken (a write is under way) -> written
 *                                        \-> returned (it failed)
 */
import { dayOf } from "../../price/rates.ts";
import { addUsage, NO_PROJECT_USAGE, type ProjectUsage, type TaskUsage } from "./project_usage.ts";

const DAY_MS = 86_400_000;

/** Tasks that were noted, and what they used. */
export interface UnwrittenBatch {
  readonly tasks: Set<number>;
  /** By project, and then by day (UTC, `2026-11-21`). */
  readonly days: Map<string, Map<string, ProjectUsage>>;
}

/** One for a store; one write is under way at a time. */
export class UnwrittenUsage {
  #added: UnwrittenBatch = noBatch();
  #taken: UnwrittenBatch = noBatch();
  /** Day of the last note: days since 1970, and its text. */
  #day = { index: Number.NaN, text: "" };

  get isEmpty(): boolean {
    return this.#added.tasks.size + this.#taken.tasks.size === 0;
  }

  /** `used`: undefined if nothing is to be counted. */
  add(task: number, used: TaskUsage | undefined): void {
    this.#added.tasks.add(task);
    if (used !== undefined) count(this.#added, used.project, this.#dayOf(used.wallMs), used.usage);
  }

  take(): UnwrittenBatch {
    this.#taken = this.#added;
    this.#added = noBatch();
    return this.#taken;
  }

  written(): void {
    this.#taken = noBatch();
  }

  giveBack(): void {
    for (const task of this.#added.tasks) this.#taken.tasks.add(task);
    for (const [project, days] of this.#added.days)
      for (const [day, usage] of days) count(this.#taken, project, day, usage);
    this.#added = this.#taken;
    this.#taken = noBatch();
  }

  /** Those with usage, some twice. */
  *projects(): IterableIterator<string> {
    for (const { days } of [this.#added, this.#taken]) yield* days.keys();
  }

  /** Usage of a project, some days twice. */
  *of(project: string): IterableIterator<readonly [day: string, usage: ProjectUsage]> {
    for (const { days } of [this.#added, this.#taken]) yield* days.get(project) ?? [];
  }

  #dayOf(wallMs: number): string {
    const index = Math.floor(wallMs / DAY_MS);
    if (index !== this.#day.index) this.#day = { index, text: dayOf(wallMs) };
    return this.#day.text;
  }
}

function noBatch(): UnwrittenBatch {
  return { tasks: new Set(), days: new Map() };
}

function count({ days: projects }: UnwrittenBatch, project: string, day: string, usage: ProjectUsage): void {
  let days = projects.get(project);
  if (days === undefined) {
    days = new Map();
    projects.set(project, days);
  }
  days.set(day, addUsage(days.get(day) ?? NO_PROJECT_USAGE, usage));
}
