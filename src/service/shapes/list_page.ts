/**
 * Pages of lists, as every list of the service answers them: asked for with `after` and `limit`, answered with whether more
 * follow and the id after which the next page begins. Lists of OpenAI's form are in `openai_list.ts`.
 */
import { z } from "../../schema.ts";

/** The query `after`: an id of at most `charsMax` characters. */
export function afterId(charsMax = 64): z.ZodOptional<z.ZodString> {
  return z.string().min(1).max(charsMax).optional().describe("Id of the last one that you have.");
}

/** What an answer has besides its items. */
export const pageFields: {
  readonly has_more: z.ZodBoolean;
  readonly last_id: z.ZodNullable<z.ZodString>;
} = { has_more: z.boolean(), last_id: z.string().nullable() };

/** The same of these items; `last_id` is null without any. */
export function pageOf(
  items: readonly { readonly id: string }[],
  hasMore: boolean,
): { readonly has_more: boolean; readonly last_id: string | null } {
  return { has_more: hasMore, last_id: items.at(-1)?.id ?? null };
}
