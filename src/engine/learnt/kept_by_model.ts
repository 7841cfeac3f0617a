/**
 * Figures of models, kept for later processes by provider, address and fingerprint of the key, and by the model's name.
 */
import type { ProviderSettings } from "../../providers/provider.ts";
import { accountName, type JsonValue, type LearntStore } from "../../store/learnt.ts";

/** What learns of models, `<provider>:<name>`. */
export interface ModelFigures {
  /** Begins with what an earlier process knew of a model. What is not as expected is ignored: the file is the user's. */
  restore(model: string, kept: unknown): void;
  /** What is known of each model that has changed since the last call. */
  changes(): Iterable<readonly [model: string, figures: JsonValue]>;
}

/** Loads what is known of all models of these providers into `figures`, and keeps what it learns. Once for an engine and kind. */
export function keepByModel(
  store: LearntStore,
  providers: readonly ProviderSettings[],
  kind: string,
  figures: ModelFigures,
): void {
  const accounts = new Map(providers.map((settings) => [settings.name, accountName(settings)]));
  for (const key of store.keys(kind))
    for (const [provider, account] of accounts)
      if (key.startsWith(`${account} `))
        figures.restore(`${provider}:${key.slice(account.length + 1)}`, store.get(kind, key));
  store.source(() => {
    for (const [model, value] of figures.changes()) {
      const end = model.indexOf(":");
      const account = accounts.get(model.slice(0, end));
      if (account !== undefined) store.put(kind, `${account} ${model.slice(end + 1)}`, value);
    }
  });
}
