/** A world whose runs share a cache of answers, in memory. */
import type { EngineRunOptions } from "../../src/engine/runs/run_options.ts";
import type { CachedAnswer, OpenAnswerCache } from "../../src/store/answers/answer_cache.ts";
import { INPUT, World, type WorldOptions } from "./world.ts";

/** A line of the output. */
export interface Line {
  readonly key: string;
  readonly output: { readonly text: string } | null;
  readonly error?: { readonly code: string };
  readonly usage?: { readonly input_tokens: number; readonly output_tokens: number };
  readonly cost?: { readonly billed_usd: number; readonly list_usd: number };
  readonly attempts?: number;
  readonly cached?: true;
  readonly metadata?: object;
}

/** A cache in memory, as a folder that several runs share. */
export function cacheInMemory(): {
  open: OpenAnswerCache;
  kept: Map<string, CachedAnswer & { wallMs: number }>;
} {
  const kept = new Map<string, CachedAnswer & { wallMs: number }>();
  const open: OpenAnswerCache = () =>
    Promise.resolve({
      find: (keys, { sinceWallMs }) =>
        Promise.resolve(
          Array.from({ length: keys.byteLength / 32 }, (_, index) => {
            const found = kept.get(Buffer.from(keys.subarray(32 * index, 32 * index + 32)).toString("hex"));
            return found !== undefined && found.wallMs >= sinceWallMs ? found : undefined;
          }),
        ),
      keep: ({ key, ...answer }, wallMs) =>
        void kept.set(Buffer.from(key, "latin1").toString("hex"), { ...answer, wallMs }),
      close: () => Promise.resolve(),
    });
  return { open, kept };
}

export class CachedWorld extends World {
  readonly cache = cacheInMemory();

  constructor(options: WorldOptions = {}) {
    super(options);
    this.openAnswers = this.cache.open;
  }

  /** One line a number: lines of the same number are the same request. */
  write(numbers: readonly number[], more: object = { temperature: 0 }): void {
    const lines = numbers.map((number, index) => {
      const body = { model: "alpha:m", messages: [{ role: "user", content: `[[${number}]]` }], ...more };
      const call = { method: "POST", url: "/v1/chat/completions" };
      return `${JSON.stringify({ custom_id: `k${index + 1}`, ...call, body })}\n`;
    });
    this.disk.put(INPUT, lines.join(""));
  }

  /** A run of its own, with its own output. */
  async run(name: string, options: Partial<EngineRunOptions> = {}) {
    const engine = await this.engine();
    const out = `/${name}.jsonl`;
    const run = engine.run(INPUT, { out, cache: { dir: "/cache" }, ...options });
    const summary = await this.settle(run.finished);
    await this.settle(engine.close());
    const lines = this.output(out) as unknown as Line[];
    return {
      summary,
      lines: lines.sort((left, right) => Number(left.key.slice(1)) - Number(right.key.slice(1))),
    };
  }
}
