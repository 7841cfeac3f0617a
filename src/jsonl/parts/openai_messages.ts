/**
 * The messages of OpenAI's layout as turns.
 *
 *   system, developer        the system instruction; only before the conversation
 *   user                     text, image_url (address or data:), input_audio, file (file_data or file_id)
 *   assistant                text, then tool_calls; `extra_content` of a call has what Gemini and Claude demand back
 *   tool                     a result; those of successive messages are in one turn
 *
 * What turns cannot hold is not a fault, because servers of OpenAI's protocol are sent the body unchanged: the first such place is
 * `unheld`. The names of what need not be held are in `leftOut`: `cache_control`, which changes only the price, and the thoughts of an
 * earlier answer as text, which clients send back with it (the AI SDK does). No provider of another protocol reads those again.
 */
import { asksNothing } from "../../work/chat_message.ts";
import { isList, isObject, type JsonObject } from "../../work/json.ts";
import type {
  JsonValue,
  MediaPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
  TurnPart,
} from "../../work/request.ts";
import { LineFault, shown, wrongContents } from "../fault.ts";
import { isText, markNumbers } from "../numbers.ts";
import { mediaPart, sourceOfAddress } from "./media.ts";

/** Messages as turns. */
export interface Conversation {
  readonly system: readonly string[];
  readonly turns: readonly Turn[];
  /** The first place that turns cannot hold, or a sentence that names it. */
  readonly unheld?: string;
  /** Names of members that are left out of the turns: none of them changes the answer. */
  readonly leftOut: readonly string[];
  /** Arguments of a call hold numbers that are marked (`numbers.ts`). */
  readonly hasExactNumbers: boolean;
}

const CACHE = "cache_control";
/** What servers call the thoughts of their answers. */
const THOUGHTS = ["reasoning_content", "reasoning"] as const;
const NONE: readonly string[] = [];

/** Reads the messages of a chat. */
export function readMessages(messages: JsonValue | undefined): Conversation | LineFault {
  if (!isList(messages)) return wrongContents("messages", "an array", messages);
  if (messages.length === 0) return new LineFault("invalid_contents", "messages is empty");
  const reading = new Reading();
  for (const [index, message] of messages.entries()) {
    const fault = reading.add(message, `messages[${index}]`);
    if (fault !== undefined) return fault;
  }
  return reading.conversation();
}

/** The conversation as far as it was read. */
class Reading {
  readonly #system: string[] = [];
  readonly #turns: { role: "user" | "model"; parts: TurnPart[] }[] = [];
  /** Names of functions by the ids of their calls: results have only the ids. */
  #names: Map<string, string> | undefined;
  #unheld: string | undefined;
  #leftOut: readonly string[] = NONE;
  #hasExactNumbers = false;
  /** Whether the last message was the result of a tool. */
  #isAfterResult = false;

  /** Returns why the messages cannot be those of a chat. */
  add(message: JsonValue, where: string): LineFault | undefined {
    if (!isObject(message)) return wrongContents(where, "an object", message);
    const role = message["role"];
    if (!isText(role)) return wrongContents(`${where}.role`, "a string", role);
    const isAfterResult = this.#isAfterResult;
    this.#isAfterResult = false;
    switch (role) {
      case "system":
      case "developer":
        return this.#addSystem(message, where);
      case "user":
      case "assistant":
        return this.#addTurn(message, role === "user" ? "user" : "model", where);
      case "tool":
        return this.#addResult(message, where, isAfterResult);
      case "function":
        this.#cannotHold(`${where}.role: results of functions have the role "tool"`);
        return undefined;
      default:
        return new LineFault(
          "invalid_contents",
          `${where}.role must be system, developer, user, assistant or tool, got ${shown(role)}`,
        );
    }
  }

