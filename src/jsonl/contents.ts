/**
 * One item, as all faces have it: a model with `input`, `contents` (interface 2.5, which is Gemini's) or `messages`, a system
 * instruction and settings, beside it or in `generation_config`; each name in snake_case or camelCase.
 *
 *   input, contents                  text; only settings of perigee
 *   messages, text and settings      the same
 *   messages with anything more      OpenAI's body (openai_batch.ts), with settings under OpenAI's names
 *
 * Only text is carried. A part that holds anything else is `invalid_contents`. A request that uses tools or cached content is
 * `unsupported_request`, because leaving those out would change the request. An unknown member is `invalid_config`.
 * `system` may also have Anthropic's layout; `cache_control` of its blocks becomes a warning.
 */
import { nearest } from "../nearest.ts";
import { isEmptyList, isObject, type JsonObject } from "../work/json.ts";
import type { JsonValue, ModelRequest, Turn } from "../work/request.ts";
import { isSetting, openaiName, readGenerationConfig, SETTING_NAMES, unknownField } from "./config.ts";
import { givenTwice, LineFault, shown, wrongContents } from "./fault.ts";
import { isText } from "./numbers.ts";
import { readMessages, readOpenaiBody } from "./openai_batch.ts";

/** Members that change what the model sees or returns; they cannot be dropped. */
const REFUSED: ReadonlySet<string> = new Set([
  "tools",
  "tool_config",
  "toolConfig",
  "tool_choice",
  "cached_content",
  "cachedContent",
  "safety_settings",
  "safetySettings",
]);

const KNOWN: readonly string[] = [
  "model",
  "input",
  "contents",
  "messages",
  "generation_config",
  "system_instruction",
  "system",
  "schema",
];
/** Members that hold the question; an item has one of them. */
const QUESTIONS = ["input", "contents", "messages"] as const;

/** Second spellings of known members. */
const OTHER_NAMES: ReadonlySet<string> = new Set(["generationConfig", "systemInstruction"]);
/** The names of the system instruction. */
const SYSTEM_NAMES: ReadonlySet<string> = new Set(["system_instruction", "systemInstruction", "system"]);
const CONTENT_NAMES = ["role", "parts"] as const;
const PART_NAMES = ["text"] as const;
const CACHE = "cache_control";
const INSTRUCTION_ROLE = "system_instruction.role";
const BLOCK_NAMES = ["type", "text", CACHE] as const;
/** Members of Gemini's `Part` and of Anthropic's text blocks that mean nothing when they are null (state 2026-11-22). */
const NULLABLE: ReadonlySet<string> = new Set([
  "citations",
  "codeExecutionResult",
  "code_execution_result",
  "executableCode",
  "executable_code",
  "fileData",
  "file_data",
  "functionCall",
  "function_call",
  "functionResponse",
  "function_response",
  "inlineData",
  "inline_data",
  "mediaResolution",
  "media_resolution",
  "partMetadata",
  "part_metadata",
  "thought",
  "thoughtSignature",
  "thought_signature",
  "toolCall",
  "tool_call",
  "toolResponse",
  "tool_response",
  "videoMetadata",
  "video_metadata",
]);

/** Whether an object is an item by itself: it has a model, or what an item asks. */
export function isItem(object: JsonObject): boolean {
  return Object.hasOwn(object, "model") || QUESTIONS.some((name) => Object.hasOwn(object, name));
}

/** Reads an item, all but its model. `place` is where it is, for messages: `request`, or empty for the line itself. */
export function readItem(request: JsonObject, place: "request" | ""): ModelRequest | LineFault {
  if (request["input"] === undefined && request["messages"] === undefined)
    return readInterfaceRequest(request, place); // most items
  const [question, other] = QUESTIONS.filter((name) => request[name] !== undefined && request[name] !== null);
  if (question !== undefined && other !== undefined) return givenTwice(question, other);
  if (question !== "messages") return readInterfaceRequest(request, place);
  if (Object.keys(request).some((name) => isOpenaiAlone(name, request[name]))) return readAsOpenai(request);
  const conversation = readMessages(request["messages"]);
  if (conversation instanceof LineFault) return conversation;
  if (!conversation.isTextAlone || conversation.turns.length === 0) return readAsOpenai(request);
  const read = readInterfaceRequest(request, place);
  if (read instanceof LineFault) return read;
  const { system, turns } = conversation;
  return { ...read, system: [...read.system, ...system], turns };
}

