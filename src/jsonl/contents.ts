/**
 * The interface's own layout (interface 2.5, which is Gemini's): `request` with contents, a system instruction and
 * settings, each name in snake_case or camelCase.
 *
 * Text is all that is carried: a part that holds anything else is `invalid_contents`, and a request that leans on
 * tools or cached content is `unsupported_request`, because leaving those out would change what is asked.
 */
import type { JsonValue, ModelRequest, Turn } from "../work/request.ts";
import { eitherSpelling, readGenerationConfig } from "./config.ts";
import { LineFault, shown } from "./fault.ts";
import { isText } from "./numbers.ts";
import { isObject, type JsonObject } from "./record.ts";

const KNOWN: ReadonlySet<string> = new Set([
  "model",
  "contents",
  "system_instruction",
  "systemInstruction",
  "generation_config",
  "generationConfig",
]);

/** Members that change what the model sees; they cannot be dropped. */
const REFUSED: ReadonlySet<string> = new Set([
  "tools",
  "tool_config",
  "toolConfig",
  "cached_content",
  "cachedContent",
]);

/** Reads `request`, all but its model. */
export function readInterfaceRequest(request: JsonObject): ModelRequest | LineFault {
  const settings = eitherSpelling(request, "generation_config", "generationConfig");
  if (settings instanceof LineFault) return settings;
  const instruction = eitherSpelling(request, "system_instruction", "systemInstruction");
  if (instruction instanceof LineFault) return instruction;
  const read = readGenerationConfig(settings);
  if (read instanceof LineFault) return read;
  const turns = readContents(request["contents"]);
  if (turns instanceof LineFault) return turns;
  const system = readInstruction(instruction);
  if (system instanceof LineFault) return system;
  let unknownFields = read.unknownFields;
  for (const name of Object.keys(request)) {
    if (KNOWN.has(name) || isEmpty(request[name])) continue;
    if (REFUSED.has(name)) return new LineFault("unsupported_request", `${name} is not supported`);
    unknownFields = [...unknownFields, name];
  }
  return { system, turns, config: read.config, unknownFields };
}

function readContents(contents: JsonValue | undefined): Turn[] | LineFault {
  if (!Array.isArray(contents)) return mustBe("contents", "an array", contents);
  if (contents.length === 0) return new LineFault("invalid_contents", "contents is empty");
  const turns: Turn[] = [];
  for (const content of contents as readonly JsonValue[]) {
    const where = `contents[${turns.length}]`;
    if (!isObject(content)) return mustBe(where, "an object", content);
    const role = content["role"] ?? "user";
    if (role !== "user" && role !== "model") return mustBe(`${where}.role`, '"user" or "model"', role);
    const texts = readParts(content["parts"], where);
    if (texts instanceof LineFault) return texts;
    turns.push({ role, texts });
  }
  return turns;
}

/** The system instruction: `{ parts: [{ text }] }`, `{ parts: { text } }` as Google's samples have it, or a string. */
function readInstruction(instruction: JsonValue | undefined): string[] | LineFault {
  if (instruction === undefined) return [];
  if (isText(instruction)) return [instruction];
  if (!isObject(instruction)) return mustBe("system_instruction", "an object or a string", instruction);
  const parts = instruction["parts"];
  return readParts(isObject(parts) ? [parts] : parts, "system_instruction");
}

function readParts(parts: JsonValue | undefined, where: string): string[] | LineFault {
  if (!Array.isArray(parts)) return mustBe(`${where}.parts`, "an array", parts);
  if (parts.length === 0) return new LineFault("invalid_contents", `${where}.parts is empty`);
  const texts: string[] = [];
  for (const part of parts as readonly JsonValue[]) {
    const place = `${where}.parts[${texts.length}]`;
    if (!isObject(part)) return mustBe(place, "an object", part);
    const other = otherName(part);
    if (other !== undefined)
      return new LineFault("invalid_contents", `${place} must hold text alone, got ${shown(other)}`);
    const text = part["text"];
    if (!isText(text)) return mustBe(`${place}.text`, "a string", text);
    texts.push(text);
  }
  return texts;
}

/** The first member of a part that is not its text. */
function otherName(part: JsonObject): string | undefined {
  for (const name in part) if (name !== "text" && Object.hasOwn(part, name)) return name;
  return undefined;
}

function isEmpty(value: JsonValue | undefined): boolean {
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}

/** A wrong type. A string is not quoted: it may be a prompt. */
function mustBe(name: string, expected: string, value: JsonValue | undefined): LineFault {
  const found = typeof value === "string" ? "a string" : shown(value);
  return new LineFault("invalid_contents", `${name} must be ${expected}, got ${found}`);
}
