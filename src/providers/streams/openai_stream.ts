/**
 * A streamed chat completion of OpenAI's protocol: its chunks are passed on as they are, and put together.
 *
 *   open -> ended: [DONE], an error, or a finish reason in each of its choices
 *
 * Source: https://platform.openai.com/docs/api-reference/chat-streaming
 */
import { arrayOf, countOf, objectOf, stringOf, type Unchecked } from "../json.ts";
import type { EventReader, StreamChunk } from "./event_reader.ts";
import { OpenaiChunks } from "./openai_chunks.ts";

/** Texts of a message that arrive in parts. */
const TEXTS = ["content", "refusal", "reasoning_content", "reasoning"] as const;
/** Choices of an answer that are kept; perigee asks for 8 at most. */
const CHOICES_MAX = 16;

interface ToolCall {
  id: string | undefined;
  name: string;
  text: string;
}

/** One for an answer. */
export class OpenaiStream implements EventReader {
  readonly #chunks = new OpenaiChunks();
  readonly #choices = new Map<number, StreamedChoice>();

  get isEnded(): boolean {
    return this.#chunks.isEnded;
  }

  get isDone(): boolean {
    return this.#chunks.isDone;
  }

  read(data: string): readonly StreamChunk[] {
    return this.#chunks.read(data, (choices) => {
      for (const choice of choices) this.#note(objectOf(choice));
    });
  }

  whole(): object {
    return this.#chunks.whole(() => this.seen());
  }

  seen(): object {
    const { id, model, created, system_fingerprint } = this.#chunks.first;
    const seen = this.#choices.size === 0 ? [[0, new StreamedChoice()] as const] : [...this.#choices];
    const choices = seen.toSorted(([one], [other]) => one - other).map(([index, each]) => each.whole(index));
    const head = { id, object: "chat.completion", created, model, system_fingerprint };
    return { ...head, choices, usage: this.#chunks.usage, service_tier: this.#chunks.tier };
  }

  #note(choice: Unchecked | undefined): void {
    const index = countOf(choice?.["index"] ?? 0);
    if (choice === undefined || index === undefined || index >= CHOICES_MAX) return;
    const known = this.#choices.get(index) ?? new StreamedChoice();
    this.#choices.set(index, known);
    known.grow(choice);
    this.#chunks.isEnded ||= [...this.#choices.values()].every(({ isEnded }) => isEnded);
  }
}

/** A choice as far as it has arrived. */
class StreamedChoice {
  readonly #texts: Partial<Record<(typeof TEXTS)[number], string>> = {};
  readonly #calls = new Map<number, ToolCall>();
  readonly #logprobs: unknown[] = [];
  #finish: unknown;

  get isEnded(): boolean {
    return this.#finish !== undefined;
  }

  grow(choice: Unchecked): void {
    this.#finish = choice["finish_reason"] ?? this.#finish;
    for (const each of arrayOf(objectOf(choice["logprobs"])?.["content"]) ?? []) this.#logprobs.push(each);
    const delta = objectOf(choice["delta"]);
    for (const name of TEXTS) {
      const text = textOf(delta?.[name]);
      if (text !== undefined) this.#texts[name] = (this.#texts[name] ?? "") + text;
    }
    for (const call of arrayOf(delta?.["tool_calls"]) ?? []) this.#noteCall(objectOf(call));
  }

  whole(index: number): object {
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
    return { index, message, logprobs, finish_reason: this.#finish ?? null };
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
