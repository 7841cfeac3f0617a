/**
 * Workloads that share prefixes, on providers whose prompt caches are models: realtime in one cache, batches in another. Books are
 * kept of each request, and of what an oracle would have read that knows all of them.
 */
import type { WireResult } from "../../../src/dispatch/transport.ts";
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { createRandom } from "../../../src/testing/index.ts";
import { BatchWorld } from "../batches/batch_world.ts";
import { INPUT, OUTPUT, World } from "../world.ts";
import { CachingBatches } from "./caching_batches.ts";
import {
  type CacheKind,
  type CacheUsed,
  CHARACTERS_PER_TOKEN,
  costTokensOf,
  PromptCache,
  type PromptPart,
} from "./prompt_cache.ts";

const WORD = "word ";
const RATES = {
  "anthropic:claude-sonnet-4-5": 3,
  "anthropic:claude-haiku-4-5": 1,
  "openai:gpt-5-mini": 0.25,
} as const;

/** What an item shares with others, in tokens; 0 for nothing. */
export interface ItemShape {
  /** Its system instruction, by its number. */
  readonly system: number;
  readonly systemTokens: number;
  /** What its first turn begins with. */
  readonly document: number;
  readonly documentTokens: number;
}

export interface PrefixWorkload {
  readonly model: keyof typeof RATES;
  readonly cache: CacheKind;
  readonly items: readonly ItemShape[];
  /** Whether the document is a part of its own, or the beginning of one text with the question. */
  readonly hasParts: boolean;
  readonly concurrency: number;
  readonly latencyMs: number;
  /** Whether answers take minutes, which an earlier run has shown. */
  readonly isSlow: boolean;
  readonly slaMinutes: number | undefined;
  /** In a batch: which share of the requests reads what another has written. */
  readonly batchHitShare: number | undefined;
}

/** What was read, written and paid. */
export interface PrefixResult {
  readonly completed: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly writtenTokens: number;
  readonly hourTokens: number;
  /** Its input at the prices of the cache, in tokens of plain input. */
  readonly costTokens: number;
  /** As the provider reckons all of it, and as the run says. */
  readonly bookedUsd: number;
  readonly billedUsd: number;
  /** Requests in batches. */
  readonly batched: number;
  readonly tookMs: number;
}

/** A trial of the check. */
export interface PrefixTrial {
  readonly seed: number;
  readonly workload: PrefixWorkload;
  readonly result: PrefixResult;
  /** The most that could have been read from the cache. */
  readonly oracleTokens: number;
  /** The same work with `prefixes.enabled: false`. */
  readonly without: PrefixResult;
}

const MODELS = [
  { model: "anthropic:claude-sonnet-4-5", cache: { kind: "marks", tokensMin: 1_024 } },
  { model: "anthropic:claude-haiku-4-5", cache: { kind: "marks", tokensMin: 4_096 } },
  { model: "openai:gpt-5-mini", cache: { kind: "blocks", tokensMin: 1_024 } },
] as const;

/** A workload of 150 to 300 items; one of four is for batches, one of ten has answers that take longer than a cache lives. */
function workloadOf(seed: number): PrefixWorkload {
  const random = createRandom(seed);
  const upTo = (most: number): number => Math.floor(random() * most);
  const isBatch = seed % 4 === 0;
  const isSlow = seed % 10 === 1;
  const { model, cache } = MODELS[isBatch || isSlow ? upTo(2) : upTo(MODELS.length)] ?? MODELS[0];
  const tokens = (): number =>
    random() < 0.2 ? 100 + upTo(700) : Math.ceil(cache.tokensMin * (1.3 + random()));
  const shape = upTo(3);
  const systems = Array.from({ length: shape === 1 ? 1 : 1 + upTo(12) }, () => (shape === 1 ? 50 : tokens()));
  const documents = shape === 0 ? [0] : Array.from({ length: 1 + upTo(12) }, tokens);
  const count = 150 + upTo(150);
  const order = upTo(3);
  const pick = (index: number, of: number): number => {
    if (order === 0) return Math.floor((index * of) / count);
    return order === 1 ? index % of : Math.floor(random() ** 2 * of);
  };
  const items = Array.from({ length: count }, (_, index) => {
    const document = pick(index, documents.length);
    const system = shape === 2 ? document % systems.length : pick(index, systems.length);
    return { system, systemTokens: systems[system] ?? 0, document, documentTokens: documents[document] ?? 0 };
  });
  return {
    ...{ model, cache, items },
    hasParts: cache.kind === "marks" || random() < 0.5,
    isSlow,
    concurrency: 1 + upTo(64),
    latencyMs: isSlow ? 200_000 + upTo(160_000) : 300 + upTo(6_000),
    slaMinutes: isBatch ? 1_440 : !isSlow && random() < 0.3 ? 120 : undefined,
    batchHitShare: isBatch ? 0.3 + 0.68 * random() : undefined,
  };
}

