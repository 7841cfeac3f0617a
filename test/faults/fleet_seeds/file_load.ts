/**
 * A file of lines that a client runs over the fleet, through a proxy of its own. A client that is killed or fails is started again, as its user would.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Summary } from "../../../src/engine/items/progress.ts";
import { MAIN } from "../../built.ts";
import { type FaultFleet, linesOf } from "./fault_fleet.ts";
import type { TcpProxy } from "./tcp_proxy.ts";

const AGAIN_MS = 1_000;

interface OutputLine {
  readonly key: string;
  readonly output: { readonly text: string } | null;
}

export class FileLoad {
  readonly proxy: TcpProxy;
  /** Of the first line; others follow. */
  readonly firstItem: number;
  readonly lines: number;
  /** Ends of clients that were not killed, except the last one. */
  readonly failures: string[] = [];
  summary: Summary | undefined;
  readonly #fleet: FaultFleet;
  readonly #out: string;
  readonly #words: readonly string[];
  #child: ChildProcess | undefined;
  #isKilled = false;
  #isOver = false;

  private constructor(fleet: FaultFleet, proxy: TcpProxy, { seed, firstItem, lines, sla }: FileTerms) {
    this.#fleet = fleet;
    this.proxy = proxy;
    this.firstItem = firstItem;
    this.lines = lines;
    const input = join(fleet.dir, `in-${seed}.jsonl`);
    this.#out = join(fleet.dir, `out-${seed}.jsonl`);
    const line = (item: number): string =>
      JSON.stringify({
        key: `k${item}`,
        request: { model: "local:priced", contents: [{ parts: [{ text: `[[${item}]]` }] }] },
      });
    writeFileSync(
      input,
      Array.from({ length: lines }, (_, index) => `${line(firstItem + index)}\n`).join(""),
    );
    const store = fleet.storeThrough(proxy);
    const slaWords = sla === undefined ? [] : ["--sla", String(sla)];
    this.#words = [
      "run",
      input,
      "--out",
      this.#out,
      "--store",
      store,
      ...fleet.objectWords,
      "--no-config",
      "--json",
      ...slaWords,
    ];
  }

  static async begin(fleet: FaultFleet, terms: FileTerms): Promise<FileLoad> {
    const load = new FileLoad(fleet, await fleet.proxy(), terms);
    load.#start();
    return load;
  }

  get isOver(): boolean {
    return this.summary !== undefined;
  }

  kill(): void {
    this.#isKilled = true;
    this.#child?.kill("SIGKILL");
  }

  again(): void {
    this.#isKilled = false;
    if (this.summary === undefined) this.#start();
  }

  close(): void {
    this.#isOver = true;
    this.#child?.kill("SIGKILL");
    this.proxy.close();
  }

  /** What is wrong with the lines that the client wrote. */
  problems(): readonly string[] {
    const lines = linesOf(this.#out).map((line) => JSON.parse(line) as OutputLine); // as perigee writes it
    const texts = new Map(lines.map(({ key, output }) => [key, output?.text]));
    const items = Array.from({ length: this.lines }, (_, index) => this.firstItem + index);
    const wrong = items.filter((item) => texts.get(`k${item}`) !== `answer ${item}`);
    return [
      ...(lines.length === this.lines ? [] : [`the file has ${lines.length} lines for ${this.lines} keys`]),
      ...(texts.size === this.lines ? [] : [`the file has ${texts.size} keys of ${this.lines}`]),
      ...(wrong.length === 0
        ? []
        : [`${wrong.length} keys have no right answer, such as k${wrong[0]}: ${texts.get(`k${wrong[0]}`)}`]),
    ];
  }

  #start(): void {
    const child = spawn(process.execPath, [MAIN, ...this.#words], {
      stdio: ["ignore", "pipe", "pipe"],
      env: this.#fleet.env,
    });
    this.#child = child;
    this.#fleet.children.add(child);
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += String(chunk);
    });
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += String(chunk);
    });
    void once(child, "close").then(() => {
      if (this.#isOver || this.#child !== child) return;
      if (child.exitCode === 0)
        this.summary = JSON.parse(stdout) as Summary; // as the command prints it
      else if (!this.#isKilled) {
        this.failures.push(`${child.exitCode}: ${(stderr || stdout).slice(-300)}`);
        setTimeout(() => this.again(), AGAIN_MS);
      }
    });
  }
}

interface FileTerms {
  readonly seed: number;
  readonly firstItem: number;
  readonly lines: number;
  readonly sla: number | undefined;
}
