/**
 * One item, as all faces have it: a model with `input`, `contents` (interface 2.5, which is Gemini's) or `messages`, a system
 * instruction and settings, beside it or in `generation_config`; each name in snake_case or camelCase.
 *
 *   input, contents                  text; only settings of perigee
 *   messages, text and settings      the same
 *   messages with anything more      OpenAI's body (openai_batch.ts), with settings under OpenAI's names
 *
 * Parts that are not plain texts are read by `parts/gemini_parts.ts`, functions and their choice by `parts/tools.ts`: of any layout, in
 * any item. Gemini's safety settings and cached content are carried as they are. An unknown member is `invalid_config`.
 * `system` may also have Anthropic's layout; `cache_control` of its blocks becomes a warning.
 */
import { nearest } from "../nearest.ts";
import { isEmptyList, isList, isObject, type JsonObject } from "../work/json.ts";
import {
  hasOnlyTexts,
  type JsonValue,
  type ModelRequest,
  type Turn,
  type TurnPart,
} from "../work/request.ts";
import { isSetting, openaiName, readGenerationConfig, SETTING_NAMES, unknownField } from "./config.ts";
import { kindOfItem, readEndpointBody } from "./endpoint_item.ts";
import { givenTwice, LineFault, mustBe, wrongContents } from "./fault.ts";
import { isText } from "./numbers.ts";
import { readOpenaiBody } from "./openai_batch.ts";
import { readGeminiPart } from "./parts/gemini_parts.ts";
import { snakeOf } from "./parts/members.ts";
import { readMessages } from "./parts/openai_messages.ts";
import { readToolChoice, readToolConfig, readTools } from "./parts/tools.ts";

/** Members with functions and with what only Gemini has, under their names in this file's `Asked`. */
const ASKED_NAMES: ReadonlyMap<string, keyof Asked> = new Map([
  ["tools", "tools"],
  ["tool_config", "toolConfig"],
  ["toolConfig", "toolConfig"],
  ["tool_choice", "toolChoice"],
  ["toolChoice", "toolChoice"],
  ["parallel_tool_calls", "parallelToolCalls"],
  ["parallelToolCalls", "parallelToolCalls"],
  ["cached_content", "cachedContent"],
  ["cachedContent", "cachedContent"],
  ["safety_settings", "safetySettings"],
  ["safetySettings", "safetySettings"],
]);
/** Those of them that OpenAI's body has under other names or not at all. */
const GEMINI_ONLY: ReadonlySet<keyof Asked> = new Set(["toolConfig", "cachedContent", "safetySettings"]);

/** What an item has beside its question, its settings and its system instruction, as written. */
interface Asked {
  tools?: JsonValue;
  toolConfig?: JsonValue;
  toolChoice?: JsonValue;
  parallelToolCalls?: JsonValue;
  cachedContent?: JsonValue;
  safetySettings?: JsonValue;
}
type HeldAsked = Pick<
  ModelRequest,
  "tools" | "toolChoice" | "parallelToolCalls" | "cachedContent" | "safetySettings"
>;

