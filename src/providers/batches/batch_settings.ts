/**
 * What a configuration may say of a provider's batches: every bound that differs by account, or that no provider documents, can be
 * set, so that no default has to be true.
 */
import type { BatchEndpoint, BatchLimits, BatchTraits } from "./batch_wire.ts";

/** Instead of what a wire knows of its provider; absent members stay as the wire has them. */
export interface BatchSettings extends Partial<BatchLimits> {
  /** The wire of a provider without one under its own name, such as `compatible` for a custom server; see `batchWireOf`. */
  readonly wire?: string;
  readonly endpoints?: readonly BatchEndpoint[];
  readonly takes?: Partial<BatchTraits["takes"]>;
  /** The `completion_window` that is sent, such as `24h`; absent: the only one that a provider has, or `windowMs` in hours. */
  readonly completionWindow?: string;
  /** The number that the provider gives to the first line when it reports a faulty one. */
  readonly firstLine?: 0 | 1;
  /** When the provider deletes uploaded files by itself, in ms after the upload, at least a day after the window; 0: not asked for. */
  readonly fileExpiryMs?: number;
  /** Gemini: batches up to so many bytes are sent in the body of the create; 0: none. Default: 15,000,000. */
  readonly inlineBytesMax?: number;
  /** Gemini: whom it notifies of the end of a batch, instead of the webhooks that the account has. */
  readonly webhook?: { readonly uris: readonly string[]; readonly userMetadata?: object };
  /** xAI: ticks of a dollar, of which costs are a number. Default: 10,000,000,000. */
  readonly ticksPerUsd?: number;
}

const LIMITS = [
  "itemsMax",
  "bytesMax",
  "inputsMax",
  "openMax",
  "enqueuedTokensMax",
  "addBytesMax",
  "addItemsMax",
  "windowMs",
  "keptMs",
] as const satisfies readonly (keyof BatchLimits)[];

/** The limits that the settings have. */
export function limitsIn(given: BatchSettings): Partial<BatchLimits> {
  const limits = LIMITS.map((name) => [name, given[name]] as const);
  return Object.fromEntries(limits.filter(([, value]) => value !== undefined));
}

/** The traits with what the settings say. */
export function traitsWith(traits: BatchTraits, { endpoints, takes }: BatchSettings): BatchTraits {
  return { ...traits, endpoints: endpoints ?? traits.endpoints, takes: { ...traits.takes, ...takes } };
}
