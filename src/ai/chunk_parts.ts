/**
 * What the chunks of an answer, in OpenAI's form, are as parts of a stream of the AI SDK.
 *
 *   reasoning     reasoning-start, reasoning-delta ..., reasoning-end
 *   text          text-start, text-delta ..., text-end         also of a refusal, where no text is before it
 *   a tool call   tool-input-start, tool-input-delta ..., tool-input-end; the call itself is of the recorded answer
 *
 * Only the first answer of several is passed on, as in a whole one.
 * Source: https://platform.openai.com/docs/api-reference/chat-streaming, `LanguageModelV3StreamPart` (@ai-sdk/provider 3.0.19)
 */
import { isList, isObject, type Json, type JsonObject } from "../work/json.ts";

/** A part that no version of the specification has in another form. */
export type DeltaPart =
  | { type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end" | "tool-input-end"; id: string }
  | { type: "text-delta" | "reasoning-delta" | "tool-input-delta"; id: string; delta: string }
  | { type: "tool-input-start"; id: string; toolName: string };

type Kind = "text" | "reasoning";

/** One for an answer. */
export class ChunkParts {
  /** Kinds of which something was passed on. */
  readonly seen: Set<Kind> = new Set();
  #open: { readonly kind: Kind; readonly id: string } | undefined;
  #opened = 0;
  /** Whether a part of its text has arrived; a refusal is passed on where none has. */
  #hasSaid = false;
  /** Ids of tool calls that are being made, by their index. */
  readonly #inputs = new Map<unknown, string>();

  /** The parts of the next chunk. */
  of(chunk: JsonObject): readonly DeltaPart[] {
    const choices = listOf(chunk["choices"]).filter(isObject);
    const delta = choices.find(({ index = 0 }) => index === 0)?.["delta"];
    if (!isObject(delta)) return [];
    const thought = delta["reasoning_content"] ?? delta["reasoning"];
    const said = textOf(delta["content"]);
    this.#hasSaid ||= said !== "";
    const refused = this.#hasSaid ? "" : textOf(delta["refusal"]);
    return [
      ...this.#grew("reasoning", textOf(thought)),
      ...this.#grew("text", said === "" ? refused : said),
      ...listOf(delta["tool_calls"])
        .filter(isObject)
        .flatMap((call) => this.#called(call)),
    ];
  }

  /** What ends those that are open. */
  end(): readonly DeltaPart[] {
    const inputs = [...this.#inputs.values()].map((id): DeltaPart => ({ type: "tool-input-end", id }));
    this.#inputs.clear();
    return [...this.#closed(), ...inputs];
  }

  /** A text that is whole. */
  whole(kind: Kind, text: string): readonly DeltaPart[] {
    return [...this.#closed(), ...this.#grew(kind, text), ...this.#closed()];
  }

  #grew(kind: Kind, delta: string): readonly DeltaPart[] {
    if (delta === "") return [];
    this.seen.add(kind);
    if (this.#open?.kind === kind) return [{ type: `${kind}-delta`, id: this.#open.id, delta }];
    const before = this.#closed();
    const id = String(this.#opened);
    this.#opened += 1;
    this.#open = { kind, id };
    return [...before, { type: `${kind}-start`, id }, { type: `${kind}-delta`, id, delta }];
  }

  #closed(): readonly DeltaPart[] {
    const open = this.#open;
    this.#open = undefined;
    return open === undefined ? [] : [{ type: `${open.kind}-end`, id: open.id }];
  }

  /** A call without an id at its begin is passed on when it is whole. */
  #called({ index = 0, id, function: called }: JsonObject): readonly DeltaPart[] {
    if (!isObject(called)) return [];
    const { name, arguments: text } = called;
    const parts: DeltaPart[] = [];
    if (typeof id === "string" && typeof name === "string" && !this.#inputs.has(index)) {
      this.#inputs.set(index, id);
      parts.push(...this.#closed(), { type: "tool-input-start", id, toolName: name });
    }
    const known = this.#inputs.get(index);
    if (known !== undefined && typeof text === "string" && text !== "")
      parts.push({ type: "tool-input-delta", id: known, delta: text });
    return parts;
  }
}

function listOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}

/** A text, or Mistral's list of its parts. */
function textOf(value: Json | undefined): string {
  if (typeof value === "string") return value;
  return listOf(value)
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .join("");
}
