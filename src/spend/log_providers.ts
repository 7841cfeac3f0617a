/**
 * Providers by the names that logs have for them, as perigee names them in model ids.
 *
 * Sources, read in November 2026: well-known values of `gen_ai.provider.name` and of `gen_ai.system` before it
 * (https://github.com/open-telemetry/semantic-conventions-genai), LiteLLM's `custom_llm_provider`
 * (https://docs.litellm.ai/docs/providers). Names that are not listed stay as they are.
 */

const NAMES: ReadonlyMap<string, string> = new Map([
  ["az.ai.inference", "azure"],
  ["az.ai.openai", "azure"],
  ["azure.ai.inference", "azure"],
  ["azure.ai.openai", "azure"],
  ["azure_ai", "azure"],
  ["azure_text", "azure"],
  ["aws.bedrock", "bedrock"],
  ["aws_bedrock", "bedrock"],
  ["bedrock_converse", "bedrock"],
  ["gcp.gemini", "gemini"],
  ["gcp.gen_ai", "gemini"],
  ["google", "gemini"],
  ["gcp.vertex_ai", "vertex"],
  ["vertex_ai", "vertex"],
  ["vertex_ai_beta", "vertex"],
  ["mistral_ai", "mistral"],
  ["mistralai", "mistral"],
  ["x_ai", "xai"],
  ["moonshot_ai", "moonshot"],
  ["together_ai", "together"],
  ["fireworks_ai", "fireworks"],
  ["text-completion-openai", "openai"],
  ["anthropic_text", "anthropic"],
]);

/** Beginnings of models, for logs that name no provider. */
const MODELS: readonly (readonly [beginning: RegExp, provider: string])[] = [
  [/^(?:gpt-|chatgpt-|o[1-9](?:-|$)|ft:gpt-|text-embedding-)/i, "openai"],
  [/^claude-/i, "anthropic"],
  [/^gemini-/i, "gemini"],
  [/^deepseek-(?:chat|reasoner|v\d)/i, "deepseek"],
  [/^(?:mistral|ministral|magistral|codestral|pixtral)-/i, "mistral"],
  [/^grok-/i, "xai"],
];

/** A provider as perigee names it; empty for what is not a name. */
export function providerOf(name: unknown): string {
  if (typeof name !== "string" || name === "") return "";
  return NAMES.get(name) ?? NAMES.get(name.toLowerCase()) ?? name.toLowerCase();
}

/** The provider that a model's name begins like; empty if none. */
export function providerOfModel(model: string): string {
  return MODELS.find(([beginning]) => beginning.test(model))?.[1] ?? "";
}

/** The model's name without the provider before it: `openai/gpt-4o` of `openai` is `gpt-4o`. */
export function nameWithout(provider: unknown, model: string): string {
  if (typeof provider !== "string" || provider === "") return model;
  return model.startsWith(`${provider}/`) ? model.slice(provider.length + 1) : model;
}
