/**
 * The last 24 hours of each project, a sum a minute, kept over restarts.
 *
 *   engine -> attempted, settled -> the minute in memory -> a record of its hour, written once a minute -> removed after a day
 *
 * An hour of a project is one record of the store, whose rest of an earlier process is read before it is first replaced. A kill loses
 * what was counted since the last write, at most a minute. No answer waits for a write, and one that fails is made again a minute later.
 *
 * Limits: 1,440 minutes and 1,000 projects; only the hours that are not written yet are in memory (3.4 KB each).
 *
 * Hot path: some additions an attempt and an item.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { AttemptReport, SettledReport } from "../../engine/journal/observer.ts";
import { EVERY_PROJECT, type RecordStore } from "../../store/records.ts";

/** What is summed. `answer_ms` is of the requests that were answered, whose number is `answers`. */
export const SERIES = ["items", "failed", "tokens", "answers", "answer_ms", "refused", "billed_usd"] as const;
/** One of them. */
export type SeriesName = (typeof SERIES)[number];

/** Sums of consecutive minutes, the oldest first. */
export interface MinuteSums extends Readonly<Record<SeriesName, readonly number[]>> {
  /** Unix time of the first in minutes. */
  readonly start: number;
}

/** Minutes that are kept. */
export const MINUTES_KEPT = 1_440;
const COLLECTION = "activity";
const HOUR = 60;
const HOURS_KEPT = MINUTES_KEPT / HOUR;
const PROJECTS_MAX = 1_000;
const WRITE_EVERY_MS = 60_000;
const MINUTE_MS = 60_000;
const SWEEP_PAGE = 1_000;
/** Numbers are written to a billionth of a dollar. */
const PLACES = 1e9;

type Sums = Readonly<Record<SeriesName, Float64Array>>;

/** An hour of a project. */
interface Hour {
  readonly hour: number;
  readonly sums: Sums;
  /** Whether it includes what earlier processes have stored of it. */
  isWhole: boolean;
  isChanged: boolean;
}

/** What a history needs. */
export interface HistoryOptions {
  readonly clock: Clock;
  /** Undefined until it is open. */
  readonly store: () => Pick<RecordStore, "change" | "record" | "records"> | undefined;
}

/** One for a process. */
export class History {
  readonly #options: HistoryOptions;
  readonly #projects = new Map<string, Map<number, Hour>>();
  #timer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** The hour before which records were last removed. */
  #sweptHour = 0;
  #isClosed = false;

  constructor(options: HistoryOptions) {
    this.#options = options;
  }

  attempted({ project, code, latencyMs }: AttemptReport): void {
    if (code === undefined) {
      this.#add(project, "answers", 1);
      this.#add(project, "answer_ms", latencyMs);
    } else if (code === "rate_limited") this.#add(project, "refused", 1);
  }

  settled({ project, status, inputTokens, outputTokens, billedUsd }: SettledReport): void {
    this.#add(project, "billed_usd", billedUsd);
    if (status === "cancelled") return;
    this.#add(project, status === "completed" ? "items" : "failed", 1);
    this.#add(project, "tokens", inputTokens + outputTokens);
  }

