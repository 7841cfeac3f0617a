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
  /** Of a thought: what proves it to the provider. */
  signature: string;
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
  /** Those since the last tool call, which the next one takes along. */
  #thoughts: Block[] = [];
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
      case "content_block_stop":
        return this.#ended(Number(event["index"]));
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
    const signature = stringOf(start["signature"]) ?? "";
    const block = { start, text, signature, call: isCall ? this.#calls : -1 };
    this.#blocks.set(index, block);
    if (isCall) return this.#called(block);
    if (isThought(block)) this.#thoughts.push(block);
    return text === "" ? [] : this.#shown(block, text);
  }

  #called({ start, call: index }: Block): readonly StreamChunk[] {
    const thoughts = this.#thoughts.map(wholeBlock);
    this.#thoughts = [];
    this.#calls += 1;
    const called = { name: start["name"], arguments: "" };
    const back = thoughts.length === 0 ? {} : { extra_content: { anthropic: { thinking_blocks: thoughts } } };
    const call = { index, id: start["id"], type: "function", function: called, ...back };
    return [chunkOf(this.#head, { tool_calls: [call] })];
  }

  #grew(index: number, delta: Unchecked): readonly StreamChunk[] {
    const block = this.#blocks.get(index);
    if (block !== undefined) block.signature += stringOf(delta["signature"]) ?? "";
    const text =
      stringOf(delta["text"]) ?? stringOf(delta["thinking"]) ?? stringOf(delta["partial_json"]) ?? "";
    if (block === undefined || text === "") return [];
    block.text += text;
    return this.#shown(block, text);
  }

  /** A call without arguments has no text for them, which callers parse as JSON. */
  #ended(index: number): readonly StreamChunk[] {
    const block = this.#blocks.get(index);
    return block !== undefined && block.call >= 0 && block.text === "" ? this.#shown(block, "{}") : [];
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

function isThought({ start }: Block): boolean {
  return start["type"] === "thinking" || start["type"] === "redacted_thinking";
}

/** A block as it would have been without streaming. */
function wholeBlock({ start, text, signature, call }: Block): object {
  if (call >= 0) return { ...start, input: eventOf(text === "" ? "{}" : text) ?? {} };
  if (start["type"] === "thinking")
    return { ...start, thinking: text, ...(signature === "" ? {} : { signature }) };
  return start["type"] === "text"
    ? { ...start, text, citations: arrayOf(start["citations"]) ?? null }
    : start;
}
