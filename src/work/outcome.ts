/**
 * The outcome of one item: what it ended with, what it used, what it cost.
 *
 *   submitted -> completed | failed | expired | cancelled        (all four are final)
 */
import type { FailureCode } from "../errors.ts";

/** How an attempt ended, the classes of the fault model. */
export type AttemptClass =
  | "success"
  | "not_sent" // N: no byte of the request left this machine; free to repeat
  | "refused" // R: the provider said so before doing work; free to repeat
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
  /** All output tokens, reasoning included. */
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** True when the provider did not say, or said nonsense, and the counts are ours. */
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

/** The interface's Output (2.3), with the reason when generation did not simply end. */
export interface Output {
  readonly type: "text";
  readonly text: string;
  /** `length`: cut at the token limit. Absent when the model stopped by itself. */
  readonly finish_reason?: "length";
}

/** The error object of a failed item. Never a prompt, never a provider's body. */
export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
  /** Whether the same request may succeed at another time. */
  readonly retryable: boolean;
  /** Requests sent for this item, 0 when none was. */
  readonly attempts: number;
  /** Attempts that may have been billed without an answer. */
  readonly ambiguous_attempts: number;
  readonly provider?: string;
  readonly provider_status?: number;
  /** Line number in the input, from 1. */
  readonly line?: number;
}

/** Money of one item. */
export interface Cost {
  /** USD at list price for all that was used; 0 when the model has no known price. */
  readonly listUsd: number;
  /** USD after the price factor. */
  readonly usd: number;
  /** True when no price was known, or usage was estimated. */
  readonly isEstimated: boolean;
}

/** How one item ended. */
export type Outcome =
  | {
      readonly status: "completed";
      readonly output: Output;
      readonly usage: Usage;
      readonly attempts: number;
      readonly ambiguousAttempts: number;
    }
  | {
      readonly status: "failed" | "expired" | "cancelled";
      readonly failure: Failure;
      readonly usage: Usage;
      readonly attempts: number;
      readonly ambiguousAttempts: number;
    };
