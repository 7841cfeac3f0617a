/**
 * What was learnt about providers (limits, latencies, lengths of answers), kept for the processes after this one.
 *
 *   opened (read once) --put--> to be written --10 s, later 60 s; 1 s where it matters; or close--> merged with the file, written
 *
 * One JSON file, `learnt.json`, that several processes may use at once: each write reads it again, keeps of every entry
 * the one put last, and renames a whole new file over it. A write that another process's has replaced at the same moment
 * is made again, at most 3 times. Nothing depends on it: a file that is damaged or of another version is ignored and
 * replaced, and a write that fails is tried at the next interval. It holds figures by provider, address and fingerprint of
 * the key (`accountName`) and names of models; no texts and no keys.
 *
 * Where several machines share a database, rows of it take the place of the file (`LearntRows`): a row an entry, and of each entry the one
 * put last. Most entries are means over the last answers of a model, so the last one is as good as a mean of several, and newer.
 *
 * Limits: 2,000 entries, 8 KiB each, 1 MiB together; those that were put longest ago go first.
 */
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Clock, Timer } from "../clock.ts";
import { type Disk, errorCodeOf, isNoSpace } from "../disk.ts";

const FILE = "learnt.json";
const VERSION = 1;
/** How many entries are kept. */
export const ENTRIES_MAX = 2_000;
const VALUE_CHARS_MAX = 8 * 1_024;
const FILE_BYTES_MAX = 1_024 * 1_024;
const FIRST_WRITE_MS = 10_000;
const WRITE_EVERY_MS = 60_000;
const SOON_MS = 1_000;
const WRITES_MAX = 3;
/** Older than any write takes. */
const TORN_MS = 3_600_000;

/** What JSON can hold. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

interface Entry {
  readonly kind: string;
  readonly key: string;
  /** JSON text. */
  readonly value: string;
  /** Unix time at which it was put. */
  readonly wallMs: number;
}

/** An entry as rows have it: its age, because the clocks of machines differ. */
export interface LearntRow {
  readonly kind: string;
  readonly key: string;
  /** JSON text. */
  readonly value: string;
  /** Milliseconds since it was put. */
  readonly ageMs: number;
}

/** What processes on several machines share instead of a file. Both may reject: nothing depends on them. */
export interface LearntRows {
  /** Those put last, at most 2,000. */
  read(): Promise<readonly LearntRow[]>;
  /** Keeps of each entry the one put last. */
  put(rows: readonly LearntRow[]): Promise<void>;
}

/** Where an engine keeps what it learns. */
export interface LearntPlace {
  /** Instead of a file. */
  readonly learntRows?: LearntRows | undefined;
}

export interface LearntStoreOptions extends LearntPlace {
  /** The folder of the file, made where needed; undefined keeps everything in memory. */
  readonly folder: string | undefined;
  readonly disk: Disk;
  readonly clock: Clock;
  /** Called once if the folder can be neither read nor written, with its path and the system's code. Not for a full disk. */
  readonly onUnusable?: (reason: string) => void;
}

/** One for an engine. Reads are of memory; what other processes put is seen after a write. */
export class LearntStore {
  readonly #options: LearntStoreOptions;
  #entries = new Map<string, Entry>();
  /** Names of entries that were put and not written. */
  readonly #unwritten = new Set<string>();
  readonly #sources: (() => void)[] = [];
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  /** Whether the next write is that of a second. */
  #isUrgent = false;
  #hasWritten = false;
  #isClosed = false;
  #isReported = false;

  private constructor(options: LearntStoreOptions) {
    this.#options = options;
  }

  /** Reads the file. Never fails: a file that cannot be read counts as absent. */
  static async open(options: LearntStoreOptions): Promise<LearntStore> {
    const store = new LearntStore(options);
    store.#entries = await store.#read();
    await store.#removeTorn();
    return store;
  }

  /** What was put last under a kind and a key; undefined when nothing was. What a caller expects of its shape it checks. */
  get(kind: string, key: string): unknown {
    const entry = this.#entries.get(nameOf(kind, key));
    return entry === undefined ? undefined : JSON.parse(entry.value);
  }

