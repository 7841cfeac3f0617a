/**
 * A streamed chat completion of OpenAI's protocol: its chunks are passed on as they are, and put together.
 *
 * Source: https://platform.openai.com/docs/api-reference/chat-streaming
 */
import { arrayOf, objectOf, stringOf, type Unchecked } from "../json.ts";
import { eventOf } from "./chunks.ts";
import type { EventReader, StreamChunk } from "./event_reader.ts";

/** Texts of a message that arrive in parts. */
const TEXTS = ["content", "refusal", "reasoning_content", "reasoning"] as const;

interface ToolCall {
  id: string | undefined;
  name: string;
  text: string;
}

/** One for an answer. */
export class OpenaiStream implements EventReader {
  isEnded = false;
  #first: Unchecked = {};
  readonly #texts: Partial<Record<(typeof TEXTS)[number], string>> = {};
  readonly #calls = new Map<number, ToolCall>();
  readonly #logprobs: unknown[] = [];
  #finish: unknown;
  #usage: unknown;
  #error: unknown;
  #tier: unknown;

  read(data: string): readonly StreamChunk[] {
    if (data === "[DONE]") {
      this.isEnded = true;
      return [];
    }
    const chunk = eventOf(data);
    if (chunk === undefined) return [];
    if (this.#first["id"] === undefined) this.#first = chunk;
    this.#usage = objectOf(chunk["usage"]) ?? this.#usage;
    this.#tier = chunk["service_tier"] ?? this.#tier;
    if (chunk["error"] !== undefined && chunk["error"] !== null) {
      this.#error = chunk["error"];
      this.isEnded = true;
      return [];
    }
    const choices = arrayOf(chunk["choices"]) ?? [];
    for (const choice of choices) this.#note(objectOf(choice));
    const isUsage = choices.length === 0 && objectOf(chunk["usage"]) !== undefined;
    return [{ json: data.includes("\n") ? JSON.stringify(chunk) : data, isUsage }];
  }

  whole(): object {
    const { id, model, created, system_fingerprint } = this.#first;
    if (this.#error !== undefined) return { id, model, error: this.#error, usage: this.#usage };
    const calls = [...this.#calls.values()].map(({ id: callId, name, text }) => ({
      id: callId,
      type: "function",
      function: { name, arguments: text },
    }));
    const message = {
      role: "assistant",
      content: null,
      ...this.#texts,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
    const logprobs = this.#logprobs.length === 0 ? null : { content: this.#logprobs };
    const choices = [{ index: 0, message, logprobs, finish_reason: this.#finish ?? null }];
    const head = { id, object: "chat.completion", created, model, system_fingerprint };
    return { ...head, choices, usage: this.#usage, service_tier: this.#tier };
  }

  #note(choice: Unchecked | undefined): void {
    if (choice === undefined || (choice["index"] ?? 0) !== 0) return;
    const reason = choice["finish_reason"] ?? undefined;
    if (reason !== undefined) {
      this.#finish = reason;
      this.isEnded = true;
    }
    this.#logprobs.push(...(arrayOf(objectOf(choice["logprobs"])?.["content"]) ?? []));
    const delta = objectOf(choice["delta"]);
    for (const name of TEXTS) {
      const text = textOf(delta?.[name]);
      if (text !== undefined) this.#texts[name] = (this.#texts[name] ?? "") + text;
    }
    for (const call of arrayOf(delta?.["tool_calls"]) ?? []) this.#noteCall(objectOf(call));
  }

  #noteCall(part: Unchecked | undefined): void {
    const called = objectOf(part?.["function"]);
    const index = Number(part?.["index"] ?? 0);
    const known = this.#calls.get(index) ?? { id: undefined, name: "", text: "" };
    known.id ??= stringOf(part?.["id"]);
    known.name += stringOf(called?.["name"]) ?? "";
    known.text += stringOf(called?.["arguments"]) ?? "";
    this.#calls.set(index, known);
  }
}

/** A text, or Mistral's chunks of one. */
function textOf(value: unknown): string | undefined {
  const parts = arrayOf(value);
  return parts === undefined
    ? stringOf(value)
    : parts.map((part) => stringOf(objectOf(part)?.["text"]) ?? "").join("");
}
