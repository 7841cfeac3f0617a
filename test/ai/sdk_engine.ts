/**
 * An engine whose provider a test scripts, and the AI SDK before it.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConfigOptions, createEngine, type Engine } from "../../src/index.ts";
import type { FunctionRequest, ProviderFunction } from "../../src/providers/index.ts";

/** The AI SDK writes warnings to the console unless it is told not to. */
(globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;

/** Close it. */
export class SdkEngine {
  readonly #folder = mkdtempSync(join(tmpdir(), "perigee-ai-"));
  /** Requests in the order in which they came. */
  readonly asked: FunctionRequest[] = [];
  /** Of the provider `mine`. */
  answer: ProviderFunction = () => ({ text: "yes", usage: { inputTokens: 7, outputTokens: 3 } });
  engine!: Engine;

  async open(config: ConfigOptions = {}): Promise<Engine> {
    const mine: ProviderFunction = (request, options) => {
      this.asked.push(request);
      return this.answer(request, options);
    };
    this.engine = await createEngine({
      dataDir: join(this.#folder, "data"),
      stateDir: false,
      env: {},
      ...config,
      providers: { mine, ...config.providers },
    });
    return this.engine;
  }

  async close(): Promise<void> {
    await this.engine.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
