/**
 * Workloads that share prefixes, on providers whose prompt cache is a model: it knows lengths, lives, when an entry can first be
 * read, what a write costs, and that nothing is cached that was not asked for (Anthropic) or that is too short.
 */
import type { WireResult } from "../../../src/dispatch/transport.ts";
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { createRandom } from "../../../src/testing/index.ts";
import { INPUT, OUTPUT, World } from "../world.ts";

const TTL_MS = 300_000;
const CHARACTERS_PER_TOKEN = 5;
const WORD = "word ";

export interface PrefixWorkload {
  readonly model: string;
  /** Tokens below which the model caches nothing. */
  readonly tokensMin: number;
  /** Tokens of each prefix. */
  readonly prefixes: readonly number[];
  /** The prefix of each item, by its index. */
  readonly items: readonly number[];
  readonly concurrency: number;
  readonly latencyMs: number;
  readonly slaMinutes: number | undefined;
}

/** In tokens of input. */
export interface PrefixResult {
  readonly completed: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly writtenTokens: number;
  /** Its input at the prices of the cache, in tokens of plain input. */
  readonly costTokens: number;
  readonly tookMs: number;
}

/** What 50 of them brought; `npm run lanes:check` prints it. */
export interface PrefixRow {
  readonly seed: number;
  readonly workload: PrefixWorkload;
  readonly result: PrefixResult;
  /** The most that could have been read from the cache. */
  readonly oracleTokens: number;
  /** The cost of the same work with `prefixes.enabled: false`. */
  readonly withoutTokens: number;
  readonly withoutMs: number;
}

const MODELS = [
  { model: "anthropic:claude-sonnet-4-5", tokensMin: 1_024 },
  { model: "anthropic:claude-haiku-4-5", tokensMin: 4_096 },
  { model: "openai:gpt-5-mini", tokensMin: 1_024 },
] as const;

/** A workload of at most 300 items. */
export function workloadOf(seed: number): PrefixWorkload {
  const random = createRandom(seed);
  const upTo = (most: number): number => Math.floor(random() * most);
  const { model, tokensMin } = MODELS[upTo(MODELS.length)] ?? MODELS[0];
  const prefixes = Array.from({ length: 1 + upTo(12) }, () =>
    random() < 0.2 ? 100 + upTo(700) : Math.ceil(tokensMin * (1.3 + random())),
  );
  const count = 100 + upTo(200);
  const order = upTo(3);
  const items = Array.from({ length: count }, (_, index) => {
    if (order === 0) return Math.floor((index * prefixes.length) / count);
    if (order === 1) return index % prefixes.length;
    return Math.floor(random() ** 2 * prefixes.length);
  });
  return {
    ...{ model, tokensMin, prefixes, items },
    concurrency: 1 + upTo(64),
    latencyMs: 300 + upTo(6_000),
    slaMinutes: random() < 0.3 ? 120 : undefined,
  };
}

/** Runs each workload with and without the use of caches. */
export async function runPrefixes(seeds: readonly number[]): Promise<readonly PrefixRow[]> {
  const rows: PrefixRow[] = [];
  for (const seed of seeds) {
    const workload = workloadOf(seed);
    const result = await runWorkload(workload, seed, {});
    const without = await runWorkload(workload, seed, { prefixes: { enabled: false } });
    rows.push({
      ...{ seed, workload, result },
      oracleTokens: oracleTokensOf(workload),
      withoutTokens: without.costTokens,
      withoutMs: without.tookMs,
    });
  }
  return rows;
}

/** Each prefix that can be cached is written once, and read by all other items with it. */
export function oracleTokensOf({ items, prefixes, tokensMin }: PrefixWorkload): number {
  const counts = prefixes.map((_, prefix) => items.filter((one) => one === prefix).length);
  return counts.reduce(
    (sum, count, prefix) =>
      sum + (cachedOf(prefixes[prefix] ?? 0, tokensMin) ? (count - 1) * (prefixes[prefix] ?? 0) : 0),
    0,
  ) as number;
}

function cachedOf(tokens: number, tokensMin: number): boolean {
  return tokens >= tokensMin;
}

interface CacheEntry {
  readableMs: number;
  usedMs: number;
}

interface SentBody {
  readonly model: string;
  readonly system?:
    | string
    | readonly { readonly text: string; readonly cache_control?: { readonly ttl?: string } }[];
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

/** What a provider counts and caches. */
class CacheModel {
  readonly #workload: PrefixWorkload;
  readonly #entries = new Map<string, CacheEntry>();
  inputTokens = 0;
  cachedTokens = 0;
  writtenTokens = 0;
  costTokens = 0;

  constructor(workload: PrefixWorkload) {
    this.#workload = workload;
  }

