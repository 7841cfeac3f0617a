/**
 * One simulation: the real engine on a virtual clock, a scripted wire, a disk in memory and a store that can crash,
 * through all the troubles of its seed, until every line of every run is answered.
 *
 *   process starts -> engine -> runs -> all finished                -> checks
 *                                   \-> killed, failed or stopped -> next process on the same disk and store
 */
import { createHash } from "node:crypto";
import type { Timer } from "../../src/clock.ts";
import { checkOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import type { Source } from "../../src/engine/files/input.ts";
import { isCallers } from "../../src/engine/items/holds.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import type { Run } from "../../src/engine/runs/run.ts";
import type { EngineRunOptions } from "../../src/engine/runs/run_open.ts";
import { PerigeeError } from "../../src/errors.ts";
import { createInlineMeasurer } from "../../src/shard/measurer.ts";
import {
  createCrashableStore,
  createRandom,
  FakeClock,
  MemoryDisk,
  ScriptedTransport,
} from "../../src/testing/index.ts";
import { CallerPause } from "./caller_pause.ts";
import type { Feature } from "./features.ts";
import { Laws } from "./laws.ts";
import { type Answers, Observer } from "./observer.ts";
import { DATA, inputOf, isOf, noteOf, outputOf } from "./paths.ts";
import { SimulatedProcess } from "./process.ts";
import { SimulatedProviders } from "./provider.ts";
import type { RunBook } from "./run_book.ts";
import {
  configWithout,
  drawWorkload,
  FEATURE_OF_TROUBLE,
  FEATURE_OF_WINDOW,
  HAPPENING,
  livenessMs,
  missingProviderOf,
  type SimulatedLine,
  type Trouble,
  type Workload,
} from "./workload.ts";

const PROCESSES_MAX = 80;
/** A run is looked at so often at first, and later each time that it has lasted a twentieth longer. */
const POLL_MS = 1_500;
const POLL_SHARE = 1 / 20;
/** A run that ends like this was made to. */
const INJECTED_CODES = new Set(
  "disk_full output_unwritable store_failed input_unreadable interrupted closed".split(" "),
);

export interface SimulationResult {
  /** SHA-256 of all that happened, in order. */
  readonly traceHash: string;
  readonly trace: readonly string[];
  /** Laws that were broken, in words; empty when all is well. */
  readonly violations: readonly string[];
  readonly workload: Workload;
  /** What took effect. */
  readonly met: ReadonlySet<Feature>;
  readonly virtualMs: number;
  readonly processes: number;
}

/** Depends on nothing but the seed. */
export async function simulate(seed: number): Promise<SimulationResult> {
  await checkOptions({ providers: {} }, "options"); // loads the schemas, in real time, before the clock runs
  return new Simulation(seed).run();
}

type DiskTrouble = "store_full" | "store_fails" | "output_sync_fails" | "disk_dies_in_write";

class Simulation {
  readonly #random: () => number;
  readonly #workload: Workload;
  readonly #clock: FakeClock;
  readonly #disk: MemoryDisk;
  readonly #store: ReturnType<typeof createCrashableStore>;
  readonly #providers: SimulatedProviders;
  readonly #wire: ScriptedTransport;
  readonly #observer: Observer;
  readonly #laws: Laws;
  readonly #troubles: Trouble[];
  readonly #met: Set<Feature>;
  readonly #pause = new CallerPause();
  readonly #summaries = new Map<RunBook, Summary>();
  readonly #running = new Map<RunBook, Run>();
  readonly #answersPaths = new Map<RunBook, string>();
  #process: SimulatedProcess;
  #processes = 0;
  #isInjected = false;
  /** Engines that are still to be opened without one provider. */
  #missingEngines = 0;
  /** The engine leaves, for the configuration has changed. */
  #isReconfigured = false;
  /** All runs are finished: no trouble comes any more. */
  #isOver = false;

  constructor(seed: number) {
    this.#random = createRandom(seed * 2 + 1);
    this.#workload = drawWorkload(seed, createRandom(seed * 2));
    this.#clock = new FakeClock({ seed });
    const { diskLatencyMs, commitMs, runs, troubles, features } = this.#workload;
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
    this.#laws = new Laws({
      workload: this.#workload,
      observer: this.#observer,
      providers: this.#providers,
    });
    this.#troubles = [...troubles];
    this.#met = new Set([...features].filter((feature) => !HAPPENING.has(feature)));
    this.#providers.onSend = (served) => {
      this.#observer.sent(served);
      this.#meetTroubles();
    };
    this.#providers.onDelivered = (served) => this.#observer.delivered(served);
    for (const { index, lines } of runs) this.#putInput(index, lines);
    this.#process = this.#newProcess();
  }

  async run(): Promise<SimulationResult> {
    let limit: Timer | undefined;
    const stuck = new Promise<never>((_, reject) => {
      limit = this.#clock.timer(livenessMs(this.#workload), () => reject(new Error("not over in time")));
    });
    stuck.catch(() => undefined);
    try {
      await this.#clock.runUntilSettled(Promise.race([this.#live(), stuck]));
      this.#isOver = true;
      this.#store.failNoMore(); // a failure that came last may not have met a write
      this.#disk.failNoMore();
      this.#laws.all(this.#clock.nowMs());
      for (const book of this.#observer.books)
        this.#checkFinished(book, this.#summaries.get(book) as Summary);
      const shared = this.#observer.sharedCap?.members ?? [];
      this.#laws.sharedCap(shared.map((book) => this.#summaries.get(book) as Summary));
      await this.#clock.runUntilSettled(this.#again());
    } catch (error) {
      const progress = JSON.stringify([...this.#running.values()].map((run) => run.progress()));
      this.#observer.violate(`I13 ${error instanceof Error ? error.message : String(error)} at ${progress}`);
    } finally {
      limit?.cancel();
    }
    for (const { window } of this.#providers.windows) this.#met.add(FEATURE_OF_WINDOW[window.kind]);
    const { trace, violations } = this.#observer;
    return {
      traceHash: createHash("sha256").update(trace.join("\n")).digest("hex"),
      trace,
      violations,
      workload: this.#workload,
      met: this.#met,
      virtualMs: this.#clock.nowMs(),
      processes: this.#processes,
    };
  }

  /** Processes one after another, until all runs are finished. */
  async #live(): Promise<void> {
    while (this.#processes < PROCESSES_MAX) {
      if (this.#process.isDead) this.#process = this.#nextProcess();
      this.#processes += 1;
      this.#providers.process = this.#processes;
      await Promise.race([this.#process.died, this.#liveOnce()]);
      if (this.#summaries.size === this.#observer.books.length) return;
    }
    throw new Error(`not over after ${PROCESSES_MAX} processes`);
  }

  /** Never resolves when the process dies meanwhile. */
  #liveOnce(): Promise<void> {
    return this.#process.whileAlive(() => this.#runAll());
  }

  async #runAll(): Promise<void> {
    const process = this.#process;
    const engine = await this.#engine().catch((error: unknown) =>
      process.isDead ? undefined : this.#excuse(error),
    );
    if (engine === undefined) return;
    this.#isReconfigured = false;
    const left = this.#observer.books.filter((book) => !this.#summaries.has(book));
    await Promise.all(left.map((book) => this.#runToItsEnd(engine, book)));
    await engine.close();
  }

  /** Calls a run again and again, and leaves it to the next process now and then. */
  async #runToItsEnd(engine: Engine, book: RunBook): Promise<void> {
    const { clock } = this.#process;
    const delayMs = book.run.startMs - clock.nowMs();
    if (delayMs > 0) await clock.sleep(delayMs);
    for (;;) {
      if (this.#isReconfigured) return;
      const summary = await this.#runOnce(engine, book);
      if (summary === undefined) return;
      if (summary.status === "completed") {
        this.#observer.completed(book);
        if (this.#callsAgain(book, summary)) continue;
        this.#summaries.set(book, summary);
        return;
      }
      this.#observer.stopped(book, summary.reason);
      if (summary.reason === "cap_reached") this.#laws.stoppedByCap(book, clock.nowMs()); // before another run's caller raises it
      if (summary.status === "paused") {
        this.#laws.paused(book, summary, clock.nowMs());
        await clock.sleep(this.#pause.next(book, this.#providers.served, this.#observer));
      }
      if (this.#mends(book, summary)) return;
      if (this.#random() < 0.5) return;
    }
  }

  #checkFinished(book: RunBook, summary: Summary): void {
    this.#laws.finished(book, summary, this.#disk.text(outputOf(book)) ?? "");
  }

  /** Whether a finished run is called again, for its failed lines or with another input. */
  #callsAgain(book: RunBook, summary: Summary): boolean {
    const again = book.nextAgain();
    if (again === undefined) return false;
    this.#checkFinished(book, summary);
    book.opening = again;
    if (again.kind === "update") {
      const { lines } = book;
      book.change(again);
      this.#putInput(book.run.index, again.lines);
      this.#observer.reopened(
        book,
        // Lines that cannot be read are read again, which costs nothing.
        again.lines.filter((line) => line.kind === "bad" || !lines.includes(line)).map(({ id }) => id),
      );
    } else {
      const isAtMostOnce = this.#workload.config.delivery === "at_most_once";
      const output = this.#observer.parse(this.#disk.text(outputOf(book)) ?? "");
      this.#observer.reopened(book, book.toReopen(output, again.codes, isAtMostOnce));
    }
    this.#met.add(again.kind);
    return true;
  }

  #putInput(index: number, lines: readonly SimulatedLine[]): void {
    const lineEnd = lines.length % 2 === 0 ? "\n" : "";
    this.#disk.put(inputOf(index), lines.map((line) => line.text).join("\n") + lineEnd);
  }

  /** What a caller changes of a run that has stopped; whether the next engine is needed for it. */
  #mends(book: RunBook, { status, held }: Summary): boolean {
    if (status !== "paused" || !held.every((hold) => isCallers(hold.reason))) return false;
    const isMissing = held.some((hold) => hold.reason === "provider_missing");
    if (isMissing && this.#observer.missing !== undefined) return true;
    const isCapped = held.some((hold) => hold.reason === "cap_reached");
    if (isCapped && this.#workload.features.has("cap_raised") && this.#random() < 0.8) {
      this.#met.add("cap_raised");
      const { sharedCap } = book;
      const raised = (usd: number | undefined): number | undefined =>
        usd === undefined || this.#random() < 0.3 ? undefined : usd * (1 + this.#random() * 3);
      book.capUsd = raised(book.capUsd);
      if (sharedCap !== undefined) sharedCap.usd *= 1 + this.#random() * 3;
      this.#observer.note(`cap of run ${book.run.index} ${book.capUsd}, of all ${sharedCap?.usd}`);
      return false;
    }
    // What else only its caller could change ends at the next call, or the simulation would go on for ever.
    book.isFinishing = true;
    return false;
  }

  async #runOnce(engine: Engine, book: RunBook): Promise<Summary | undefined> {
    const process = this.#process;
    this.#observer.runCalled(book);
    const run = engine.run(this.#source(book), this.#options(book));
    this.#running.set(book, run);
    const calledMs = this.#clock.nowMs();
    const poll = (): void => {
      if (process.isDead || this.#running.get(book) !== run) return;
      this.#observer.polled(book, () => run.progress(), this.#answers(book));
      this.#clock.timer(Math.max(POLL_MS, (this.#clock.nowMs() - calledMs) * POLL_SHARE), poll);
    };
    const accept = (): void => {
      book.accepted(this.#clock.nowMs());
      poll(); // what a power cut left is mended until then
    };
    run.opened.then(accept, () => undefined);
    try {
      return await process.whileAlive(() => run.finished); // of the end of a dead one nobody hears
    } catch (error) {
      this.#excuse(error);
      this.#observer.failed(book);
      return undefined;
    } finally {
      if (this.#running.get(book) === run) this.#running.delete(book);
    }
  }

  /** Rethrows what was not made to fail. */
  #excuse(error: unknown): undefined {
    const code = error instanceof PerigeeError ? error.code : "";
    if (!INJECTED_CODES.has(code) || !this.#isInjected) throw error;
    this.#observer.note(`failed ${code}`);
    if (code === "store_failed") this.#store.crash();
  }

  /** The input, or a stream that gives the same bytes in other pieces every time. */
  #source({ run }: RunBook): Source {
    const path = inputOf(run.index);
    const bytes = this.#disk.bytes(path);
    if (!run.isStream || bytes === undefined) return path;
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

  /** Finished runs, called again after a power cut: they send nothing and say the same. */
  async #again(): Promise<void> {
    const sent = this.#providers.served.length;
    const outputs = this.#observer.books.map((book) => this.#disk.text(outputOf(book)));
    this.#disk.crash({ powerCut: true, random: this.#random });
    if (this.#process.isDead) this.#process = this.#newProcess();
    const engine = await this.#engine();
    for (const [index, book] of this.#observer.books.entries()) {
      const again = await engine.run(this.#source(book), this.#options(book)).finished;
      if (this.#disk.text(outputOf(book)) !== outputs[index])
        this.#observer.violate("I1 the output of a finished run did not survive a power cut");
      if (JSON.stringify(again.counts) !== JSON.stringify(this.#summaries.get(book)?.counts))
        this.#observer.violate("I2 a finished run has other counts when it is called again");
      if (this.#providers.served.length !== sent || again.requests_sent !== 0)
        this.#observer.violate("I5 a finished run sent something when it was called again");
    }
    await engine.close();
    // A run that died while it was being opened leaves an empty file, which the engine must not take for nobody's.
    const mayLeave = (path: string): boolean => this.#observer.deaths > 0 && this.#disk.text(path) === "";
    const files = this.#disk.paths.filter((path) => path.startsWith(DATA) && !mayLeave(path));
    const left = files.filter((path) => ![...this.#summaries.values()].map(noteOf).includes(path));
    if (left.length > 0) this.#observer.violate(`finished runs have left ${left.join(", ")}`);
    const others = this.#disk.paths.filter((path) => /\.damaged|\.perigee-/.test(path));
    if (others.length > 0)
      this.#observer.violate(`what runs wrote was taken for others' lines: ${others.join(", ")}`);
  }

  async #engine(): Promise<Engine> {
    const isMissing = this.#missingEngines > 0;
    if (isMissing) this.#missingEngines -= 1;
    this.#observer.missing = isMissing ? missingProviderOf(this.#workload) : undefined;
    const config = configWithout(this.#workload.config, this.#observer.missing);
    const providers = resolveConfig(config, {}).providers;
    const { engine } = await openEngine({
      ...config,
      lanes: { deny: ["batch"] }, // its wire has no batches: test/engine/batches kills those
      dataDir: DATA,
      stateDir: "/state",
      env: {},
      clock: this.#process.clock,
      transport: this.#process.transport,
      disk: this.#process.disk,
      store: await this.#store.open(),
      measurer: createInlineMeasurer({ providers, lineBytesMax: 65_536, depthMax: 64, keyBytesMax: 512 }),
    });
    return engine;
  }

  #options(book: RunBook): EngineRunOptions {
    const { isOrdered, slaMinutes, project, waitMs } = book.run;
    const { capUsd, sharedCap, opening } = book;
    return {
      out: outputOf(book),
      ordered: isOrdered,
      ...(slaMinutes === undefined ? {} : { sla: slaMinutes }),
      ...(capUsd === undefined ? {} : { maxCostUsd: capUsd }),
      ...(project === undefined ? {} : { project }),
      ...(waitMs === undefined ? {} : { waitMs }),
      ...(sharedCap === undefined ? {} : { cap: { name: sharedCap.name, usd: sharedCap.usd } }),
      ...(opening?.kind === "retry" ? { retryFailed: opening.codes ?? true } : {}),
      ...(opening?.kind === "update" ? { update: true, prune: opening.isPruned } : {}),
      finish: book.isFinishing && this.#observer.missing === undefined,
      onStep: (sequence, step) => this.#observer.step(book, sequence, step),
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
    this.#met.add(FEATURE_OF_TROUBLE[kind]);
    switch (kind) {
      case "kill":
      case "power_cut":
        this.#kill(kind === "power_cut");
        break;
      case "stop":
        [...this.#running.values()][amount % Math.max(1, this.#running.size)]?.stop();
        break;
      case "reconfigure":
        this.#missingEngines = amount;
        this.#isReconfigured = true;
        for (const run of this.#running.values()) run.stop();
        break;
      case "wall_jump":
        this.#observer.wallJumped();
        this.#clock.jumpWall(amount);
        break;
      case "disk_full":
        this.#isInjected = true;
        this.#observer.room(false);
        this.#disk.setFull(Math.floor(this.#random() * 300));
        this.#clock.timer(amount, () => {
          this.#disk.setFull(Number.POSITIVE_INFINITY);
          this.#observer.room(true);
        });
        break;
      default:
        this.#isInjected = true;
        this.#breakDisk(kind, amount);
    }
  }

  #breakDisk(kind: DiskTrouble, amount: number): void {
    if (kind === "disk_dies_in_write")
      this.#disk.crashAtOperation(amount, { powerCut: false, random: this.#random });
    else if (kind === "output_sync_fails") this.#disk.failSync();
    else if (kind === "store_fails") this.#store.failNext("store_failed");
    else {
      this.#store.failNext("disk_full", amount);
      this.#observer.room(false);
      this.#clock.timer(amount * 1_000, () => this.#observer.room(true));
    }
  }

  #kill(isPowerCut: boolean): void {
    if (this.#process.isDead || this.#isOver) return;
    const answersOf = (book: RunBook): string => this.#answers(book).text();
    this.#process.kill();
    this.#running.clear();
    this.#observer.processDied(isPowerCut ? undefined : answersOf);
    if (isPowerCut) this.#clock.reboot();
    this.#disk.crash({ powerCut: isPowerCut, random: this.#random });
    if (isPowerCut) this.#observer.powerCut(answersOf);
    this.#store.crash();
    this.#wire.restart();
  }

  /** What answers are appended to. */
  #answers(book: RunBook): Answers {
    const path = book.run.isOrdered ? this.#answersPath(book) : outputOf(book);
    return {
      version: path === undefined ? undefined : this.#disk.version(path),
      text: () => (path === undefined ? "" : (this.#disk.text(path) ?? "")),
    };
  }

  /** Those of ordered runs are in the data folder, under names that say nothing. */
  #answersPath(book: RunBook): string | undefined {
    const known = this.#answersPaths.get(book);
    if (known !== undefined && this.#disk.version(known) !== undefined) return known;
    const beside = this.#disk.paths.filter((path) => path.endsWith(".answers.jsonl"));
    const path = beside.find((one) => isOf(book, this.#disk.text(one) ?? ""));
    if (path !== undefined) this.#answersPaths.set(book, path);
    return path;
  }
}
