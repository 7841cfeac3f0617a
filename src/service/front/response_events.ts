/**
 * The events of a response whose provider streams a chat: its chunks as OpenAI's events of a response.
 *
 *   response.created -> response.in_progress
 *     -> for thoughts, the message, each call: output_item.added -> (content_part.added) -> deltas
 *     -> for each of them, at the end: its text done -> (content_part.done) -> output_item.done
 *     -> response.completed | response.incomplete | error
 *
 * Source: https://platform.openai.com/docs/api-reference/responses-streaming, and `ResponseStreamEvent` of openai 6
 */
import type { StreamChunk } from "../../providers/streams/event_reader.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import type { CallAnswer } from "./calls.ts";
import { type ResponseNote, responseOf } from "./response_object.ts";
import type { StreamEvent, StreamFailure, StreamShape } from "./stream_shape.ts";

/** What is known of a response before its answer. */
export interface ResponseHead {
  /** Of the response. */
  readonly id: string;
  readonly createdSeconds: number;
  readonly note: ResponseNote;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

/** An output of the response while it grows. */
interface GrowingOutput {
  readonly index: number;
  readonly id: string;
  readonly kind: "reasoning" | "message" | "function_call";
  text: string;
}

/** What the deltas of each kind are called, and where in the output they belong. */
const DELTAS = {
  reasoning: { delta: "response.reasoning_summary_text", place: { summary_index: 0 }, member: "text" },
  message: { delta: "response.output_text", place: { content_index: 0 }, member: "text" },
  function_call: { delta: "response.function_call_arguments", place: {}, member: "arguments" },
} as const;

export function responseEvent(type: string, sequence: number, members: object): StreamEvent {
  return { name: type, data: JSON.stringify({ type, sequence_number: sequence, ...members }) };
}

/** One for a call. */
export class ResponseEvents implements StreamShape {
  readonly #head: ResponseHead;
  readonly #outputs = new Map<string, GrowingOutput>();
  #sequence = 0;

  constructor(head: ResponseHead) {
    this.#head = head;
  }

