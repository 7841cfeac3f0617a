/**
 * Which encoding counts a model's tokens, and how well: exactly where the provider published it, else the nearest
 * encoding times a factor.
 *
 *   exact      OpenAI: o200k_base from gpt-4o on (gpt-oss too), cl100k_base for gpt-4 and gpt-3.5; echo
 *   estimated  tokens = ceil(count x factor); factors as in FAMILIES, chosen to be high rather than low on English
 *
 * Claude: OpenAI's encodings count 15 to 20 % low, and the tokenizer of Opus 4.7, Sonnet 5 and later makes about 30 %
 * more again (platform.claude.com, token counting, 2026). Llama 3 and Qwen extend cl100k_base; Tekken (Mistral) and the
 * others have vocabularies of 100,000 to 262,000 tokens, the size of o200k_base.
 */
import type { EncodingName } from "./ranks.ts";

/** How to count for one model. */
export interface Tokenizer {
  readonly encoding: EncodingName;
  /** What to multiply a count by; 1 when it is exact. */
  readonly factor: number;
  /** True when the model's own tokenizer is not available and counts carry the factor. */
  readonly isEstimated: boolean;
}

const O200K: Tokenizer = { encoding: "o200k_base", factor: 1, isEstimated: false };
const CL100K: Tokenizer = { encoding: "cl100k_base", factor: 1, isEstimated: false };
const CLAUDE: Tokenizer = { encoding: "o200k_base", factor: 1.2, isEstimated: true };
const CLAUDE_FROM_4_7: Tokenizer = { encoding: "o200k_base", factor: 1.55, isEstimated: true };
const UNKNOWN: Tokenizer = { encoding: "o200k_base", factor: 1.2, isEstimated: true };

/** Families by the name of the model, for any provider; the first that matches counts. */
const FAMILIES: readonly (readonly [RegExp, Tokenizer])[] = [
  // A distilled model keeps the tokenizer of the model that was taught.
  [/distill.*llama|llama.*distill/, { encoding: "cl100k_base", factor: 1.1, isEstimated: true }],
  [/distill.*qwen|qwen.*distill/, { encoding: "cl100k_base", factor: 1.15, isEstimated: true }],
  [/gpt-?oss|gpt-?4o|chatgpt|gpt-?4[.-][15](?![0-9])/, O200K],
  [/gpt-?(3\.?5|4)(?![0-9])|text-embedding-(3|ada)/, CL100K],
  [/^gpt-?[5-9]|^o[1-9]([-.]|$)|^codex|^computer-use/, O200K],
  [/gemini|gemma|learnlm/, { encoding: "o200k_base", factor: 1.1, isEstimated: true }],
  [
    /llama-?2|codellama|vicuna|mi[sx]tral-7b|mixtral/,
    { encoding: "cl100k_base", factor: 1.3, isEstimated: true },
  ],
  [/llama|hermes/, { encoding: "cl100k_base", factor: 1.1, isEstimated: true }],
  [/deepseek/, { encoding: "o200k_base", factor: 1.1, isEstimated: true }],
  [
    /mistral|ministral|magistral|codestral|devstral|pixtral|voxtral/,
    { encoding: "o200k_base", factor: 1.1, isEstimated: true },
  ],
  // Qwen splits numbers into single digits.
  [/qwen|qwq|qvq/, { encoding: "cl100k_base", factor: 1.15, isEstimated: true }],
  [
    /kimi|moonshot|glm|grok|command|minimax|phi-?[345]|nova|olmo/,
    { encoding: "o200k_base", factor: 1.15, isEstimated: true },
  ],
];

/**
 * The tokenizer of a model. The name of the model decides, with what is before its last `/` left out
 * (`openrouter` serves `anthropic/claude-sonnet-4.5`), then the provider: unknown models of `openai` and `azure` count as
 * o200k_base, `echo` always does; for all else the factor is 1.2.
 */
export function tokenizerOf(provider: string, model: string): Tokenizer {
  if (provider === "echo") return O200K;
  const path = model.toLowerCase();
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/^ft:/, "");
  if (name.includes("claude")) return claudeTokenizer(name);
  for (const [pattern, tokenizer] of FAMILIES) if (pattern.test(name)) return tokenizer;
  if (provider === "anthropic") return CLAUDE_FROM_4_7;
  if (provider === "openai" || provider === "azure" || path.startsWith("openai/")) return O200K;
  return UNKNOWN;
}

/** A Claude name without a version (an alias for the latest, a new family) has the newer tokenizer. */
function claudeTokenizer(name: string): Tokenizer {
  const parts = name.slice(name.indexOf("claude")).split(/[-.@:_]/);
  const isVersion = (part: string | undefined): part is string => /^v?[0-9]{1,2}$/.test(part ?? "");
  const at = parts.findIndex((part) => isVersion(part));
  if (at < 0) return parts.includes("instant") ? CLAUDE : CLAUDE_FROM_4_7;
  const major = Number((parts[at] as string).replace("v", ""));
  const next = parts[at + 1];
  const minor = isVersion(next) && !next.startsWith("v") ? Number(next) : 0;
  return major > 4 || (major === 4 && minor >= 7) ? CLAUDE_FROM_4_7 : CLAUDE;
}
