/**
 * Providers by name, and the head of each model's requests, made once.
 */
import type { Provider, ProviderSettings, WireHead } from "../../providers/provider.ts";
import { createProvider } from "../../providers/registry.ts";
import { parseModelId } from "../../work/request.ts";

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

  /** The model must name a known provider, as every measured item does. */
  of(model: string): Wire {
    const known = this.#byModel.get(model);
    if (known !== undefined) return known;
    const id = parseModelId(model);
    const provider = id === undefined ? undefined : this.#providers.get(id.provider);
    if (id === undefined || provider === undefined) throw new Error(`no provider for ${model}`);
    const wire = { provider, head: provider.head(id.name) };
    if (this.#byModel.size >= MODELS_MAX) this.#byModel.clear();
    this.#byModel.set(model, wire);
    return wire;
  }
}
