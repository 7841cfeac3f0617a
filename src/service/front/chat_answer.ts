/**
 * The answer of a call as OpenAI's chat completion, or as its chunks.
 */
import type { StreamChunk } from "../../providers/streams/event_reader.ts";
import { choicesOf, completionOf, completionUsage, type ShownAnswer } from "../shapes/chat_completion.ts";
import type { CallAnswer } from "./calls.ts";

/** A `chat.completion`. */
export function chatAnswer(answer: CallAnswer): object {
  return completionOf(shownAnswer(answer), headOf(answer));
}

/** The chunks of an answer that is whole: each message, its end, and the usage. */
export function wholeChunks(answer: CallAnswer): readonly StreamChunk[] {
  const shown = shownAnswer(answer);
  const { service_tier, ...head } = headOf(answer);
  const { model } = shown.facts;
  const chunk = (choices: readonly object[], more: object = {}): string =>
    JSON.stringify({ ...head, object: "chat.completion.chunk", model, service_tier, choices, ...more });
  const parts = choicesOf(shown).flatMap(({ index, message, finish_reason: reason }) => {
    const { tool_calls, ...rest } = message;
    const calls = tool_calls?.map((call, place) => ({ index: place, ...(call as object) }));
    const delta = calls === undefined ? rest : { ...rest, tool_calls: calls };
    return [
      { json: chunk([{ index, delta, finish_reason: null }]), isUsage: false },
      { json: chunk([{ index, delta: {}, finish_reason: reason }]), isUsage: false },
    ];
  });
  return [...parts, { json: chunk([], { usage: completionUsage(shown) }), isUsage: true }];
}

/** Its answer, apart from what only a task's object has. */
export function shownAnswer({ object }: CallAnswer): ShownAnswer {
  const { output, usage, error: _, status: __, ...facts } = object;
  const { input_tokens, output_tokens = 0 } = usage;
  const counted = hasDetails(usage) ? { usage } : {};
  return { output, facts: { ...facts, ...counted }, usage: { input_tokens, output_tokens } };
}

/** What identifies an answer; `prefix` of the ids of answers whose provider sent none. */
export function headOf(
  { task, object }: CallAnswer,
  prefix = "chatcmpl",
): {
  readonly id: string;
  readonly created: number;
  readonly service_tier?: string;
} {
  const tier = object.cost?.tier ?? undefined;
  return {
    id: object.provider_request_id ?? `${prefix}-${object.object_id.replaceAll("-", "")}`,
    created: Math.floor(task.createdWallMs / 1_000),
    ...(tier === undefined ? {} : { service_tier: tier }),
  };
}

function hasDetails(usage: CallAnswer["object"]["usage"]): usage is Required<typeof usage> {
  return usage.cached_tokens !== undefined && usage.reasoning_tokens !== undefined;
}
