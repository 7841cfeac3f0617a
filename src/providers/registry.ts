/**
 * The providers known by name, as data: protocol, base URL, and the environment variables that the ecosystem uses.
 *
 * An unknown name with a base URL is a server that speaks OpenAI's protocol. Nothing is read from the environment
 * here: the configuration of an engine reads the variables that are named.
 *
 * Base URLs are those of the official SDKs and API pages, state 2026-11-20; self-hosted servers have their default
 * ports. Anthropic's version stays at `2023-06-01`: see `anthropic.ts`.
 */
import { PerigeeError } from "../errors.ts";
import { ANTHROPIC_VERSION, anthropicProvider } from "./codecs/anthropic.ts";
import { echoProvider } from "./codecs/echo.ts";
import { GEMINI_VERSION, geminiProvider } from "./codecs/gemini.ts";
import { openaiProvider } from "./codecs/openai.ts";
import { functionProvider } from "./function.ts";
import { keepingKeys } from "./key_text.ts";
import { laterEncoded } from "./own_codec.ts";
import type { Protocol, Provider, ProviderSettings } from "./provider.ts";

/** What is known of a provider before anything is configured. */
export interface KnownProvider {
  readonly protocol: Protocol;
  readonly baseUrl: string;
  readonly apiVersion?: string;
  /** Where the same calls cost less and take longer; see `ProviderSettings`. */
  readonly batchChatUrl?: string;
  /** Environment variables that may hold the key, the first that is set wins. */
  readonly keyVariables: readonly string[];
  /** Environment variables that may hold the base URL, the first that is set wins. */
  readonly baseUrlVariables: readonly string[];
  /** Headers whose value an environment variable may hold: header name to variable. */
  readonly headerVariables?: Readonly<Record<string, string>>;
  /** False for servers that answer without a key. */
  readonly needsKey: boolean;
}

const GEMINI: KnownProvider = {
  protocol: "gemini",
  baseUrl: "https://generativelanguage.googleapis.com",
  apiVersion: GEMINI_VERSION,
  keyVariables: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
  baseUrlVariables: ["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
  needsKey: true,
};

/**
 * Alibaba Cloud's Model Studio in Beijing, state 2026-11-26; the other regions have other base URLs, and no Batch Chat:
 * https://help.aliyun.com/zh/model-studio/openai-compatible-batch-chat
 */
const DASHSCOPE: KnownProvider = {
  ...hosted("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE"),
  batchChatUrl: "https://batch.dashscope.aliyuncs.com/compatible-mode/v1",
};

/** Every provider known by name. `google` is another name of `gemini`. */
export const KNOWN_PROVIDERS: ReadonlyMap<string, KnownProvider> = new Map<string, KnownProvider>([
  [
    "openai",
    {
      ...hosted("https://api.openai.com/v1", "OPENAI"),
      headerVariables: { "openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID" },
    },
  ],
  [
    "anthropic",
    {
      ...hosted("https://api.anthropic.com", "ANTHROPIC"),
      protocol: "anthropic",
      apiVersion: ANTHROPIC_VERSION,
    },
  ],
  ["gemini", GEMINI],
  ["google", GEMINI],
  ["deepseek", hosted("https://api.deepseek.com", "DEEPSEEK")],
  ["groq", hosted("https://api.groq.com/openai/v1", "GROQ")],
  ["together", hosted("https://api.together.ai/v1", "TOGETHER")],
  ["fireworks", hosted("https://api.fireworks.ai/inference/v1", "FIREWORKS")],
  ["openrouter", hosted("https://openrouter.ai/api/v1", "OPENROUTER")],
  ["mistral", hosted("https://api.mistral.ai/v1", "MISTRAL")],
  ["dashscope", DASHSCOPE],
  ["vllm", selfHosted(8_000, "VLLM")],
  ["sglang", selfHosted(30_000, "SGLANG")],
  ["llamacpp", selfHosted(8_080, "LLAMACPP")],
  ["ollama", selfHosted(11_434, "OLLAMA")],
  ["echo", { protocol: "echo", baseUrl: "", keyVariables: [], baseUrlVariables: [], needsKey: false }],
]);

/**
 * The settings of a provider before its key: of a known name with `baseUrl` instead of its own if set; of any
 * other name those of a server that speaks OpenAI's protocol, if `baseUrl` is set; else `undefined`. At another base URL no
 * Batch Chat is assumed.
 */
export function defaultSettings(name: string, baseUrl?: string): ProviderSettings | undefined {
  const known = KNOWN_PROVIDERS.get(name);
  if (known === undefined) return baseUrl === undefined ? undefined : { name, protocol: "openai", baseUrl };
  return {
    name,
    protocol: known.protocol,
    baseUrl: baseUrl ?? known.baseUrl,
    ...(known.apiVersion === undefined ? {} : { apiVersion: known.apiVersion }),
    ...(known.batchChatUrl === undefined || (baseUrl ?? known.baseUrl) !== known.baseUrl
      ? {}
      : { batchChatUrl: known.batchChatUrl }),
  };
}

/** The codec for settings. Throws `invalid_config` for an invalid base URL. */
export function createProvider(settings: ProviderSettings): Provider {
  return keepingKeys(codecOf(settings), settings);
}

function codecOf(settings: ProviderSettings): Provider {
  if (settings.hasOwnCodec === true) return laterEncoded(settings);
  switch (settings.protocol) {
    case "openai":
      return openaiProvider(settings);
    case "anthropic":
      return anthropicProvider(settings);
    case "gemini":
      return geminiProvider(settings);
    case "echo":
      return echoProvider(settings);
    case "function":
      return functionProvider(settings);
    case "own":
      throw new PerigeeError(
        "invalid_config",
        `provider ${settings.name}: protocol "own" is that of a codec in code; pass the codec to createEngine`,
      );
  }
}

function hosted(baseUrl: string, prefix: string): KnownProvider {
  return {
    protocol: "openai",
    baseUrl,
    keyVariables: [`${prefix}_API_KEY`],
    baseUrlVariables: [`${prefix}_BASE_URL`],
    needsKey: true,
  };
}

function selfHosted(port: number, prefix: string): KnownProvider {
  return { ...hosted(`http://127.0.0.1:${port}/v1`, prefix), needsKey: false };
}
