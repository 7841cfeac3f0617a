/**
 * A language model of the AI SDK whose calls are items of perigee.
 *
 * The answer of a stream is whole when its stream begins: perigee waits for it, and then passes it on in parts.
 */
import type { LibraryObject } from "../engine/library.ts";
import type { Asks } from "./asking.ts";
import { itemOfCall } from "./called_item.ts";
import {
  type CallFacts,
  type FinishOf,
  type Generated,
  generated,
  type UsageOf,
  type WarningOf,
} from "./generated.ts";
import type { ModelCall, ModelVersion } from "./model_call.ts";

/** What all calls of a model share. */
export interface ModelTerms {
  /** Minutes, 1 to 43,200; default: at once. */
  readonly sla?: number | undefined;
  /** The program's name for its work. */
  readonly work: string;
}

/** A part of a streamed answer. */
export type StreamedPart<V extends ModelVersion> =
  | { type: "stream-start"; warnings: WarningOf<V>[] }
  | { type: "response-metadata"; id?: string; modelId?: string }
  | { type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end"; id: string }
  | { type: "text-delta" | "reasoning-delta"; id: string; delta: string }
  | { type: "tool-call"; toolCallId: string; toolName: string; input: string }
  | {
      type: "finish";
      usage: UsageOf<V>;
      finishReason: FinishOf<V>;
      providerMetadata: { perigee: CallFacts };
    };

/** A model: `LanguageModelV2`, `LanguageModelV3` or `LanguageModelV4` of the AI SDK, by its version. */
export interface PerigeeLanguageModel<V extends ModelVersion> {
  readonly specificationVersion: V;
  readonly provider: string;
  /** `<provider>:<name>`, or an alias of the configuration. */
  readonly modelId: string;
  /** Files of these kinds are passed on by their address; the AI SDK downloads the others. */
  readonly supportedUrls: Record<string, RegExp[]>;
  /** Rejects with a `ModelCallError`, the reason of the call's signal, or the `PerigeeError` of a call that is not valid. */
  doGenerate(call: ModelCall): Promise<Generated<V>>;
  doStream(call: ModelCall): Promise<{ stream: ReadableStream<StreamedPart<V>>; request: { body: unknown } }>;
}

/** The model of an id. */
export function languageModel<V extends ModelVersion>(
  version: V,
  modelId: string,
  asks: Asks,
  { sla, work }: ModelTerms,
): PerigeeLanguageModel<V> {
  const doGenerate = async (call: ModelCall): Promise<Generated<V>> => {
    const called = itemOfCall(modelId, call, sla);
    const name = asks.names.nameOf(work, called);
    const { item, warnings } = called;
    const { taskId, objects } = await asks.ask([item], name, call.abortSignal);
    const [object] = objects as readonly [LibraryObject]; // one for each item
    return generated(version, { taskId, object, request: item, warnings });
  };
  return {
    specificationVersion: version,
    provider: "perigee",
    modelId,
    supportedUrls: { "image/*": [/^https?:\/\/.+$/i] },
    doGenerate,
    doStream: async (call) => {
      const answer = await doGenerate(call);
      return { stream: ReadableStream.from(partsOf(answer)), request: answer.request };
    },
  };
}

/** The parts of an answer in the order of a stream. */
function* partsOf<V extends ModelVersion>(answer: Generated<V>): Generator<StreamedPart<V>> {
  const { content, warnings, response, usage, finishReason, providerMetadata } = answer;
  yield { type: "stream-start", warnings };
  yield { type: "response-metadata", ...response };
  for (const [index, part] of content.entries()) {
    const id = String(index);
    if (part.type === "tool-call") {
      yield part;
      continue;
    }
    yield { type: `${part.type}-start`, id };
    yield { type: `${part.type}-delta`, id, delta: part.text };
    yield { type: `${part.type}-end`, id };
  }
  yield { type: "finish", usage, finishReason, providerMetadata };
}
