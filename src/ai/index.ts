/**
 * perigee and the AI SDK: its calls as durable work, and its models as providers. Nothing of the AI SDK is loaded.
 */
export { ModelCallError, type ModelCallErrorFacts, UnknownKindError } from "./call_error.ts";
export type { StreamedPart } from "./call_stream.ts";
export type { PerigeeCallOptions } from "./called_item.ts";
export {
  createPerigee,
  type PerigeeModelOptions,
  type PerigeeOptions,
  type PerigeeProvider,
} from "./create_perigee.ts";
export type { EmbeddingCall } from "./embedding_call.ts";
export type { Embedded, PerigeeEmbeddingModel } from "./embedding_model.ts";
export type { CalledEmbeddingModel, CalledEmbeddings } from "./embedding_provider.ts";
export type { AskedEngine } from "./engine_asking.ts";
export type { Generated, GeneratedPart } from "./generated.ts";
export type { PerigeeLanguageModel } from "./language_model.ts";
export type { ModelCall, ModelVersion } from "./model_call.ts";
export {
  type AnyCalledModel,
  type CalledAnswer,
  type CalledModel,
  modelProvider,
} from "./model_provider.ts";
export type { AskedService } from "./service_asking.ts";
