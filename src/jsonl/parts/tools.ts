/**
 * Functions that the model may call, and which of them it must, from all layouts: an entry of `tools` may have any of these.
 *
 *   { function_declarations: [{ name, description, parameters | parameters_json_schema }] }     Gemini
 *   { type: "function", function: { name, description, parameters, strict } }                   OpenAI
 *   { name, description, input_schema | parameters, strict }                                    Anthropic
 *
 *   tool_config { function_calling_config: { mode, allowed_function_names } }                   Gemini
 *   tool_choice "auto" | "none" | "required" | { type: "function" | "allowed_tools", ... }      OpenAI
 *   tool_choice { type: "auto" | "any" | "none" | "tool", name, disable_parallel_tool_use }     Anthropic
 *
 * Tools that a provider runs itself are refused by name. Schemas are passed on unchanged.
 */
import { isList, isObject, type JsonObject } from "../../work/json.ts";
import type { FunctionTool, JsonValue, ToolChoice } from "../../work/request.ts";
import { LineFault, mustBe, shown } from "../fault.ts";
import { isText } from "../numbers.ts";
import { type Members, membersOf, textsIn } from "./members.ts";

/** Which functions, and whether several at once. */
export interface ReadChoice {
  readonly toolChoice: ToolChoice;
  readonly parallelToolCalls?: boolean;
}

/** Reads `tools`; an empty list has none. */
export function readTools(given: JsonValue): readonly FunctionTool[] | LineFault {
  if (!isList(given)) return mustBe("tools", "an array", given);
  const tools: FunctionTool[] = [];
  for (const [index, entry] of given.entries()) {
    const read = readEntry(entry, `tools[${index}]`);
    if (read instanceof LineFault) return read;
    tools.push(...read);
  }
  const names = new Set<string>();
  for (const { name } of tools) {
    if (names.has(name)) return mustBe("tools", "functions of different names", name);
    names.add(name);
  }
  return tools;
}

function readEntry(entry: JsonValue, place: string): readonly FunctionTool[] | LineFault {
  if (!isObject(entry)) return mustBe(place, "an object", entry);
  const declared = entry["function_declarations"] ?? entry["functionDeclarations"];
  if (declared !== undefined && declared !== null) return readDeclarations(entry, declared, place);
  const { type = "function", function: called } = entry;
  if (isObject(called)) {
    if (type !== "function") return unsupported(`${place}.type`, type);
    const other = Object.keys(entry).find((name) => name !== "type" && name !== "function");
    if (other !== undefined) return unsupported(`${place}.${other}`);
    return listOf(readFunction(called, `${place}.function`));
  }
  const isFlat = entry["input_schema"] !== undefined || entry["inputSchema"] !== undefined;
  if (isFlat || (type === "function" && isText(entry["name"]))) {
    if (type !== "function" && type !== "custom") return unsupported(`${place}.type`, type);
    const { type: _, ...rest } = entry;
    return listOf(readFunction(rest, place));
  }
  const [name] = Object.keys(entry).filter((one) => one !== "type");
  if (name === undefined && entry["type"] === undefined)
    return mustBe(place, "a function (with function_declarations, function or input_schema)", entry);
  return isText(entry["type"])
    ? unsupported(`${place}.type`, entry["type"])
    : unsupported(`${place}.${name}`);
}

function listOf(read: FunctionTool | LineFault): readonly FunctionTool[] | LineFault {
  return read instanceof LineFault ? read : [read];
}

function readDeclarations(
  entry: JsonObject,
  declared: JsonValue,
  place: string,
): readonly FunctionTool[] | LineFault {
  const other = Object.keys(entry).find(
    (name) => name !== "function_declarations" && name !== "functionDeclarations" && entry[name] !== null,
  );
  if (other !== undefined) return unsupported(`${place}.${other}`);
  const where = `${place}.function_declarations`;
  if (!isList(declared)) return mustBe(where, "an array", declared);
  const tools: FunctionTool[] = [];
  for (const [index, value] of declared.entries()) {
    const read = isObject(value)
      ? readFunction(value, `${where}[${index}]`, true)
      : mustBe(`${where}[${index}]`, "an object", value);
    if (read instanceof LineFault) return read;
    tools.push(read);
  }
  return tools;
}

const SCHEMAS = ["parameters", "parametersJsonSchema", "inputSchema"] as const;

/** `isGemini`: its `parameters` are Gemini's subset of OpenAPI. */
function readFunction(given: JsonObject, place: string, isGemini = false): FunctionTool | LineFault {
  const members = membersOf(given, ["name", "description", "strict", ...SCHEMAS], place);
  if (members instanceof LineFault) return members;
  const texts = textsIn(members, ["name", "description"], place);
  if (texts instanceof LineFault) return texts;
  const { name, description } = texts;
  if (name === undefined || name === "") return mustBe(`${place}.name`, "a name", name);
  const strict = members.get("strict");
  if (strict !== undefined && typeof strict !== "boolean")
    return mustBe(`${place}.strict`, "true or false", strict);
  const [schema, other] = SCHEMAS.filter((one) => members.has(one));
  if (other !== undefined)
    return new LineFault(
      "invalid_config",
      `${place}.${schema} and ${place}.${other} are the same, set only one`,
    );
  const value = schema === undefined ? undefined : members.get(schema);
  if (schema !== undefined && !isObject(value)) return mustBe(`${place}.${schema}`, "an object", value);
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(value === undefined
      ? {}
      : isGemini && schema === "parameters"
        ? { parameters: value }
        : { parametersJsonSchema: value }),
    ...(strict === undefined ? {} : { strict }),
  };
}

