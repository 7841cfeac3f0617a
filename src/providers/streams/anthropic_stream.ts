/**
 * A streamed message of Anthropic: its events as OpenAI's chunks, and put together to a message.
 *
 *   message_start -> (content_block_start -> content_block_delta ... -> content_block_stop) ... -> message_delta -> message_stop
 *   error at any time
 *
 * Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming, and @anthropic-ai/sdk 1.11
 */
import { arrayOf, objectOf, stringOf, type Unchecked } from "../json.ts";
import { anthropicUsage } from "../usage.ts";
import { type ChunkHead, chunkOf, eventOf, usageChunk } from "./chunks.ts";
import type { EventReader, StreamChunk } from "./event_reader.ts";

interface Block {
  readonly start: Unchecked;
  text: string;
  /** Of a tool call: its place among them. */
  readonly call: number;
}

const REASONS: Readonly<Record<string, string>> = {
  max_tokens: "length",
  model_context_window_exceeded: "length",
  pause_turn: "length",
  tool_use: "tool_calls",
};

/** One for an answer. */
export class AnthropicStream implements EventReader {
  isEnded = false;
  readonly #createdSeconds: number;
  #message: Unchecked = {};
  readonly #blocks = new Map<number, Block>();
  #calls = 0;
  #stop: Unchecked = {};
  #usage: Unchecked = {};
  #error: unknown;

  constructor(createdSeconds: number) {
    this.#createdSeconds = createdSeconds;
  }

  read(data: string): readonly StreamChunk[] {
    const event = eventOf(data);
    switch (event?.["type"]) {
      case "message_start":
        this.#message = objectOf(event["message"]) ?? {};
        this.#usage = objectOf(this.#message["usage"]) ?? {};
        return [chunkOf(this.#head, { role: "assistant", content: "" })];
      case "content_block_start":
        return this.#began(Number(event["index"]), objectOf(event["content_block"]) ?? {});
      case "content_block_delta":
        return this.#grew(Number(event["index"]), objectOf(event["delta"]) ?? {});
      case "message_delta":
        this.#stop = objectOf(event["delta"]) ?? {};
        this.#usage = { ...this.#usage, ...objectOf(event["usage"]) };
        return [];
      case "message_stop":
        return this.#end();
      case "error":
        this.#error = event["error"];
        this.isEnded = true;
        return [];
      default:
        return [];
    }
  }

  get isDone(): boolean {
    return this.isEnded;
  }

  whole(): object {
    return { ...this.seen(), ...(this.#error === undefined ? {} : { error: this.#error }) };
  }

  seen(): object {
    const content = [...this.#blocks.values()].map(wholeBlock);
    return { ...this.#message, content, ...this.#stop, usage: this.#usage };
  }

  get #head(): ChunkHead {
    return {
      id: stringOf(this.#message["id"]) ?? "",
      model: stringOf(this.#message["model"]) ?? "",
      createdSeconds: this.#createdSeconds,
    };
  }

  #began(index: number, start: Unchecked): readonly StreamChunk[] {
    const isCall = start["type"] === "tool_use";
    const text = stringOf(start["text"]) ?? stringOf(start["thinking"]) ?? "";
    const block = { start, text, call: isCall ? this.#calls : -1 };
    this.#blocks.set(index, block);
    if (isCall) {
      this.#calls += 1;
      const called = { name: start["name"], arguments: "" };
      const call = { index: block.call, id: start["id"], type: "function", function: called };
      return [chunkOf(this.#head, { tool_calls: [call] })];
    }
    return text === "" ? [] : this.#shown(block, text);
  }

  #grew(index: number, delta: Unchecked): readonly StreamChunk[] {
    const block = this.#blocks.get(index);
    const text =
      stringOf(delta["text"]) ?? stringOf(delta["thinking"]) ?? stringOf(delta["partial_json"]) ?? "";
    if (block === undefined || text === "") return [];
    block.text += text;
    return this.#shown(block, text);
  }

  #shown({ start, call }: Block, text: string): readonly StreamChunk[] {
    if (call >= 0)
      return [chunkOf(this.#head, { tool_calls: [{ index: call, function: { arguments: text } }] })];
    if (start["type"] === "thinking") return [chunkOf(this.#head, { reasoning_content: text })];
    return start["type"] === "text" ? [chunkOf(this.#head, { content: text })] : [];
  }

  #end(): readonly StreamChunk[] {
    this.isEnded = true;
    const reason = REASONS[stringOf(this.#stop["stop_reason"]) ?? ""] ?? "stop";
    const usage = anthropicUsage(this.#usage);
    const last = chunkOf(this.#head, {}, reason);
    return usage === undefined ? [last] : [last, usageChunk(this.#head, usage)];
  }
}

/** A block as it would have been without streaming. */
function wholeBlock({ start, text, call }: Block): object {
  if (call >= 0) return { ...start, input: eventOf(text === "" ? "{}" : text) ?? {} };
  if (start["type"] === "thinking") return { ...start, thinking: text };
  return start["type"] === "text"
    ? { ...start, text, citations: arrayOf(start["citations"]) ?? null }
    : start;
}
