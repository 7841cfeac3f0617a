/** A partition's rows and objects in memory, for tests of its disk: with owners, crashes and failures. */
import { PerigeeError } from "../../../src/errors.ts";
import {
  type FileChange,
  type FileRow,
  type FileRows,
  REMOVED_FOLDER,
  SEGMENT_PAGE,
  type SegmentRow,
} from "../../../src/store/file_rows.ts";
import type { Objects } from "../../../src/store/objects/objects.ts";

interface StoredFile extends FileRow {
  readonly path: string;
}

type StoredSegment = SegmentRow & { readonly file: number; readonly bytes: Uint8Array | undefined };

/** The database: what was committed. */
export class PartitionRows {
  epoch = 0;
  files: readonly StoredFile[] = [];
  segments: readonly StoredSegment[] = [];
  /** Refuses the next changes with these. */
  readonly refusals: PerigeeError[] = [];
  /** Changes that were committed. */
  commits = 0;

  /** As a process that takes the partition. */
  take(): FileRows {
    this.epoch += 1;
    const reaped = new Set(
      this.files.filter(({ path }) => path.startsWith(REMOVED_FOLDER)).map(({ id }) => id),
    );
    this.files = this.files.filter(({ id }) => !reaped.has(id));
    this.segments = this.segments.filter(({ file }) => !reaped.has(file));
    const epoch = this.epoch;
    return {
      owner: async () => ({ part: 1, epoch }),
      change: async (changes) => {
        if (epoch !== this.epoch) throw new PerigeeError("store_failed", "taken over");
        const refusal = this.refusals.shift();
        if (refusal !== undefined) throw refusal;
        this.commits += 1;
        for (const change of changes) this.#change(change);
      },
      file: async (path) => this.files.find((file) => file.path === path),
      segments: async (id, after) =>
        this.segments
          .filter(({ file, sequence }) => file === id && sequence > after)
          .toSorted((one, other) => one.sequence - other.sequence)
          .slice(0, SEGMENT_PAGE),
      bytes: async (id, wanted) =>
        wanted.map(({ sequence, offset, lengthBytes }) =>
          this.segments
            .find((one) => one.file === id && one.sequence === sequence)
            ?.bytes?.slice(offset, offset + lengthBytes),
        ),
      names: async (folder) =>
        this.files.flatMap(({ path }) => {
          const start = folder === "" ? "" : `${folder}/`;
          const name = path.slice(start.length);
          return path.startsWith(start) && !name.includes("/") ? [name] : [];
        }),
      named: async (objects) => objects.filter((name) => this.segments.some(({ object }) => object === name)),
    };
  }

  #change(change: FileChange): void {
    const { id } = change;
    const found = this.files.find((file) => file.id === id);
    if (change.kind === "make" || change.kind === "rename") {
      if (this.files.some(({ path }) => path === change.path)) throw new Error(`${change.path} exists`);
    }
    if (change.kind === "make") {
      const { path, modifiedMs } = change;
      this.files = [...this.files, { id, path, modifiedMs, sizeBytes: 0, version: 1 }];
    } else if (change.kind === "rename") this.#put(found, { path: change.path });
    else if (change.kind === "remove") {
      this.files = this.files.filter((file) => file.id !== id);
      this.segments = this.segments.filter(({ file }) => file !== id);
    } else {
      const { cutTo = Number.POSITIVE_INFINITY, removed, added, bytes, sizeBytes, modifiedMs } = change;
      this.segments = this.segments
        .filter((one) => one.file !== id || (one.start < cutTo && !removed.includes(one.sequence)))
        .map((one) =>
          one.file === id ? { ...one, shownBytes: Math.min(one.shownBytes, cutTo - one.start) } : one,
        );
      let at = 0;
      for (const one of added) {
        if (this.segments.some(({ file, sequence }) => file === id && sequence === one.sequence))
          throw new Error(`segment ${one.sequence} exists`);
        const own = one.object === undefined ? bytes.slice(at, at + one.storedBytes) : undefined;
        at += own?.byteLength ?? 0;
        this.segments = [...this.segments, { ...one, file: id, shownBytes: one.storedBytes, bytes: own }];
      }
      this.#put(found, { sizeBytes, modifiedMs });
    }
  }

  #put(found: StoredFile | undefined, change: Partial<StoredFile>): void {
    if (found === undefined) return;
    this.files = this.files.map((file) =>
      file.id === found.id ? { ...file, ...change, version: file.version + 1 } : file,
    );
  }
}

/** Objects in memory; each call takes a turn, so that others come between. */
export class MemoryObjects implements Objects {
  readonly stored = new Map<string, Uint8Array>();
  /** By name; one day without. */
  readonly ages = new Map<string, number>();
  /** Refuses to store. */
  isDown = false;
  puts = 0;

  async put(name: string, bytes: Uint8Array): Promise<void> {
    this.puts += 1;
    await this.#up();
    const before = this.stored.get(name);
    if (before !== undefined && Buffer.compare(before, bytes) !== 0)
      throw new PerigeeError("conflict", `${name} exists`);
    this.stored.set(name, bytes.slice());
  }

  async get(name: string, start: number, lengthBytes: number): Promise<Uint8Array | undefined> {
    await this.#turn();
    return this.stored.get(name)?.slice(start, start + lengthBytes);
  }

  async remove(name: string): Promise<void> {
    await this.#turn();
    this.stored.delete(name);
  }

  async *list(prefix: string): AsyncGenerator<{ readonly name: string; readonly ageMs: number }> {
    for (const name of [...this.stored.keys()])
      if (name.startsWith(prefix)) yield { name, ageMs: this.ages.get(name) ?? 86_400_000 };
  }

  async close(): Promise<void> {}

  async #turn(): Promise<void> {
    await Promise.resolve();
  }

  async #up(): Promise<void> {
    await this.#turn();
    if (this.isDown) throw new PerigeeError("store_failed", "the bucket is down");
  }
}