  /** The last 24 hours up to the present minute, from the store and from memory. Rejects when the store cannot be read. */
  async day(project: string): Promise<MinuteSums> {
    const query = { collection: COLLECTION, limit: HOURS_KEPT + 1, isNewestFirst: true };
    const records = (await this.#options.store()?.records(project, query)) ?? [];
    const hours = new Map<number, readonly Sums[]>();
    for (const { body } of records) {
      const { hour, sums } = readHour(body);
      hours.set(hour, [sums]);
    }
    for (const { hour, sums, isWhole } of this.#projects.get(project)?.values() ?? [])
      hours.set(hour, isWhole ? [sums] : [...(hours.get(hour) ?? []), sums]);
    return sumsOf(hours, this.#minute(), MINUTES_KEPT);
  }

  /** The last minutes as far as they are in memory; those that this process did not work in are 0. `count` is at most 60. */
  recent(project: string, count: number): MinuteSums {
    const hours = [...(this.#projects.get(project)?.values() ?? [])].map(
      ({ hour, sums }) => [hour, [sums]] as const,
    );
    return sumsOf(new Map(hours), this.#minute(), count);
  }

  /** Writes what is not written yet. Resolves also when that was not possible. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#write();
  }

  #minute(): number {
    return Math.floor(this.#options.clock.wallMs() / MINUTE_MS);
  }

  #add(project: string, name: SeriesName, amount: number): void {
    if (amount === 0) return;
    const minute = this.#minute();
    const hour = this.#hourOf(project, Math.floor(minute / HOUR));
    if (hour === undefined) return;
    const sums = hour.sums[name];
    sums[minute % HOUR] = (sums[minute % HOUR] ?? 0) + amount;
    hour.isChanged = true;
    if (this.#timer === undefined && !this.#isClosed) this.#arm();
  }

  #hourOf(project: string, number: number): Hour | undefined {
    let hours = this.#projects.get(project);
    const known = hours?.get(number);
    if (known !== undefined) return known;
    if (hours === undefined) {
      if (this.#projects.size >= PROJECTS_MAX) return undefined;
      hours = new Map();
      this.#projects.set(project, hours);
    }
    const made = { hour: number, sums: emptyHour(), isWhole: false, isChanged: false };
    hours.set(number, made);
    return made;
  }

  #arm(): void {
    this.#timer = this.#options.clock.timer(
      WRITE_EVERY_MS,
      () => {
        this.#timer = undefined;
        void this.#write().then(() => {
          if (this.#projects.size > 0 && !this.#isClosed) this.#arm();
        });
      },
      { keepsAlive: false },
    );
  }

  /** One after the other. Never rejects: what was not written stays changed. */
  #write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writeChanged()).catch(() => undefined);
    return this.#writing;
  }

  async #writeChanged(): Promise<void> {
    const store = this.#options.store();
    if (store === undefined) return;
    const present = Math.floor(this.#minute() / HOUR);
    for (const [project, hours] of this.#projects) {
      for (const hour of hours.values()) {
        if (hour.isChanged) await this.#writeHour(store, project, hour);
        else if (hour.hour < present - 1) hours.delete(hour.hour); // the page shows it from the store
      }
      if (hours.size === 0) this.#projects.delete(project);
    }
    if (this.#sweptHour === present) return;
    await sweep(store, present - HOURS_KEPT);
    this.#sweptHour = present;
  }

  async #writeHour(
    store: Pick<RecordStore, "change" | "record">,
    project: string,
    hour: Hour,
  ): Promise<void> {
    const id = `${hour.hour} ${project}`;
    if (!hour.isWhole) {
      const stored = await store.record(project, COLLECTION, id);
      if (stored !== undefined) addTo(hour.sums, readHour(stored.body).sums);
      hour.isWhole = true;
    }
    hour.isChanged = false;
    const body = JSON.stringify({ hour: hour.hour, ...columnsOf(hour.sums) });
    const record = {
      collection: COLLECTION,
      id,
      project,
      parent: "",
      createdWallMs: hour.hour * HOUR * MINUTE_MS,
      body,
    };
    try {
      await store.change([{ kind: "put", record }]);
    } catch (error) {
      hour.isChanged = true;
      throw error;
    }
  }
}

/** Removes records of hours before `first`, of all projects, the oldest first. */
async function sweep(store: Pick<RecordStore, "change" | "records">, first: number): Promise<void> {
  for (;;) {
    const records = await store.records(EVERY_PROJECT, { collection: COLLECTION, limit: SWEEP_PAGE });
    const old = records.filter(({ body }) => readHour(body).hour < first);
    if (old.length === 0) return;
    await store.change(old.map(({ id }) => ({ kind: "delete", collection: COLLECTION, id })));
    if (old.length < SWEEP_PAGE) return;
  }
}

function sumsOf(hours: ReadonlyMap<number, readonly Sums[]>, lastMinute: number, count: number): MinuteSums {
  const start = lastMinute - count + 1;
  const read = (name: SeriesName): readonly number[] =>
    Array.from({ length: count }, (_, index) => {
      const minute = start + index;
      const each = hours.get(Math.floor(minute / HOUR)) ?? [];
      return rounded(each.reduce((sum, sums) => sum + (sums[name][minute % HOUR] ?? 0), 0));
    });
  return { start, ...bySeries(read) };
}

function emptyHour(): Sums {
  return bySeries(() => new Float64Array(HOUR));
}

function addTo(sums: Sums, more: Sums): void {
  for (const name of SERIES)
    for (let minute = 0; minute < HOUR; minute += 1)
      sums[name][minute] = (sums[name][minute] ?? 0) + (more[name][minute] ?? 0);
}

function columnsOf(sums: Sums): Readonly<Record<SeriesName, readonly number[]>> {
  return bySeries((name) => Array.from(sums[name], rounded));
}

/** Series that an older version did not write are 0. */
function readHour(body: string): { readonly hour: number; readonly sums: Sums } {
  const stored = JSON.parse(body) as { readonly hour: number } & Partial<
    Record<SeriesName, readonly number[]>
  >; // written by this service
  return {
    hour: stored.hour,
    sums: bySeries((name) => Float64Array.from({ length: HOUR }, (_, at) => stored[name]?.[at] ?? 0)),
  };
}

function bySeries<T>(make: (name: SeriesName) => T): Record<SeriesName, T> {
  return Object.fromEntries(SERIES.map((name) => [name, make(name)])) as Record<SeriesName, T>; // each name once
}

function rounded(value: number): number {
  return Math.round(value * PLACES) / PLACES;
}
