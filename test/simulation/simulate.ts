/**
 * One simulated run: the real engine on a virtual clock, a scripted wire, a disk in memory and a store that can crash,
 * through all the troubles of its seed, until every line is answered.
 *
 *   process starts -> engine -> run -> finished                      -> checks
 *                                  \-> killed, failed or stopped -> next process on the same disk and store
 */
import { createHash } from "node:crypto";
import type { Timer } from "../../src/clock.ts";
import "../../src/engine/config_schema.ts"; // loaded at first use otherwise, in real time
import { resolveConfig } from "../../src/engine/config.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import type { Source } from "../../src/engine/input.ts";
import type { Step } from "../../src/engine/journal.ts";
import type { Summary } from "../../src/engine/progress.ts";
import type { Run } from "../../src/engine/run.ts";
import type { RunOptions } from "../../src/engine/run_open.ts";
import { PerigeeError } from "../../src/errors.ts";
import { createInlineMeasurer } from "../../src/shard/measurer.ts";
import {
  createCrashableStore,
  createRandom,
  FakeClock,
  MemoryDisk,
  ScriptedTransport,
} from "../../src/testing/index.ts";
import { Observer } from "./observer.ts";
import { SimulatedProcess } from "./process.ts";
import { SimulatedProviders } from "./provider.ts";
import { drawWorkload, type Trouble, type Workload } from "./workload.ts";

const INPUT = "/in/input.jsonl";
const OUTPUT = "/out/output.jsonl";
const DATA = "/data";

/** Faults end within minutes; what is not over by then hangs. Retry-After may ask for 15 min, quota waits for probes. */
const LIVENESS_MS = 90 * 60_000;
const PROCESSES_MAX = 80;
/** A run that ends like this was made to. */
const INJECTED_CODES = new Set([
  "disk_full",
  "output_unwritable",
  "store_failed",
  "input_unreadable",
  "interrupted",
]);

export interface SimulationResult {
  /** SHA-256 of all that happened, in order. */
  readonly traceHash: string;
  /** Laws that were broken, in words; empty when all is well. */
  readonly violations: readonly string[];
  readonly workload: Workload;
  readonly observer: Observer;
  readonly virtualMs: number;
  readonly processes: number;
}

export async function simulate(seed: number): Promise<SimulationResult> {
  const simulation = new Simulation(seed);
  return simulation.run();
}

class Simulation {
  readonly #random: () => number;
  readonly #workload: Workload;
  readonly #clock: FakeClock;
  readonly #disk: MemoryDisk;
  readonly #store: ReturnType<typeof createCrashableStore>;
  readonly #providers: SimulatedProviders;
  readonly #wire: ScriptedTransport;
  readonly #observer: Observer;
  readonly #troubles: Trouble[];
  #process: SimulatedProcess;
  #processes = 0;
  #run: Run | undefined;
  #isInjected = false;
  /** The run is finished: no trouble comes any more. */
  #isOver = false;

