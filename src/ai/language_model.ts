/**
 * A language model of the AI SDK whose calls are items of perigee.
 *
 * Streamed calls without sla have the provider's stream, where the engine and the provider stream; all others are whole when their stream begins.
 */
import type { LibraryObject } from "../engine/library.ts";
import type { Item } from "../work/item.ts";
import { isObject, type Json } from "../work/json.ts";
import type { Asks, AskTerms } from "./asking.ts";
import { type StreamedPart, streamOf } from "./call_stream.ts";
import { type CalledItem, itemOfCall } from "./called_item.ts";
import { type Generated, generated, warningsOf } from "./generated.ts";
import type { ModelCall, ModelVersion } from "./model_call.ts";

/** Characters of a prompt in messages. */
const WORDS_CHARS = 60;

/** What all calls of a model share. */
export interface ModelTerms {
  /** Minutes, 1 to 43,200; default: at once. */
  readonly sla?: number | undefined;
  /** The program's name for its work. */
  readonly work: string;
}

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
  const nameOf = (call: ModelCall): NamedCall => {
    const called = itemOfCall(modelId, call, sla);
    return { called, name: asks.names.nameOf(work, called) };
  };
  const answered = async ({ called, name }: NamedCall, terms: AskTerms): Promise<Generated<V>> => {
    const { item, key, warnings } = called;
    const keyed = key === undefined ? undefined : { key, words: wordsOf(item) };
    const { taskId, objects } = await asks.ask([item], name, { ...terms, keyed });
    const [object] = objects as readonly [LibraryObject]; // one for each item
    return generated(version, { taskId, object, request: item, warnings });
  };
  return {
    specificationVersion: version,
    provider: "perigee",
    modelId,
    supportedUrls: { "image/*": [/^https?:\/\/.+$/i] },
    doGenerate: async (call) => answered(nameOf(call), { signal: call.abortSignal }),
    doStream: async (call) => {
      const named = nameOf(call);
      const { item, warnings } = named.called;
      const stream = await streamOf<V>(
        (onChunk, signal) => answered(named, item.sla === undefined ? { signal, onChunk } : { signal }),
        warningsOf(version, warnings),
        call.abortSignal,
      );
      return { stream, request: { body: item } };
    },
  };
}

interface NamedCall {
  readonly called: CalledItem;
  readonly name: string;
}

/** The first words of the last message that has a text. */
function wordsOf({ messages = [] }: Item): string {
  const texts = messages.flatMap(({ content = null }) => {
    const parts: readonly Json[] = Array.isArray(content) ? content : [{ text: content }];
    return parts.flatMap((part) =>
      isObject(part) && typeof part["text"] === "string" ? [part["text"]] : [],
    );
  });
  const text = (texts.at(-1) ?? "").trim().replace(/\s+/g, " ");
  return text.length <= WORDS_CHARS ? text : `${text.slice(0, WORDS_CHARS).replace(/ \S*$/, "")} ...`;
}