const KNOWN: readonly string[] = [
  "model",
  "kind",
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
/** A member of Anthropic's text blocks that means nothing when it is null. */
const CITATIONS = "citations";

/** Whether an object is an item by itself: it has a model, or what an item asks. */
export function isItem(object: JsonObject): boolean {
  return (
    Object.hasOwn(object, "model") ||
    Object.hasOwn(object, "kind") ||
    QUESTIONS.some((name) => Object.hasOwn(object, name))
  );
}

/** Reads an item, all but its model. `place` is where it is, for messages: `request`, or empty for the line itself. */
export function readItem(request: JsonObject, place: "request" | ""): ModelRequest | LineFault {
  if (request["kind"] !== undefined) {
    const kind = kindOfItem(request);
    if (kind instanceof LineFault) return kind;
    if (kind !== "chat") {
      const { kind: _, model: __, schema: ___, ...body } = request;
      return readEndpointBody(kind, body);
    }
    const { kind: _, ...chat } = request;
    return readItem(chat, place);
  }
  if (request["input"] === undefined && request["messages"] === undefined)
    return readInterfaceRequest(request, place); // most items
  const [question, other] = QUESTIONS.filter((name) => request[name] !== undefined && request[name] !== null);
  if (question !== undefined && other !== undefined) return givenTwice(question, other);
  if (question !== "messages") return readInterfaceRequest(request, place);
  if (Object.keys(request).some((name) => isOpenaiAlone(name, request[name]))) return readAsOpenai(request);
  const conversation = readMessages(request["messages"]);
  if (conversation instanceof LineFault) return conversation;
  const isPlain = conversation.unheld === undefined && conversation.leftOut.length === 0;
  const isText = isPlain && conversation.turns.every(({ parts }) => hasOnlyTexts(parts));
  if (!isText || conversation.turns.length === 0) return readAsOpenai(request);
  const read = readInterfaceRequest(request, place);
  if (read instanceof LineFault) return read;
  const { system, turns } = conversation;
  return { ...read, system: [...read.system, ...system], turns };
}

/** Whether perigee's own settings do not have the member, so that it is one of OpenAI's body. */
function isOpenaiAlone(name: string, value: JsonValue | undefined): boolean {
  if (name === "logprobs") return typeof value === "boolean";
  return !isKnown(name) || (ASKED_NAMES.has(name) && !isEmptyList(value));
}

function readAsOpenai(request: JsonObject): ModelRequest | LineFault {
  const body = new Map<string, JsonValue>(); // a member may be called __proto__
  const geminiOnly: Asked = {};
  for (const [name, value] of Object.entries(request)) {
    if (name === "schema" || value === null || (isSetting(name) && value === undefined)) continue;
    const asked = ASKED_NAMES.get(name);
    if (asked !== undefined && GEMINI_ONLY.has(asked)) {
      if (geminiOnly[asked] !== undefined) return givenTwice(asked, name);
      geminiOnly[asked] = value;
      continue;
    }
    const own = asked === undefined ? openaiNameOf(name) : snakeOf(asked);
    if (own === undefined)
      return new LineFault(
        "invalid_config",
        `${name} cannot be used beside messages that only OpenAI's protocol has; use OpenAI's names for settings`,
      );
    if (body.has(own)) return givenTwice(own, name);
    body.set(own, value);
  }
  const read = readOpenaiBody(Object.fromEntries(body));
  if (read instanceof LineFault || Object.keys(geminiOnly).length === 0) return read;
  if (geminiOnly.toolConfig !== undefined)
    return new LineFault("invalid_config", "tool_config cannot be used beside messages; use tool_choice");
  const held = readAsked(geminiOnly);
  return held instanceof LineFault ? held : { ...read, ...held };
}

function openaiNameOf(name: string): string | undefined {
  const isOther = isSetting(name) || OTHER_NAMES.has(name) || name === "generation_config";
  if (isOther) return openaiName(name);
  return name === "system_instruction" ? "system" : name;
}

function readInterfaceRequest(request: JsonObject, place: "request" | ""): ModelRequest | LineFault {
  let settings: JsonValue | undefined;
  let beside: Record<string, JsonValue> | undefined;
  let instruction: JsonValue | undefined;
  let instructionName = "";
  let asked: Asked | undefined;
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
    } else {
      const own = ASKED_NAMES.get(name);
      if (own === undefined) return unknownMember(name, place);
      if (asked?.[own] !== undefined) return givenTwice(own, snakeOf(own));
      asked = { ...asked, [own]: value };
    }
  }
  const config = readGenerationConfig(settings, beside);
  if (config instanceof LineFault) return config;
  const turns = readQuestion(request);
  if (turns instanceof LineFault) return turns;
  const system = readInstruction(instruction, instructionName);
  if (system instanceof LineFault) return system;
  const read = { system, turns, config, unknownFields: leftOf(instruction) };
  if (asked === undefined) return read; // most items
  const held = readAsked(asked);
  return held instanceof LineFault ? held : { ...read, ...held };
}

/** Functions and their choice, and what only Gemini has. Empty lists ask for nothing. */
function readAsked(asked: Asked): HeldAsked | LineFault {
  const tools = asked.tools === undefined ? [] : readTools(asked.tools);
  if (tools instanceof LineFault) return tools;
  const choice = readChoice(asked);
  if (choice instanceof LineFault) return choice;
  const { cachedContent, safetySettings = [] } = asked;
  if (cachedContent !== undefined && (!isText(cachedContent) || cachedContent === ""))
    return mustBe("cached_content", "the name of a cached content", cachedContent);
  if (!Array.isArray(safetySettings) || !safetySettings.every(isObject))
    return mustBe("safety_settings", "a list of objects", safetySettings);
  return {
    ...(tools.length === 0 ? {} : { tools }),
    ...choice,
    ...(cachedContent === undefined ? {} : { cachedContent }),
    ...(safetySettings.length === 0 ? {} : { safetySettings }),
  };
}

function readChoice(asked: Asked): Pick<ModelRequest, "toolChoice" | "parallelToolCalls"> | LineFault {
  const { toolConfig, toolChoice, parallelToolCalls } = asked;
  if (toolConfig !== undefined && toolChoice !== undefined) return givenTwice("tool_config", "tool_choice");
  const configured = toolConfig === undefined ? undefined : readToolConfig(toolConfig);
  if (configured instanceof LineFault) return configured;
  const chosen = toolChoice === undefined ? undefined : readToolChoice(toolChoice);
  if (chosen instanceof LineFault) return chosen;
  if (parallelToolCalls !== undefined && typeof parallelToolCalls !== "boolean")
    return mustBe("parallel_tool_calls", "true or false", parallelToolCalls);
  return {
    ...(configured === undefined ? {} : { toolChoice: configured }),
    ...chosen,
    ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
  };
}

function isKnown(name: string): boolean {
  return KNOWN.includes(name) || OTHER_NAMES.has(name) || ASKED_NAMES.has(name) || isSetting(name);
}