/** Runs a workload with and without the use of caches. */
export async function runTrial(seed: number): Promise<PrefixTrial> {
  const workload = workloadOf(seed);
  return {
    ...{ seed, workload },
    result: await runWorkload(workload, seed, {}),
    without: await runWorkload(workload, seed, { prefixes: { enabled: false } }),
    oracleTokens: oracleTokensOf(workload, seed),
  };
}

/** All that is shared is asked for, one request after another, those with one prefix together; a batch hits as often as it does. */
function oracleTokensOf(workload: PrefixWorkload, seed: number): number {
  const { items, cache, batchHitShare } = workload;
  const model = new PromptCache(cache);
  const partsOf = (index: number): PromptPart[] =>
    promptOf(workload, index).map((text, part, all) =>
      part < all.length - 1 ? { text, mark: "1h" } : { text },
    );
  const order = items
    .map((_, index) => index)
    .sort((one, other) => sortKeyOf(items[one]) - sortKeyOf(items[other]));
  let cached = 0;
  for (const index of order)
    cached += model.use(
      partsOf(index),
      0,
      0,
      batchHitShare === undefined || isHit(seed, index + 1, batchHitShare),
    ).cached;
  return cached;
}

/** Whether the request of a line finds what others have written for batches. */
export function isHit(seed: number, line: number, share: number): boolean {
  return createRandom(seed * 1_000 + line)() < share;
}

function sortKeyOf({ system, document }: ItemShape = NO_SHAPE): number {
  return system * 100 + document;
}

const NO_SHAPE: ItemShape = { system: 0, systemTokens: 0, document: 0, documentTokens: 0 };

/** Texts of an item in the order of the prompt. */
function promptOf({ items, hasParts }: PrefixWorkload, index: number): string[] {
  const { system, systemTokens, document, documentTokens } = items[index] ?? NO_SHAPE;
  const question = `[[${index + 1}]] hello`;
  const shared = documentTokens === 0 ? "" : wordsOf(`d${document}`, documentTokens);
  const turn = shared === "" ? [question] : hasParts ? [shared, question] : [shared + question];
  return [wordsOf(`s${system}`, systemTokens), ...turn];
}

function wordsOf(name: string, tokens: number): string {
  return `${name} `.padEnd(CHARACTERS_PER_TOKEN, "_") + WORD.repeat(Math.max(0, tokens - 1));
}

/** What a provider has booked of a run. */
export class PrefixBooks {
  readonly #usdPerToken: number;
  readonly sums = {
    inputTokens: 0,
    cachedTokens: 0,
    writtenTokens: 0,
    hourTokens: 0,
    costTokens: 0,
    bookedUsd: 0,
    batched: 0,
  };

  constructor(model: keyof typeof RATES) {
    this.#usdPerToken = RATES[model] / 1e6;
  }

  clear(): void {
    for (const name of Object.keys(this.sums) as (keyof typeof this.sums)[]) this.sums[name] = 0;
  }

  /** Output costs 5 times the input at Anthropic, and 8 times at OpenAI's small model. */
  book(used: CacheUsed, outputTokens: number, outputFactor: number, tierFactor: number): void {
    const costTokens = costTokensOf(used);
    const { sums } = this;
    sums.inputTokens += used.input;
    sums.cachedTokens += used.cached;
    sums.writtenTokens += used.written;
    sums.hourTokens += used.hours;
    sums.costTokens += costTokens;
    sums.bookedUsd += (costTokens + outputTokens * outputFactor) * this.#usdPerToken * tierFactor;
    if (tierFactor < 1) sums.batched += 1;
  }
}

const OUTPUT_TOKENS = 5;

/** One run of a workload. */
export async function runWorkload(
  workload: PrefixWorkload,
  seed: number,
  config: ConfigOptions,
  maxCostUsd?: number,
): Promise<PrefixResult> {
  const books = new PrefixBooks(workload.model);
  const world = worldOf(workload, seed, config, books);
  const lines = workload.items.map((_, index) => {
    const [system = "", ...turn] = promptOf(workload, index);
    const contents = [{ role: "user", parts: turn.map((text) => ({ text })) }];
    const request = { model: workload.model, system_instruction: { parts: [{ text: system }] }, contents };
    return `${JSON.stringify({ key: `k${index + 1}`, request })}\n`;
  });
  world.disk.put(INPUT, lines.join(""));
  const engine = await world.engine();
  if (workload.isSlow) await learnPace(world, engine, workload.model, books);
  const startMs = world.clock.nowMs();
  const sla = workload.slaMinutes === undefined ? {} : { sla: workload.slaMinutes };
  const summary = await world.settle(
    engine.run(INPUT, { out: OUTPUT, ...sla, ...(maxCostUsd === undefined ? {} : { maxCostUsd }) }).finished,
  );
  const tookMs = world.clock.nowMs() - startMs;
  await world.settle(engine.close());
  return { ...books.sums, completed: summary.counts.completed, billedUsd: summary.cost.billed_usd, tookMs };
}

