/**
 * A file of a partition while it is open, shared by all its handles in this process.
 *
 *   written -> written down    (as rows; large parts as objects, which are stored first and then named)
 *                   -> gathered        (many rows become an object, and are removed in the transaction that names it)
 *
 * One change of a file is under way at a time, under the fence of the partition; what is written meanwhile is in the next one. After a change that
 * failed, every change rejects with the same error: another process may own the file.
 *
 * Limit: 16 MiB of a file, twice the size of an object, may be not yet stored; then writers wait. `file_sizes.ts` has the sizes.
 */
import type { Clock } from "../../clock.ts";
import { hasCode } from "../../errors.ts";
import type { FileRow, FileRows, FilesOwner, NewSegment, WriteChange } from "../file_rows.ts";
import { blockSums } from "./block_sums.ts";
import { FileExtents, type FileLayer } from "./file_extents.ts";
import type { FileSizes } from "./file_sizes.ts";
import { type GatheredRun, runsOf } from "./gathered_runs.ts";
import type { KeptBytes } from "./kept_bytes.ts";
import { damagedSegment, readExtents } from "./layer_reads.ts";
import { loadExtents } from "./loaded_extents.ts";
import type { Objects } from "./objects.ts";
import { TurnSlot } from "./turn_slot.ts";
import { joinedBytes, piecesOf } from "./written_pieces.ts";

/** What the files of a disk share. */
export interface FileHome {
  readonly files: FileRows;
  readonly objects: Objects;
  readonly clock: Clock;
  readonly owner: FilesOwner;
  readonly kept: KeptBytes;
  readonly sizes: FileSizes;
}

/** What the next change writes down. */
interface Unwritten {
  from: number;
  to: number;
  bytes: number;
  cutTo: number | undefined;
  /** Layers of which nothing shows any more. */
  readonly hidden: FileLayer[];
}

/** While the disk of PostgreSQL is full. */
const FULL_WAIT_MS = 1_000;
const READ_TRIES_MAX = 4;