/** Whether perigee's own settings do not have the member, so that it is one of OpenAI's body. */
function isOpenaiAlone(name: string, value: JsonValue | undefined): boolean {
  if (name === "logprobs") return typeof value === "boolean";
  return !isKnown(name) || (REFUSED.has(name) && !isEmptyList(value));
}

function readAsOpenai(request: JsonObject): ModelRequest | LineFault {
  const body: Record<string, JsonValue> = {};
  for (const [name, value] of Object.entries(request)) {
    if (name === "schema" || value === null || (isSetting(name) && value === undefined)) continue;
    const isOther = isSetting(name) || OTHER_NAMES.has(name) || name === "generation_config";
    const own = isOther ? openaiName(name) : name === "system_instruction" ? "system" : name;
    if (own === undefined)
      return new LineFault(
        "invalid_config",
        `${name} cannot be used beside messages that only OpenAI's protocol has; use OpenAI's names for settings`,
      );
    if (body[own] !== undefined) return givenTwice(own, name);
    body[own] = value;
  }
  return readOpenaiBody(body);
}

function readInterfaceRequest(request: JsonObject, place: "request" | ""): ModelRequest | LineFault {
  let settings: JsonValue | undefined;
  let beside: Record<string, JsonValue> | undefined;
  let instruction: JsonValue | undefined;
  let instructionName = "";
  for (const name of Object.keys(request)) {
    const value = request[name] as JsonValue; // an own member
    if (name === "model" || name === "schema" || (QUESTIONS as readonly string[]).includes(name)) continue;
    if (value === null && isKnown(name)) continue;
    if (name === "generation_config" || name === "generationConfig") {
      if (settings !== undefined) return givenTwice("generation_config", "generationConfig");
      settings = value;
    } else if (SYSTEM_NAMES.has(name)) {
      if (instruction !== undefined) return givenTwice(instructionName, name);
      instruction = value;
      instructionName = name;
    } else if (isSetting(name)) {
      beside = { ...beside, [name]: value };
    } else if (!REFUSED.has(name) || !isEmptyList(value)) {
      return refusedMember(name, place);
    }
  }
  const config = readGenerationConfig(settings, beside);
  if (config instanceof LineFault) return config;
  const turns = readQuestion(request);
  if (turns instanceof LineFault) return turns;
  const system = readInstruction(instruction, instructionName);
  if (system instanceof LineFault) return system;
  return { system, turns, config, unknownFields: leftOf(instruction) };
}

function isKnown(name: string): boolean {
  return KNOWN.includes(name) || OTHER_NAMES.has(name) || REFUSED.has(name) || isSetting(name);
}

/** Names, for `warnings`, of what is left out of a system instruction. */
function leftOf(instruction: JsonValue | undefined): readonly string[] {
  if (hasCacheMark(instruction)) return [CACHE];
  return isObject(instruction) && instruction["role"] === "user" ? [INSTRUCTION_ROLE] : [];
}

function refusedMember(name: string, place: "request" | ""): LineFault {
  if (REFUSED.has(name)) return new LineFault("unsupported_request", `${name} is not supported`);
  const hint = nearest(name, [...KNOWN, ...SETTING_NAMES]);
  return unknownField(place, name, hint === undefined ? KNOWN : [hint]);
}

/** The turns of an item; those of `messages` are read by the caller. */
function readQuestion(request: JsonObject): Turn[] | LineFault {
  const { input, messages } = request;
  if (messages !== undefined && messages !== null) return [];
  if (input === undefined || input === null) return readContents(request["contents"]);
  return isText(input) ? [{ role: "user", texts: [input] }] : wrongContents("input", "a string", input);
}

