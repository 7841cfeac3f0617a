/**
 * A world for engine tests: virtual time, a disk in memory, a store that can crash, and a provider that a test scripts
 * by the line number that each prompt carries as `[[n]]`.
 */
import "stream-json/parser.js"; // the engine loads it with the first array, which would take real time
import type { Clock } from "../../src/clock.ts";
import type { Disk, DiskFile } from "../../src/disk.ts";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { type ConfigOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { importModules } from "../../src/engine/config/own_providers.ts";
import { type Engine, type EnginePlace, type OpenedEngine, openEngine } from "../../src/engine/engine.ts";
import type { EngineObserver } from "../../src/engine/journal/observer.ts";
import type { Buckets } from "../../src/engine/media/media_places.ts";
import type { LimitPool } from "../../src/limits/shared/limit_pool.ts";
import type { CapPool } from "../../src/price/shared/cap_pool.ts";
import { createInlineMeasurer } from "../../src/shard/measurer.ts";
import type { OpenAnswerCache } from "../../src/store/answers/answer_cache.ts";
import {
  type CrashableStore,
  createCrashableStore,
  FakeClock,
  MemoryDisk,
  openaiAnswer,
  openaiError,
  ScriptedTransport,
} from "../../src/testing/index.ts";

export const INPUT = "/in.jsonl";
export const OUTPUT = "/out.jsonl";

/** What a request is answered with: at once, after a while, or never. */
export type Reply = WireResult | { readonly afterMs: number; readonly result: WireResult } | "hang";
export type Answering = (
  line: number,
  attempt: number,
  model: string,
  body: unknown,
  origin: string,
) => Reply;

export interface WorldOptions {
  readonly answer?: Answering;
  readonly config?: ConfigOptions;
  readonly latencyMs?: number;
  /** What a commit of the store takes; default nothing. */
  readonly commitMs?: number;
  /** What each write and sync of the disk takes; default nothing. */
  readonly diskLatencyMs?: number;
  readonly observer?: EngineObserver;
  /** Unix time at the start. */
  readonly wallMs?: number;
  /** That of another world, which runs beside this one. */
  readonly clock?: FakeClock;
  readonly limitPool?: LimitPool;
  readonly capPool?: CapPool;
  /** Whether items may name files of the disk. Default false. */
  readonly readsLocalFiles?: boolean;
  /** Where objects of `s3://` are. */
  readonly buckets?: Buckets;
  /** Leaves the lane `batch` allowed: for plans, which send nothing. Its provider has no batches; default false. */
  readonly allowsBatches?: boolean;
}

export const ok = (line: number): WireResult => okFrom(line, undefined);
/** The same, in which the provider names the model. */
export const okFrom = (line: number, model: string | undefined): WireResult =>
  openaiAnswer(`answer ${line}`, { inputTokens: 10, outputTokens: 5 }, model);
export const status = (code: number, name = "error", headers: Record<string, string> = {}): WireResult =>
  openaiError(code, { message: name, code: name, type: name }, headers);

export class World {
  readonly clock: FakeClock;
  readonly disk: MemoryDisk;
  readonly store: CrashableStore;
  readonly wire: ScriptedTransport;
  /** Line numbers in the order of their sending. */
  readonly sent: { readonly line: number; readonly atMs: number; readonly model: string }[] = [];
  /** Notices to the operator, in order. */
  readonly notices: string[] = [];
  answer: Answering;
  /** Opens the caches of runs; default: in files. */
  openAnswers: OpenAnswerCache | undefined;
  readonly #observer: EngineObserver | undefined;
  readonly #pools: Pick<WorldOptions, "limitPool" | "capPool">;
  readonly #place: EnginePlace;
  #config: ConfigOptions;
  readonly #attempts = new Map<number, number>();

  constructor(options: WorldOptions = {}) {
    this.answer = options.answer ?? ((line) => ok(line));
    this.#observer = options.observer;
    this.#place = { readsLocalFiles: options.readsLocalFiles === true, buckets: options.buckets };
    const { commitMs, diskLatencyMs, wallMs } = options;
    this.clock = options.clock ?? new FakeClock(wallMs === undefined ? {} : { wallMs });
    const { limitPool, capPool } = options;
    this.#pools = {
      ...(limitPool === undefined ? {} : { limitPool }),
      ...(capPool === undefined ? {} : { capPool }),
    };
    this.disk = new MemoryDisk({ clock: this.clock, latencyMs: diskLatencyMs ?? 0 });
    const slow = commitMs === undefined ? {} : { clock: this.clock, commitMs };
    this.store = createCrashableStore({ random: () => 0.999, ...slow });
    this.#config = {
      providers: {
        alpha: { baseUrl: "http://alpha.test/v1", needsKey: false },
        beta: { baseUrl: "http://beta.test/v1", needsKey: false },
      },
      ...options.config,
      ...(options.allowsBatches === true ? {} : { lanes: withoutBatches(options.config?.lanes) }),
    };
    const latencyMs = options.latencyMs ?? 10;
    this.wire = new ScriptedTransport(this.clock, (request, { nowMs }) => {
      const body = new TextDecoder().decode(request.body);
      const line = Number(/\[\[(\d+)\]\]/.exec(body)?.[1]);
      const model = String((JSON.parse(body) as { model: string }).model);
      const attempt = (this.#attempts.get(line) ?? 0) + 1;
      this.#attempts.set(line, attempt);
      this.sent.push({ line, atMs: nowMs, model });
      const reply = this.answer(line, attempt, model, JSON.parse(body), request.origin);
      if (reply === "hang") return { kind: "hang" };
      if ("afterMs" in reply) return { kind: "answer", ...reply };
      return { kind: "answer", afterMs: latencyMs, result: reply };
    });
  }

  async engine(clock: Clock = this.clock): Promise<Engine> {
    return (await this.opened(clock)).engine;
  }

  /** `life` is that of a process which a test can kill. */
  async opened(clock: Clock = this.clock, life?: Life): Promise<OpenedEngine> {
    const modules = await importModules(this.#config.providers);
    const { providers } = resolveConfig(this.#config, {}, modules);
    this.wire.restart();
    const options = {
      ...this.#config,
      ...(this.#observer === undefined ? {} : { observer: this.#observer }),
      onNotice: (message: string) => void this.notices.push(message),
      ...(this.openAnswers === undefined ? {} : { openAnswers: this.openAnswers }),
      ...this.#pools,
      dataDir: "/data",
      stateDir: "/state",
      env: {},
      clock,
      transport: this.wire,
      disk: life === undefined ? this.disk : mortalDisk(this.disk, life),
      store: await (life === undefined ? this.store.open() : life.whileAlive(() => this.store.open())),
      measurer: createInlineMeasurer({
        providers,
        lineBytesMax: 10 * 1024 * 1024,
        depthMax: 64,
        keyBytesMax: 512,
      }),
    };
    return openEngine(options, this.#place);
  }

  /** For engines from now on. */
  reconfigure(config: ConfigOptions): void {
    this.#config = { ...this.#config, ...config, lanes: withoutBatches(config.lanes ?? this.#config.lanes) };
  }

  /** Writes an input of so many items, numbered from `first`. */
  input(count: number, model: string | ((line: number) => string) = "alpha:m1", path = INPUT): void {
    const lines = Array.from({ length: count }, (_, index) =>
      itemLine(index + 1, typeof model === "string" ? model : model(index + 1)),
    );
    this.disk.put(path, lines.join(""));
  }

  /** The process dies; its files are closed, its store is free, its requests are cut. */
  kill(options: { readonly powerCut: boolean; readonly random?: () => number } = { powerCut: false }): void {
    this.disk.crash(options);
    this.store.crash();
    this.wire.restart();
  }

  output(path = OUTPUT): OutputRecord[] {
    const text = this.disk.text(path) ?? "";
    return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as OutputRecord]));
  }

  settle<T>(promise: Promise<T>): Promise<T> {
    return this.clock.runUntilSettled(promise);
  }
}

/** Its provider has no batches: those of the fakes in batch_servers have. */
function withoutBatches(lanes: ConfigOptions["lanes"]): NonNullable<ConfigOptions["lanes"]> {
  return { ...lanes, deny: [...(lanes?.deny ?? []), "batch"] };
}

export interface OutputRecord {
  readonly key: string | null;
  readonly line?: number;
  readonly output: { readonly text: string } | null;
  readonly error?: {
    readonly code: string;
    readonly message?: string;
    readonly attempts: number;
    readonly line?: number;
    readonly provider?: string;
    readonly provider_status?: number;
  };
}

export function itemLine(line: number, model = "alpha:m1", key = `k${line}`): string {
  const request = {
    model,
    contents: [{ role: "user", parts: [{ text: `[[${line}]] hello` }] }],
    generation_config: { max_output_tokens: 16 },
  };
  return `${JSON.stringify({ key, request })}\n`;
}

/** The files that are open on a disk, by their paths; one entry for each time that it is open. */
export function openFiles(disk: Disk): string[] {
  const paths: string[] = [];
  const open = disk.open.bind(disk);
  disk.open = async (path, mode): Promise<DiskFile> => {
    const file = await open(path, mode);
    paths.push(path);
    const close = file.close.bind(file);
    file.close = () => {
      paths.splice(paths.indexOf(path), 1);
      return close();
    };
    return file;
  };
  return paths;
}

/** What a dead process would do does not happen, and what it waits for never comes. */
export interface Life {
  whileAlive<T>(call: () => Promise<T>): Promise<T>;
}

export function mortalDisk(disk: Disk, { whileAlive }: Life): Disk {
  return {
    open: (path, mode) => whileAlive(() => disk.open(path, mode)),
    stat: (path) => whileAlive(() => disk.stat(path)),
    rename: (from, to) => whileAlive(() => disk.rename(from, to)),
    remove: (path) => whileAlive(() => disk.remove(path)),
    makePrivateFolder: (path) => whileAlive(() => disk.makePrivateFolder(path)),
    list: (folder) => whileAlive(() => disk.list(folder)),
  };
}

/** A process that can die on its own: nothing of it goes on after `kill`. */
export function mortal(clock: Clock): Life & { readonly clock: Clock; kill(): void } {
  let isDead = false;
  const never = new Promise<never>(() => undefined);
  const live = (callback: () => void) => (): void => {
    if (!isDead) callback();
  };
  return {
    clock: {
      nowMs: () => clock.nowMs(),
      wallMs: () => clock.wallMs(),
      moment: () => clock.moment(),
      random: () => clock.random(),
      timer: (delayMs, callback) => clock.timer(delayMs, live(callback)),
      soon: (callback) => clock.soon(live(callback)),
      sleep: (delayMs) =>
        new Promise((resolve) =>
          clock.timer(
            delayMs,
            live(() => resolve()),
          ),
        ),
    },
    kill: () => {
      isDead = true;
    },
    whileAlive: (call) => (isDead ? never : call().finally(() => (isDead ? never : undefined))),
  };
}