  /** Milliseconds since it was put; Infinity when nothing was. At least 0, also after the clock was set back. */
  ageMs(kind: string, key: string): number {
    const entry = this.#entries.get(nameOf(kind, key));
    if (entry === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(0, this.#options.clock.wallMs() - entry.wallMs);
  }

  /** Keys of a kind. */
  keys(kind: string): readonly string[] {
    return [...this.#entries.values()].filter((entry) => entry.kind === kind).map(({ key }) => key);
  }

  /**
   * Keeps a value of at most 8 KiB of JSON; a larger one is not kept. Written later, at an interval or on `close`. Costs
   * some microseconds: what changes with every answer is put by a `source` instead.
   */
  put(kind: string, key: string, value: JsonValue): void {
    const text = JSON.stringify(value);
    const name = nameOf(kind, key);
    if (this.#isClosed || text.length > VALUE_CHARS_MAX || this.#entries.get(name)?.value === text) return;
    this.#entries.delete(name); // so that the order stays that of the puts
    this.#entries.set(name, { kind, key, value: text, wallMs: this.#options.clock.wallMs() });
    this.#unwritten.add(name);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= ENTRIES_MAX) break;
      this.#entries.delete(oldest);
    }
    this.changed();
  }

  /** `collect` is called before each write, to put what has changed; see `changed`. */
  source(collect: () => void): void {
    this.#sources.push(collect);
  }

  /** A source has something new: there is a write at the next interval. Cheap enough for every answer. */
  changed(): void {
    if (this.#timer === undefined) this.#arm(this.#hasWritten ? WRITE_EVERY_MS : FIRST_WRITE_MS);
  }

  /** A source has something new that a process killed soon must not lose: there is a write in a second. */
  changedMuch(): void {
    if (this.#isUrgent) return;
    this.#isUrgent = true;
    if (this.#writing === undefined) this.#arm(SOON_MS);
  }

  /** Writes what is not written yet. Resolves also when that was not possible. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#timer?.cancel();
    await this.#writing;
    await this.#write();
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #arm(delayMs: number): void {
    if ((this.#options.folder ?? this.#options.learntRows) === undefined || this.#isClosed) return;
    this.#timer?.cancel();
    const write = (): void => {
      this.#isUrgent = false;
      this.#writing = this.#write().then(() => {
        this.#timer = undefined;
        this.#writing = undefined;
        if (this.#isUrgent) this.#arm(SOON_MS);
        else if (this.#unwritten.size > 0) this.#arm(WRITE_EVERY_MS);
      });
    };
    this.#timer = this.#options.clock.timer(delayMs, write, { keepsAlive: false });
  }

  async #write(): Promise<void> {
    const { folder, disk, learntRows } = this.#options;
    if ((folder ?? learntRows) === undefined) return;
    this.#hasWritten = true;
    this.#collect();
    if (learntRows !== undefined) return this.#writeRows(learntRows);
    if (folder === undefined) return;
    for (let writes = 0; writes < WRITES_MAX && this.#unwritten.size > 0; writes += 1) {
      const path = join(folder, `${FILE}.${randomUUID()}`);
      try {
        this.#merge(await this.#read());
        const written = new Map([...this.#unwritten].map((name) => [name, this.#entries.get(name)]));
        await disk.makePrivateFolder(folder);
        await writeWhole(disk, path, textOf(this.#entries));
        await disk.rename(path, join(folder, FILE));
        const found = await this.#read();
        for (const [name, entry] of written) {
          const isThere = entry === undefined || (found.get(name)?.wallMs ?? 0) >= entry.wallMs;
          if (isThere && this.#entries.get(name) === entry) this.#unwritten.delete(name);
        }
      } catch (error) {
        await disk.remove(path).catch(() => undefined);
        this.#reportUnusable(error);
        return; // at the next interval
      }
    }
  }

  async #writeRows(rows: LearntRows): Promise<void> {
    const nowMs = this.#options.clock.wallMs();
    const written = [...this.#unwritten].flatMap((name) => this.#entries.get(name) ?? []);
    try {
      if (written.length > 0)
        await rows.put(
          written.map(({ wallMs, ...entry }) => ({ ...entry, ageMs: Math.max(0, nowMs - wallMs) })),
        );
      this.#unwritten.clear();
      for (const entry of written) {
        const name = nameOf(entry.kind, entry.key);
        if (this.#entries.get(name) !== entry) this.#unwritten.add(name); // it was put again meanwhile
      }
      this.#merge(await this.#read());
    } catch {
      // at the next interval
    }
  }

  /** If a source throws, its figures stay as they were last put: nothing depends on them. */
  #collect(): void {
    for (const collect of this.#sources) {
      try {
        collect();
      } catch {
        // it is called again before the next write
      }
    }
  }

  #merge(found: ReadonlyMap<string, Entry>): void {
    for (const [name, entry] of found) {
      const own = this.#entries.get(name);
      if (own !== undefined && own.wallMs >= entry.wallMs) continue;
      this.#entries.set(name, entry);
      this.#unwritten.delete(name);
    }
    this.#entries = bounded(this.#entries.values());
  }

  async #read(): Promise<Map<string, Entry>> {
    const { folder, disk, clock, learntRows } = this.#options;
    try {
      if (learntRows !== undefined) {
        const [rows, nowMs] = [await learntRows.read(), clock.wallMs()];
        return bounded(rows.map(({ ageMs, ...entry }) => ({ ...entry, wallMs: nowMs - Math.max(0, ageMs) })));
      }
      if (folder === undefined) return new Map();
      return bounded(entriesOf(await readWhole(disk, join(folder, FILE)), clock.wallMs()));
    } catch {
      return new Map(); // it does not exist, or cannot be read
    }
  }

  /** Removes what processes left that were killed while they wrote. */
  async #removeTorn(): Promise<void> {
    const { folder, disk, clock } = this.#options;
    if (folder === undefined) return;
    try {
      for (const name of await disk.list(folder)) {
        if (!name.startsWith(`${FILE}.`)) continue;
        const found = await disk.stat(join(folder, name));
        if (found !== undefined && clock.wallMs() - found.modifiedMs > TORN_MS)
          await disk.remove(join(folder, name));
      }
    } catch (error) {
      if (errorCodeOf(error) !== "ENOENT") this.#reportUnusable(error); // leftover files stay until a later start
    }
  }

  #reportUnusable(error: unknown): void {
    const code = errorCodeOf(error);
    if (this.#isReported || isNoSpace(code)) return;
    this.#isReported = true;
    this.#options.onUnusable?.(`${this.#options.folder} cannot be used (${code ?? "unknown error"})`);
  }
}

/**
 * What learnt figures of a provider are kept under: its name, its address without user, password and query, and a
 * fingerprint of the key: the first 16 hexadecimal digits of its SHA-256.
 */
export function accountName({
  name,
  baseUrl,
  key,
}: {
  readonly name: string;
  readonly baseUrl: string;
  readonly key?: string | undefined;
}): string {
  const fingerprint = key === undefined ? "-" : createHash("sha256").update(key).digest("hex").slice(0, 16);
  return `${name} ${addressOf(baseUrl)} ${fingerprint}`;
}

function addressOf(baseUrl: string): string {
  if (!URL.canParse(baseUrl)) return "-";
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}

function nameOf(kind: string, key: string): string {
  return `${kind}\n${key}`;
}

/** Those put last, within the bounds, the oldest first. */
function bounded(entries: Iterable<Entry>): Map<string, Entry> {
  const newest = [...entries].reverse().sort((left, right) => right.wallMs - left.wallMs);
  const kept: Entry[] = [];
  let bytes = 0;
  for (const entry of newest) {
    bytes += Buffer.byteLength(lineOf(entry));
    if (kept.length >= ENTRIES_MAX || bytes > FILE_BYTES_MAX) break;
    kept.push(entry);
  }
  return new Map(kept.reverse().map((entry) => [nameOf(entry.kind, entry.key), entry]));
}

function textOf(entries: ReadonlyMap<string, Entry>): string {
  return `{"version":${VERSION},"entries":[\n${[...entries.values()].map(lineOf).join(",\n")}\n]}\n`;
}

function lineOf({ kind, key, value, wallMs }: Entry): string {
  return `[${JSON.stringify(kind)},${JSON.stringify(key)},${value},${wallMs}]`;
}

/** Throws when it is not such a file; leaves out entries that are not. What claims to be from the future counts as the oldest. */
function entriesOf(text: string, nowWallMs: number): Entry[] {
  const file: unknown = JSON.parse(text);
  if (typeof file !== "object" || file === null || Reflect.get(file, "version") !== VERSION) return [];
  const entries: unknown = Reflect.get(file, "entries");
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((entry: unknown) => {
    if (!Array.isArray(entry)) return [];
    const [kind, key, value, wallMs] = entry as readonly unknown[];
    if (typeof kind !== "string" || typeof key !== "string" || typeof wallMs !== "number") return [];
    if (value === undefined) return [];
    return [{ kind, key, value: JSON.stringify(value), wallMs: wallMs > nowWallMs ? 0 : wallMs }];
  });
}

async function readWhole(disk: Disk, path: string): Promise<string> {
  const file = await disk.open(path, "read");
  try {
    const bytes = new Uint8Array(Math.min(await file.sizeBytes(), 2 * FILE_BYTES_MAX));
    const read = await file.read(bytes, 0);
    return Buffer.from(bytes.buffer, 0, read).toString("utf8");
  } finally {
    await file.close();
  }
}

async function writeWhole(disk: Disk, path: string, text: string): Promise<void> {
  const file = await disk.open(path, "write");
  try {
    await file.write(Buffer.from(text), 0);
  } finally {
    await file.close();
  }
}
