/**
 * A provider of the AI SDK whose calls are durable, limited work of perigee: of an engine in this process, or of a service.
 */
import { PerigeeError } from "../errors.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import type { Asks } from "./asking.ts";
import { UnknownKindError } from "./call_error.ts";
import { embeddingModel, type PerigeeEmbeddingModel } from "./embedding_model.ts";
import { type AskedEngine, EngineAsking } from "./engine_asking.ts";
import { languageModel, type ModelTerms, type PerigeeLanguageModel } from "./language_model.ts";
import type { ModelVersion } from "./model_call.ts";
import { type AskedService, ServiceAsking } from "./service_asking.ts";

/** Options of `createPerigee`. */
export interface PerigeeOptions<V extends ModelVersion = ModelVersion> {
  /**
   * The program's name for its work, 1 to 512 bytes: calls of programs with other names are other calls. Change it to ask everything anew.
   * Default: `ai`.
   */
  readonly id?: string;
  /** Of models whose own options have none. Minutes, 1 to 43,200; default: at once. */
  readonly sla?: number;
  /**
   * Days, 1 to 3,650, that an engine keeps calls and their answers after they were made, or after their deadline; then the same call is asked anew.
   * Default: 30. A service has its own.
   */
  readonly retentionDays?: number;
  /** Of the specification that the models have; default `v3`, which `ai` 6 takes. `ai` 5 takes `v2`, `ai` 7 `v4`. */
  readonly version?: V;
}

/** Options of one model. */
export interface PerigeeModelOptions {
  /** Minutes, 1 to 43,200; default: that of the provider. */
  readonly sla?: number;
}

/** `ProviderV2`, `ProviderV3` or `ProviderV4` of the AI SDK, by its version, and callable like one of its providers. */
export interface PerigeeProvider<V extends ModelVersion> {
  (modelId: string, options?: PerigeeModelOptions): PerigeeLanguageModel<V>;
  readonly specificationVersion: V;
  /** `modelId` is `<provider>:<name>`, or an alias of the configuration. Throws `usage` for an sla out of range. */
  languageModel(modelId: string, options?: PerigeeModelOptions): PerigeeLanguageModel<V>;
  /** As `languageModel`. */
  embeddingModel(modelId: string, options?: PerigeeModelOptions): PerigeeEmbeddingModel<V>;
  /** The name of `embeddingModel` in version 2. */
  textEmbeddingModel(modelId: string, options?: PerigeeModelOptions): PerigeeEmbeddingModel<V>;
  /** Throws an `UnknownKindError`. */
  imageModel(modelId: string): never;
}

/**
 * A provider for the AI SDK: `generateText({ model: perigee("openai:gpt-5-mini", { sla: 60 }), prompt })`. Calls are asked once, also when the
 * program is killed and started again: what was answered is read again, and what was in flight at the kill is asked once more, or, of a
 * service, not at all. Throws `usage`.
 */
export function createPerigee<V extends ModelVersion = "v3">(
  source: AskedEngine | AskedService,
  options: PerigeeOptions<V> = {},
): PerigeeProvider<V> {
  const { id: work = "ai", sla, retentionDays, version = "v3" as V } = options; // the default of `V`
  if (!["v2", "v3", "v4"].includes(version))
    throw usage(`version must be "v2", "v3" or "v4", got ${JSON.stringify(version)}`);
  if (typeof work !== "string" || work === "" || Buffer.byteLength(work) > 512)
    throw usage("id must be a text of 1 to 512 bytes");
  parseSlaMinutes(sla, "createPerigee");
  const asks = asksOf(source, retentionDays);
  const termsOf = (kind: string, modelId: string, own: PerigeeModelOptions = {}): ModelTerms => {
    const minutes = parseSlaMinutes(own.sla, `${kind}("${modelId}")`) ?? sla;
    return { sla: minutes, work };
  };
  const language = (modelId: string, own?: PerigeeModelOptions): PerigeeLanguageModel<V> =>
    languageModel(version, modelId, asks, termsOf("languageModel", modelId, own));
  const embedding = (modelId: string, own?: PerigeeModelOptions): PerigeeEmbeddingModel<V> =>
    embeddingModel(version, modelId, asks, termsOf("embeddingModel", modelId, own));
  return Object.assign((modelId: string, own?: PerigeeModelOptions) => language(modelId, own), {
    specificationVersion: version,
    languageModel: language,
    embeddingModel: embedding,
    textEmbeddingModel: embedding,
    imageModel: (modelId: string) => {
      throw new UnknownKindError(modelId, "imageModel");
    },
  });
}

const RETENTION_DAYS = 30;
const RETENTION_DAYS_MAX = 3_650;

function asksOf(source: AskedEngine | AskedService, retentionDays: number | undefined): Asks {
  const days = retentionDays ?? RETENTION_DAYS;
  if (!(days >= 1 && days <= RETENTION_DAYS_MAX))
    throw usage(`retentionDays must be 1 to ${RETENTION_DAYS_MAX}, got ${JSON.stringify(days)}`);
  if (typeof source === "object" && source !== null && "submit" in source)
    return new EngineAsking(source, days);
  if (retentionDays !== undefined)
    throw usage("retentionDays is for an engine; a service is started with its own");
  const { url, apiKey } = source ?? {};
  if (typeof url !== "string" || !URL.canParse(url) || typeof apiKey !== "string" || apiKey === "")
    throw usage("expected an engine, or { url, apiKey } of a service, whose url is absolute");
  return new ServiceAsking(source);
}

function usage(fault: string): PerigeeError {
  return new PerigeeError("usage", `createPerigee: ${fault}`);
}
