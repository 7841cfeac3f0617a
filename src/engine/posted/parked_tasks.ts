/**
 * Open tasks of the work log that are not in memory: a number and a deadline each, in the order of their deadlines, by project.
 *
 *   parked -> taken (the earliest deadline of its project first) | forgotten (it ended without being sent)
 *          -> overdue (its deadline has passed)
 *
 * Limit: the open tasks of the work log; some 50 bytes a task.
 */
import type { Clock, Timer } from "../../clock.ts";
import { Heap } from "../../queue/heap.ts";
import { RECENT_MS } from "../arrivals/recent_items.ts";

/** Deadlines this close to each other share a count. */
const NEAR_MS = 1_000;

/** A task that waits to be read. */
export interface ParkedTask {
  /** Its number in the work log. */
  readonly number: number;
  /** Items that have not ended. */
  readonly left: number;
  /** Monotonic; Infinity without a deadline. */
  readonly deadlineMs: number;
  /** Monotonic: the order in which tasks are read. Its deadline, or when it was parked. */
  readonly dueMs: number;
}

/** One for an engine. */
export class ParkedTasks {
  readonly #projects = new Map<string, Heap<ParkedTask>>();
  readonly #numbers = new Set<number>();
  /** The last count of each project's items. */
  readonly #counts = new Map<
    string,
    { readonly atMs: number; readonly deadlineMs: number; readonly items: number }
  >();
  readonly #clock: Clock;
  readonly #onOverdue: (number: number) => void;
  #expiry: { readonly atMs: number; readonly timer: Timer } | undefined;

  /** `onOverdue`: called for each task whose deadline has passed. */
  constructor(clock: Clock, onOverdue: (number: number) => void) {
    this.#clock = clock;
    this.#onOverdue = onOverdue;
  }

  get size(): number {
    return this.#numbers.size;
  }

  /** Projects with waiting tasks. */
  get projects(): readonly string[] {
    return [...this.#projects.keys()];
  }

  add(project: string, { number, left, deadlineMs }: Omit<ParkedTask, "dueMs">): void {
    const dueMs = Number.isFinite(deadlineMs) ? deadlineMs : this.#clock.nowMs();
    const task = { number, left, deadlineMs, dueMs };
    const heap = this.#projects.get(project) ?? new Heap<ParkedTask>();
    this.#projects.set(project, heap);
    this.#numbers.add(task.number);
    heap.push(dueMs, task);
    this.#arm(deadlineMs);
  }

  /** Stops calling `onOverdue`. */
  close(): void {
    this.#expiry?.timer.cancel();
  }

  /** The task has ended. */
  forget(number: number): void {
    this.#numbers.delete(number);
  }

  /** When the first task of a project is due; Infinity without tasks. */
  firstDueMs(project: string): number {
    return this.#peek(project)?.dueMs ?? Number.POSITIVE_INFINITY;
  }

  /** Takes tasks of a project, the earliest deadlines first: at most `itemsMax` items, all due within `withinMs` of the first. */
  take(project: string, itemsMax: number, withinMs: number): ParkedTask[] {
    const taken: ParkedTask[] = [];
    let items = 0;
    for (let next = this.#peek(project); next !== undefined; next = this.#peek(project)) {
      const [first] = taken;
      if (first !== undefined && (items + next.left > itemsMax || !isNear(first, next, withinMs))) break;
      this.#projects.get(project)?.pop();
      this.#numbers.delete(next.number);
      items += next.left;
      taken.push(next);
    }
    return taken;
  }

  /**
   * Items of a project with a deadline up to this one, as of a moment ago: each post reads it, and a pass over a million tasks takes 10
   * ms.
   */
  items(project: string, deadlineMs: number): number {
    const nowMs = this.#clock.nowMs();
    const known = this.#counts.get(project);
    const isNear = known !== undefined && !(Math.abs(known.deadlineMs - deadlineMs) > NEAR_MS);
    if (isNear && nowMs - known.atMs < RECENT_MS) return known.items;
    let items = 0;
    this.#projects.get(project)?.keep((task) => {
      if (!this.#numbers.has(task.number)) return false;
      if (task.deadlineMs <= deadlineMs) items += task.left;
      return true;
    });
    if (items === 0) this.#counts.delete(project);
    else this.#counts.set(project, { atMs: nowMs, deadlineMs, items });
    return items;
  }

  /** Call it when a task is due at this time. */
  #arm(atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY || atMs >= (this.#expiry?.atMs ?? Number.POSITIVE_INFINITY)) return;
    this.#expiry?.timer.cancel();
    const delayMs = Math.max(0, atMs - this.#clock.nowMs());
    const timer = this.#clock.timer(delayMs, () => this.#expire(), { keepsAlive: false });
    this.#expiry = { atMs, timer };
  }

  #expire(): void {
    const nowMs = this.#clock.nowMs();
    const overdue: number[] = [];
    let nextMs = Number.POSITIVE_INFINITY;
    this.#expiry = undefined;
    for (const heap of this.#projects.values())
      heap.keep(({ number, deadlineMs }) => {
        if (!this.#numbers.has(number)) return false;
        if (deadlineMs <= nowMs) overdue.push(number);
        else nextMs = Math.min(nextMs, deadlineMs);
        return deadlineMs > nowMs;
      });
    this.#arm(nextMs);
    for (const number of overdue) this.#numbers.delete(number);
    for (const number of overdue) this.#onOverdue(number);
  }

  /** Removes tasks that have ended meanwhile. */
  #peek(project: string): ParkedTask | undefined {
    const heap = this.#projects.get(project);
    for (let next = heap?.peek(); next !== undefined; next = heap?.peek()) {
      if (this.#numbers.has(next.value.number)) return next.value;
      heap?.pop();
    }
    this.#projects.delete(project);
    return undefined;
  }
}

function isNear(first: ParkedTask, next: ParkedTask, withinMs: number): boolean {
  if (first.deadlineMs === Number.POSITIVE_INFINITY) return next.deadlineMs === first.deadlineMs;
  return next.deadlineMs <= first.deadlineMs + withinMs;
}
