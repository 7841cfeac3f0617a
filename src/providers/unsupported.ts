/**
 * What becomes of a setting that a model or its provider does not take.
 *
 *   it shapes sampling, or what no answer shows      left out, and named in the warnings of the line
 *   it changes the request or the answer             the line is refused before it is sent
 *   unsupportedConfig "drop"; "refuse"               all of them left out and named; all of them refused
 */
import { isEmptyList } from "../work/json.ts";
import type { ModelRequest } from "../work/request.ts";
import { isKnownMember } from "./chat_members.ts";
import type { Encoded, ProviderSettings } from "./provider.ts";

/** Another value results in another sample of the same answer. */
const SAMPLING: ReadonlySet<string> = new Set([
  "temperature",
  "top_p",
  "top_k",
  "presence_penalty",
  "frequency_penalty",
  "seed",
]);
/** Members of OpenAI's body that concern the caller, the price or the speed, and no text. */
const UNSEEN: ReadonlySet<string> = new Set([
  "cache_control",
  "metadata",
  "parallel_tool_calls",
  "prediction",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "service_tier",
  "store",
  "stream_options",
  "system_instruction.role",
  "user",
]);
/** Members of messages and parts that concern how many tokens a medium takes, or that only the provider understands that wrote them. */
const OF_MESSAGES: ReadonlySet<string> = new Set([
  "detail",
  "file_name",
  "is_error",
  "media_resolution",
  "reasoning",
  "reasoning_content",
  "strict",
  "thinking_blocks",
  "thought_signature",
  "video_metadata",
]);
/** Members that ask for more than text. */
const TOOLS: ReadonlySet<string> = new Set(["tools", "functions"]);

const NONE: readonly string[] = [];

/** Why a request must not be sent without these settings; undefined when it may. `model` is without its provider. */
export function refusalOfDropped(
  dropped: readonly string[],
  model: string,
  { name, unsupportedConfig }: ProviderSettings,
): Extract<Encoded, { readonly ok: false }> | undefined {
  if (dropped.length === 0 || unsupportedConfig === "drop") return undefined;
  const isStrict = unsupportedConfig === "refuse";
  const refused = isStrict
    ? dropped
    : dropped.filter((one) => !SAMPLING.has(one) && !UNSEEN.has(one) && !OF_MESSAGES.has(one));
  if (refused.length === 0) return undefined;
  const them = refused.length === 1 ? "it" : "them";
  const wayOn = isStrict ? `leave ${them} out` : `leave ${them} out, or set unsupportedConfig to "drop"`;
  const code = refused.some((one) => TOOLS.has(one)) ? "unsupported_request" : "invalid_config";
  return {
    ok: false,
    code,
    message: `${name}:${model} does not take ${refused.join(", ")}; ${wayOn}`,
    field: refused[0],
  };
}

/** What the caller calls the number of answers. */
export function candidatesName({ openaiBody }: Pick<ModelRequest, "openaiBody">): string {
  return openaiBody === undefined ? "candidate_count" : "n";
}

/** Members that request nothing with certain values, in every protocol. With any other value they are named or refused. */
const SAYS_NOTHING: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ["functions", isEmptyList],
  ["store", (value: unknown) => value === false],
  ["tools", isEmptyList],
]);

/** Members of OpenAI's body that are not sent to a provider of another protocol, without those that ask for nothing. */
export function untranslated({ unknownFields, openaiBody }: ModelRequest): readonly string[] {
  if (unknownFields.length === 0) return NONE;
  return unknownFields.filter((name) => {
    const value = openaiBody?.[name];
    return SAYS_NOTHING.get(name)?.(value) !== true && !(value === null && isKnownMember(name));
  });
}
