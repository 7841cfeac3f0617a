/**
 * A streamed response of OpenAI: its events are passed on as they are; the last one has the whole response.
 *
 *   open -> ended: response.completed, response.incomplete, response.failed, or error
 *
 * What is billed of a response that is broken off is estimated from the texts that had arrived.
 * Source: https://platform.openai.com/docs/api-reference/responses-streaming, and `ResponseStreamEvent` of openai 6
 */
import { objectOf, stringOf, type Unchecked } from "../json.ts";
import { eventOf } from "./chunks.ts";
import type { EventReader, StreamChunk } from "./event_reader.ts";

const LAST: ReadonlySet<unknown> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);
/** Events with a part of a text, and the output that it is a part of. */
const PARTS: ReadonlyMap<unknown, "text" | "reasoning" | "arguments"> = new Map([
  ["response.output_text.delta", "text"],
  ["response.refusal.delta", "text"],
  ["response.reasoning_summary_text.delta", "reasoning"],
  ["response.reasoning_text.delta", "reasoning"],
  ["response.function_call_arguments.delta", "arguments"],
] as const);

export class ResponseStream implements EventReader {
  isEnded = false;
  #response: Unchecked = {};
  #error: unknown;
  readonly #texts = { text: "", reasoning: "", arguments: "" };

  read(data: string): readonly StreamChunk[] {
    const event = eventOf(data);
    const type = stringOf(event?.["type"]);
    if (event === undefined || type === undefined) return [];
    if (type === "error") {
      this.#error = objectOf(event["error"]) ?? event;
      this.isEnded = true;
      return [];
    }
    this.#response = objectOf(event["response"]) ?? this.#response;
    const part = PARTS.get(type);
    if (part !== undefined) this.#texts[part] += stringOf(event["delta"]) ?? "";
    this.isEnded ||= LAST.has(type);
    return [{ json: data.includes("\n") ? JSON.stringify(event) : data, isUsage: false }];
  }

  whole(): object {
    if (this.#error !== undefined) return { ...this.#response, error: this.#error };
    return this.isEnded ? this.#response : this.seen();
  }

  get isDone(): boolean {
    return this.isEnded;
  }

  seen(): object {
    return { ...this.#response, error: null, status: "incomplete", output: this.#outputs() };
  }

  #outputs(): readonly object[] {
    const { text, reasoning, arguments: given } = this.#texts;
    const summary = [{ type: "summary_text", text: reasoning }];
    const content = [{ type: "output_text", text }];
    return [
      ...(reasoning === "" ? [] : [{ type: "reasoning", summary }]),
      ...(text === "" ? [] : [{ type: "message", role: "assistant", content }]),
      ...(given === "" ? [] : [{ type: "function_call", name: "", arguments: given }]),
    ];
  }
}
