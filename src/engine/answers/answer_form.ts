/**
 * An answer as a cache keeps it: JSON of its output, its end, what arrived with it, its usage, the model that answered, and the provider's
 * body where the run that was answered writes bodies.
 *
 * Kept are answers that the model ended itself: with `stop`, or with calls of tools. Those cut by a limit, a filter or a refusal are not:
 * another try may end otherwise.
 */
import { isObject } from "../../work/json.ts";
import { type FinishReason, type Outcome, valueText, type WrittenOutput } from "../../work/outcome.ts";
import type { CachedItem } from "../items/settle.ts";

type Answer = CachedItem["answer"];

const KEPT: ReadonlySet<FinishReason> = new Set<FinishReason>(["stop", "tool_calls"]);

/** What others with the same request may be answered with; undefined without an answer. */
export function answerOf(outcome: Outcome): Answer | undefined {
  if (outcome.status !== "completed") return undefined;
  const { finish, members, parsed, usage, last } = outcome;
  const output = outcome.output.type === "text" ? outcome.output : inTexts(outcome.output);
  return { output, finish, members, parsed, usage, last };
}

/** It is kept longer than the answer that its bytes would be a part of. */
function inTexts({ type, values }: WrittenOutput): WrittenOutput {
  return { type, values: values.map(valueText) };
}

/** The text under which it is kept; undefined for one that is not kept. */
export function keptText({ output, finish, members, parsed, usage, last }: Answer): string | undefined {
  if (!KEPT.has(finish)) return undefined;
  const { model, requestId, body } = last;
  const bytes = body === undefined ? undefined : Buffer.from(body).toString("base64");
  return JSON.stringify({ output, finish, members, parsed, usage, model, requestId, body: bytes });
}

/** The reverse; undefined for a text that is not one, and for one without a body where that `needsBody`. */
export function readKept(text: string, needsBody: boolean): Answer | undefined {
  const kept: unknown = JSON.parse(text);
  if (!isObject(kept) || !isObject(kept["output"]) || !isObject(kept["usage"])) return undefined;
  const { output, finish, members, parsed, usage, model, requestId, body } = kept;
  if (needsBody && typeof body !== "string") return undefined;
  const last = {
    ...(typeof model === "string" ? { model } : {}),
    ...(typeof requestId === "string" ? { requestId } : {}),
    ...(needsBody && typeof body === "string" ? { body: Buffer.from(body, "base64") } : {}),
  };
  // Its checksum is right, and this version of the form is the only one: it is what `keptText` wrote.
  return { output, finish, members, parsed, usage, last } as unknown as Answer;
}
