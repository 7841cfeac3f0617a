/**
 * The models that callers of the front may name: aliases, `<provider>:<name>`, and bare names, which are OpenAI's.
 */
import type { EngineConfig } from "../../engine/config/config.ts";
import { nearest } from "../../nearest.ts";
import { listedModels } from "../../price/base.ts";
import { parseModelId } from "../../work/request.ts";
import { StatedError } from "../http/errors.ts";

/** The provider of names without one. */
const BARE_PROVIDER = "openai";

/** A model as OpenAI's clients see it. */
export interface ServedModel {
  readonly id: string;
  /** Its provider; `perigee` for an alias. */
  readonly owner: string;
}

type ServedConfig = Pick<EngineConfig, "providers" | "providerNames" | "keysMissing" | "aliases" | "prices">;

/** One for a service. */
export class ServedModels {
  readonly #config: ServedConfig;
  readonly #owners: ReadonlySet<string>;

  constructor(config: ServedConfig) {
    this.#config = config;
    this.#owners = new Set([...config.providerNames].filter((name) => !config.keysMissing.has(name)));
  }

  /** Aliases, then the models with a known price of every provider that can be reached. Others may be named, too. */
  list(): readonly ServedModel[] {
    const found = new Map<string, string>();
    for (const alias of this.#config.aliases.members.keys()) found.set(alias, "perigee");
    for (const id of Object.keys(this.#config.prices ?? {})) {
      const provider = parseModelId(id)?.provider ?? "";
      if (this.#owners.has(provider) && !id.includes("*")) found.set(id, provider);
    }
    for (const provider of this.#owners)
      for (const name of listedModels(provider)) found.set(`${provider}:${name}`, provider);
    return [...found].map(([id, owner]) => ({ id, owner }));
  }

  /** What an item names for it. Throws 404 `model_not_found` for a model that no configured provider serves. */
  resolve(model: string): string {
    if (this.#config.aliases.members.has(model)) return model;
    const id = parseModelId(model);
    const isWhole = id !== undefined && this.#config.providerNames.has(id.provider);
    const provider = isWhole ? id.provider : BARE_PROVIDER;
    if (!isWhole && model.startsWith(`${BARE_PROVIDER}:`)) throw unknownModel(model, "a name is missing");
    const meant = isWhole || id === undefined ? undefined : this.#meant(id.provider);
    if (meant !== undefined) throw unknownModel(model, `did you mean the provider ${JSON.stringify(meant)}?`);
    const missing = this.#config.keysMissing.get(provider);
    if (missing === undefined) return isWhole ? model : `${BARE_PROVIDER}:${model}`;
    const unknown =
      isWhole || id === undefined ? "" : `no provider ${JSON.stringify(id.provider)} is configured, `;
    const whose = isWhole ? "" : `${unknown}a name without a provider is ${BARE_PROVIDER}'s, and `;
    throw unknownModel(model, `${whose}the service has no key for ${provider}; GET /v1/models lists others`);
  }

  /**
   * The provider that was mistyped. A model's own name may hold colons (`ft:gpt-4o:org`), so only one wrong letter counts, as in lines
   * of files: what is for one provider is not sent to another.
   */
  #meant(name: string): string | undefined {
    return nearest(name, this.#config.providerNames, 1);
  }

  /** The model that an alias asks first; any other name as it is. */
  first(model: string): string {
    return this.#config.aliases.members.get(model)?.[0] ?? model;
  }

  /** Whether all providers that may answer speak OpenAI's protocol; `model` as `resolve` returns it. */
  isOpenais(model: string): boolean {
    const { aliases, providers } = this.#config;
    return (aliases.members.get(model) ?? [model]).every((each) => {
      const name = parseModelId(each)?.provider;
      return providers.find((provider) => provider.name === name)?.protocol === "openai";
    });
  }

  /** Throws as `resolve`. */
  model(id: string): ServedModel {
    const owner = this.#config.aliases.members.has(id)
      ? "perigee"
      : (parseModelId(this.resolve(id))?.provider ?? BARE_PROVIDER);
    return { id, owner };
  }
}

/** 404, in OpenAI's words. */
function unknownModel(model: string, reason: string): StatedError {
  const message = `the model ${JSON.stringify(model)} is not served here: ${reason}`;
  return new StatedError(404, { code: "model_not_found", message, param: "model" });
}
