/**
 * Bodies of OpenAI's endpoints besides chat: sent as they were given, with the server's own model.
 *
 *   a name that OpenAI does not have         refused there; at other servers refused if it is near one of OpenAI's
 *   embedding     `dimensions` is Mistral's `output_dimension`
 *   response      at OpenAI `store` is false unless the item says otherwise: nothing is read from what it would store
 *
 * The input of an embedding is first in its body, so that the inputs of several items can be sent in one request
 * (shard/joined_body.ts). What is made of its other members is kept for the next item, which mostly has the same.
 *
 * Sources: parameters of openai 6 (`EmbeddingCreateParams` and so on); API pages of Mistral, vLLM, Together, Fireworks, OpenRouter;
 * state November 2026.
 */
import { nearest } from "../../nearest.ts";
import type { EndpointKind, EndpointRequest, JsonValue } from "../../work/request.ts";
import type { Encoded, JoinedBodies, ProviderSettings } from "../provider.ts";
import { joinBounds } from "./joins.ts";

type Body = Readonly<Record<string, JsonValue>>;

/** Members that OpenAI documents, by endpoint. */
const DOCUMENTED: Readonly<Record<EndpointKind, readonly string[]>> = {
  embedding: ["input", "model", "dimensions", "encoding_format", "user"],
  moderation: ["input", "model"],
  completion: [
    ...[
      "model",
      "prompt",
      "best_of",
      "echo",
      "frequency_penalty",
      "logit_bias",
      "logprobs",
      "max_tokens",
      "n",
    ],
    ...[
      "presence_penalty",
      "seed",
      "stop",
      "stream",
      "stream_options",
      "suffix",
      "temperature",
      "top_p",
      "user",
    ],
  ],
  response: [
    ...["background", "context_management", "conversation", "include", "input", "instructions"],
    ...[
      "max_output_tokens",
      "metadata",
      "model",
      "moderation",
      "parallel_tool_calls",
      "previous_response_id",
    ],
    ...["prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"],
    ...["safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text"],
    ...["tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "max_tool_calls"],
  ],
};

/** Names of other servers that are near one of those. */
const OTHERS: ReadonlySet<string> = new Set([
  "input_type",
  "prompts",
  "min_tokens",
  "top_k",
  "top_a",
  "min_p",
]);

/** The server that a body is for. */
interface BodyServer {
  readonly settings: ProviderSettings;
  /** Whether it is OpenAI's own. */
  readonly isOpenai: boolean;
}

/** The body of a request in JSON, or why it cannot be sent. With `isCheckOnly` it may be empty. */
type EncodeBody = (request: EndpointRequest, model: string, isCheckOnly: boolean) => Encoded;

/** Encodes requests for a server. */
export function endpointBodies(server: BodyServer): EncodeBody {
  let last: JoinedRequest | undefined;
  return (request, model, isCheckOnly) => {
    if (last !== undefined && isLike(last, request, model)) {
      const { open, close } = last.joins;
      const body = isCheckOnly ? "" : `${open}${JSON.stringify(request.texts[0])}${close}`;
      return { ok: true, body, dropped: NOTHING_DROPPED, joins: last.joins };
    }
    const encoded = endpointBody(request, model, server, isCheckOnly);
    if (encoded.ok && encoded.joins !== undefined) last = { model, body: request.body, joins: encoded.joins };
    return encoded;
  };
}

const NOTHING_DROPPED: readonly string[] = [];

/** A request for one embedding that was encoded. */
interface JoinedRequest {
  readonly model: string;
  readonly body: Body;
  readonly joins: JoinedBodies;
}

/** Whether a request differs from it in its text only. Members that are lists or objects count as different. */
function isLike(last: JoinedRequest, request: EndpointRequest, model: string): boolean {
  if (request.kind !== "embedding" || model !== last.model || !isJoined(request)) return false;
  const { body } = request;
  const names = Object.keys(body);
  if (names.length !== Object.keys(last.body).length) return false;
  for (const name of names) {
    const isSame = name === "input" ? "input" in last.body : body[name] === last.body[name];
    if (!isSame) return false;
  }
  return true;
}

function endpointBody(
  request: EndpointRequest,
  model: string,
  server: BodyServer,
  isCheckOnly: boolean,
): Encoded {
  const { kind, body } = request;
  const misspelt = unknownMember(kind, body, server.isOpenai);
  if (misspelt !== undefined) return { ok: false, code: "invalid_config", message: misspelt };
  const sharesRequests = kind === "embedding" && isJoined(request);
  if (isCheckOnly && !sharesRequests) return { ok: true, body: "", dropped: [] };
  const sent = { ...sentBody(kind, body, server), model };
  if (sharesRequests) {
    const joined = joinable(sent, request, server.settings);
    return isCheckOnly ? { ...joined, body: "" } : joined;
  }
  return { ok: true, body: JSON.stringify(sent), dropped: [] };
}

/** Whether it has one text, so that others may be sent with it. */
function isJoined({ texts, tokenIds }: EndpointRequest): boolean {
  return texts.length === 1 && tokenIds === 0;
}

const OPEN = '{"input":';

function joinable(
  { input: _, ...others }: Body,
  { body, texts }: EndpointRequest,
  to: ProviderSettings,
): Extract<Encoded, { ok: true }> {
  const close = `,${JSON.stringify(others).slice(1)}`; // it has a model
  const joins = {
    open: OPEN,
    close,
    listOpen: `${OPEN}[`,
    listClose: `]${close}`,
    ...joinBounds(to, body["dimensions"], body["encoding_format"]),
    hasOpenaiAnswers: true,
  };
  return { ok: true, body: `${OPEN}${JSON.stringify(texts[0])}${close}`, dropped: [], joins };
}

function sentBody(kind: EndpointKind, body: Body, { settings: { name }, isOpenai }: BodyServer): Body {
  const { stream: _, ...plain } = body;
  if (kind === "response" && isOpenai) return { store: false, ...withoutNull(plain, "store") };
  if (kind !== "embedding") return plain;
  const { input = null, dimensions, ...others } = plain;
  const length =
    dimensions === undefined || dimensions === null
      ? {}
      : { [name === "mistral" ? "output_dimension" : "dimensions"]: dimensions };
  return { input, ...others, ...length };
}

function withoutNull(body: Body, name: string): Body {
  if (body[name] !== null) return body;
  const { [name]: _, ...rest } = body;
  return rest;
}

function unknownMember(kind: EndpointKind, body: Body, isOpenai: boolean): string | undefined {
  const documented = DOCUMENTED[kind];
  const whole = kind === "embedding" ? `an ${kind}` : `a ${kind}`;
  for (const name of Object.keys(body)) {
    if (documented.includes(name) || (!isOpenai && OTHERS.has(name))) continue;
    const near = nearest(name, documented);
    if (near !== undefined) return `${name} is not a known member of ${whole}; did you mean "${near}"?`;
    if (isOpenai) return `${name} is not a known member of ${whole}; expected ${documented.join(", ")}`;
  }
  return undefined;
}