function readContents(contents: JsonValue | undefined): Turn[] | LineFault {
  if (!Array.isArray(contents)) return wrongContents("contents", "an array", contents);
  if (contents.length === 0) return new LineFault("invalid_contents", "contents is empty");
  const turns: Turn[] = [];
  for (const content of contents as readonly JsonValue[]) {
    if (!isObject(content)) return wrongContents(`contents[${turns.length}]`, "an object", content);
    const unknown = otherName(content, CONTENT_NAMES);
    if (unknown !== undefined) return unknownField(`contents[${turns.length}]`, unknown, CONTENT_NAMES);
    const role = content["role"] ?? "user";
    if (role !== "user" && role !== "model")
      return wrongContents(`contents[${turns.length}].role`, '"user" or "model"', role);
    const texts = readParts(content["parts"]);
    if (texts instanceof LineFault) return within(`contents[${turns.length}]`, texts);
    turns.push({ role, texts });
  }
  return turns;
}

/**
 * The system instruction: `{ parts: [{ text }] }`, `{ parts: { text } }` as Google's samples have it, a string, or Anthropic's
 * list of `{ type: "text", text }`. An object may have the role `system`, or `user`, which Google's SDK adds.
 */
function readInstruction(instruction: JsonValue | undefined, name: string): string[] | LineFault {
  if (instruction === undefined) return [];
  if (isText(instruction)) return [instruction];
  if (Array.isArray(instruction)) return readBlocks(instruction as readonly JsonValue[], name);
  if (!isObject(instruction)) return wrongContents(name, "an object or a string", instruction);
  const unknown = otherName(instruction, CONTENT_NAMES);
  if (unknown !== undefined) return unknownField(name, unknown, CONTENT_NAMES);
  const role = instruction["role"] ?? "system";
  if (role !== "system" && role !== "user") return wrongContents(`${name}.role`, '"system" or "user"', role);
  const parts = instruction["parts"];
  const texts = readParts(isObject(parts) ? [parts] : parts);
  return texts instanceof LineFault ? within(name, texts) : texts;
}

/** Anthropic's blocks. */
function readBlocks(blocks: readonly JsonValue[], name: string): string[] | LineFault {
  const texts: string[] = [];
  for (const block of blocks) {
    const where = `${name}[${texts.length}]`;
    if (!isObject(block) || block["type"] !== "text" || !isText(block["text"]))
      return wrongContents(where, '{"type":"text","text":"..."}', block);
    const unknown = otherName(block, BLOCK_NAMES);
    if (unknown !== undefined) return unknownField(where, unknown, BLOCK_NAMES);
    texts.push(block["text"]);
  }
  return texts;
}

/** Whether a block marks the end of a cached prefix. Such a mark changes only the price. */
function hasCacheMark(instruction: JsonValue | undefined): boolean {
  if (!Array.isArray(instruction)) return false;
  return (instruction as readonly JsonValue[]).some(
    (block) => isObject(block) && block[CACHE] !== undefined && block[CACHE] !== null,
  );
}

/** Faults name the place within the content; no name is built while all is well. */
function readParts(parts: JsonValue | undefined): string[] | LineFault {
  if (!Array.isArray(parts)) return wrongContents("parts", "an array", parts);
  if (parts.length === 0) return new LineFault("invalid_contents", "parts is empty");
  const texts: string[] = [];
  for (const part of parts as readonly JsonValue[]) {
    if (!isObject(part)) return wrongContents(`parts[${texts.length}]`, "an object", part);
    const other = otherName(part, PART_NAMES);
    if (other !== undefined)
      return new LineFault(
        "invalid_contents",
        `parts[${texts.length}] must be only text, got ${shown(other)}`,
      );
    const text = part["text"];
    if (!isText(text)) return wrongContents(`parts[${texts.length}].text`, "a string", text);
    texts.push(text);
  }
  return texts;
}

/** The first member with another name than these. Those of `NULLABLE` count only with a value. */
function otherName(object: JsonObject, names: readonly string[]): string | undefined {
  for (const name in object) {
    if (names.includes(name) || !Object.hasOwn(object, name)) continue;
    if (object[name] !== null || !NULLABLE.has(name)) return name;
  }
  return undefined;
}

function within(place: string, fault: LineFault): LineFault {
  return new LineFault(fault.code, `${place}.${fault.message}`);
}
