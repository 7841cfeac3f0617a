/**
 * A world for tests of batches: an engine in virtual time, whose providers are fakes with batch APIs and books of what they bill.
 */
import { type ConfigOptions, resolveConfig } from "../../../src/engine/config/config.ts";
import { type OpenedEngine, openEngine } from "../../../src/engine/engine.ts";
import { createInlineMeasurer } from "../../../src/shard/measurer.ts";
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
  readonly cost?: {
    readonly billed_usd: number;
    readonly ambiguous_usd: number;
    readonly tier: string | null;
  };
}

export class BatchWorld {
  readonly clock: FakeClock;
  readonly disk: MemoryDisk;
  readonly store: CrashableStore;
  readonly wire: BatchTransport;
  readonly notices: string[] = [];
  #config: ConfigOptions;

  /** `fakesOf` makes the providers, by the origins of their base URLs. */
  constructor(fakesOf: (nowMs: () => number) => Readonly<Record<string, BatchFake>>, config: ConfigOptions) {
    this.clock = new FakeClock({ wallMs: Date.UTC(2026, 10, 1) });
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

  /** `life` is that of a process which a test can kill. */
  async opened(life?: ReturnType<typeof mortal>): Promise<OpenedEngine> {
    const { providers } = resolveConfig(this.#config, {});
    this.wire.restart();
    return openEngine({
      ...this.#config,
      ...{ dataDir: "/data", stateDir: "/state", env: {} },
      clock: life?.clock ?? this.clock,
      disk: life === undefined ? this.disk : mortalDisk(this.disk, life),
      store: await (life === undefined ? this.store.open() : life.whileAlive(() => this.store.open())),
      transport: this.wire,
      measurer: createInlineMeasurer({
        ...{ providers, lineBytesMax: 10 * 1024 * 1024, depthMax: 64, keyBytesMax: 512 },
      }),
      onNotice: (message) => this.notices.push(message),
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
    const process = mortal(this.clock);
    const { engine } = await this.opened(process);
    engine.run(INPUT, { out: OUTPUT, ...options }).finished.catch(() => undefined);
    await this.clock.advance(ms);
    process.kill();
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