  conversation(): Conversation {
    return {
      system: this.#system,
      turns: this.#turns,
      ...(this.#unheld === undefined ? {} : { unheld: this.#unheld }),
      leftOut: this.#leftOut,
      hasExactNumbers: this.#hasExactNumbers,
    };
  }

  #addSystem(message: JsonObject, where: string): LineFault | undefined {
    if (this.#turns.length > 0)
      this.#cannotHold(`${where}: a system message must be before the conversation`);
    this.#checkOthers(message, where, ["role", "content"]);
    const parts = this.#readContent(message["content"], where);
    if (parts instanceof LineFault) return parts;
    for (const [index, part] of parts.entries()) {
      if (typeof part === "string") this.#system.push(part);
      else this.#cannotHold(`${where}.content[${index}]: a system instruction is text`);
    }
    return undefined;
  }

  #addTurn(message: JsonObject, role: "user" | "model", where: string): LineFault | undefined {
    const calls = role === "model" ? message["tool_calls"] : undefined;
    const hasCalls = isList(calls) && calls.length > 0;
    const thoughts = role === "model" ? THOUGHTS.filter((name) => isText(message[name])) : [];
    for (const name of thoughts) if (message[name] !== "") this.#leaveOut(name);
    const carried = ["role", "content", ...thoughts, ...(hasCalls ? ["tool_calls"] : [])];
    this.#checkOthers(message, where, carried);
    const isEmpty = hasCalls && (message["content"] === null || message["content"] === undefined);
    const parts = isEmpty ? [] : this.#readContent(message["content"], where);
    if (parts instanceof LineFault) return parts;
    if (hasCalls)
      for (const [index, call] of calls.entries()) {
        const read = this.#readCall(call, `${where}.tool_calls[${index}]`);
        if (read !== undefined) parts.push(read);
      }
    if (parts.length > 0) this.#turns.push({ role, parts });
    return undefined;
  }

  #addResult(message: JsonObject, where: string, isAfterResult: boolean): LineFault | undefined {
    this.#checkOthers(message, where, ["role", "content", "tool_call_id"]);
    const parts = this.#readContent(message["content"], where);
    if (parts instanceof LineFault) return parts;
    const id = message["tool_call_id"];
    this.#isAfterResult = true;
    if (!isText(id) || id === "") {
      this.#cannotHold(`${where}.tool_call_id: expected the id of a call, got ${shown(id)}`);
      return undefined;
    }
    const name = this.#names?.get(id);
    const content = parts.filter(
      (part): part is string | MediaPart => typeof part === "string" || part.kind === "media",
    );
    const result: ToolResultPart = {
      kind: "tool_result",
      id,
      ...(name === undefined ? {} : { name }),
      content,
    };
    const last = this.#turns.at(-1);
    if (isAfterResult && last !== undefined) last.parts.push(result);
    else this.#turns.push({ role: "user", parts: [result] });
    return undefined;
  }

  #readCall(call: JsonValue, place: string): ToolCallPart | undefined {
    const called = isObject(call) ? call["function"] : undefined;
    if (!isObject(call) || !isObject(called) || (call["type"] ?? "function") !== "function") {
      this.#cannotHold(`${place}: only calls of functions can be translated`);
      return undefined;
    }
    const other = Object.keys(call).find(
      (name) =>
        !["id", "type", "function", "extra_content", "index"].includes(name) &&
        !asksNothing(name, call[name]),
    );
    if (other !== undefined) this.#cannotHold(`${place}.${other}`);
    const { id } = call;
    const { name, arguments: text } = called;
    const args = isText(text) ? this.#argumentsOf(text) : undefined;
    if (!isText(name) || name === "" || args === undefined) {
      const member =
        args === undefined ? "arguments: expected a JSON object as text" : "name: expected a name";
      this.#cannotHold(`${place}.function.${member}`);
      return undefined;
    }
    if (isText(id)) {
      this.#names ??= new Map();
      this.#names.set(id, name);
    }
    return {
      kind: "tool_call",
      ...(isText(id) ? { id } : {}),
      name,
      arguments: args,
      ...this.#demandedBack(call["extra_content"], `${place}.extra_content`),
    };
  }

  /** An empty text is a call without arguments, as some servers write it. */
  #argumentsOf(text: string): JsonObject | undefined {
    if (text.trim() === "") return {};
    try {
      const marked = markNumbers(text);
      const value: unknown = JSON.parse(marked);
      if (marked !== text) this.#hasExactNumbers = true;
      return isObject(value) ? value : undefined;
    } catch {
      return undefined;
    }
  }

  /** `{ google: { thought_signature } }`, as Google's own servers of OpenAI's protocol have it, or `{ anthropic: { thinking_blocks } }`. */
  #demandedBack(
    extra: JsonValue | undefined,
    place: string,
  ): Pick<ToolCallPart, "thoughtSignature" | "thinkingBlocks"> {
    if (extra === undefined || extra === null) return {};
    const { google, anthropic, ...others } = isObject(extra) ? extra : { given: extra };
    const signature = isObject(google) ? google["thought_signature"] : undefined;
    const blocks = isObject(anthropic) ? anthropic["thinking_blocks"] : undefined;
    const hasOthers = Object.keys(others).length > 0;
    if (
      hasOthers ||
      (google !== undefined && !isText(signature)) ||
      (anthropic !== undefined && !isList(blocks))
    ) {
      this.#cannotHold(place);
      return {};
    }
    return {
      ...(isText(signature) ? { thoughtSignature: signature } : {}),
      ...(isList(blocks) ? { thinkingBlocks: blocks } : {}),
    };
  }

  /** The parts of a message's content. */
  #readContent(content: JsonValue | undefined, where: string): TurnPart[] | LineFault {
    if (isText(content)) return [content];
    if (content === undefined || content === null) {
      this.#cannotHold(`${where}.content: expected a text or parts`);
      return [];
    }
    if (!isList(content)) return wrongContents(`${where}.content`, "a string or an array", content);
    if (content.length === 0) return new LineFault("invalid_contents", `${where}.content is empty`);
    const parts: TurnPart[] = [];
    for (const [index, part] of content.entries()) {
      const place = `${where}.content[${index}]`;
      if (!isObject(part)) return wrongContents(place, "an object", part);
      if (part["type"] !== "text") {
        const medium = this.#readMedium(part, place);
        if (medium !== undefined) parts.push(medium);
        continue;
      }
      const text = part["text"];
      if (!isText(text)) return wrongContents(`${place}.text`, "a string", text);
      this.#checkOthers(part, place, ["type", "text"]);
      parts.push(text);
    }
    return parts;
  }

  #readMedium(part: JsonObject, place: string): MediaPart | undefined {
    const type = part["type"];
    const read =
      type === "image_url"
        ? readImage(part["image_url"], `${place}.image_url`)
        : type === "input_audio"
          ? readAudio(part["input_audio"], `${place}.input_audio`)
          : type === "file"
            ? readFile(part["file"], `${place}.file`)
            : new LineFault("unsupported_request", place);
    if (read instanceof LineFault) {
      this.#cannotHold(read.message);
      return undefined;
    }
    this.#checkOthers(part, place, ["type", String(type)]);
    return read;
  }

  /** Members besides the carried ones, such as the name or the reasoning of a message. */
  #checkOthers(object: JsonObject, place: string, carried: readonly string[]): void {
    for (const name in object) {
      if (carried.includes(name) || asksNothing(name, object[name])) continue;
      if (name === CACHE) this.#leaveOut(name);
      else this.#cannotHold(`${place}.${name.length <= 64 ? name : `${name.slice(0, 64)}...`}`);
    }
  }

  #leaveOut(name: string): void {
    if (!this.#leftOut.includes(name)) this.#leftOut = [...this.#leftOut, name];
  }

  #cannotHold(place: string): void {
    this.#unheld ??= place;
  }
}