  part({ json }: StreamChunk): readonly StreamEvent[] {
    const events = this.#begin();
    const { choices } = JSON.parse(json) as { readonly choices?: readonly JsonObject[] }; // a chunk that was read before
    const delta = choices?.[0]?.["delta"];
    if (!isObject(delta)) return events;
    const { reasoning_content: thought, content, tool_calls: calls } = delta;
    if (typeof thought === "string" && thought !== "")
      events.push(...this.#grow("reasoning", "rs_", thought));
    if (typeof content === "string" && content !== "") events.push(...this.#grow("message", "msg_", content));
    for (const call of Array.isArray(calls) ? (calls as readonly JsonObject[]) : [])
      events.push(...this.#called(call));
    return events;
  }

  whole(answer: CallAnswer): readonly StreamEvent[] {
    const { output, reasoning, tool_calls: calls = [] } = answer.object;
    const delta = {
      reasoning_content: reasoning,
      content: output.text,
      tool_calls: calls.map((call, index) => ({ ...(call as object), index })),
    };
    const json = JSON.stringify({ choices: [{ delta }] });
    return [...this.part({ json, isUsage: false }), ...this.ended(answer)];
  }

  ended({ task, object }: CallAnswer): readonly StreamEvent[] {
    const events = this.#begin();
    const response = responseOf(task, object, this.#head.note) as {
      readonly status: string;
      readonly output: readonly { readonly id: string }[];
    };
    const placeOf = ({ id }: { readonly id: string }): number =>
      this.#outputs.get(id)?.index ?? this.#outputs.size;
    const output = response.output.toSorted((one, other) => placeOf(one) - placeOf(other));
    for (const item of output) events.push(...this.#done(item));
    const type = response.status === "incomplete" ? "response.incomplete" : "response.completed";
    return [...events, this.#event(type, { response: { ...response, output } })];
  }

  failed({ code, message }: StreamFailure): readonly StreamEvent[] {
    return [...this.#begin(), this.#event("error", { code, message, param: null, error: { code, message } })];
  }

  /** Those before the first part. */
  #begin(): StreamEvent[] {
    if (this.#sequence > 0) return [];
    const { id, createdSeconds, note, metadata = {} } = this.#head;
    const response = {
      ...{ id, object: "response", created_at: createdSeconds, status: "in_progress" },
      ...{ background: note.isBackground, error: null, incomplete_details: null, model: note.model },
      ...{ output: [], usage: null, metadata, instructions: null, tools: [], tool_choice: "auto" },
      ...{ parallel_tool_calls: true, temperature: null, top_p: null, previous_response_id: null },
    };
    return [this.#event("response.created", { response }), this.#event("response.in_progress", { response })];
  }

  #called({ index, id: callId, function: called }: JsonObject): readonly StreamEvent[] {
    const { name = "", arguments: given = "" } = isObject(called) ? called : {};
    return this.#grow("function_call", "fc_", String(given), String(index ?? 0), {
      call_id: callId ?? "",
      name,
    });
  }

  #grow(
    kind: GrowingOutput["kind"],
    prefix: string,
    text: string,
    suffix = "",
    members: object = {},
  ): readonly StreamEvent[] {
    const id = `${prefix}${this.#head.id.replace(/^resp_/, "")}${suffix}`; // as `responseOf` names it
    const known = this.#outputs.get(id);
    const output = known ?? { index: this.#outputs.size, id, kind, text: "" };
    const events = known === undefined ? this.#added(output, members) : [];
    output.text += text;
    if (text === "") return events;
    const { delta, place } = DELTAS[kind];
    const where = { item_id: id, output_index: output.index, ...place };
    return [...events, this.#event(`${delta}.delta`, { ...where, delta: text, ...logprobsOf(kind) })];
  }

  #added(output: GrowingOutput, members: object): readonly StreamEvent[] {
    const { id, kind, index } = output;
    this.#outputs.set(id, output);
    const empty = {
      reasoning: { summary: [] },
      message: { role: "assistant", status: "in_progress", content: [] },
      function_call: { ...members, arguments: "", status: "in_progress" },
    }[kind];
    const item = this.#event("response.output_item.added", {
      output_index: index,
      item: { type: kind, id, ...empty },
    });
    return kind === "function_call" ? [item] : [item, this.#partEvent(output, "added")];
  }

  #partEvent({ id, kind, index, text }: GrowingOutput, step: "added" | "done"): StreamEvent {
    const name = kind === "message" ? "content_part" : "reasoning_summary_part";
    const part =
      kind === "message"
        ? { type: "output_text", text, annotations: [], logprobs: [] }
        : { type: "summary_text", text };
    const where = { item_id: id, output_index: index, ...DELTAS[kind].place };
    return this.#event(`response.${name}.${step}`, { ...where, part });
  }

  #done(item: { readonly id: string }): readonly StreamEvent[] {
    const output = this.#outputs.get(item.id);
    if (output === undefined) return [];
    const { delta, place, member } = DELTAS[output.kind];
    const where = { item_id: item.id, output_index: output.index, ...place };
    const name = output.kind === "function_call" ? { name: (item as { readonly name?: string }).name } : {};
    const text = this.#event(`${delta}.done`, {
      ...{ ...where, ...name, [member]: output.text },
      ...logprobsOf(output.kind),
    });
    const part = output.kind === "function_call" ? [] : [this.#partEvent(output, "done")];
    return [text, ...part, this.#event("response.output_item.done", { output_index: output.index, item })];
  }

  #event(type: string, members: object): StreamEvent {
    const event = responseEvent(type, this.#sequence, members);
    this.#sequence += 1;
    return event;
  }
}

function logprobsOf(kind: GrowingOutput["kind"]): object {
  return kind === "message" ? { logprobs: [] } : {};
}
