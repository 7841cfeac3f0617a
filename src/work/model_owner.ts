/**
 * Suggests the provider of a model that was named without one, by how the name begins.
 */

/** Beginnings of names, by provider; state 2026-11-22. */
const NAMES: readonly (readonly [pattern: RegExp, provider: string])[] = [
  [/^(?:gpt-|chatgpt-|o[1-9](?:-|$)|ft:gpt-)/i, "openai"],
  [/^claude-/i, "anthropic"],
  [/^(?:gemini-|gemma-)/i, "gemini"],
];
const NAME_CHARS_MAX = 64;

/** `; did you mean "openai:gpt-4o"?`; an empty text for any other value. */
export function meantModel(name: unknown): string {
  if (typeof name !== "string" || name.length > NAME_CHARS_MAX) return "";
  const [, provider] = NAMES.find(([pattern]) => pattern.test(name)) ?? [];
  return provider === undefined ? "" : `; did you mean ${JSON.stringify(`${provider}:${name}`)}?`;
}
