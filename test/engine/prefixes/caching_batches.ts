/**
 * Anthropic's batches with a prompt cache: that of batches is not that of realtime, its requests begin one after another in the order of
 * the batch, and each finds what others have written with a stated share only (30 to 98 % in Anthropic's words).
 */
import { FakeAnthropicBatches } from "../../batch_servers/anthropic.ts";
import {
  type BatchFake,
  type FakeAnswer,
  type FakeRequest,
  linesOf,
  objectOf,
  textBytes,
} from "../../batch_servers/fake.ts";
import type { Ledger } from "../../batch_servers/ledger.ts";
import { anthropicUsageOf, isHit, type PrefixBooks, partsOf, type SentBody } from "./prefix_world.ts";
import { type CacheKind, type CacheUsed, PromptCache } from "./prompt_cache.ts";

export interface CachingTerms {
  readonly seed: number;
  readonly nowMs: () => number;
  readonly hitShare: number;
  readonly cache: CacheKind;
  readonly books: PrefixBooks;
}

const BATCH_MS = 240_000;
const OUTPUT_FACTOR = 5;

export class CachingBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly #fake: FakeAnthropicBatches;
  readonly #terms: CachingTerms;
  readonly #batched: PromptCache;
  readonly #realtime: PromptCache;
  readonly #used = new Map<string, CacheUsed>();
  readonly #booked = new Set<string>();

  constructor(terms: CachingTerms) {
    const { seed, nowMs, cache } = terms;
    this.#terms = terms;
    this.#fake = new FakeAnthropicBatches({ seed, nowMs });
    this.ledger = this.#fake.ledger;
    this.#batched = new PromptCache(cache);
    this.#realtime = new PromptCache(cache);
  }

  handle(request: FakeRequest): FakeAnswer {
    const answer = this.#fake.handle(request);
    if (typeof answer === "string" || answer.status !== 200) return answer;
    if (request.method === "POST" && request.path.endsWith("/batches")) this.#create(request.body);
    if (request.path.endsWith("/results")) return { ...answer, body: this.#resultsOf(answer.body) };
    if (!request.path.endsWith("/v1/messages")) return answer;
    const used = this.#realtime.use(partsOf(bodyOf(request.body)), this.#terms.nowMs(), answer.afterMs ?? 0);
    return {
      ...answer,
      body: textBytes(JSON.stringify(this.#paid(objectOf(answer.body) as unknown as Message, used, 1))),
    };
  }

  #create(body: Uint8Array): void {
    const { requests } = bodyOf(body) as unknown as { readonly requests: readonly BatchedRequest[] };
    const { nowMs, hitShare, seed } = this.#terms;
    for (const [index, { custom_id: id, params }] of requests.entries()) {
      const atMs = nowMs() + (index * BATCH_MS) / requests.length;
      const parts = partsOf(params);
      const line = Number(/\[\[(\d+)\]\]/.exec(parts.at(-1)?.text ?? "")?.[1]);
      this.#used.set(id, this.#batched.use(parts, atMs, 0, isHit(seed, line, hitShare)));
    }
  }

  #resultsOf(body: Uint8Array): Uint8Array {
    const lines = linesOf(body).map((text) => {
      const line = JSON.parse(text) as ResultLine; // as the fake writes it
      const used = this.#used.get(line.custom_id);
      if (used === undefined || line.result.message === undefined) return text;
      const isFirst = !this.#booked.has(line.custom_id);
      this.#booked.add(line.custom_id);
      const message = isFirst
        ? this.#paid(line.result.message, used, 0.5)
        : withUsage(line.result.message, used);
      return JSON.stringify({ ...line, result: { ...line.result, message } });
    });
    return textBytes(`${lines.join("\n")}\n`);
  }

  #paid(message: Message, used: CacheUsed, tierFactor: number): Message {
    this.#terms.books.book(used, message.usage.output_tokens, OUTPUT_FACTOR, tierFactor);
    return withUsage(message, used);
  }
}

interface BatchedRequest {
  readonly custom_id: string;
  readonly params: SentBody;
}

interface Message {
  readonly usage: { readonly output_tokens: number };
}

interface ResultLine {
  readonly custom_id: string;
  readonly result: { readonly message?: Message };
}

function withUsage(message: Message, used: CacheUsed): Message {
  return { ...message, usage: { ...message.usage, ...anthropicUsageOf(used) } };
}

function bodyOf(bytes: Uint8Array): SentBody {
  return objectOf(bytes) as unknown as SentBody; // what the engine sends is checked by the fake
}
