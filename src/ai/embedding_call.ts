/**
 * A call of an embedding model, as the AI SDK makes it, and the items that it becomes: one for each value, so that values of many calls share
 * requests, and a bad one harms no other.
 *
 * Of the options of the model's provider, some have a name that all its endpoints know; the others become a warning.
 *
 * Source: `EmbeddingModelV2` and `EmbeddingModelV3CallOptions` (@ai-sdk/provider 3.0.19). That version 4 has the same call is an assumption.
 */
import type { Item } from "../work/item.ts";
import { headersWarning, ownOptions, sharedMembers } from "./called_item.ts";
import type { CallWarning, ProviderSettingsOfCall } from "./model_call.ts";

/** One call. */
export interface EmbeddingCall {
  /** Texts. */
  values: string[];
  abortSignal?: AbortSignal | undefined;
  headers?: Record<string, string | undefined> | undefined;
  providerOptions?: ProviderSettingsOfCall | undefined;
}

/** What is submitted of a call. */
export interface EmbeddedItems {
  readonly items: readonly Item[];
  readonly key: string | undefined;
  readonly warnings: readonly CallWarning[];
}

/** Options of providers of the AI SDK, and what an item calls them. Written from memory, not compared with their packages. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ["dimensions", "dimensions"],
  ["outputDimensionality", "dimensions"],
  ["user", "user"],
  ["taskType", "task_type"],
]);

/** `sla` is the model's. Throws a `ModelCallError` for options that are not known. */
export function itemsOfEmbedding(model: string, call: EmbeddingCall, sla: number | undefined): EmbeddedItems {
  const own = ownOptions(call);
  const warnings: CallWarning[] = headersWarning(call);
  const shared = sharedMembers(NAMES, model, call, warnings);
  Object.assign(shared, own.more);
  const minutes = own.sla ?? sla;
  if (minutes !== undefined && minutes !== 0) shared["sla"] = minutes;
  if (own.metadata !== undefined) shared["metadata"] = own.metadata;
  const items = call.values.map((input) => ({ kind: "embedding", model, input, ...shared }));
  return { items: items as unknown as Item[], key: own.key, warnings }; // the engine checks each as it does every item
}