/** `{ url, detail }`, or only the address. */
function readImage(given: JsonValue | undefined, place: string): MediaPart | LineFault {
  const { url, detail, ...others } = isObject(given) ? given : { url: given as JsonValue };
  const [other] = Object.keys(others);
  if (other !== undefined) return new LineFault("unsupported_request", `${place}.${other}`);
  if (!isText(url)) return wrongContents(`${place}.url`, "an address", url);
  if (detail !== undefined && detail !== null && !isText(detail))
    return wrongContents(`${place}.detail`, "a string", detail);
  const found = sourceOfAddress(url, `${place}.url`);
  if (found instanceof LineFault) return found;
  return mediaPart({ ...found, type: "image", details: isText(detail) ? { detail } : {} }, place);
}

/** `{ data, format }`. */
function readAudio(given: JsonValue | undefined, place: string): MediaPart | LineFault {
  if (!isObject(given)) return wrongContents(place, "an object", given);
  const { data, format, ...others } = given;
  const [other] = Object.keys(others);
  if (other !== undefined) return new LineFault("unsupported_request", `${place}.${other}`);
  if (!isText(data) || data === "") return wrongContents(`${place}.data`, "base64 data", undefined);
  if (!isText(format)) return wrongContents(`${place}.format`, '"wav" or "mp3"', format);
  return mediaPart({ source: { base64: data }, mimeType: `audio/${format}`, type: "audio" }, place);
}

/** `{ file_data, filename }` or `{ file_id }`; OpenAI's `file_data` is a `data:` address. */
function readFile(given: JsonValue | undefined, place: string): MediaPart | LineFault {
  if (!isObject(given)) return wrongContents(place, "an object", given);
  const { file_data: data, file_id: fileId, filename, ...others } = given;
  const [other] = Object.keys(others);
  if (other !== undefined) return new LineFault("unsupported_request", `${place}.${other}`);
  const fileName = isText(filename) ? filename : undefined;
  if (isText(fileId) && fileId !== "")
    return mediaPart(
      { source: { fileId }, fileName, mimeType: fileName === undefined ? "application/pdf" : undefined },
      place,
    );
  if (!isText(data)) return wrongContents(`${place}.file_data`, "a data: address", data);
  const found = sourceOfAddress(data, `${place}.file_data`);
  return found instanceof LineFault ? found : mediaPart({ ...found, fileName }, place);
}