  /** The answer to a request that arrives now. */
  answer(body: SentBody, nowMs: number, latencyMs: number): WireResult {
    const isAsked = this.#workload.model.startsWith("anthropic:");
    const system = isAsked ? body.system : body.messages.find(({ role }) => role !== "user")?.content;
    const text = typeof system === "string" ? system : (system ?? []).map((one) => one.text).join("");
    const isMarked = typeof system === "object" && system.some((one) => one.cache_control !== undefined);
    const prefixTokens = Math.round(text.length / CHARACTERS_PER_TOKEN);
    const tokens = { fresh: 20, cached: 0, written: 0 };
    const isLong = prefixTokens >= this.#workload.tokensMin;
    const entry = this.#entries.get(text);
    const isWarm = entry !== undefined && entry.readableMs <= nowMs && nowMs <= entry.usedMs + TTL_MS;
    if (!isLong || (isAsked && !isMarked)) tokens.fresh += prefixTokens;
    else if (isWarm) {
      tokens.cached = prefixTokens;
      entry.usedMs = nowMs;
    } else {
      if (isAsked) tokens.written = prefixTokens;
      else tokens.fresh += prefixTokens;
      const readableMs = Math.min(entry?.readableMs ?? Number.POSITIVE_INFINITY, nowMs + latencyMs);
      this.#entries.set(text, {
        readableMs: readableMs <= nowMs ? nowMs + latencyMs : readableMs,
        usedMs: nowMs,
      });
    }
    this.inputTokens += tokens.fresh + tokens.cached + tokens.written;
    this.cachedTokens += tokens.cached;
    this.writtenTokens += tokens.written;
    this.costTokens += tokens.fresh + 0.1 * tokens.cached + 1.25 * tokens.written;
    return isAsked ? anthropicAnswer(tokens) : openaiAnswerOf(tokens);
  }
}

/** One run of a workload. */
export async function runWorkload(
  workload: PrefixWorkload,
  seed: number,
  config: ConfigOptions,
): Promise<PrefixResult> {
  const { model, items, prefixes, concurrency, latencyMs, slaMinutes } = workload;
  const random = createRandom(seed + 1_000_000);
  const cache = new CacheModel(workload);
  const world: World = new World({
    config: {
      providers: {
        openai: { baseUrl: "http://openai.test/v1", key: "k" },
        anthropic: { baseUrl: "http://anthropic.test", key: "k" },
      },
      limits: { openai: { concurrency }, anthropic: { concurrency } },
      lanes: { allow: ["realtime"] },
      ...config,
    },
    answer: (_line, _attempt, _model, body) => {
      const afterMs = latencyMs * (0.5 + random());
      return { afterMs, result: cache.answer(body as SentBody, world.clock.nowMs(), afterMs) };
    },
  });
  const lines = items.map((prefix, index) => {
    const system = `${prefix} `.padEnd(CHARACTERS_PER_TOKEN) + WORD.repeat((prefixes[prefix] ?? 1) - 1);
    const contents = [{ role: "user", parts: [{ text: `[[${index + 1}]] hello` }] }];
    const request = { model, system_instruction: { parts: [{ text: system }] }, contents };
    return `${JSON.stringify({ key: `k${index + 1}`, request })}\n`;
  });
  world.disk.put(INPUT, lines.join(""));
  const engine = await world.engine();
  const startMs = world.clock.nowMs();
  const sla = slaMinutes === undefined ? {} : { sla: slaMinutes };
  const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, ...sla }).finished);
  const tookMs = world.clock.nowMs() - startMs;
  await world.settle(engine.close());
  const { inputTokens, cachedTokens, writtenTokens, costTokens } = cache;
  return {
    completed: summary.counts.completed,
    inputTokens,
    cachedTokens,
    writtenTokens,
    costTokens,
    tookMs,
  };
}

interface Counted {
  readonly fresh: number;
  readonly cached: number;
  readonly written: number;
}

function anthropicAnswer({ fresh, cached, written }: Counted): WireResult {
  return answerOf({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude",
    content: [{ type: "text", text: "answer" }],
    stop_reason: "end_turn",
    usage: {
      input_tokens: fresh,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: cached,
      output_tokens: 5,
    },
  });
}

function openaiAnswerOf({ fresh, cached }: Counted): WireResult {
  return answerOf({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 0,
    model: "gpt",
    choices: [{ index: 0, message: { role: "assistant", content: "answer" }, finish_reason: "stop" }],
    usage: {
      prompt_tokens: fresh + cached,
      completion_tokens: 5,
      total_tokens: fresh + cached + 5,
      prompt_tokens_details: { cached_tokens: cached },
    },
  });
}

function answerOf(body: object): WireResult {
  return {
    ok: true,
    status: 200,
    headers: {},
    body: new TextEncoder().encode(JSON.stringify(body)),
  };
}
