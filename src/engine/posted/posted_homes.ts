/**
 * The groups of posted items in memory, and in which of them each task is.
 *
 *   entered -> left (all its items have ended, or it is read again)
 */
import type { Timer } from "../../clock.ts";
import type { PostedItems, PostedTask } from "./posted_items.ts";

/** The place of a task in memory. */
export interface PostedHome {
  readonly owner: PostedItems;
  readonly task: PostedTask;
}

/** One for an engine. */
export class PostedHomes {
  readonly #owners = new Map<PostedItems, Timer | undefined>();
  readonly #homes = new Map<number, PostedHome>();
  /** The latest group of each project. */
  readonly #lastOf = new Map<string, PostedItems>();
  readonly #entering = new Set<number>();
  #items = 0;
  #batchedItems = 0;

  get owners(): readonly PostedItems[] {
    return [...this.#owners.keys()];
  }

  get isEmpty(): boolean {
    return this.#owners.size === 0;
  }

  /** Items of its groups, ended ones included, without those of groups that have batches. */
  get items(): number {
    return this.#items;
  }

  /** Items of its groups that have batches. */
  get batchedItems(): number {
    return this.#batchedItems;
  }

  has(owner: PostedItems): boolean {
    return this.#owners.has(owner);
  }

  /** Undefined for a task that is not in memory. */
  of(number: number): PostedHome | undefined {
    return this.#homes.get(number);
  }

  lastOf(project: string): PostedItems | undefined {
    return this.#lastOf.get(project);
  }

  /** Tasks enter whose acceptance is not durable yet. */
  entering(numbers: readonly number[]): void {
    for (const number of numbers) this.#entering.add(number);
  }

  /** Their acceptance is durable, or was refused. */
  entered(numbers: readonly number[]): void {
    for (const number of numbers) this.#entering.delete(number);
  }

  isEntering(number: number): boolean {
    return this.#entering.has(number);
  }

  /** `isHere`: whether a task of it has items that are to be sent, or are with a batch. */
  enter(owner: PostedItems, isHere: (task: PostedTask) => boolean): void {
    this.#owners.set(owner, undefined);
    for (const task of owner.tasks) if (isHere(task)) this.#homes.set(task.number, { owner, task });
    this.#count(owner, owner.lineCount);
    this.#lastOf.set(owner.settings.project, owner);
  }

  /** The timer of its deadline, which ends with it. */
  expires(owner: PostedItems, timer: Timer): void {
    this.#owners.set(owner, timer);
  }

  leave(owner: PostedItems): void {
    this.#owners.get(owner)?.cancel();
    this.#owners.delete(owner);
    this.#count(owner, -owner.lineCount);
    const { project } = owner.settings;
    if (this.#lastOf.get(project) === owner) this.#lastOf.delete(project);
  }

  /** A task has ended, or waits in the work log again. */
  forget(number: number): void {
    this.#homes.delete(number);
  }

  #count(owner: PostedItems, items: number): void {
    if (owner.measureAgain === undefined) this.#items += items;
    else this.#batchedItems += items;
  }
}
