/**
 * How many inputs go into one request for embeddings: what servers accept, and what an answer may weigh.
 *
 *   openai          2,048 inputs, 300,000 tokens in all   (API reference of embeddings, November 2026)
 *   gemini          100 requests in a batchEmbedContents  (ai.google.dev/api/embeddings)
 *   mistral         16,384 tokens in all, as users report; not documented
 *   others          256 inputs and 100,000 tokens: a guess. A server that accepts fewer refuses the request, which is then sent
 *                   in halves, so set `embeddingInputsMax` for it
 *
 * A tenth of the tokens stays free: counts of a server may differ. An answer has at most about 4 MiB, because answers above 1 MiB
 * are read one after the other (dispatch/undici.ts): 12 bytes a number, 5.4 in base64.
 */
import type { EndpointKind, JsonValue } from "../../work/request.ts";
import type { JoinedBodies, ProviderSettings } from "../provider.ts";

/** How much one request may hold. */
export type JoinBounds = Pick<JoinedBodies, "inputsMax" | "tokensMax">;

const BOUNDS: ReadonlyMap<string, JoinBounds> = new Map([
  ["openai", { inputsMax: 2_048, tokensMax: 270_000 }],
  ["azure", { inputsMax: 2_048, tokensMax: 270_000 }],
  ["gemini", { inputsMax: 100, tokensMax: 90_000 }],
  ["google", { inputsMax: 100, tokensMax: 90_000 }],
  ["mistral", { inputsMax: 256, tokensMax: 14_700 }],
]);
const OTHERS: JoinBounds = { inputsMax: 256, tokensMax: 90_000 };

const ANSWER_BYTES = 4 * 1024 * 1024;
/** Of a model whose vectors have an unknown length. */
const DIMENSIONS = 1_536;
const BYTES_OF_NUMBER = 12;
const BYTES_IN_BASE64 = 5.4;

/** Inputs of a body that a codec of embeddings wrote: each has a vector in the answer, and counts in a batch. */
export function inputsIn(body: Uint8Array): number {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  const { input, requests } = JSON.parse(text) as Readonly<Record<string, unknown>>; // written by a codec: `requests` is Gemini's
  const inputs = requests ?? input;
  return Array.isArray(inputs) && typeof inputs[0] !== "number" ? inputs.length : 1; // numbers are the tokens of one
}

/** Answers that a request asks for, one for each input; undefined where that is not known: of a moderation of parts, of any other kind. */
export function answersIn(kind: EndpointKind | undefined, body: Uint8Array): number | undefined {
  if (kind === "embedding") return inputsIn(body);
  if (kind !== "moderation") return undefined;
  const { input } = JSON.parse(Buffer.from(body).toString()) as { readonly input?: unknown }; // written by a codec
  if (!Array.isArray(input)) return 1;
  return input.every((each) => typeof each === "string") ? input.length : undefined;
}

/** The bounds for items of these settings. */
export function joinBounds(
  { name, embeddingInputsMax, embeddingTokensMax }: ProviderSettings,
  dimensions: JsonValue | undefined,
  format: JsonValue | undefined,
): JoinBounds {
  const known = BOUNDS.get(name) ?? OTHERS;
  const length = typeof dimensions === "number" && dimensions > 0 ? dimensions : DIMENSIONS;
  const bytes = length * (format === "base64" ? BYTES_IN_BASE64 : BYTES_OF_NUMBER);
  const inputsMax = embeddingInputsMax ?? known.inputsMax;
  return {
    inputsMax: Math.max(1, Math.min(inputsMax, Math.floor(ANSWER_BYTES / bytes))),
    tokensMax: embeddingTokensMax ?? known.tokensMax,
  };
}