export class PartitionFile {
  readonly id: number;
  /** Its path in the manifest; changes when the file is renamed. */
  path: string;
  /** Open handles. */
  users = 0;
  readonly #home: FileHome;
  readonly #extents: FileExtents;
  readonly #slot = new TurnSlot();
  #unwritten: Unwritten = nothing();
  /** `stored`: size and time in the manifest. */
  readonly #state: {
    size: number;
    modifiedMs: number;
    sequence: number;
    cuts: number;
    stored: Pick<FileRow, "sizeBytes" | "modifiedMs">;
    failure: unknown;
  };
  /** Rows since the last gathering. */
  #ungathered = { bytes: 0, rows: 0 };
  #gathering: Promise<void> | undefined;

  constructor(home: FileHome, path: string, row: FileRow, extents: FileExtents = new FileExtents()) {
    this.#home = home;
    this.id = row.id;
    this.path = path;
    this.#extents = extents;
    const sequence = Math.max(0, ...extents.all.map(({ layer }) => layer.sequence ?? 0));
    this.#state = {
      ...{ size: row.sizeBytes, modifiedMs: row.modifiedMs, sequence, cuts: 0 },
      ...{ stored: row, failure: undefined },
    };
    for (const { layer } of extents.all) this.#note(layer);
  }

  static async load(home: FileHome, path: string, row: FileRow): Promise<PartitionFile> {
    return new PartitionFile(home, path, row, await loadExtents(home.files, row.id));
  }

  get sizeBytes(): number {
    return this.#state.size;
  }

  get modifiedMs(): number {
    return this.#state.modifiedMs;
  }

  /** Names of its objects. */
  get objects(): string[] {
    const layers = [...this.#extents.all.map(({ layer }) => layer), ...this.#unwritten.hidden];
    return [...new Set(layers.flatMap(({ object }) => object ?? []))];
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    for (let tries = 1; ; tries += 1) {
      const length = Math.max(0, Math.min(into.byteLength, this.#state.size - position));
      const target = into.subarray(0, length).fill(0);
      const extents = this.#extents.within(position, position + length);
      const unread = await readExtents(this.#home, this.id, extents, target, position);
      if (unread === undefined) return length;
      const isGathered = unread.layer.shownBytes === 0; // or written over
      if (!isGathered || tries === READ_TRIES_MAX) throw damagedSegment(this.path, unread);
    }
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    this.#assertUsable();
    if (bytes.byteLength === 0) return;
    const end = position + bytes.byteLength;
    const layer: FileLayer = {
      ...{ sequence: undefined, start: position, storedBytes: bytes.byteLength, sums: EMPTY },
      ...{ object: undefined, bytes: bytes.slice(), shownBytes: 0 },
    };
    const unwritten = this.#unwritten;
    unwritten.hidden.push(...this.#extents.put(position, end, layer));
    unwritten.from = Math.min(unwritten.from, position);
    unwritten.to = Math.max(unwritten.to, end);
    unwritten.bytes += bytes.byteLength;
    this.#changed(Math.max(this.#state.size, end));
    if (unwritten.bytes < this.#home.sizes.object) return;
    const isFirst = this.#slot.isFree;
    const flushed = this.flush();
    if (isFirst)
      flushed.catch(() => undefined); // later calls reject
    else await flushed;
  }

  async truncate(sizeBytes: number): Promise<void> {
    this.#assertUsable();
    if (sizeBytes < this.#state.size) {
      this.#unwritten.hidden.push(...this.#extents.cut(sizeBytes));
      this.#unwritten.cutTo = Math.min(sizeBytes, this.#unwritten.cutTo ?? sizeBytes);
      this.#state.cuts += 1;
    }
    this.#changed(sizeBytes);
  }

  /** When it resolves, everything that was written before the call is stored. Begins in the turn of the call if no change is under way. */
  async flush(): Promise<void> {
    this.#assertUsable();
    if (this.#isChanged) return this.#slot.take(() => this.#writeDown());
    await this.#slot.ended();
    this.#assertUsable();
  }

  /** Whether it is being stored or gathered: loading it now would find rows that are about to be removed. */
  get isBusy(): boolean {
    return this.#gathering !== undefined || !this.#slot.isFree;
  }

  /** For a file without open handles: gathers its rows if they have `runMin` bytes, and waits for changes under way. Never rejects. */
  async settled(): Promise<void> {
    while (this.#gathering !== undefined) await this.#gathering;
    if (this.#ungathered.bytes >= this.#home.sizes.runMin) await this.#gathered();
    await this.#slot.ended();
  }

  get #isChanged(): boolean {
    const { stored, size, modifiedMs } = this.#state;
    return this.#unwritten.bytes > 0 || size !== stored.sizeBytes || modifiedMs !== stored.modifiedMs;
  }

  #changed(size: number): void {
    this.#state.size = size;
    this.#state.modifiedMs = Math.max(this.#state.modifiedMs, this.#home.clock.wallMs());
  }

  async #writeDown(): Promise<void> {
    this.#assertUsable();
    if (!this.#isChanged) return;
    const { from, to, cutTo, hidden } = this.#unwritten;
    this.#unwritten = nothing();
    const stored = { sizeBytes: this.#state.size, modifiedMs: this.#state.modifiedMs };
    const written = this.#extents.within(from, to).filter(({ layer }) => layer.sequence === undefined);
    const added: { layer: FileLayer; isLarge: boolean }[] = [];
    for (const { start, bytes, isLarge } of piecesOf(written, this.#home.sizes)) {
      const layer = this.#layer(start, bytes, undefined);
      this.#extents.put(start, start + bytes.byteLength, layer);
      added.push({ layer, isLarge });
    }
    if (added.some(({ isLarge }) => isLarge)) await this.#storeLarge(added);
    const layers = added.map(({ layer }) => layer);
    await this.#change(hidden, () => this.#writing(stored, cutTo, hidden, layers));
    for (const layer of layers) {
      this.#home.kept.add(layer);
      this.#note(layer);
    }
    const { bytes, rows } = this.#ungathered;
    const { sizes } = this.#home;
    if (bytes >= sizes.gathered || rows >= sizes.gatheredRows) void this.#gathered();
  }

  /** A part that cannot be stored as an object now becomes a row. */
  async #storeLarge(
    added: readonly { readonly layer: FileLayer; readonly isLarge: boolean }[],
  ): Promise<void> {
    for (const { layer, isLarge } of added) {
      if (!isLarge || layer.bytes === undefined) continue;
      const name = this.#objectName(layer.start, layer.sequence ?? 0);
      const isStored = await this.#home.objects.put(name, layer.bytes).then(
        () => true,
        () => false,
      );
      if (isStored) layer.object = name;
    }
  }

  /** Joins the gathering under way, or begins one. */
  #gathered(): Promise<void> {
    this.#gathering ??= this.#gather().finally(() => {
      this.#gathering = undefined;
    });
    return this.#gathering;
  }

  /** Never rejects: rows that were not gathered stay, until there are as many new ones. */
  async #gather(): Promise<void> {
    this.#ungathered = { bytes: 0, rows: 0 };
    try {
      for (const run of runsOf(this.#extents.all, this.#home.sizes))
        if (!(await this.#gatherRun(run))) return;
    } catch {
      // The rows still exist.
    }
  }

  async #gatherRun({ start, end }: GatheredRun): Promise<boolean> {
    const { cuts } = this.#state;
    if (end > this.#state.size) return false;
    const layer = this.#layer(start, new Uint8Array(end - start), undefined); // its sequence is before what is written from now on
    const bytes = layer.bytes ?? EMPTY;
    const unread = await readExtents(this.#home, this.id, this.#extents.within(start, end), bytes, start);
    if (unread !== undefined) return false;
    const name = this.#objectName(start, layer.sequence ?? 0);
    layer.sums = blockSums(bytes);
    await this.#home.objects.put(name, bytes);
    layer.object = name;
    layer.bytes = undefined;
    let isNamed = false;
    await this.#slot.take(async () => {
      this.#assertUsable();
      isNamed = cuts === this.#state.cuts;
      if (!isNamed) return;
      const sequence = layer.sequence ?? 0;
      const hidden = this.#extents.put(start, end, layer, (other) => (other.sequence ?? Infinity) < sequence);
      await this.#change(hidden, () => this.#writing(this.#state.stored, undefined, hidden, [layer]));
    });
    if (!isNamed) await this.#removeObjects([layer]);
    return isNamed;
  }

  async #change(hidden: readonly FileLayer[], make: () => WriteChange): Promise<void> {
    for (;;) {
      try {
        const change = make();
        await this.#home.files.change([change]);
        this.#state.stored = change;
        void this.#removeObjects(hidden);
        return;
      } catch (error) {
        if (!hasCode(error, "disk_full")) {
          this.#state.failure ??= error;
          throw error;
        }
      }
      await this.#home.clock.sleep(FULL_WAIT_MS);
    }
  }

  #writing(
    stored: Pick<FileRow, "sizeBytes" | "modifiedMs">,
    cutTo: number | undefined,
    hidden: readonly FileLayer[],
    added: readonly FileLayer[],
  ): WriteChange {
    return {
      ...{ kind: "write", id: this.id, sizeBytes: stored.sizeBytes, modifiedMs: stored.modifiedMs, cutTo },
      removed: hidden.flatMap(({ sequence }) => sequence ?? []),
      added: added.map(
        ({ sequence = 0, start, storedBytes, sums, object }): NewSegment => ({
          ...{ sequence, start, storedBytes, sums, object },
        }),
      ),
      bytes: joinedBytes(
        added.filter(({ object }) => object === undefined).map(({ bytes }) => bytes ?? EMPTY),
      ),
    };
  }

  /** Never rejects: an object that could not be removed is not named by any segment, and is swept. */
  async #removeObjects(layers: readonly FileLayer[]): Promise<void> {
    for (const { object } of layers)
      if (object !== undefined) await this.#home.objects.remove(object).catch(() => undefined);
  }

  #layer(start: number, bytes: Uint8Array, object: string | undefined): FileLayer {
    this.#state.sequence += 1;
    const { sequence } = this.#state;
    const sums = blockSums(bytes);
    return { sequence, start, storedBytes: bytes.byteLength, sums, object, bytes, shownBytes: 0 };
  }

  #objectName(start: number, sequence: number): string {
    const { part, epoch } = this.#home.owner;
    return `p${part}/${this.id}/${start}-${sequence}.e${epoch}`;
  }

  #note({ object, storedBytes }: FileLayer): void {
    if (object !== undefined) return;
    this.#ungathered.bytes += storedBytes;
    this.#ungathered.rows += 1;
  }

  #assertUsable(): void {
    if (this.#state.failure !== undefined) throw this.#state.failure;
  }
}

const EMPTY = new Uint8Array();

function nothing(): Unwritten {
  return { from: Number.POSITIVE_INFINITY, to: 0, bytes: 0, cutTo: undefined, hidden: [] };
}