/** Names, for `warnings`, of what is left out of a system instruction. */
function leftOf(instruction: JsonValue | undefined): readonly string[] {
  if (hasCacheMark(instruction)) return [CACHE];
  return isObject(instruction) && instruction["role"] === "user" ? [INSTRUCTION_ROLE] : [];
}

function unknownMember(name: string, place: "request" | ""): LineFault {
  const hint = nearest(name, [...KNOWN, ...ASKED_NAMES.keys(), ...SETTING_NAMES]);
  return unknownField(place, name, hint === undefined ? KNOWN : [hint]);
}

/** The turns of an item; those of `messages` are read by the caller. */
function readQuestion(request: JsonObject): Turn[] | LineFault {
  const { input, messages } = request;
  if (messages !== undefined && messages !== null) return [];
  if (input === undefined || input === null) return readContents(request["contents"]);
  return isText(input) ? [{ role: "user", parts: [input] }] : wrongContents("input", "a string", input);
}

function readContents(contents: JsonValue | undefined): Turn[] | LineFault {
  if (!isList(contents)) return wrongContents("contents", "an array", contents);
  if (contents.length === 0) return new LineFault("invalid_contents", "contents is empty");
  const turns: Turn[] = [];
  for (const content of contents) {
    if (!isObject(content)) return wrongContents(`contents[${turns.length}]`, "an object", content);
    const unknown = otherName(content, CONTENT_NAMES);
    if (unknown !== undefined) return unknownField(`contents[${turns.length}]`, unknown, CONTENT_NAMES);
    const role = content["role"] ?? "user";
    const isResult = role === "function" || role === "tool"; // as Gemini had it, and others have it
    if (role !== "user" && role !== "model" && !isResult)
      return wrongContents(`contents[${turns.length}].role`, '"user" or "model"', role);
    const parts = readParts(content["parts"], turns.length);
    if (parts instanceof LineFault) return parts;
    turns.push({ role: isResult ? "user" : role, parts });
  }
  return turns;
}

/**
 * The system instruction: `{ parts: [{ text }] }`, `{ parts: { text } }` as Google's samples have it, a string, or Anthropic's
 * list of `{ type: "text", text }`. An object may have the role `system`, or `user`, which Google's SDK adds.
 */
function readInstruction(instruction: JsonValue | undefined, name: string): readonly string[] | LineFault {
  if (instruction === undefined) return [];
  if (isText(instruction)) return [instruction];
  if (isList(instruction)) return readBlocks(instruction, name);
  if (!isObject(instruction)) return wrongContents(name, "an object or a string", instruction);
  const unknown = otherName(instruction, CONTENT_NAMES);
  if (unknown !== undefined) return unknownField(name, unknown, CONTENT_NAMES);
  const role = instruction["role"] ?? "system";
  if (role !== "system" && role !== "user") return wrongContents(`${name}.role`, '"system" or "user"', role);
  const parts = instruction["parts"];
  const read = readParts(isObject(parts) ? [parts] : parts, name);
  if (read instanceof LineFault || hasOnlyTexts(read)) return read;
  const index = read.findIndex((part) => typeof part !== "string");
  return new LineFault("unsupported_request", `${name}.parts[${index}]: a system instruction is text`);
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
  if (!isList(instruction)) return false;
  return instruction.some((block) => isObject(block) && block[CACHE] !== undefined && block[CACHE] !== null);
}

/** `owner`: the index of a content, or the name of the system instruction; no path is built while all is well. */
function readParts(parts: JsonValue | undefined, owner: number | string): readonly TurnPart[] | LineFault {
  if (!isList(parts)) return wrongContents(`${placeOf(owner)}.parts`, "an array", parts);
  if (parts.length === 0) return new LineFault("invalid_contents", `${placeOf(owner)}.parts is empty`);
  const read: TurnPart[] = [];
  for (const part of parts) {
    if (!isObject(part)) return wrongContents(placeOf(owner, read.length), "an object", part);
    if (otherName(part, PART_NAMES) === undefined) {
      const text = part["text"];
      if (!isText(text)) return wrongContents(`${placeOf(owner, read.length)}.text`, "a string", text);
      read.push(text);
      continue;
    }
    const other = readGeminiPart(part, placeOf(owner, read.length));
    if (other instanceof LineFault) return other;
    const isPlain = other.kind === "text" && other.thoughtSignature === undefined && other.isThought !== true;
    read.push(isPlain ? other.text : other);
  }
  return read;
}

function placeOf(owner: number | string, index?: number): string {
  const place = typeof owner === "number" ? `contents[${owner}]` : owner;
  return index === undefined ? place : `${place}.parts[${index}]`;
}

/** The first member with another name than these; `citations` counts only with a value. */
function otherName(object: JsonObject, names: readonly string[]): string | undefined {
  for (const name in object) {
    if (names.includes(name) || !Object.hasOwn(object, name)) continue;
    if (object[name] !== null || name !== CITATIONS) return name;
  }
  return undefined;
}
