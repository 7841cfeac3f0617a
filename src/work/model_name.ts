/**
 * Names of models as editors complete them. Any other `<provider>:<name>` is accepted, too; a test keeps the names to those
 * that the price list knows.
 */

type OpenaiModels =
  | "gpt-4.1"
  | "gpt-4.1-mini"
  | "gpt-4.1-nano"
  | "gpt-4o"
  | "gpt-4o-mini"
  | "gpt-5"
  | "gpt-5-mini"
  | "gpt-5-nano"
  | "gpt-5.1"
  | "o3"
  | "o4-mini";
type AnthropicModels =
  | "claude-haiku-4-5"
  | "claude-opus-4-1"
  | "claude-opus-4-5"
  | "claude-sonnet-4-0"
  | "claude-sonnet-4-5";
type GeminiModels =
  | "gemini-2.0-flash"
  | "gemini-2.5-flash"
  | "gemini-2.5-flash-lite"
  | "gemini-2.5-pro"
  | "gemini-3-pro-preview";
type DeepseekModels = "deepseek-v4-flash";
type GroqModels =
  | "llama-3.1-8b-instant"
  | "llama-3.3-70b-versatile"
  | "openai/gpt-oss-120b"
  | "openai/gpt-oss-20b";
type MistralModels = "mistral-large-latest" | "mistral-small-latest";

/** Models of known providers, by their full names. */
export type KnownModel =
  | `openai:${OpenaiModels}`
  | `anthropic:${AnthropicModels}`
  | `gemini:${GeminiModels}`
  | `deepseek:${DeepseekModels}`
  | `groq:${GroqModels}`
  | `mistral:${MistralModels}`
  | "echo:test";

/** `<provider>:<name>`. */
export type ModelName = KnownModel | (string & {});
