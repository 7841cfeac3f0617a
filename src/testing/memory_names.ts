/**
 * The names on a `MemoryDisk`: what readers find, what a power cut would keep, and the changes in between.
 *
 *   changed -> synced with its folder     a power cut keeps each change that was not synced, or loses it
 */
import { dirname } from "node:path";
import type { MemoryFile } from "./memory_file.ts";

type Names = Map<string, MemoryFile>;

/** A change of names that no sync of its folder has covered. */
interface PendingChange {
  readonly folder: string;
  readonly apply: (names: Names) => void;
}

export class MemoryNames {
  #visible: Names = new Map();
  readonly #durable: Names = new Map();
  #pending: PendingChange[] = [];

  get paths(): readonly string[] {
    return [...this.#visible.keys()];
  }

  get files(): Iterable<MemoryFile> {
    return this.#visible.values();
  }

  get(path: string): MemoryFile | undefined {
    return this.#visible.get(path);
  }

  add(path: string, file: MemoryFile): void {
    this.#change(path, (names) => names.set(path, file));
  }

  /** False when it does not exist. The file always has exactly one of both names, if both are in one folder. */
  rename(from: string, to: string): boolean {
    const file = this.#visible.get(from);
    if (file === undefined) return false;
    this.#change(to, (names) => {
      if (names.get(from) === file) names.delete(from);
      names.set(to, file);
    });
    return true;
  }

  remove(path: string): void {
    const file = this.#visible.get(path);
    if (file === undefined) return;
    this.#change(path, (names) => {
      if (names.get(path) === file) names.delete(path);
    });
  }

  /** Makes all names in a folder durable. */
  sync(folder: string): void {
    for (const change of this.#pending) if (change.folder === folder) change.apply(this.#durable);
    this.#pending = this.#pending.filter((change) => change.folder !== folder);
  }

  /** What a power cut does. */
  loseUnsynced(random: () => number): void {
    for (const change of this.#pending) if (random() < 1 / 2) change.apply(this.#durable);
    this.#pending = [];
    this.#visible = new Map(this.#durable);
  }

  #change(path: string, apply: (names: Names) => void): void {
    apply(this.#visible);
    this.#pending.push({ folder: dirname(path), apply });
  }
}
