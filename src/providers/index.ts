/**
 * The entry point `perigee/providers`: codecs by settings, what is known of providers, and the contract for custom ones.
 */
export type { EmbedAnswer, EmbedFunction, EmbedRequest } from "./endpoints/function_embeddings.ts";
export type {
  FunctionAnswer,
  FunctionMessage,
  FunctionRequest,
  ProviderFunction,
} from "./function.ts";
export type {
  Decoded,
  Encoded,
  FailureScope,
  HeaderBag,
  Protocol,
  Provider,
  ProviderSettings,
  WireAnswer,
  WireHead,
} from "./provider.ts";
export { createProvider, defaultSettings, KNOWN_PROVIDERS, type KnownProvider } from "./registry.ts";
