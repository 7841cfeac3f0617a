/**
 * Tables keyed by model, where a key is `<provider>:<model>` or a prefix of one followed by `*`.
 *
 * The exact key wins, then the longest prefix: `openai:gpt-6-sol` before `openai:gpt-6*` before `openai:*` before `*`.
 */

/** The key of `table` that covers `model` best; undefined when no key does. */
export function matchingKey(table: Readonly<Record<string, unknown>>, model: string): string | undefined {
  if (Object.hasOwn(table, model)) return model;
  let best: string | undefined;
  for (const key of Object.keys(table)) {
    if (!key.endsWith("*") || !model.startsWith(key.slice(0, -1))) continue;
    if (best === undefined || key.length > best.length) best = key;
  }
  return best;
}

/** Whether `key` can name models in such a table. */
export function isModelPattern(key: string): boolean {
  return key === "*" || /^[^:*]+:[^*]*\*?$/.test(key) || /^[^:*]+\*$/.test(key);
}
