/**
 * Providers by name, and the head of each model's requests, made once.
 */
import type { Provider, ProviderSettings, WireHead } from "../../providers/provider.ts";
import { createProvider } from "../../providers/registry.ts";
import { type EndpointKind, parseModelId } from "../../work/request.ts";

/** Models whose heads are kept; a file that names more has them made again. */
const MODELS_MAX = 10_000;

/** How to reach a model. */
export interface Wire {
  readonly provider: Provider;
  readonly head: WireHead;
}

/** Stable for the life of an engine. */
export class ModelClients {
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #byModel = new Map<string, Wire>();

  /** `codecs`: those that callers brought, by provider. */
  constructor(settings: readonly ProviderSettings[], codecs: ReadonlyMap<string, Provider>) {
    this.#providers = new Map(settings.map((one) => [one.name, codecs.get(one.name) ?? createProvider(one)]));
  }

  /** The model must name a known provider, as every measured item does; so must its provider have the endpoint, by default a chat's. */
  of(model: string, endpoint?: EndpointKind): Wire {
    const name = endpoint === undefined ? model : `${model}\u0003${endpoint}`; // a name has no control characters
    const known = this.#byModel.get(name);
    if (known !== undefined) return known;
    const id = parseModelId(model);
    const chat = id === undefined ? undefined : this.#providers.get(id.provider);
    const provider = endpoint === undefined ? chat : chat?.endpoint?.(endpoint);
    if (id === undefined || provider === undefined) throw new Error(`no provider for ${model}`);
    const wire = { provider, head: provider.head(id.name) };
    if (this.#byModel.size >= MODELS_MAX) this.#byModel.clear();
    this.#byModel.set(name, wire);
    return wire;
  }
}
