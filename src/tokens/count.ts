/**
 * Token counts of texts and of chat requests: what other modules call.
 *
 *   tokens of a chat = 3 + sum over messages of (3 + 1 for the role + tokens of its texts), then x factor, rounded up
 *
 * (OpenAI's cookbook, "How to count tokens with tiktoken"; `[{user, "Hello"}]` is 8. Usage may differ by a few.) The
 * system instruction is one message; the texts of a message are counted one by one, as blocks are sent.
 *
 * Tables are read at the first count of an encoding, once a thread: about 5 ms, and 9 MB for o200k_base or 5 MB for
 * cl100k_base. All functions are synchronous; one thread counts one text at a time.
 */
import { TokenCounter } from "./counter.ts";
import type { Tokenizer } from "./models.ts";
import { type EncodingName, readTables } from "./ranks.ts";

export { type Tokenizer, tokenizerOf } from "./models.ts";
export type { EncodingName } from "./ranks.ts";

const TOKENS_PER_MESSAGE = 3;
const TOKENS_PER_ROLE = 1;
const TOKENS_OF_REPLY = 3;
/** System instructions whose counts are kept, per encoding: a file usually has one, on every line. */
const SYSTEMS_KEPT = 8;
/** A longer one, in UTF-16 units, is counted each time rather than held in memory. */
const SYSTEM_UNITS_MAX = 1 << 18;

/** The part of a request that is counted. */
export interface CountedRequest {
  /** Texts of the system instruction; empty without one. */
  readonly system: readonly string[];
  /** Of their parts, only texts are counted: what media and tools use is in `shard/request_most.ts`. */
  readonly turns: readonly {
    readonly parts: readonly (string | { readonly kind: string; readonly text?: string })[];
  }[];
}

/** Tokens that a request will be charged for, before any answer. */
export interface ChatTokens {
  /** All input tokens, protocol overhead included. */
  readonly inputTokens: number;
  /** Those of the system instruction's message; 0 without one. */
  readonly prefixTokens: number;
}

interface Counting {
  readonly counter: TokenCounter;
  /** The latest system instructions, the last used first. */
  readonly systems: { readonly text: string; readonly tokens: number }[];
}

const countings = new Map<EncodingName, Counting>();

/**
 * Tokens of `text`, equal to the length of tiktoken's `encode_ordinary`: names of special tokens are plain text, a lone
 * surrogate counts as U+FFFD. Throws `store_damaged` when the table of the encoding cannot be read.
 */
export function countTokens(encoding: EncodingName, text: string): number {
  return countingOf(encoding).counter.count(text);
}

/** Input tokens of a chat request for the model of `tokenizer` (see `tokenizerOf`). */
export function countChat(request: CountedRequest, tokenizer: Tokenizer): ChatTokens {
  const counting = countingOf(tokenizer.encoding);
  let prefix = 0;
  if (request.system.length > 0) {
    prefix = TOKENS_PER_MESSAGE + TOKENS_PER_ROLE;
    for (const text of request.system) prefix += countSystem(counting, text);
  }
  let total = prefix + TOKENS_OF_REPLY;
  for (const turn of request.turns) {
    total += TOKENS_PER_MESSAGE + TOKENS_PER_ROLE;
    for (const part of turn.parts) {
      const text = typeof part === "string" ? part : part.text;
      if (text !== undefined) total += counting.counter.count(text);
    }
  }
  if (tokenizer.factor === 1) return { inputTokens: total, prefixTokens: prefix };
  return {
    inputTokens: roundUp(total * tokenizer.factor),
    prefixTokens: roundUp(prefix * tokenizer.factor),
  };
}

/** 11 x 1.1 is 12.100000000000001, but 10 x 1.1 is 11.000000000000002: the last digits are noise, not a token. */
function roundUp(tokens: number): number {
  return Math.max(0, Math.ceil(tokens - 1e-6));
}

/** Strings of unlike length differ at once and equal ones compare at the speed of memory: cheaper than hashing. */
function countSystem(counting: Counting, text: string): number {
  const { systems } = counting;
  const at = systems.findIndex((known) => known.text === text);
  const known = systems[at];
  if (known === undefined) {
    const tokens = counting.counter.count(text);
    if (text.length > SYSTEM_UNITS_MAX) return tokens;
    systems.unshift({ text, tokens });
    if (systems.length > SYSTEMS_KEPT) systems.pop();
    return tokens;
  }
  if (at > 0) {
    systems.splice(at, 1);
    systems.unshift(known);
  }
  return known.tokens;
}

function countingOf(encoding: EncodingName): Counting {
  let counting = countings.get(encoding);
  if (counting === undefined) {
    counting = { counter: new TokenCounter(readTables(encoding)), systems: [] };
    countings.set(encoding, counting);
  }
  return counting;
}
