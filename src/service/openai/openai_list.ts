/**
 * Lists and times as OpenAI's clients know them.
 */
import { z } from "../../schema.ts";

/** The schema of a list of `item`, named `id` in the description. */
export function openaiListSchema(item: z.ZodType, id: string): z.ZodType {
  return z
    .object({
      object: z.literal("list"),
      data: z.array(item),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    })
    .meta({ id });
}

/** A page of a list, in its order. */
export function openaiList(data: readonly { readonly id: string }[], hasMore: boolean): object {
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}

/** Unix time in whole seconds. */
export function secondsOf(wallMs: number): number {
  return Math.floor(wallMs / 1_000);
}
