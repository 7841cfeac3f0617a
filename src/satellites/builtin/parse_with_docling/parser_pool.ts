/**
 * Parsing in separate processes, so that no document takes this one down.
 *
 *   asked -> waits for a place -> in a process -> answered            -> the process waits for the next
 *                                     \-> dead, or too slow: killed -> `too_complex`; the next gets a fresh one
 *
 * Why processes and not threads: a thread that runs out of heap takes its process with it in most cases (docs/decisions/0015-parsing.md).
 *
 * Limits: two processes, each one document at a time, 60 s and 768 MiB; one that had nothing to do for 10 s ends.
 */

import { type ChildProcess, fork } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Clock, Timer } from "../../../clock.ts";
import { Semaphore } from "../../../semaphore.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import type { ParseFailure, ParseOrder, ParseResult } from "./parsed_document.ts";

export interface ParserOptions {
  readonly clock: Clock;
  /** Default 2. */
  readonly processes?: number;
  /** For one document. Default 60 s. */
  readonly timeoutMs?: number;
  /** Of one process. Default 768. */
  readonly memoryMb?: number;
}

const PROCESSES = 2;
const TIMEOUT_MS = 60_000;
const MEMORY_MB = 768;
const IDLE_MS = 10_000;
/** Of the whole; the rest is for memory outside the heap. */
const HEAP_SHARE = 0.5;

/** May be used concurrently. Its processes end by themselves, and keep nothing from ending. */
export class ParserPool {
  readonly #options: ParserOptions;
  readonly #idle: ParserProcess[] = [];
  readonly #places: Semaphore;

  constructor(options: ParserOptions) {
    this.#options = options;
    this.#places = new Semaphore(options.processes ?? PROCESSES);
  }

  /**
   * `load` is called for the bytes when there is a place for them, and may fail; then nothing is parsed. Rejects with the signal's reason, or `refused` without a process.
   */
  async parse(load: () => Promise<ParseOrder | ParseFailure>, signal: AbortSignal): Promise<ParseResult> {
    return this.#places.run(async () => {
      signal.throwIfAborted();
      const order = await load();
      return "ok" in order ? order : await this.#parse(order, signal);
    });
  }

  async #parse(order: ParseOrder, signal: AbortSignal): Promise<ParseResult> {
    const parser = this.#idle.pop() ?? new ParserProcess(this.#options, (ended) => this.#forget(ended));
    const result = await parser.parse(order, signal);
    if (parser.isAlive) {
      parser.rest();
      this.#idle.push(parser);
    }
    return result;
  }

  #forget(parser: ParserProcess): void {
    const index = this.#idle.indexOf(parser);
    if (index >= 0) this.#idle.splice(index, 1);
  }
}

class ParserProcess {
  readonly #options: ParserOptions;
  readonly #child: ChildProcess;
  readonly #ready: Promise<void>;
  /** Resolves when it has ended. */
  readonly #ended: Promise<void>;
  #isAlive = true;
  #rest: Timer | undefined;

  constructor(options: ParserOptions, onEnd: (ended: ParserProcess) => void) {
    this.#options = options;
    const { memoryMb = MEMORY_MB } = options;
    this.#child = fork(processFile(), [String(memoryMb)], {
      // A loader given on the command line of this process is of no use to built files.
      execArgv: [`--max-old-space-size=${Math.round(memoryMb * HEAP_SHARE)}`, "--max-semi-space-size=16"],
      env: {},
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    this.#ended = new Promise((resolve) => {
      const end = (): void => {
        if (this.#isAlive) onEnd(this);
        this.#isAlive = false;
        this.#rest?.cancel();
        resolve();
      };
      this.#child.once("exit", end).once("error", end);
    });
    this.#ready = new Promise((resolve) => this.#child.once("message", () => resolve()));
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  async parse(order: ParseOrder, signal: AbortSignal): Promise<ParseResult> {
    this.#rest?.cancel();
    this.#hold(true);
    const { clock, timeoutMs = TIMEOUT_MS } = this.#options;
    const started = await Promise.race([this.#ready.then(() => true), this.#ended.then(() => false)]);
    if (!started)
      throw new SatelliteError("refused", "parser_failed", "the process that parses did not start");
    const answer = new Promise<ParseResult>((resolve) =>
      // Sent by parser_process.ts, which is perigee's.
      this.#child.once("message", (result) => resolve(result as ParseResult)),
    );
    let end: ParseResult = tooComplex("it needed more memory than it may take");
    const stop = (): void => void this.#child.kill("SIGKILL");
    const timer = clock.timer(timeoutMs, () => {
      end = tooComplex(`it took longer than ${timeoutMs / 1_000} s`);
      stop();
    });
    signal.addEventListener("abort", stop, { once: true });
    try {
      signal.throwIfAborted();
      this.#child.send(order);
      const result = await Promise.race([answer, this.#ended.then(() => end)]);
      signal.throwIfAborted();
      return result;
    } finally {
      timer.cancel();
      signal.removeEventListener("abort", stop);
      this.#hold(false);
    }
  }

  /** Ends it unless there is something to do before long. */
  rest(): void {
    this.#rest = this.#options.clock.timer(IDLE_MS, () => this.#child.kill("SIGKILL"), { keepsAlive: false });
  }

  /** Only while it parses does it keep this process from ending. */
  #hold(isHeld: boolean): void {
    if (isHeld) {
      this.#child.ref();
      this.#child.channel?.ref();
    } else {
      this.#child.unref();
      this.#child.channel?.unref();
    }
  }
}

function tooComplex(reason: string): ParseResult {
  return { ok: false, code: "too_complex", message: `the document could not be parsed: ${reason}` };
}

/** Run from source, the built file is started. */
function processFile(): string {
  const isSource = import.meta.url.endsWith(".ts");
  const built = isSource
    ? "../../../../dist/satellites/builtin/parse_with_docling/parser_process.js"
    : "./parser_process.js";
  const path = fileURLToPath(new URL(built, import.meta.url));
  if (!existsSync(path)) throw new Error(`no parser at ${path}: run \`npm run build\` first`);
  return path;
}
