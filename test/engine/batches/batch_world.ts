/**
 * A world for tests of batches: an engine in virtual time, whose providers are fakes with batch APIs and books of what they bill.
 */

import type { Transport } from "../../../src/dispatch/transport.ts";
import { BATCHES } from "../../../src/engine/batches/batch_record.ts";
import { type ConfigOptions, resolveConfig } from "../../../src/engine/config/config.ts";
import { type OpenedEngine, openEngine } from "../../../src/engine/engine.ts";
import { POSTED_GROUPS } from "../../../src/engine/posted/batched_groups.ts";
import type { LimitPool } from "../../../src/limits/shared/limit_pool.ts";
import { createInlineMeasurer } from "../../../src/shard/measurer.ts";
import type { OpenAnswerCache } from "../../../src/store/answers/answer_cache.ts";
import type { RecordChange } from "../../../src/store/records.ts";
import type { Store } from "../../../src/store/store.ts";
import {
  type CrashableStore,
  createCrashableStore,
  FakeClock,
  MemoryDisk,
} from "../../../src/testing/index.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import { type BatchTransport, batchTransport } from "../../batch_servers/transport.ts";
import { mortal, mortalDisk } from "../world.ts";

const INPUT = "/in.jsonl";
const OUTPUT = "/out.jsonl";

/** A line of the output. */
export interface OutputLine {
  readonly key: string;
  readonly output: { readonly text: string } | null;
  readonly error?: { readonly code: string; readonly message: string };
  readonly late?: true;
  readonly cost?: {
    readonly billed_usd: number;
    readonly ambiguous_usd: number;
    readonly tier: string | null;
  };
}

/** Other worlds on the same clock, whose engines share limits with those of this one. */
export interface BesideOthers {
  readonly clock: FakeClock;
  readonly limitPool: LimitPool;
}

export class BatchWorld {
  readonly clock: FakeClock;
  readonly disk: MemoryDisk;
  readonly store: CrashableStore;
  readonly wire: BatchTransport;
  readonly notices: string[] = [];
  /** Opens the caches of runs; default: in files. */
  openAnswers: OpenAnswerCache | undefined;
  #config: ConfigOptions;
  readonly #beside: BesideOthers | undefined;

  /** `fakesOf` makes the providers, by the origins of their base URLs. */
  constructor(
    fakesOf: (nowMs: () => number) => Readonly<Record<string, BatchFake>>,
    config: ConfigOptions,
    beside?: BesideOthers,
  ) {
    this.#beside = beside;
    this.clock = beside?.clock ?? new FakeClock({ wallMs: Date.UTC(2026, 10, 1) });
    this.disk = new MemoryDisk({ clock: this.clock, latencyMs: 0 });
    this.store = createCrashableStore({ random: () => 0.999 });
    this.wire = batchTransport(
      fakesOf(() => this.clock.wallMs()),
      this.clock,
    );
    this.#config = config;
  }

  set config(config: ConfigOptions) {
    this.#config = config;
  }

  /** The lines that a test has put as input: `textOf` makes the prompt of each, from 1. */
  input(count: number, model: string, textOf: (line: number) => string = (line) => `prompt ${line}`): void {
    const lines = Array.from({ length: count }, (_, index) => {
      const parts = [{ text: textOf(index + 1) }];
      const request = {
        model,
        contents: [{ role: "user", parts }],
        generation_config: { max_output_tokens: 64 },
      };
      return `${JSON.stringify({ key: `k${index + 1}`, request })}\n`;
    });
    this.disk.put(INPUT, lines.join(""));
  }

  /** The same of requests for other endpoints: `requestOf` makes each, from 1. */
  requests(count: number, requestOf: (line: number) => object): void {
    const lines = Array.from(
      { length: count },
      (_, index) => `${JSON.stringify({ key: `k${index + 1}`, request: requestOf(index + 1) })}\n`,
    );
    this.disk.put(INPUT, lines.join(""));
  }