  constructor(seed: number) {
    this.#random = createRandom(seed * 2 + 1);
    this.#workload = drawWorkload(seed, createRandom(seed * 2));
    this.#clock = new FakeClock({ seed });
    const { diskLatencyMs, commitMs, lines, troubles } = this.#workload;
    this.#disk = new MemoryDisk({ clock: this.#clock, latencyMs: diskLatencyMs });
    this.#store = createCrashableStore({
      clock: this.#clock,
      random: this.#random,
      ...(commitMs > 0 ? { commitMs } : {}),
    });
    this.#providers = new SimulatedProviders(this.#workload, this.#random);
    this.#wire = new ScriptedTransport(this.#clock, (request, context) =>
      this.#providers.script(request, context),
    );
    this.#observer = new Observer(this.#workload, this.#clock, this.#providers);
    this.#troubles = [...troubles];
    this.#providers.onSend = (served) => {
      this.#observer.sent(served);
      this.#meetTroubles();
    };
    const lineEnd = lines.length % 2 === 0 ? "\n" : "";
    this.#disk.put(INPUT, lines.map((line) => line.text).join("\n") + lineEnd);
    this.#process = this.#newProcess();
  }

  async run(): Promise<SimulationResult> {
    let limit: Timer | undefined;
    const stuck = new Promise<never>((_, reject) => {
      limit = this.#clock.timer(LIVENESS_MS, () => reject(new Error("not over in time")));
    });
    stuck.catch(() => undefined);
    try {
      const summary = await this.#clock.runUntilSettled(Promise.race([this.#live(), stuck]));
      this.#isOver = true;
      this.#observer.finished(summary, this.#disk.text(OUTPUT) ?? "");
      await this.#clock.runUntilSettled(this.#again(summary));
    } catch (error) {
      const progress = JSON.stringify(this.#run?.progress());
      this.#observer.violate(`I13 ${error instanceof Error ? error.stack : String(error)} at ${progress}`);
    } finally {
      limit?.cancel();
    }
    return {
      traceHash: createHash("sha256").update(this.#observer.trace.join("\n")).digest("hex"),
      violations: this.#observer.violations,
      workload: this.#workload,
      observer: this.#observer,
      virtualMs: this.#clock.nowMs(),
      processes: this.#processes,
    };
  }

  /** Processes one after another, until one of them finishes the run. */
  async #live(): Promise<Summary> {
    while (this.#processes < PROCESSES_MAX) {
      if (this.#process.isDead) this.#process = this.#nextProcess();
      this.#processes += 1;
      const end = await Promise.race([this.#process.died, this.#liveOnce()]);
      if (end !== "died" && end !== "again") return end;
    }
    throw new Error(`not over after ${PROCESSES_MAX} processes`);
  }

  /** Never resolves when the process dies meanwhile. */
  #liveOnce(): Promise<Summary | "again"> {
    return this.#process.whileAlive(() => this.#runToItsEnd());
  }

  async #runToItsEnd(): Promise<Summary | "again"> {
    const process = this.#process;
    const engine = await this.#engine().catch((error: unknown) =>
      process.isDead ? undefined : this.#excuse(error),
    );
    if (engine === undefined) return "again";
    let summary: Summary | "again" = "again";
    while (summary === "again") {
      summary = await this.#runOnce(engine);
      if (summary === "again") break;
      if (summary.status === "completed") break;
      this.#observer.stopped(summary.reason);
      summary = "again";
      if (this.#random() < 0.5) break;
    }
    await engine.close();
    return summary;
  }

  async #runOnce(engine: Engine): Promise<Summary | "again"> {
    const process = this.#process;
    this.#observer.processStarted();
    const run = engine.run(this.#source(), this.#options());
    this.#run = run;
    const poll = (): void => {
      if (process.isDead || this.#run !== run) return;
      this.#observer.polled(run.progress(), this.#answers());
      this.#clock.timer(1_500, poll);
    };
    run.opened.then(poll, () => undefined); // what a power cut left is mended until then
    try {
      return await run.finished;
    } catch (error) {
      if (process.isDead) return "again"; // nobody hears of it
      this.#excuse(error);
      this.#observer.processDied(undefined);
      return "again";
    } finally {
      if (this.#run === run) this.#run = undefined;
    }
  }

  /** Rethrows what was not made to fail. */
  #excuse(error: unknown): undefined {
    if (!(error instanceof PerigeeError && INJECTED_CODES.has(error.code) && this.#isInjected)) throw error;
    this.#observer.note(`failed ${error.code}`);
    if (error.code === "store_failed") this.#store.crash();
  }

  /** The input, or a stream that gives the same bytes in other pieces every time. */
  #source(): Source {
    const bytes = this.#disk.bytes(INPUT);
    if (!this.#workload.isStream || bytes === undefined) return INPUT;
    const [{ clock }, random] = [this.#process, this.#random];
    return (async function* () {
      for (let from = 0; from < bytes.byteLength; ) {
        const to = from + 1 + Math.floor(random() * 4_000);
        await clock.sleep(random() * 200);
        yield bytes.subarray(from, to);
        from = to;
      }
    })();
  }

  /** A finished run, called again after a power cut: sends nothing and says the same. */
  async #again(summary: Summary): Promise<void> {
    const sent = this.#providers.served.length;
    const output = this.#disk.text(OUTPUT);
    this.#disk.crash({ powerCut: true, random: this.#random });
    const engine = await this.#engine();
    const again = await engine.run(this.#source(), this.#options()).finished;
    await engine.close();
    if (this.#disk.text(OUTPUT) !== output)
      this.#observer.violate("I1 the output of a finished run did not survive a power cut");
    const left = this.#disk.paths.filter((path) => path.startsWith(DATA));
    if (left.length > 0) this.#observer.violate(`a finished run has left ${left.join(", ")}`);
    if (this.#providers.served.length !== sent || again.requests_sent !== 0)
      this.#observer.violate("I5 a finished run sent something when it was called again");
    if (JSON.stringify(again.counts) !== JSON.stringify(summary.counts))
      this.#observer.violate("I2 a finished run has other counts when it is called again");
  }

  async #engine(): Promise<Engine> {
    const { config } = this.#workload;
    const providers = resolveConfig(config, {}).providers;
    return createEngine({
      ...config,
      dataDir: DATA,
      env: {},
      clock: this.#process.clock,
      transport: this.#process.transport,
      disk: this.#process.disk,
      store: await this.#store.open(),
      measurer: createInlineMeasurer({ providers, lineBytesMax: 65_536, depthMax: 64, keyBytesMax: 512 }),
    });
  }

  #options(): RunOptions {
    const { isOrdered, slaMinutes, maxCostUsd } = this.#workload;
    return {
      out: OUTPUT,
      ordered: isOrdered,
      ...(slaMinutes === undefined ? {} : { sla: slaMinutes }),
      ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
      onStep: (sequence: number, step: Step) => this.#observer.step(sequence, step),
    };
  }

  #newProcess(): SimulatedProcess {
    return new SimulatedProcess(this.#clock, this.#wire, this.#disk, this.#providers);
  }

  /** Some die again while they recover. */
  #nextProcess(): SimulatedProcess {
    const process = this.#newProcess();
    if (this.#random() < 0.3) {
      const isPowerCut = this.#random() < 0.5;
      this.#clock.timer(this.#random() * 500, () => {
        if (!process.isDead) this.#kill(isPowerCut);
      });
    }
    return process;
  }

  #meetTroubles(): void {
    while ((this.#troubles[0]?.afterSends ?? Number.POSITIVE_INFINITY) <= this.#providers.served.length) {
      const trouble = this.#troubles.shift() as Trouble;
      this.#clock.timer(trouble.delayMs, () => this.#make(trouble));
    }
  }

  #make(trouble: Trouble): void {
    if (this.#isOver) return;
    const { kind, amount } = trouble;
    this.#observer.note(`trouble ${kind} ${amount}`);
    switch (kind) {
      case "kill":
      case "power_cut":
        this.#kill(kind === "power_cut");
        break;
      case "stop":
        this.#run?.stop();
        break;
      case "wall_jump":
        this.#clock.jumpWall(amount);
        break;
      case "store_full":
        this.#isInjected = true;
        this.#store.failNext("disk_full", amount);
        break;
      case "store_fails":
        this.#isInjected = true;
        this.#store.failNext("store_failed");
        break;
      case "output_sync_fails":
        this.#isInjected = true;
        this.#disk.failSync();
        break;
      case "disk_dies_in_write":
        this.#isInjected = true;
        this.#disk.crashAtOperation(amount, { powerCut: false, random: this.#random });
        break;
      case "disk_full":
        this.#isInjected = true;
        this.#disk.setFull(Math.floor(this.#random() * 300));
        this.#clock.timer(amount, () => this.#disk.setFull(Number.POSITIVE_INFINITY));
        break;
    }
  }

  #kill(isPowerCut: boolean): void {
    if (this.#process.isDead || this.#isOver) return;
    this.#process.kill();
    this.#observer.processDied(isPowerCut ? undefined : this.#answers());
    if (isPowerCut) this.#clock.reboot();
    this.#disk.crash({ powerCut: isPowerCut, random: this.#random });
    this.#store.crash();
    this.#wire.restart();
  }

  /** The file that answers are appended to. */
  #answers(): string {
    const beside = this.#disk.paths.find((path) => path.endsWith(".answers.jsonl"));
    return this.#disk.text(beside ?? OUTPUT) ?? "";
  }
}
