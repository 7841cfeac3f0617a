/**
 * The built command in a folder of its own, against a fake of OpenAI's batches with a book of what it bills: seconds stand for hours.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FakeOpenAiOptions } from "../batch_servers/openai.ts";
import { FakeOpenAiBatches } from "../batch_servers/openai.ts";
import { type ServedFake, serve } from "../batch_servers/serve.ts";
import { MAIN } from "../built.ts";

/** How a command ended. */
export interface EndedCommand {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class DetachedRun {
  readonly folder = mkdtempSync(join(tmpdir(), "perigee-detached-"));
  readonly fake: FakeOpenAiBatches;
  #served: ServedFake | undefined;
  readonly #children: ChildProcess[] = [];

  constructor(options: Partial<FakeOpenAiOptions> = {}) {
    const times = { p50: 200, p90: 400, p99: 600 };
    this.fake = new FakeOpenAiBatches({
      ...{ seed: 1, nowMs: () => Date.now(), validatingMs: 100, finalizingMs: 100, cancelMs: 200, times },
      ...options,
    });
  }

  /** Starts the provider, and writes a configuration and an input of so many lines. */
  async open(items: number): Promise<void> {
    this.#served = await serve(this.fake);
    const config = {
      prices: { "openai:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 4 } }, // the fake's
      providers: { openai: { baseUrl: `${this.#served.url}/v1` } },
      lanes: {
        ...{ deny: ["flex"], pollSeconds: { min: 0.2, max: 0.5 }, adoptSeconds: 2, minItems: 10 },
        priors: { batch: { p50: 1, p90: 2, p99: 5 } },
      },
    };
    writeFileSync(this.path("config.json"), JSON.stringify(config));
    const lines = Array.from({ length: items }, (_, index) => {
      const contents = [{ parts: [{ text: `prompt ${index + 1}` }] }];
      const request = { model: "openai:gpt-5-mini", contents, generation_config: { max_output_tokens: 64 } };
      return `${JSON.stringify({ key: `k${index + 1}`, request })}\n`;
    });
    writeFileSync(this.path("in.jsonl"), lines.join(""));
  }

  async close(): Promise<void> {
    for (const child of this.#children) if (child.exitCode === null) child.kill("SIGKILL");
    await this.#served?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** `perigee run in.jsonl --out out.jsonl ...`. */
  run(more: readonly string[] = [], key = "sk-a"): { child: ChildProcess; ended: Promise<EndedCommand> } {
    const terms = ["--out", "out.jsonl", "--sla", "60", "--config", "config.json", "--json"];
    return this.start(["run", "in.jsonl", ...terms, ...more], key);
  }

  start(words: readonly string[], key = "sk-a"): { child: ChildProcess; ended: Promise<EndedCommand> } {
    const child = spawn(process.execPath, [MAIN, ...words], {
      cwd: this.folder,
      env: {
        ...{ PATH: process.env["PATH"], NO_COLOR: "1", OPENAI_API_KEY: key },
        XDG_STATE_HOME: this.path("state"),
      },
    });
    this.#children.push(child);
    const ended = new Promise<EndedCommand>((resolve) => {
      let [stdout, stderr] = ["", ""];
      child.stdout.on("data", (chunk: Buffer) => {
        stdout += chunk.toString();
      });
      child.stderr.on("data", (chunk: Buffer) => {
        stderr += chunk.toString();
      });
      child.on("close", (code) => resolve({ code, stdout, stderr }));
    });
    return { child, ended };
  }

  hasOutput(): boolean {
    return existsSync(this.path("out.jsonl"));
  }

  /** Keys of answered lines, sorted. */
  answered(): string[] {
    const lines = readFileSync(this.path("out.jsonl"), "utf8").split("\n").slice(0, -1);
    return lines
      .flatMap((line) => {
        const { key, output } = JSON.parse(line) as { readonly key: string; readonly output: object | null };
        return output === null ? [] : [key];
      })
      .sort();
  }
}

/** The keys of so many lines, sorted. */
export function keysUpTo(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `k${index + 1}`).sort();
}
