/**
 * The batch wires by name, as data: a provider's own name chooses its wire, and settings can choose one for a custom server.
 */
import { PerigeeError } from "../../errors.ts";
import { suggestion } from "../../nearest.ts";
import type { Protocol, ProviderSettings } from "../provider.ts";
import { anthropicBatches } from "./anthropic_batches.ts";
import { keepingBatchKeys } from "./batch_keys.ts";
import { type BatchSettings, traitsWith } from "./batch_settings.ts";
import type { BatchWire } from "./batch_wire.ts";
import { geminiBatches } from "./gemini_batches.ts";
import { mistralBatches } from "./mistral_batches.ts";
import { openaiBatches } from "./openai_batches.ts";
import { OPENAI_SERVERS } from "./openai_servers.ts";
import { openrouterBatches } from "./openrouter_batches.ts";
import { togetherBatches } from "./together_batches.ts";
import { xaiBatches } from "./xai_batches.ts";

interface NamedWire {
  /** What the bodies of its requests are made by. */
  readonly protocol: Protocol;
  /** With the limits and windows of `given`; its endpoints, and what requests may hold, replace the wire's afterwards. */
  make(settings: ProviderSettings, given: BatchSettings): BatchWire;
}

/** By the name of a provider, which is that of its wire. */
const WIRES: ReadonlyMap<string, NamedWire> = new Map<string, NamedWire>([
  ...[...OPENAI_SERVERS].map(([name, server]): [string, NamedWire] => [
    name,
    { protocol: "openai", make: (settings, given) => openaiBatches(settings, server, given) },
  ]),
  ["anthropic", { protocol: "anthropic", make: anthropicBatches }],
  ["gemini", { protocol: "gemini", make: geminiBatches }],
  ["google", { protocol: "gemini", make: geminiBatches }],
  ["mistral", { protocol: "openai", make: mistralBatches }],
  ["openrouter", { protocol: "openai", make: openrouterBatches }],
  ["together", { protocol: "openai", make: togetherBatches }],
  ["xai", { protocol: "openai", make: xaiBatches }],
]);

/**
 * The batch wire of a provider: the one that `given.wire` names, else the one of its name; undefined for a provider without one, or where the
 * provider's protocol is another than the wire's. Throws `invalid_config` for a `given.wire` that is not known or does not fit the
 * protocol, and for an invalid base URL.
 */
export function batchWireOf(settings: ProviderSettings, given: BatchSettings = {}): BatchWire | undefined {
  const name = given.wire ?? settings.name;
  const known = WIRES.get(name);
  const fits = known !== undefined && known.protocol === settings.protocol && settings.hasOwnCodec !== true;
  if (fits) {
    const wire = known.make(settings, given);
    return keepingBatchKeys({ ...wire, traits: traitsWith(wire.traits, given) });
  }
  if (given.wire === undefined) return undefined;
  const fault =
    known === undefined
      ? `batch wire "${name}" is not known; ${suggestion(name, [...WIRES.keys()])}`
      : `batch wire "${name}" needs protocol "${known.protocol}", got "${settings.protocol}"`;
  throw new PerigeeError("invalid_config", `provider ${settings.name}: ${fault}`);
}
