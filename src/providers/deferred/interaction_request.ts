/**
 * A generateContent request as one of Gemini's Interactions API. Source: the types of @google/genai 2.32 (`CreateModelInteraction`).
 *
 *   contents                              input: steps `user_input` and `model_output`, with text contents
 *   systemInstruction, of one part        system_instruction
 *   temperature, topP, maxOutputTokens,   generation_config: temperature, top_p, max_output_tokens, stop_sequences, seed
 *   stopSequences, seed
 *   thinkingLevel                         generation_config.thinking_level, in lower case
 *   responseMimeType, responseJsonSchema  response_format
 *
 * Everything else has no place there (topK, penalties, logprobs, a thinking budget, tools, images, several system parts, an exact seed
 * beyond 2^53), and a request that has it goes another way: a setting that is left out would change the answer.
 */
import { Buffer } from "node:buffer";
import { arrayOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";

/** What is sent; its members are assignable to the SDK's `CreateModelInteraction`. */
export interface InteractionRequest {
  readonly model: string;
  readonly input: readonly InteractionStep[];
  readonly system_instruction?: string;
  readonly generation_config?: Unchecked;
  readonly response_format?: Unchecked;
  readonly service_tier: "deferred";
  /** Only what runs in the background can be cancelled. */
  readonly background: true;
  /** Else nothing could be asked for later. */
  readonly store: true;
}

interface InteractionStep {
  readonly type: "user_input" | "model_output";
  readonly content: readonly { readonly type: "text"; readonly text: string }[];
}

/** The request for a model, as the provider calls it; undefined for one that has no place there. `body`: of generateContent. */
export function interactionRequest(body: Uint8Array, model: string): InteractionRequest | undefined {
  const request = objectOf(parseJson(body));
  if (request === undefined || !hasOnly(request, MEMBERS)) return undefined;
  const input = stepsOf(request["contents"]);
  const system = request["systemInstruction"] === undefined ? [] : textsOf(request["systemInstruction"]);
  const settings = settingsOf(request["generationConfig"] ?? {});
  if (input === undefined || system === undefined || system.length > 1 || settings === undefined)
    return undefined;
  const [instruction] = system;
  return {
    model: model.replace(/^models\//, ""),
    input,
    ...(instruction === undefined ? {} : { system_instruction: instruction }),
    ...settings,
    service_tier: "deferred",
    background: true,
    store: true,
  };
}

/** The same as bytes. */
export function interactionBytes(body: Uint8Array, model: string): Uint8Array | undefined {
  const request = interactionRequest(body, model);
  return request === undefined ? undefined : Buffer.from(JSON.stringify(request));
}

const MEMBERS: ReadonlySet<string> = new Set(["contents", "systemInstruction", "generationConfig"]);

function stepsOf(contents: unknown): InteractionStep[] | undefined {
  const turns = arrayOf(contents) ?? [];
  const steps = turns.map((turn): InteractionStep | undefined => {
    const role = objectOf(turn)?.["role"] ?? "user";
    const texts = textsOf(turn);
    if (texts === undefined || (role !== "user" && role !== "model")) return undefined;
    const content = texts.map((text) => ({ type: "text" as const, text }));
    return { type: role === "user" ? "user_input" : "model_output", content };
  });
  const known = steps.filter((step) => step !== undefined);
  return known.length === 0 || known.length < turns.length ? undefined : known;
}

/** The texts of a content that has nothing else. */
function textsOf(content: unknown): string[] | undefined {
  const value = objectOf(content);
  const parts = arrayOf(value?.["parts"]);
  if (value === undefined || parts === undefined || !hasOnly(value, CONTENT)) return undefined;
  const texts = parts.map((part) => {
    const members = objectOf(part);
    return members !== undefined && hasOnly(members, PART) ? stringOf(members["text"]) : undefined;
  });
  const known = texts.filter((text) => text !== undefined);
  return known.length < texts.length ? undefined : known;
}

const CONTENT: ReadonlySet<string> = new Set(["role", "parts"]);
const PART: ReadonlySet<string> = new Set(["text"]);

/** Names of settings there, by those of generateContent. */
const SETTINGS: Readonly<Record<string, string>> = {
  temperature: "temperature",
  topP: "top_p",
  maxOutputTokens: "max_output_tokens",
  stopSequences: "stop_sequences",
  seed: "seed",
};
const JSON_TYPE = "application/json";

function settingsOf(
  config: unknown,
): Pick<InteractionRequest, "generation_config" | "response_format"> | undefined {
  const given = objectOf(config);
  if (given === undefined) return undefined;
  const { thinkingConfig, responseMimeType: type, responseJsonSchema: schema, ...others } = given;
  if (Object.keys(others).some((name) => !Object.hasOwn(SETTINGS, name))) return undefined;
  const level = levelOf(thinkingConfig ?? {});
  const isExact = others["seed"] === undefined || Number.isSafeInteger(others["seed"]);
  const isFormat = type === undefined ? schema === undefined : typeof type === "string";
  const isSchema = schema === undefined || (objectOf(schema) !== undefined && type === JSON_TYPE);
  if (level === undefined || !isExact || !isFormat || !isSchema) return undefined;
  const renamed = Object.entries(others).map(([name, value]) => [SETTINGS[name], value]);
  const settings = { ...Object.fromEntries(renamed), ...level };
  const format = { type: "text", mime_type: type, ...(schema === undefined ? {} : { schema }) };
  return {
    ...(Object.keys(settings).length === 0 ? {} : { generation_config: settings }),
    ...(type === undefined ? {} : { response_format: format }),
  };
}

/** A level is all that it knows of thinking; undefined where more is asked for. */
function levelOf(config: unknown): { readonly thinking_level?: string } | undefined {
  const thinking = objectOf(config);
  if (thinking === undefined) return undefined;
  const { thinkingLevel, includeThoughts, ...others } = thinking;
  if (Object.keys(others).length > 0 || includeThoughts === true) return undefined;
  if (thinkingLevel === undefined) return {};
  return typeof thinkingLevel === "string" ? { thinking_level: thinkingLevel.toLowerCase() } : undefined;
}

function hasOnly(value: Unchecked, names: ReadonlySet<string>): boolean {
  return Object.keys(value).every((name) => names.has(name));
}