/** Reads Gemini's `tool_config`. */
export function readToolConfig(given: JsonValue): ToolChoice | undefined | LineFault {
  if (!isObject(given)) return mustBe("tool_config", "an object", given);
  const members = membersOf(given, ["functionCallingConfig"], "tool_config");
  if (members instanceof LineFault) return members;
  const config = members.get("functionCallingConfig");
  const where = "tool_config.function_calling_config";
  if (!isObject(config)) return mustBe(where, "an object", config);
  const inside = membersOf(config, ["mode", "allowedFunctionNames"], where);
  if (inside instanceof LineFault) return inside;
  const mode = readMode(inside, where);
  if (mode instanceof LineFault) return mode;
  const names = inside.get("allowedFunctionNames") ?? [];
  if (!Array.isArray(names) || !names.every(isText))
    return mustBe(`${where}.allowed_function_names`, "a list of names", names);
  return names.length === 0 ? { mode } : { mode, names: names as readonly string[] };
}

function readMode(inside: Members, where: string): ToolChoice["mode"] | LineFault {
  const given = inside.get("mode") ?? "auto";
  const mode = isText(given) ? given.toLowerCase() : undefined;
  if (mode === "auto" || mode === "any" || mode === "none" || mode === "validated") return mode;
  return mustBe(`${where}.mode`, "AUTO, ANY, NONE or VALIDATED", given);
}

const CHOICE = "tool_choice";

/** Reads OpenAI's and Anthropic's `tool_choice`. */
export function readToolChoice(given: JsonValue): ReadChoice | LineFault {
  if (given === "auto" || given === "none") return { toolChoice: { mode: given } };
  if (given === "required" || given === "any") return { toolChoice: { mode: "any" } };
  if (!isObject(given)) return mustBe(CHOICE, '"auto", "none", "required" or an object', given);
  const { type } = given;
  if (type === "function") return readNamed(given, given["function"], ["type", "function"]);
  if (type === "tool") return readNamed(given, given, ["type", "name", "disable_parallel_tool_use"]);
  if (type === "auto" || type === "any" || type === "none") {
    const other = otherName(given, ["type", "disable_parallel_tool_use"]);
    return other ?? { toolChoice: { mode: type }, ...parallelOf(given) };
  }
  return type === "allowed_tools"
    ? readAllowed(given)
    : mustBe(`${CHOICE}.type`, "auto, any, none, tool, function or allowed_tools", type);
}

function readNamed(
  given: JsonObject,
  holder: JsonValue | undefined,
  known: readonly string[],
): ReadChoice | LineFault {
  const other = otherName(given, known);
  if (other !== undefined) return other;
  const name = isObject(holder) ? holder["name"] : undefined;
  if (!isText(name) || name === "") return mustBe(`${CHOICE}.name`, "the name of a function", name);
  return { toolChoice: { mode: "any", names: [name] }, ...parallelOf(given) };
}

/** `{ type, allowed_tools: { mode, tools: [{ type: "function", function: { name } }] } }`. */
function readAllowed(given: JsonObject): ReadChoice | LineFault {
  const allowed = given["allowed_tools"];
  if (!isObject(allowed)) return mustBe(`${CHOICE}.allowed_tools`, "an object", allowed);
  const { mode, tools } = allowed;
  if (mode !== "auto" && mode !== "required")
    return mustBe(`${CHOICE}.allowed_tools.mode`, "auto or required", mode);
  const names = (isList(tools) ? tools : []).map((tool) => {
    const called = isObject(tool) ? (tool["function"] ?? tool) : undefined;
    return isObject(called) && isText(called["name"]) ? called["name"] : undefined;
  });
  if (names.length === 0 || names.includes(undefined))
    return mustBe(`${CHOICE}.allowed_tools.tools`, "a list of functions", tools);
  const known = names as readonly string[]; // none is undefined
  return { toolChoice: { mode: mode === "required" ? "any" : "auto", names: known } };
}

function parallelOf(given: JsonObject): { readonly parallelToolCalls?: boolean } {
  const isDisabled = given["disable_parallel_tool_use"];
  return typeof isDisabled === "boolean" ? { parallelToolCalls: !isDisabled } : {};
}

function otherName(given: JsonObject, known: readonly string[]): LineFault | undefined {
  const other = Object.keys(given).find((name) => !known.includes(name));
  return other === undefined ? undefined : unsupported(`${CHOICE}.${other}`);
}

function unsupported(place: string, value?: JsonValue): LineFault {
  const found = value === undefined ? "" : ` ${shown(value)}`;
  return new LineFault("unsupported_request", `${place}${found} is not supported; tools are functions`);
}
