/**
 * An embedding model of the AI SDK whose values are items of perigee.
 *
 * `embedMany` cuts its values into calls of at most 256, all at once. perigee puts values of calls that wait together into requests of as
 * many as the provider takes, so this number decides only what is named and found again as one.
 */
import type { LibraryObject } from "../engine/library.ts";
import type { Embedding } from "../work/outcome.ts";
import type { Asks } from "./asking.ts";
import { ModelCallError } from "./call_error.ts";
import { type EmbeddingCall, itemsOfEmbedding } from "./embedding_call.ts";
import { allWarnings, type CallFacts, type WarningOf, warningsOf } from "./generated.ts";
import type { ModelTerms } from "./language_model.ts";
import type { ModelVersion } from "./model_call.ts";

const VALUES_MAX = 256;

/** What a call resolves with. */
export interface Embedded<V extends ModelVersion> {
  /** In the order of the values. */
  embeddings: number[][];
  usage: { tokens: number };
  /** Under `perigee`: `taskId`, `model`, `costUsd` and other facts, of all values together. */
  providerMetadata: { perigee: CallFacts };
  warnings: WarningOf<V>[];
}

/** A model: `EmbeddingModelV2<string>`, `EmbeddingModelV3` or `EmbeddingModelV4` of the AI SDK, by its version. */
export interface PerigeeEmbeddingModel<V extends ModelVersion> {
  readonly specificationVersion: V;
  readonly provider: string;
  /** `<provider>:<name>`, or an alias of the configuration. */
  readonly modelId: string;
  readonly maxEmbeddingsPerCall: number;
  readonly supportsParallelCalls: true;
  /** Rejects with a `ModelCallError`, the reason of the call's signal, or the `PerigeeError` of a call that is not valid. */
  doEmbed(call: EmbeddingCall): Promise<Embedded<V>>;
}

/** The model of an id. */
export function embeddingModel<V extends ModelVersion>(
  version: V,
  modelId: string,
  asks: Asks,
  { sla, work }: ModelTerms,
): PerigeeEmbeddingModel<V> {
  return {
    specificationVersion: version,
    provider: "perigee",
    modelId,
    maxEmbeddingsPerCall: VALUES_MAX,
    supportsParallelCalls: true,
    doEmbed: async (call) => {
      const called = itemsOfEmbedding(modelId, call, sla);
      const name = asks.names.nameOfValues(work, called);
      const { taskId, objects } = await asks.ask(called.items, name, { signal: call.abortSignal });
      const warnings = [...called.warnings, ...objects.flatMap(allWarnings).filter(isFirst)];
      return {
        embeddings: objects.map((object, index) => numbersIn(object, `values[${index}]`, taskId)),
        usage: { tokens: sumOf(objects, ({ usage }) => usage.inputTokens) },
        providerMetadata: { perigee: factsOf(taskId, objects) },
        warnings: warningsOf(version, warnings),
      };
    },
  };
}

function numbersIn({ output }: LibraryObject, where: string, taskId: string): number[] {
  const embedding: Embedding | undefined = output?.type === "embedding" ? output.embedding : undefined;
  if (typeof embedding === "string") {
    const bytes = Uint8Array.from(Buffer.from(embedding, "base64")); // a copy begins where a Float32Array may
    return Array.from(new Float32Array(bytes.buffer, 0, Math.floor(bytes.byteLength / 4)));
  }
  if (embedding !== undefined) return [...embedding];
  throw new ModelCallError(`${where}: task ${taskId} has no embedding for it`, {
    code: "internal_error",
    taskId,
  });
}

function factsOf(taskId: string, objects: readonly LibraryObject[]): CallFacts {
  const model = objects[0]?.model;
  return {
    taskId,
    ...(model === undefined ? {} : { model }),
    costUsd: sumOf(objects, ({ cost }) => cost?.billedUsd ?? 0),
    ambiguousUsd: sumOf(objects, ({ cost }) => cost?.ambiguousUsd ?? 0),
  };
}

function sumOf(objects: readonly LibraryObject[], of: (object: LibraryObject) => number): number {
  return objects.reduce((sum, object) => sum + of(object), 0);
}

/** Values of a call have the same settings, so each warning is said once. */
function isFirst<W extends object>(warning: W, index: number, all: readonly W[]): boolean {
  const text = JSON.stringify(warning);
  return all.findIndex((each) => JSON.stringify(each) === text) === index;
}
