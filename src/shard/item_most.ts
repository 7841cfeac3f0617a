/**
 * The most that one attempt can take, of the items of a shard or a block: read from their column (`MeasuredBlock.most`).
 */
import type { Shard } from "./shard.ts";

/** Of `count` items from `index` together. */
export function mostOf(
  most: Shard["most"],
  index: number,
  count = 1,
): { readonly inputTokens: number; readonly maxOutputTokens: number } {
  let [inputTokens, maxOutputTokens] = [0, 0];
  for (let item = index; item < index + count; item += 1) {
    inputTokens += most[2 * item] as number;
    maxOutputTokens += most[2 * item + 1] as number;
  }
  return { inputTokens, maxOutputTokens };
}
