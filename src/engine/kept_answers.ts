/**
 * What answers take (schedule/answer_means.ts), kept for later processes: by provider, address, fingerprint of the key, and
 * model. Sums and hashes of system prompts; no texts.
 *
 * What is read back is checked: the file is the user's, and another version may have written it.
 *
 * Limits: 32 system prompts a model, those answered last.
 */
import type { ProviderSettings } from "../providers/provider.ts";
import type { AnswerMeans, AnswerSums } from "../schedule/answer_means.ts";
import { accountName, type JsonValue, type LearntStore } from "../store/learnt.ts";
import { isObject } from "../work/json.ts";

const KIND = "answers";
const PROMPTS_MAX = 32;
const DIGITS = 6;

/** Gives `means` what is known of all models of these providers, and keeps what it learns. Once for an engine. */
export function keepAnswers(
  store: LearntStore,
  providers: readonly ProviderSettings[],
  means: AnswerMeans,
): void {
  const accounts = new Map(providers.map((settings) => [settings.name, accountName(settings)]));
  for (const key of store.keys(KIND)) {
    const sums = sumsOf(store.get(KIND, key));
    for (const [provider, account] of accounts)
      if (sums !== undefined && key.startsWith(`${account} `))
        means.restore(`${provider}:${key.slice(account.length + 1)}`, sums);
  }
  store.source(() => {
    for (const [model, sums] of means.changes()) {
      const end = model.indexOf(":");
      const account = accounts.get(model.slice(0, end));
      if (account !== undefined) store.put(KIND, `${account} ${model.slice(end + 1)}`, keptOf(sums));
    }
  });
}

function keptOf({ all, promptsSeen, prompts }: AnswerSums): JsonValue {
  const kept = prompts.slice(-PROMPTS_MAX).map(([prompt, sums]) => [prompt, ...sums.map(rounded)]);
  return { all: all.map(rounded), promptsSeen, prompts: kept };
}

function rounded(sum: number): number {
  return Number(sum.toPrecision(DIGITS));
}

function sumsOf(kept: unknown): AnswerSums | undefined {
  if (!isObject(kept)) return undefined;
  const { all, promptsSeen, prompts } = kept;
  if (!isNumbers(all) || typeof promptsSeen !== "number" || !Array.isArray(prompts)) return undefined;
  const rows = prompts.filter(isNumbers);
  return { all, promptsSeen, prompts: rows.map(([prompt = 0, ...sums]) => [prompt, sums]) };
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => typeof each === "number");
}
