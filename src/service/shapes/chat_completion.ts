/**
 * An answer as OpenAI's chat completion, for answers of any protocol: only members that are known.
 *
 * Source: https://platform.openai.com/docs/api-reference/chat/object
 */
import type { ItemFacts, ItemUsage } from "../../work/item.ts";
import type { AnswerMembers, FinishReason, Output } from "../../work/outcome.ts";

/** An answer to translate. */
export interface ShownAnswer {
  readonly output: Output | null;
  readonly facts: ItemFacts;
  /** As the provider counted. */
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

/** What perigee's callers get beside the answer; absent in lines of batches. */
interface CompletionHead {
  readonly id?: string;
  /** Unix time in seconds. */
  readonly created?: number;
  readonly service_tier?: string;
}

/** JSON.stringify leaves out what is undefined. */
export function completionOf(answer: ShownAnswer, head: CompletionHead = {}): object {
  const { provider_request_id, model } = answer.facts;
  return {
    id: head.id ?? provider_request_id,
    object: "chat.completion",
    created: head.created,
    model,
    choices: choicesOf(answer),
    usage: completionUsage(answer),
    service_tier: head.service_tier,
  };
}

/** A choice of a chat completion. */
interface Choice {
  readonly index: number;
  readonly message: Message;
  readonly logprobs: unknown;
  readonly finish_reason: string;
}

/** Its answers, the first one first. */
export function choicesOf(answer: ShownAnswer): readonly Choice[] {
  const { logprobs = null, finish_reason, other_candidates = [] } = answer.facts;
  return [
    { index: 0, message: messageOf(answer), logprobs, finish_reason: reasonOf(finish_reason) },
    ...other_candidates.map((other, index) => ({
      index: index + 1,
      message: saidBy(other.text, other),
      logprobs: other.logprobs ?? null,
      finish_reason: reasonOf(other.finish_reason),
    })),
  ];
}

type Members = { readonly [name in "tool_calls" | "annotations"]: AnswerMembers[name] | undefined };

/** JSON.stringify leaves out what is undefined. */
interface Message extends Members {
  readonly role: "assistant";
  readonly content: string | null;
  readonly refusal: string | null;
  readonly reasoning_content: string | undefined;
}

/** OpenAI's `usage` of a chat completion. */
export function completionUsage({ usage, facts }: Pick<ShownAnswer, "usage" | "facts">): object {
  return {
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.input_tokens + usage.output_tokens,
    ...(facts.usage === undefined ? {} : detailsOf(facts.usage)),
  };
}

function detailsOf({ cached_tokens, reasoning_tokens }: ItemUsage): object {
  return { prompt_tokens_details: { cached_tokens }, completion_tokens_details: { reasoning_tokens } };
}

/** OpenAI's message of an assistant. */
function messageOf({ output, facts }: ShownAnswer): Message {
  return saidBy(output?.text ?? "", facts);
}

function saidBy(text: string, { tool_calls, refusal, reasoning, annotations }: AnswerMembers): Message {
  const isEmpty = text === "" && (tool_calls !== undefined || refusal !== undefined);
  return {
    role: "assistant",
    content: isEmpty ? null : text,
    refusal: refusal ?? null,
    tool_calls,
    annotations,
    reasoning_content: reasoning,
  };
}

/** OpenAI knows no others; a refusal ends there like any answer. */
export function reasonOf(reason: FinishReason | undefined): string {
  return reason === "length" || reason === "tool_calls" || reason === "content_filter" ? reason : "stop";
}