  /** `life` is that of a process which a test can kill; `steps`: what it does with batches, one by one. */
  async opened(life?: ReturnType<typeof mortal>, steps?: Steps): Promise<OpenedEngine> {
    const { providers } = resolveConfig(this.#config, {});
    this.wire.restart();
    const store = await (life === undefined ? this.store.open() : life.whileAlive(() => this.store.open()));
    return openEngine({
      ...this.#config,
      ...{ dataDir: "/data", stateDir: "/state", env: {} },
      ...(this.#beside === undefined ? {} : { limitPool: this.#beside.limitPool }),
      clock: life?.clock ?? this.clock,
      disk: life === undefined ? this.disk : mortalDisk(this.disk, life),
      store: steps === undefined ? store : steppedStore(store, steps),
      transport: steps === undefined ? this.wire : steppedTransport(this.wire, steps),
      measurer: createInlineMeasurer({
        ...{ providers, lineBytesMax: 10 * 1024 * 1024, depthMax: 64, keyBytesMax: 512 },
      }),
      onNotice: (message) => this.notices.push(message),
      ...(this.openAnswers === undefined ? {} : { openAnswers: this.openAnswers }),
    });
  }

  /** Runs the input to its end in one process. */
  async run(options: Omit<Parameters<OpenedEngine["engine"]["run"]>[1], "out"> = {}) {
    const { engine } = await this.opened();
    const run = engine.run(INPUT, { out: OUTPUT, ...options });
    const summary = await this.settle(run.finished);
    await this.settle(engine.close());
    return summary;
  }

  /** A process that works on the input, and is killed after so many milliseconds. */
  async killedAfter(ms: number, options: object, random: () => number): Promise<void> {
    await this.killedWhile(random, async ({ engine }) => {
      engine.run(INPUT, { out: OUTPUT, ...options }).finished.catch(() => undefined);
      await this.clock.advance(ms);
    });
  }

  /** A process that is killed when this resolves. */
  async killedWhile(random: () => number, work: (opened: OpenedEngine) => Promise<void>): Promise<void> {
    const process = mortal(this.clock);
    await work(await this.opened(process));
    process.kill();
    this.#crash(random);
  }

  /**
   * A process that is killed exactly before or after its nth step, from 1: a change of the record of a batch or of its
   * group of posts, or a call to the provider.
   * False if it came to its end before. `work`: what it does; by default, or for options, the run over the input.
   */
  async killedAt(
    nth: number,
    when: "before" | "after",
    work: object | ((opened: OpenedEngine) => Promise<unknown>),
    random: () => number,
  ): Promise<boolean> {
    const process = mortal(this.clock);
    let isDead = false;
    let tellDead: () => void = () => undefined;
    const died = new Promise<void>((resolve) => {
      tellDead = resolve;
    });
    let step = 0;
    const kill = <T>(): Promise<T> => {
      isDead = true;
      process.kill();
      tellDead();
      return new Promise<never>(() => undefined);
    };
    const steps: Steps = async (act) => {
      step += 1;
      if (isDead || step < nth) return act();
      if (step > nth || when === "before") return kill();
      await act();
      return kill();
    };
    const opened = await this.opened(process, steps);
    const { engine } = opened;
    const over =
      typeof work === "function" ? work(opened) : engine.run(INPUT, { out: OUTPUT, ...work }).finished;
    await this.settle(Promise.race([over, died]));
    if (!isDead) await this.settle(engine.close());
    else this.#crash(random);
    return isDead;
  }

  #crash(random: () => number): void {
    this.disk.crash({ powerCut: random() < 0.5, random });
    this.store.crash();
    this.wire.restart();
  }

  settle<T>(promise: Promise<T>): Promise<T> {
    return this.clock.runUntilSettled(promise);
  }

  lines(): readonly OutputLine[] {
    const text = this.disk.text(OUTPUT) ?? "";
    return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as OutputLine]));
  }
}

/** Does one step of a process, unless the process dies there. */
type Steps = <T>(act: () => Promise<T>) => Promise<T>;

function steppedStore(store: Store, steps: Steps): Store {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      const call = member.bind(target) as (...inputs: unknown[]) => Promise<unknown>;
      if (name !== "change") return call;
      return (changes: readonly RecordChange[]) =>
        changes.some(isOfBatch) ? steps(() => call(changes)) : call(changes);
    },
  });
}

function isOfBatch(change: RecordChange): boolean {
  const collection = "record" in change ? change.record.collection : change.collection;
  return collection === BATCHES || collection === POSTED_GROUPS;
}

function steppedTransport(wire: BatchTransport, steps: Steps): Transport {
  return {
    send: (request, options) => wire.send(request, options),
    stream: (request, options) => steps(() => wire.stream(request, options)),
    close: () => wire.close(),
  };
}
