/**
 * Workloads for quotes: what is asked, how a provider answers it, and under which limits.
 *
 * Each draws 1 or 2 models, 1 to 6 system prompts whose answers differ in length by up to 50 times, lengths that are fixed,
 * log-normal (sigma 0.2 to 1), grow with the input, or have a heavy tail (Pareto with an exponent of 1.3 to 3), output limits or none, caches or none, a tokenizer that is off
 * by -10 to +30 %, speeds of providers, and a limit of requests, tokens or places, in the configuration or in headers.
 */
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import type { Answering } from "./world.ts";

export interface Workload {
  readonly name: string;
  readonly config: ConfigOptions;
  readonly lines: readonly string[];
  readonly answer: Answering;
}

interface Prompt {
  readonly text: string;
  readonly lengthOf: (words: number) => number;
  readonly limit: number | undefined;
}

const SPEEDS = [30, 60, 120] as const;
const FILLER = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor "
  .repeat(60)
  .split(" ");

/** How lengths of answers are distributed. */
export type Lengths = "fixed" | "log-normal" | "growing" | "heavy";

/** Of a heavy tail: 2 and less have no variance. */
const [TAIL_MIN, TAIL_MAX] = [1.3, 3] as const;
/** What a model writes at most, whatever it was asked: only heavy tails get there. */
const MODEL_TOKENS_MAX = 8_192;

/** What workloads are drawn from. */
export interface WorkloadTerms {
  /** Each as likely. */
  readonly shapes: readonly Lengths[];
  /** How long limits keep them, least and most. */
  readonly minutes: readonly [number, number];
  readonly bounds: readonly Bound[];
}

/** What limits the work: by configuration, by headers (`told`), or nothing but how long answers take. */
type Bound = "requests" | "tokens" | "places" | "told" | "none";

const USUAL: WorkloadTerms = {
  shapes: ["fixed", "log-normal", "log-normal", "growing"],
  minutes: [2, 20],
  bounds: ["requests", "tokens", "places", "places", "told", "none"],
};

/**
 * Bulk work: lengths from log-normal to heavy tails, under a limit. Some hundred items without any limit take as long as the slowest of
 * their answers, and nobody knows that one before.
 */
export const BULK: WorkloadTerms = {
  shapes: ["log-normal", "log-normal", "growing", "heavy"],
  minutes: [5, 120],
  bounds: ["requests", "tokens", "places", "places", "told"],
};

