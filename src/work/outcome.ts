/**
 * The outcome of one item: what it ended with, what it used, what it cost.
 *
 *   submitted -> completed | failed | expired | cancelled        (all four are final)
 */
import type { FailureCode } from "../errors.ts";
import type { Json as JsonValue } from "./json.ts";

/** How an attempt ended, the classes of the fault model. */
export type AttemptClass =
  | "success"
  | "not_sent" // N: no byte of the request left this machine; free to repeat
  | "refused" // R: the provider said so before doing work; free to repeat
  | "unfit" // answered and billed, and the answer does not fit its schema
  | "ambiguous" // U: may have been done and billed; repeats use the ambiguous budget
  | "permanent"; // P: repeating cannot help

/** Tokens of one answer as the provider counted them. Counts are whole and never negative. */
export interface Usage {
  /** All input tokens, cached ones included. */
  readonly inputTokens: number;
  /** Input tokens read from the provider's cache. */
  readonly cachedTokens: number;
  /** Input tokens written to the provider's cache at its write price. */
  readonly cacheWriteTokens: number;
  /** Of these, those that are kept for an hour, at twice the input price (Anthropic); absent for none. */
  readonly hourWriteTokens?: number;
  /** All output tokens, reasoning included. */
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** True when the provider did not say, or said nonsense, and perigee counted. */
  readonly isEstimated: boolean;
  /** What the provider itself says it charged, in USD (OpenRouter); the best source where present. */
  readonly chargedUsd?: number;
}

export const NO_USAGE: Usage = {
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  isEstimated: false,
};

/** Output tokens of an answer whose provider did not count them: the usual four characters a token. `chars` are UTF-16 units. */
export function tokensOfChars(chars: number): number {
  return Math.ceil(chars / 4);
}

/** How a generation ended, in the same words for all providers. */
export type FinishReason =
  | "stop" // the model ended it
  | "length" // cut: at the token limit, or because the provider ended a long turn
  | "tool_calls" // it waits for the results of its tools
  | "content_filter" // a filter of the provider cut the text
  | "refusal"; // the model declined to answer

/** Another answer to a request for several. */
export interface OtherCandidate extends Omit<AnswerMembers, "other_candidates"> {
  /** Empty where it holds only calls or a refusal, and where nothing was generated. */
  readonly text: string;
  readonly finish_reason: FinishReason;
}

/** What an answer holds besides its text. */
export interface AnswerMembers {
  /** In OpenAI's form, of any provider: `{ id, type: "function", function: { name, arguments } }`. */
  readonly tool_calls?: readonly JsonValue[];
  /** The model's own words for not answering. */
  readonly refusal?: string;
  /** The model's thoughts, as far as the provider returns them. */
  readonly reasoning?: string;
  /** Log probabilities of the tokens, in the provider's own form. */
  readonly logprobs?: JsonValue;
  /** What the text cites, in the provider's own form. */
  readonly annotations?: readonly JsonValue[];
  /** The answers after the first, in the provider's order, of a request with `candidate_count` above 1. */
  readonly other_candidates?: readonly OtherCandidate[];
}

/** The interface's Output (2.3): the answer of a chat, a response or a completion. */
export interface TextOutput {
  readonly type: "text";
  /** Empty only for an answer that consists of tool calls or a refusal. */
  readonly text: string;
}

/** Numbers, or the bytes of 32-bit floats in base64 where the item asks for them. */
export type Embedding = readonly number[] | string;

/** The embeddings of an item. */
export interface EmbeddingOutput {
  readonly type: "embedding";
  /** Of an item with one input. */
  readonly embedding?: Embedding;
  /** Of an item with several inputs, in their order. */
  readonly embeddings?: readonly Embedding[];
  /** It has none. Declared, so that the text of a chat can be read without asking for the type. */
  readonly text: never;
}

/** What a moderation model says of each input, in the provider's form. */
export interface ModerationOutput {
  readonly type: "moderation";
  readonly results: readonly JsonValue[];
  /** As of embeddings. */
  readonly text: never;
}

/** What an item was answered with. */
export type Output = TextOutput | EmbeddingOutput | ModerationOutput;

/** JSON as a text, or ASCII as bytes: these are a part of an answer, all of which stays in memory as long as they do. */
export type WrittenValue = string | Uint8Array;

/** An output without text as lines have it: JSON that was cut from the provider's answer and is never read here. */
export interface WrittenOutput {
  readonly type: "embedding" | "moderation";
  /** In JSON: one for each input. */
  readonly values: readonly WrittenValue[];
  readonly text?: never;
}

/** The value as a text. */
export function valueText(value: WrittenValue): string {
  if (typeof value === "string") return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("latin1");
}

/** What a provider and its wire say of an attempt. */
export interface AttemptFacts {
  /** From the send to the decoded answer or failure. */
  readonly latencyMs: number;
  /** The model that answered, as the provider names it. */
  readonly model?: string | undefined;
  /** The provider's id of the request. */
  readonly requestId?: string | undefined;
  /** The tier that the provider says it used. */
  readonly servedTier?: string | undefined;
  /** Whether it came after its deadline, from a batch that nobody had asked for it before. */
  readonly isLate?: boolean | undefined;
  /** The provider's body of an answer, where lines have it. */
  readonly body?: Uint8Array | undefined;
}

/** The error object of a failed item. Never a prompt, and of a provider's body no more than what the model thought or answered. */
export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
  /** Whether the same request may succeed at another time. */
  readonly retryable: boolean;
  /** How often it was tried, also where no request left this machine (connection refused); 0 if it never was. */
  readonly attempts: number;
  /** Attempts that may have been billed without an answer. */
  readonly ambiguous_attempts: number;
  readonly provider?: string;
  readonly provider_status?: number;
  /** What the model thought before it ended without an answer: it was paid for. */
  readonly reasoning?: string;
  /** The text of the last answer, if it did not fit its schema. */
  readonly answer?: string;
  /** Line number in the input, from 1. */
  readonly line?: number;
}

/** Money of one item. */
export interface Cost {
  /** USD at list price for all that was used; 0 when the model has no known price. */
  readonly listUsd: number;
  /** USD that a service charges its caller: list price times price factor. */
  readonly usd: number;
  /** USD that the provider bills: what a cap on spending counts. */
  readonly billedUsd: number;
  /** True when no price was known, or usage was estimated. */
  readonly isEstimated: boolean;
}

/** How one item ended. */
export type Outcome =
  | {
      readonly status: "completed";
      readonly output: TextOutput | WrittenOutput;
      readonly finish: FinishReason;
      /** What the answer holds besides its text. */
      readonly members: AnswerMembers | undefined;
      /** The answer as JSON on one line, if it was checked against a schema. */
      readonly parsed?: string | undefined;
      /** Of the attempt that was answered. */
      readonly last: AttemptFacts;
      readonly usage: Usage;
      readonly attempts: number;
      readonly ambiguousAttempts: number;
    }
  | {
      readonly status: "failed" | "expired" | "cancelled";
      readonly failure: Failure;
      /** Of the last attempt; absent without one. */
      readonly last?: AttemptFacts;
      readonly usage: Usage;
      readonly attempts: number;
      readonly ambiguousAttempts: number;
    };
