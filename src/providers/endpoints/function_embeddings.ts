/**
 * Embeddings of a provider that is a function: its member `embed`, `(request, { signal }) => { embeddings, usage? }`.
 *
 *   texts -> a body as OpenAI has it (`encode`, in any thread) -> the function on the main thread -> an answer in OpenAI's form -> `decode`
 *
 * How a call ends is as of a chat (function.ts). An answer without one list of numbers for each text is an ambiguous `invalid_response`,
 * and named to be of its texts: a function has no server whose outage could be the reason.
 */
import type { JsonValue } from "../../work/request.ts";
import type { Decoded, Encoded, Provider, ProviderSettings, WireAnswer } from "../provider.ts";
import { endpointAnswer } from "./endpoint_answer.ts";
import { endpointBodies } from "./endpoint_body.ts";
import { wrongEndpoint } from "./openai_endpoints.ts";

/** Texts to be embedded, as a function receives them. */
export interface EmbedRequest {
  /** Without the provider's name. */
  readonly model: string;
  readonly texts: readonly string[];
  /** Numbers of each embedding; absent: the model's own. */
  readonly dimensions?: number;
  /** Other members of the items, under their own names. */
  readonly more?: { readonly [name: string]: JsonValue };
}

/** What it returns. */
export interface EmbedAnswer {
  /** One for each text, in their order. */
  readonly embeddings: readonly ArrayLike<number>[];
  /** Tokens of all texts, a whole number from 0. Absent: counted here. */
  readonly inputTokens?: number;
}

/** Embeds texts. Called as a `ProviderFunction` is, and may throw the same errors. */
export interface EmbedFunction {
  (request: EmbedRequest, options: { readonly signal: AbortSignal }): EmbedAnswer | PromiseLike<EmbedAnswer>;
  /** Texts of one request at most; default 256. */
  readonly inputsMax?: number;
}

/** The origin under which the transport finds it. */
export function embedOrigin(name: string): string {
  return `function:${name}/embed`;
}

/** The codec; `refused` reads what it threw. */
export function functionEmbeddings(
  settings: ProviderSettings,
  refused: (answer: WireAnswer) => Decoded,
): Provider {
  const head = { origin: embedOrigin(settings.name), path: "", headers: {} };
  const encodeBody = endpointBodies({ settings, isOpenai: false });
  return {
    settings,
    head: () => head,
    encode: ({ endpoint }, model, isCheckOnly = false): Encoded => {
      if (endpoint?.kind !== "embedding") return wrongEndpoint("embedding");
      if (endpoint.tokenIds === 0) return encodeBody(endpoint, model, isCheckOnly);
      const message = "input: a function embeds texts, not token ids";
      return { ok: false, code: "unsupported_request", message };
    },
    decode: (answer) => {
      if (answer.status !== 200) return refused(answer);
      const decoded = endpointAnswer("embedding", answer, settings.name);
      return decoded.class === "ambiguous" ? { ...decoded, member: "input" } : decoded;
    },
    limits: () => undefined,
  };
}

/** A body that `encode` made. */
interface Body {
  readonly model: string;
  readonly input: string | readonly string[];
  readonly dimensions?: number | null;
  readonly encoding_format?: JsonValue;
}

/** The function as the transport calls it: with a body, for an answer in OpenAI's form. */
export function calledWithBody(
  embed: EmbedFunction,
): (body: unknown, options: { readonly signal: AbortSignal }) => Promise<object> {
  return async (body, options) => {
    const { model, input, dimensions, encoding_format: format, ...more } = body as Body; // `encode` made it
    const texts = typeof input === "string" ? [input] : input;
    const answer: Partial<EmbedAnswer> | null | undefined = await embed(
      {
        model,
        texts,
        ...(typeof dimensions === "number" ? { dimensions } : {}),
        ...(Object.keys(more).length === 0 ? {} : { more }),
      },
      options,
    );
    const { embeddings, inputTokens } = answer ?? {};
    if (!Array.isArray(embeddings) || embeddings.length !== texts.length) return {}; // read as an answer without embeddings
    const data = embeddings.map((embedding: ArrayLike<number>, index) => ({
      embedding: shown(embedding, format),
      index,
    }));
    return { data, ...(inputTokens === undefined ? {} : { usage: { prompt_tokens: inputTokens } }) };
  };
}

function shown(embedding: ArrayLike<number>, format: JsonValue | undefined): readonly number[] | string {
  const numbers = Array.from(embedding);
  return format === "base64" ? Buffer.from(new Float32Array(numbers).buffer).toString("base64") : numbers;
}