export function drawWorkload(
  seed: number,
  { shapes, minutes: [least, most], bounds }: WorkloadTerms = USUAL,
): Workload {
  const random = createRandom(seed * 7_919 + 17);
  const between = (from: number, to: number): number => from + random() * (to - from);
  const whole = (from: number, to: number): number => Math.floor(between(from, to + 1));
  const oneOf = <T>(values: readonly T[]): T => values[whole(0, values.length - 1)] as T;
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const shape = oneOf(shapes);
  const sigma = between(0.2, 1);
  const tail = TAIL_MIN + (TAIL_MAX - TAIL_MIN) * ((sigma - 0.2) / 0.8);
  const prompts = Array.from({ length: whole(1, 6) }, (_, index): Prompt => {
    const mean = 20 * Math.exp(random() * Math.log(50));
    const spread = (): number => {
      if (shape === "heavy") return ((tail - 1) / tail) * (1 - random()) ** (-1 / tail);
      return shape === "fixed" ? 1 : Math.exp(sigma * normal() - sigma ** 2 / 2);
    };
    return {
      text: `${seed}.${index} ${FILLER.slice(0, whole(5, 200)).join(" ")}`,
      lengthOf: (words) => mean * spread() * (shape === "growing" ? words / 200 : 1),
      limit: random() < 0.3 ? Math.ceil(mean * between(1, 4)) : random() < 0.5 ? 8_192 : undefined,
    };
  });
  const models = Array.from({ length: whole(1, 2) }, (_, index) => `alpha:m${index + 1}`);
  const count = whole(300, 900);
  const limits = new Map<number, number | undefined>();
  const words = new Map<number, number>();
  const lengths = new Map<number, number>();
  const lines = Array.from({ length: count }, (_, index) => {
    const line = index + 1;
    const prompt = oneOf(prompts);
    const size = Math.min(700, Math.ceil(50 * Math.exp(between(0, 1) * Math.log(14))));
    words.set(line, size);
    limits.set(line, prompt.limit);
    lengths.set(line, prompt.lengthOf(size));
    const request = {
      model: oneOf(models),
      system_instruction: { parts: [{ text: prompt.text }] },
      contents: [{ role: "user", parts: [{ text: `[[${line}]] ${FILLER.slice(0, size).join(" ")}` }] }],
      ...(prompt.limit === undefined ? {} : { generation_config: { max_output_tokens: prompt.limit } }),
    };
    return `${JSON.stringify({ key: `k${line}`, request })}\n`;
  });
  const tokenizer = between(0.9, 1.3) / 4.6;
  const cachedShare = random() < 0.3 ? between(0.2, 0.8) : 0;
  const speed = oneOf(SPEEDS);
  const longest = shape === "heavy" ? MODEL_TOKENS_MAX : 100_000;
  const outputOf = (line: number): number =>
    Math.max(1, Math.round(Math.min(lengths.get(line) ?? 1, limits.get(line) ?? longest)));
  const meanOutput = [...lengths.keys()].reduce((sum, line) => sum + outputOf(line), 0) / count;
  const meanMs = 700 + (meanOutput / speed) * 1_000;
  const minutes = between(least, most);
  const bound = oneOf(bounds);
  const requestsPerMinute = Math.max(5, Math.ceil(count / minutes));
  const tokensPerMinute = Math.ceil((count * (meanOutput + 400)) / minutes);
  const headers: Readonly<Record<string, string>> =
    bound === "told"
      ? {
          "x-ratelimit-limit-requests": String(requestsPerMinute),
          "x-ratelimit-remaining-requests": String(requestsPerMinute - 1),
        }
      : {};
  const answer = (line: number, _attempt: number, _model: string, body: unknown) => {
    const texts = (body as { messages: { content: unknown }[] }).messages.map(({ content }) =>
      typeof content === "string" ? content : JSON.stringify(content),
    );
    const inputTokens = Math.ceil(texts.join(" ").length * tokenizer);
    const outputTokens = outputOf(line);
    const cachedTokens = Math.floor(inputTokens * cachedShare);
    const answered = openaiAnswer("x", { inputTokens, outputTokens, cachedTokens });
    const result = answered.ok ? { ...answered, headers: { ...answered.headers, ...headers } } : answered;
    const afterMs = (500 + 400 * random() + (outputTokens / speed) * 1_000) * (0.8 + 0.4 * random());
    return { afterMs, result };
  };
  return {
    name: `${count} items, ${models.length} models, ${prompts.length} prompts, ${shape} ${sigma.toFixed(2)}, ${bound}`,
    config: {
      prices: {
        "alpha:*": {
          inputUsdPerMillion: between(0.1, 3),
          cachedUsdPerMillion: 0.05,
          outputUsdPerMillion: between(0.4, 15),
          asOf: "2026-11-01",
        },
      },
      limits: {
        alpha: limitsOf(bound, {
          requestsPerMinute,
          tokensPerMinute,
          places: placesFor(count, meanMs, minutes),
        }),
      },
    },
    lines,
    answer,
  };
}

function placesFor(items: number, meanMs: number, minutes: number): number {
  return Math.max(2, Math.ceil((items * meanMs) / (minutes * 60_000)));
}

function limitsOf(
  bound: string,
  {
    requestsPerMinute,
    tokensPerMinute,
    places,
  }: { requestsPerMinute: number; tokensPerMinute: number; places: number },
): object {
  if (bound === "requests") return { requestsPerMinute };
  if (bound === "tokens") return { tokensPerMinute };
  return bound === "places" ? { concurrency: places } : {};
}
