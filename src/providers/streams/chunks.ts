/**
 * OpenAI's chunks of an answer that another protocol streams.
 */

import type { Usage } from "../../work/outcome.ts";
import { objectOf, type Unchecked } from "../json.ts";
import type { StreamChunk } from "./event_reader.ts";

/** What all chunks of an answer have. */
export interface ChunkHead {
  readonly id: string;
  readonly model: string;
  /** Unix time. */
  readonly createdSeconds: number;
}

/** A part of the message, or with a reason the end of it. */
export function chunkOf(head: ChunkHead, delta: object, finishReason: string | null = null): StreamChunk {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
  return { json: JSON.stringify({ ...shown(head), choices }), isUsage: false };
}

/** The usage, which has no choices. */
export function usageChunk(head: ChunkHead, usage: Usage): StreamChunk {
  const { inputTokens, outputTokens, cachedTokens, reasoningTokens } = usage;
  const counts = {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
  };
  return { json: JSON.stringify({ ...shown(head), choices: [], usage: counts }), isUsage: true };
}

/** The object that an event's data spells; undefined for any other text. */
export function eventOf(data: string): Unchecked | undefined {
  try {
    return objectOf(JSON.parse(data));
  } catch {
    return undefined;
  }
}

function shown({ id, model, createdSeconds }: ChunkHead): object {
  return { id, object: "chat.completion.chunk", created: createdSeconds, model };
}
