/**
 * An embedding model of the AI SDK as the member `embed` of a provider function.
 *
 *   dimensions    of the model's provider (`providerOptions.openai.dimensions`; of Google's `outputDimensionality`); a model that answers another
 *                 number of them fails the item, because it has ignored them
 *   others        of the model's provider, in camelCase: `user`, `task_type`
 *
 * A model that takes fewer values than a request has is called several times, one after the other.
 */
import type { EmbedAnswer, EmbedFunction, EmbedRequest } from "../providers/endpoints/function_embeddings.ts";
import type { EmbeddingCall } from "./embedding_call.ts";
import { checkVersion, marked, permanent } from "./model_errors.ts";

/** An embedding model object of version 2, 3 or 4: what of it is used. */
export interface CalledEmbeddingModel {
  readonly specificationVersion: string;
  readonly modelId: string;
  readonly provider: string;
  readonly maxEmbeddingsPerCall: PromiseLike<number | undefined> | number | undefined;
  doEmbed(call: EmbeddingCall): PromiseLike<CalledEmbeddings>;
}

/** What a model resolves with. */
export interface CalledEmbeddings {
  readonly embeddings: readonly (readonly number[])[];
  readonly usage?: { readonly tokens: number } | undefined;
}

type AnyModel = CalledEmbeddingModel | { readonly specificationVersion: string; readonly modelId: string };

/** Undefined for a model object that does not embed. */
export function embedder(model: AnyModel | ((name: string) => AnyModel)): EmbedFunction | undefined {
  if (typeof model === "function") return embedWith(model);
  if (!("doEmbed" in model)) return undefined;
  const { maxEmbeddingsPerCall: most } = model;
  const embed = embedWith(() => model);
  return isLimit(most) ? Object.assign(embed, { inputsMax: most }) : embed;
}

function embedWith(named: (name: string) => AnyModel): EmbedFunction {
  return async (request, { signal }) => {
    try {
      const model = named(request.model);
      checkVersion(model);
      if (!("doEmbed" in model)) throw permanent(`the model "${model.modelId}" does not embed texts`);
      return await embedded(model, request, signal);
    } catch (error) {
      throw marked(error);
    }
  };
}

async function embedded(
  model: CalledEmbeddingModel,
  { texts, dimensions, more = {} }: EmbedRequest,
  abortSignal: AbortSignal,
): Promise<EmbedAnswer> {
  const most = await model.maxEmbeddingsPerCall;
  const step = isLimit(most) ? most : texts.length;
  const [provider = ""] = model.provider.split(".", 1); // such as openai of openai.embedding
  const length = /^google/.test(provider) ? "outputDimensionality" : "dimensions";
  const settings: Record<string, unknown> = {
    ...Object.fromEntries(Object.entries(more).map(([name, value]) => [camelCase(name), value])),
    ...(dimensions === undefined ? {} : { [length]: dimensions }),
  };
  const options = Object.keys(settings).length === 0 ? {} : { providerOptions: { [provider]: settings } };
  const embeddings: (readonly number[])[] = [];
  let inputTokens: number | undefined = 0;
  for (let from = 0; from < texts.length; from += step) {
    const values = texts.slice(from, from + step);
    const { embeddings: some, usage } = await model.doEmbed({ values, abortSignal, ...options });
    embeddings.push(...some);
    inputTokens = inputTokens === undefined || usage === undefined ? undefined : inputTokens + usage.tokens;
  }
  const other = embeddings.find((embedding) => embedding.length !== (dimensions ?? embedding.length));
  if (other !== undefined)
    throw permanent(
      `dimensions: the model "${model.modelId}" answered ${other.length} instead of ${dimensions}`,
    );
  return { embeddings, ...(inputTokens === undefined ? {} : { inputTokens }) };
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** `Infinity`: unlimited. */
function isLimit(most: unknown): most is number {
  return Number.isInteger(most) && (most as number) >= 1;
}
