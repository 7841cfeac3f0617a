/**
 * What a configuration says of prompt caches, with its defaults.
 *
 * Shortest prefixes: https://developers.openai.com/api/docs/guides/prompt-caching, https://ai.google.dev/gemini-api/docs/caching and
 * https://docs.litellm.ai/docs/completion/prompt_caching (November 2026). Where sources disagree the lower one is taken: a prefix that
 * turns out too short costs nothing more, and is not asked for again.
 */
import { matchingKey } from "../../price/pattern.ts";
import type { ConfigOptions } from "./config_options.ts";

/** All settled. */
export interface PrefixSettings {
  readonly isEnabled: boolean;
  /** Whether shared turns are looked for, too. */
  readonly findsTurns: boolean;
  readonly cacheKeys: ReadonlySet<string>;
  tokensMin(model: string): number;
  ttlMs(model: string): number;
}

const MIN_TOKENS: Readonly<Record<string, number>> = {
  "*": 1_024,
  "anthropic:claude-3-haiku*": 2_048,
  "anthropic:claude-3-5-haiku*": 2_048,
  "anthropic:claude-haiku-4-5*": 4_096,
  "anthropic:claude-opus-4-5*": 4_096,
  "anthropic:claude-opus-4-6*": 4_096,
  "gemini:*": 4_096,
  "gemini:gemini-2.5*": 2_048,
};
/** OpenAI keeps a prefix for 5 to 10 minutes; of others nothing is known. */
const TTL_SECONDS: Readonly<Record<string, number>> = { "*": 300 };

/** What checked options say. */
export function prefixSettings({ prefixes = {} }: ConfigOptions): PrefixSettings {
  const { enabled = true, turns = false, minTokens = {}, ttlSeconds = {}, cacheKeys = ["openai"] } = prefixes;
  return {
    isEnabled: enabled,
    findsTurns: turns,
    cacheKeys: new Set(cacheKeys),
    tokensMin: (model) => covering(minTokens, model) ?? covering(MIN_TOKENS, model) ?? 0,
    ttlMs: (model) => (covering(ttlSeconds, model) ?? covering(TTL_SECONDS, model) ?? 0) * 1_000,
  };
}

function covering(table: Readonly<Record<string, number>>, model: string): number | undefined {
  const key = matchingKey(table, model);
  return key === undefined ? undefined : table[key];
}
