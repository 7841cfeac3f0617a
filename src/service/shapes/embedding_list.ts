/**
 * Embeddings as OpenAI's list.
 *
 * Source: https://platform.openai.com/docs/api-reference/embeddings/object
 */
import type { EmbeddingOutput } from "../../work/outcome.ts";

/** `model`: the one that answered; `inputTokens`: as the provider counted. */
export function embeddingList(
  { embedding, embeddings }: EmbeddingOutput,
  model: string | undefined,
  inputTokens: number,
): object {
  const vectors = embeddings ?? (embedding === undefined ? [] : [embedding]);
  return {
    object: "list",
    data: vectors.map((vector, index) => ({ object: "embedding", index, embedding: vector })),
    model,
    usage: { prompt_tokens: inputTokens, total_tokens: inputTokens },
  };
}
