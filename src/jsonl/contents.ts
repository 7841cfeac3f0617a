/**
 * The interface's own layout (interface 2.5, which is Gemini's): `request` with contents, a system instruction and
 * settings, each name in snake_case or camelCase.
 *
 * Text is all that is carried: a part that holds anything else is `invalid_contents`, and a request that leans on
 * tools or cached content is `unsupported_request`, because leaving those out would change what is asked.
 */
import { isObject, type JsonObject } from "../work/json.ts";
import type { JsonValue, ModelRequest, Turn } from "../work/request.ts";
import { readGenerationConfig } from "./config.ts";
import { givenTwice, LineFault, shown, wrongContents } from "./fault.ts";
import { isText } from "./numbers.ts";

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
  let settings: JsonValue | undefined;
  let instruction: JsonValue | undefined;
  let unknownNames: string[] | undefined;
  for (const name of Object.keys(request)) {
    const value = request[name];
    if (name === "model" || name === "contents" || value === null) continue;
    if (name === "generation_config" || name === "generationConfig") {
      if (settings !== undefined) return givenTwice("generation_config", "generationConfig");
      settings = value;
    } else if (name === "system_instruction" || name === "systemInstruction") {
      if (instruction !== undefined) return givenTwice("system_instruction", "systemInstruction");
      instruction = value;
    } else {
      if (isEmptyList(value)) continue;
      if (REFUSED.has(name)) return new LineFault("unsupported_request", `${name} is not supported`);
      unknownNames ??= [];
      unknownNames.push(name);
    }
  }
  const read = readGenerationConfig(settings);
  if (read instanceof LineFault) return read;
  const turns = readContents(request["contents"]);
  if (turns instanceof LineFault) return turns;
  const system = readInstruction(instruction);
  if (system instanceof LineFault) return system;
  const unknownFields =
    unknownNames === undefined ? read.unknownFields : [...read.unknownFields, ...unknownNames];
  return { system, turns, config: read.config, unknownFields };
}

function readContents(contents: JsonValue | undefined): Turn[] | LineFault {
  if (!Array.isArray(contents)) return wrongContents("contents", "an array", contents);
  if (contents.length === 0) return new LineFault("invalid_contents", "contents is empty");
  const turns: Turn[] = [];
  for (const content of contents as readonly JsonValue[]) {
    if (!isObject(content)) return wrongContents(`contents[${turns.length}]`, "an object", content);
    const role = content["role"] ?? "user";
    if (role !== "user" && role !== "model")
      return wrongContents(`contents[${turns.length}].role`, '"user" or "model"', role);
    const texts = readParts(content["parts"]);
    if (texts instanceof LineFault) return within(`contents[${turns.length}]`, texts);
    turns.push({ role, texts });
  }
  return turns;
}

/** The system instruction: `{ parts: [{ text }] }`, `{ parts: { text } }` as Google's samples have it, or a string. */
function readInstruction(instruction: JsonValue | undefined): string[] | LineFault {
  if (instruction === undefined) return [];
  if (isText(instruction)) return [instruction];
  if (!isObject(instruction))
    return wrongContents("system_instruction", "an object or a string", instruction);
  const parts = instruction["parts"];
  const texts = readParts(isObject(parts) ? [parts] : parts);
  return texts instanceof LineFault ? within("system_instruction", texts) : texts;
}

/** Faults name the place within the content; no name is built while all is well. */
function readParts(parts: JsonValue | undefined): string[] | LineFault {
  if (!Array.isArray(parts)) return wrongContents("parts", "an array", parts);
  if (parts.length === 0) return new LineFault("invalid_contents", "parts is empty");
  const texts: string[] = [];
  for (const part of parts as readonly JsonValue[]) {
    if (!isObject(part)) return wrongContents(`parts[${texts.length}]`, "an object", part);
    const other = otherName(part);
    if (other !== undefined)
      return new LineFault(
        "invalid_contents",
        `parts[${texts.length}] must be text alone, got ${shown(other)}`,
      );
    const text = part["text"];
    if (!isText(text)) return wrongContents(`parts[${texts.length}].text`, "a string", text);
    texts.push(text);
  }
  return texts;
}

/** The first member of a part that is not its text. */
function otherName(part: JsonObject): string | undefined {
  for (const name in part) if (name !== "text" && Object.hasOwn(part, name)) return name;
  return undefined;
}

function isEmptyList(value: JsonValue | undefined): boolean {
  return Array.isArray(value) && value.length === 0;
}

function within(place: string, fault: LineFault): LineFault {
  return new LineFault(fault.code, `${place}.${fault.message}`);
}