/** Answers of short requests tell how long answers take. */
async function learnPace(
  world: Worlds,
  engine: Awaited<ReturnType<World["engine"]>>,
  model: string,
  books: PrefixBooks,
): Promise<void> {
  const lines = Array.from({ length: 8 }, (_, index) => {
    const contents = [{ role: "user", parts: [{ text: `[[${index + 1}]] hello` }] }];
    return `${JSON.stringify({ key: `k${index}`, request: { model, contents } })}\n`;
  });
  world.disk.put("/early.jsonl", lines.join(""));
  await world.settle(engine.run("/early.jsonl", { out: "/early.out.jsonl" }).finished);
  books.clear();
}

type Worlds = Pick<World, "clock" | "disk" | "settle" | "engine">;

function worldOf(workload: PrefixWorkload, seed: number, config: ConfigOptions, books: PrefixBooks): Worlds {
  const { cache, concurrency, latencyMs, batchHitShare } = workload;
  const random = createRandom(seed + 1_000_000);
  const providers = {
    openai: { baseUrl: "http://openai.test/v1", key: "k" },
    anthropic: { baseUrl: "http://anthropic.test", key: "k" },
  };
  const limits = { openai: { concurrency }, anthropic: { concurrency } };
  if (batchHitShare !== undefined) {
    const terms = { seed, hitShare: batchHitShare, cache, books };
    const batches = new BatchWorld(
      (nowMs) => ({ "http://anthropic.test": new CachingBatches({ ...terms, nowMs }) }),
      { providers: { anthropic: providers.anthropic }, limits: { anthropic: { concurrency } }, ...config },
    );
    return {
      ...{ clock: batches.clock, disk: batches.disk },
      settle: (promise) => batches.settle(promise),
      engine: async () => (await batches.opened()).engine,
    };
  }
  const prompts = new PromptCache(cache);
  const world: World = new World({
    config: { providers, limits, lanes: { allow: ["realtime"] }, ...config },
    answer: (_line, _attempt, _model, body) => {
      const afterMs = latencyMs * (0.5 + random());
      const used = prompts.use(partsOf(body as SentBody), world.clock.nowMs(), afterMs);
      const isMarked = cache.kind === "marks";
      books.book(used, OUTPUT_TOKENS, isMarked ? 5 : 8, 1);
      return { afterMs, result: isMarked ? anthropicAnswer(used) : openaiAnswer(used) };
    },
  });
  return world;
}

type SentContent =
  | string
  | readonly { readonly text: string; readonly cache_control?: { readonly ttl?: "1h" } }[];

/** A request to Anthropic or OpenAI. */
export interface SentBody {
  readonly system?: SentContent;
  readonly messages: readonly { readonly content: SentContent }[];
}

/** What is in a request, in the order of the prompt. */
export function partsOf({ system, messages }: SentBody): PromptPart[] {
  const contents = [...(system === undefined ? [] : [system]), ...messages.map(({ content }) => content)];
  return contents.flatMap((content) => {
    if (typeof content === "string") return [{ text: content }];
    return content.map(({ text, cache_control: control }) => ({
      text,
      mark: control === undefined ? undefined : (control.ttl ?? "5m"),
    }));
  });
}

/** `usage` of an answer of Anthropic, output aside. */
export function anthropicUsageOf({ input, cached, written, hours }: CacheUsed): object {
  return {
    input_tokens: input - cached - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cached,
    cache_creation: { ephemeral_5m_input_tokens: written - hours, ephemeral_1h_input_tokens: hours },
  };
}

function anthropicAnswer(used: CacheUsed): WireResult {
  return answerOf({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude",
    content: [{ type: "text", text: "answer" }],
    stop_reason: "end_turn",
    usage: { ...anthropicUsageOf(used), output_tokens: OUTPUT_TOKENS },
  });
}

function openaiAnswer({ input, cached }: CacheUsed): WireResult {
  return answerOf({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 0,
    model: "gpt",
    choices: [{ index: 0, message: { role: "assistant", content: "answer" }, finish_reason: "stop" }],
    usage: {
      prompt_tokens: input,
      completion_tokens: OUTPUT_TOKENS,
      total_tokens: input + OUTPUT_TOKENS,
      prompt_tokens_details: { cached_tokens: cached },
    },
  });
}

function answerOf(body: object): WireResult {
  return { ok: true, status: 200, headers: {}, body: new TextEncoder().encode(JSON.stringify(body)) };
}
