/**
 * Gemini's deferred tier: single requests of the Interactions API that are answered within 24 hours, and are asked for by their ids.
 * Source: the types and the requests of @google/genai 2.32.
 *
 *   POST   {base}/{version}/interactions                     {model, input, service_tier: "deferred", background, store} -> {id, status}
 *   GET    {base}/{version}/interactions/{id}?stream=false   the same with its steps and its usage
 *   POST   {base}/{version}/interactions/{id}/cancel
 *   DELETE {base}/{version}/interactions/{id}
 *
 * To the engine a request is a batch of one. Nothing lists interactions, and a create has no token: one whose answer was lost may be
 * paid for and is never found.
 *
 * Limits: answered within 24 hours and kept for 7 days (documented). How many may be open is not documented: 256 are, because each is
 * polled for itself.
 */
import { versionedPath, wireAddress } from "../address.ts";
import { failureOf } from "../batches/batch_failure.ts";
import { batchHost } from "../batches/batch_host.ts";
import { keepingBatchKeys } from "../batches/batch_keys.ts";
import type { BatchTraits, RemoteWire } from "../batches/batch_wire.ts";
import { successOf } from "../batches/remote_batch.ts";
import { GEMINI_VERSION } from "../codecs/gemini.ts";
import type { ProviderSettings } from "../provider.ts";
import { interactionOf, interactionResult } from "./interaction.ts";
import { interactionBytes, interactionRequest } from "./interaction_request.ts";

/** What a configuration may say of the deferred tier of a provider, instead of what is known or assumed here. */
export interface DeferredSettings {
  /** Of the interactions at the provider's origin. Default: `{base}/{version}/interactions`. */
  readonly path?: string;
  /** Requests that may be open at once; 256. */
  readonly openMax?: number;
  /** How long the provider works on a request; 24 hours. */
  readonly windowMs?: number;
}

const HOUR_MS = 3_600_000;
const DEFAULTS = { openMax: 256, windowMs: 24 * HOUR_MS, keptMs: 7 * 24 * HOUR_MS } as const;
/** Of a body, as of generateContent. */
const BYTES_MAX = 20_000_000;
/** What a request has more than one of generateContent, at most. */
const OVERHEAD_BYTES = 400;
const TRAITS: BatchTraits = {
  endpoints: ["chat"],
  tag: "ids",
  canCancel: true,
  keepsOnCancel: true, // one that has ended is not cancelled
  showsFinished: false,
  showsProgress: false,
  mixesModels: false,
  takes: { tools: false, images: false, schemas: true },
};

/** The wire of a provider's deferred tier; undefined where its protocol has none. Throws `invalid_config` for an invalid base URL. */
export function deferredWireOf(
  settings: ProviderSettings,
  given: DeferredSettings = {},
): RemoteWire | undefined {
  if (settings.protocol !== "gemini" || settings.hasOwnCodec === true) return undefined;
  const address = wireAddress(settings, settings.key === undefined ? {} : { "x-goog-api-key": settings.key });
  const host = batchHost(address);
  const { path, ...limits } = given;
  const base = path ?? `${versionedPath(address.path, settings.apiVersion ?? GEMINI_VERSION)}/interactions`;
  const at = (id: string): string => `${base}/${encodeURIComponent(id)}`;
  const get = (id: string): ReturnType<RemoteWire["get"]> =>
    host.request("GET", at(id), { query: { stream: "false" } });
  return keepingBatchKeys({
    settings,
    kind: "deferred",
    limits: { itemsMax: 1, bytesMax: BYTES_MAX, ...DEFAULTS, ...limits },
    traits: TRAITS,
    takesBody: (body) => interactionRequest(body, "") !== undefined,
    line: (_, body, { model }) => interactionBytes(body, model) ?? body,
    lineOverheadBytes: () => OVERHEAD_BYTES,
    upload: () => undefined,
    create: () =>
      host.request("POST", base, { body: { kind: "lines", before: "", separator: ",", after: "" } }),
    read: (answer, what = "create") => {
      const batch = interactionOf(successOf(answer), get);
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    get,
    cancel: (id) => host.request("POST", `${at(id)}/cancel`),
    result: interactionResult,
    remove: ({ id }) => [host.request("DELETE", at(id))],
  });
}
