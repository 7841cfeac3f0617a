/**
 * A streamed answer of Gemini: each event is a response with the parts that are new; as OpenAI's chunks, and put together to one.
 *
 * It has no event for the end: the last response has a `finishReason`, or says that the prompt was blocked.
 * Source: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
 */
import { jsonOf } from "../../work/json.ts";
import { FILTERED } from "../codecs/gemini.ts";
import { arrayOf, firstByIndex, objectOf, stringOf, type Unchecked } from "../json.ts";
import { geminiUsage } from "../usage.ts";
import { type ChunkHead, chunkOf, eventOf, usageChunk } from "./chunks.ts";
import type { EventReader, StreamChunk } from "./event_reader.ts";

/** One for an answer. */
export class GeminiStream implements EventReader {
  isEnded = false;
  readonly #createdSeconds: number;
  #last: Unchecked = {};
  #candidate: Unchecked = {};
  readonly #parts: Unchecked[] = [];
  #calls = 0;
  #hasBegun = false;

  constructor(createdSeconds: number) {
    this.#createdSeconds = createdSeconds;
  }

  read(data: string): readonly StreamChunk[] {
    const event = eventOf(data);
    if (event === undefined) return [];
    this.#last = { ...this.#last, ...event };
    if (event["error"] !== undefined || objectOf(event["promptFeedback"])?.["blockReason"] !== undefined) {
      this.isEnded = true;
      return [];
    }
    const candidate = objectOf(firstByIndex(arrayOf(event["candidates"]) ?? [])) ?? {};
    this.#candidate = { ...this.#candidate, ...candidate };
    const chunks = (arrayOf(objectOf(candidate["content"])?.["parts"]) ?? []).flatMap((part) =>
      this.#grew(objectOf(part) ?? {}),
    );
    const reason = candidate["finishReason"];
    return reason === undefined ? chunks : [...chunks, ...this.#end(reason)];
  }

  get isDone(): boolean {
    return this.#last["error"] !== undefined;
  }

  whole(): object {
    return this.isDone ? this.#last : this.seen();
  }

  seen(): object {
    const { error: _, ...last } = this.#last;
    const hasCandidate = Object.keys(this.#candidate).length > 0;
    const candidates = hasCandidate
      ? [{ ...this.#candidate, content: { role: "model", parts: this.#parts } }]
      : undefined;
    return { ...last, candidates };
  }

  get #head(): ChunkHead {
    return {
      id: stringOf(this.#last["responseId"]) ?? "",
      model: stringOf(this.#last["modelVersion"]) ?? "",
      createdSeconds: this.#createdSeconds,
    };
  }

  #grew(part: Unchecked): readonly StreamChunk[] {
    const role = this.#hasBegun ? {} : { role: "assistant" };
    this.#hasBegun = true;
    this.#keep(part);
    const called = objectOf(part["functionCall"]);
    if (called !== undefined) {
      const index = this.#calls;
      this.#calls += 1;
      const call = { name: called["name"], arguments: jsonOf(called["args"] ?? {}) ?? "{}" };
      const id = stringOf(called["id"]) ?? `call_${this.#calls}`; // as in its whole answer
      const signature = stringOf(part["thoughtSignature"]);
      const back =
        signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } };
      const made = { index, id, type: "function", function: call, ...back };
      return [chunkOf(this.#head, { ...role, tool_calls: [made] })];
    }
    const text = stringOf(part["text"]) ?? "";
    if (text === "") return [];
    return [
      chunkOf(this.#head, { ...role, [part["thought"] === true ? "reasoning_content" : "content"]: text }),
    ];
  }

  /** Texts of one kind in a row are one part, so that a long answer is not a list of words. */
  #keep(part: Unchecked): void {
    const last = this.#parts.at(-1);
    const isMore =
      last !== undefined &&
      isOnlyText(last) &&
      isOnlyText(part) &&
      (last["thought"] === true) === (part["thought"] === true);
    if (!isMore) this.#parts.push(part);
    else
      this.#parts[this.#parts.length - 1] = {
        ...last,
        text: `${String(last["text"])}${String(part["text"])}`,
      };
  }

  #end(reason: unknown): readonly StreamChunk[] {
    this.isEnded = true;
    const usage = geminiUsage(this.#last["usageMetadata"]);
    const last = chunkOf(this.#head, {}, this.#reasonOf(reason));
    return usage === undefined ? [last] : [last, usageChunk(this.#head, usage)];
  }

  #reasonOf(reason: unknown): string {
    if (reason === "MAX_TOKENS") return "length";
    if (FILTERED.has(reason)) return "content_filter";
    return this.#calls > 0 ? "tool_calls" : "stop";
  }
}

function isOnlyText(part: Unchecked): boolean {
  return (
    Object.keys(part).every((name) => name === "text" || name === "thought") &&
    typeof part["text"] === "string"
  );
}
