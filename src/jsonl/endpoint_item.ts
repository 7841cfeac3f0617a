/**
 * Items of other endpoints than a chat's, in both layouts.
 *
 *   {"key","kind":"embedding","model","input",...}                perigee's, also inside `request`
 *   {"custom_id","url":"/v1/embeddings","body":{"model",...}}      OpenAI's batch layout
 *
 * Members beside `kind` and `model` are those of OpenAI's body for the endpoint, and are kept as they are. What is read here is
 * what must be known to count the request, and what would change its answer into several, or into a stream:
 *
 *   embedding    input: a text, a list of texts, a list of token ids, or a list of such lists
 *   moderation   input: a text, or a list of texts or of parts (text, image_url)
 *   completion   prompt: as one input of an embedding; n and best_of at most 1
 *   response     input: a text or a list of items; stateless: no previous response, conversation or background
 *
 * Sources: `EmbeddingCreateParams`, `ModerationCreateParams`, `CompletionCreateParams` and `ResponseCreateParams` of openai 6.
 */
import { suggestion } from "../nearest.ts";
import { isList, isObject, type JsonObject } from "../work/json.ts";
import {
  ENDPOINT_KINDS,
  type EndpointKind,
  type EndpointRequest,
  type JsonValue,
  type ModelRequest,
} from "../work/request.ts";
import { LineFault, shown, wrongContents } from "./fault.ts";
import { isText } from "./numbers.ts";

/** A path of OpenAI's batch layout. */
export type EndpointUrl =
  | "/v1/chat/completions"
  | "/v1/embeddings"
  | "/v1/responses"
  | "/v1/completions"
  | "/v1/moderations";

/** Kinds by their paths; `chat` is read elsewhere. */
const KIND_OF_URL: Readonly<Record<EndpointUrl, EndpointKind | "chat">> = {
  "/v1/chat/completions": "chat",
  "/v1/embeddings": "embedding",
  "/v1/responses": "response",
  "/v1/completions": "completion",
  "/v1/moderations": "moderation",
};

/** Paths of OpenAI's batch layout that are read. */
export const ENDPOINT_URLS: readonly EndpointUrl[] = Object.keys(KIND_OF_URL) as EndpointUrl[]; // its own names

/** Depth of a response's input in which texts are found; deeper ones are counted by the server only. */
const DEPTH_MAX = 16;

type Counted = Pick<EndpointRequest, "texts" | "tokenIds">;

/** The kind of a line in OpenAI's layout. */
export function kindOfUrl(url: JsonValue | undefined): EndpointKind | "chat" | LineFault {
  if (url === undefined || url === null) return "chat";
  const known = ENDPOINT_URLS.find((each) => each === url);
  if (known !== undefined) return KIND_OF_URL[known];
  return new LineFault(
    "unsupported_request",
    `url must be one of ${ENDPOINT_URLS.join(", ")}, got ${shown(url)}`,
  );
}

/** The kind of an item in perigee's layout: that of its `kind`, by default a chat. */
export function kindOfItem({ kind }: JsonObject): EndpointKind | "chat" | LineFault {
  if (kind === undefined || kind === null || kind === "chat") return "chat";
  const known = ENDPOINT_KINDS.find((each) => each === kind);
  if (known !== undefined) return known;
  const kinds = ["chat", ...ENDPOINT_KINDS];
  const hint = isText(kind) ? suggestion(kind, kinds) : "";
  const expected = hint === "" ? `expected one of ${kinds.join(", ")}` : hint;
  return new LineFault("invalid_config", `kind: ${shown(kind)} is not a known kind; ${expected}`);
}

/** Reads the body of a line, all but its model. */
export function readEndpointRequest(kind: EndpointKind, item: JsonObject): ModelRequest | LineFault {
  const { model: _, kind: __, ...body } = item;
  return readEndpointBody(kind, body);
}

/** Reads an item without its kind and its model. */
export function readEndpointBody(kind: EndpointKind, body: JsonObject): ModelRequest | LineFault {
  const counted = COUNTS[kind](body);
  if (counted instanceof LineFault) return counted;
  const stream = body["stream"];
  if (stream !== undefined && stream !== null && stream !== false)
    return unsupported("stream must be false or absent: answers are written whole");
  return {
    ...{ system: [], turns: [], config: limitOf(kind, body), unknownFields: [] },
    endpoint: { kind, body, ...counted },
  };
}

const COUNTS: Readonly<Record<EndpointKind, (body: JsonObject) => Counted | LineFault>> = {
  embedding: ({ input }) => countInputs("input", input),
  moderation: ({ input }) => countModerated(input),
  completion: countCompletion,
  response: countResponse,
};

/** The output limit of the request, where it has one: what caps and expectations count on. */
function limitOf(kind: EndpointKind, body: JsonObject): { readonly maxOutputTokens?: number } {
  const limit =
    kind === "response" ? body["max_output_tokens"] : kind === "completion" ? body["max_tokens"] : undefined;
  return typeof limit === "number" && Number.isSafeInteger(limit) && limit > 0
    ? { maxOutputTokens: limit }
    : {};
}

function countInputs(name: string, input: JsonValue | undefined): Counted | LineFault {
  if (isText(input)) return input === "" ? emptyText(name) : { texts: [input], tokenIds: 0 };
  const expected = "a text, a list of texts, or token ids";
  if (!isList(input)) return wrongContents(name, expected, input);
  if (input.length === 0) return new LineFault("invalid_contents", `${name} is empty`);
  if (input.every(isTokenId)) return { texts: [], tokenIds: input.length };
  const texts: string[] = [];
  let tokenIds = 0;
  for (const [index, each] of input.entries()) {
    if (isText(each)) {
      if (each === "") return emptyText(`${name}[${index}]`);
      texts.push(each);
    } else if (isList(each) && each.length > 0 && each.every(isTokenId)) {
      tokenIds += each.length;
    } else return wrongContents(`${name}[${index}]`, "a text or token ids", each);
  }
  return { texts, tokenIds };
}

function isTokenId(value: JsonValue): boolean {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function countModerated(input: JsonValue | undefined): Counted | LineFault {
  if (!isList(input) || !input.some(isObject)) return countInputs("input", input);
  const texts: string[] = [];
  for (const [index, part] of input.entries()) {
    if (!isObject(part)) return wrongContents(`input[${index}]`, "an object like the others", part);
    if (isText(part["text"])) texts.push(part["text"]);
  }
  return { texts, tokenIds: 0 };
}

function countCompletion(body: JsonObject): Counted | LineFault {
  for (const name of ["n", "best_of"]) {
    const count = body[name];
    if (typeof count === "number" && count > 1)
      return unsupported(`${name}: expected 1 or absent, got ${count}`);
  }
  const { prompt } = body;
  const counted = countInputs("prompt", prompt);
  if (counted instanceof LineFault || !Array.isArray(prompt) || prompt.length === 1) return counted;
  if (counted.texts.length > 0 || prompt.some((each) => typeof each !== "number"))
    return unsupported(`prompt: expected one text, got ${prompt.length}; use one item for each`);
  return counted;
}

/** Members that continue something that is stored, or that answer later. */
const STATES = ["previous_response_id", "conversation"] as const;

function countResponse(body: JsonObject): Counted | LineFault {
  const state = STATES.find((name) => body[name] !== undefined && body[name] !== null);
  if (state !== undefined)
    return unsupported(
      `${state} is not supported: each item is answered by itself; repeat the turns in input`,
    );
  if (body["background"] === true) return unsupported("background must be false or absent");
  const { input, instructions } = body;
  if (!isText(input) && !isList(input)) {
    if (input !== undefined || !isObject(body["prompt"]))
      return wrongContents("input", "a text or a list of items", input);
  } else if (input.length === 0) return new LineFault("invalid_contents", "input is empty");
  const texts: string[] = isText(instructions) ? [instructions] : [];
  collectTexts(input ?? "", texts, 0);
  return { texts, tokenIds: 0 };
}

/** Texts of messages, of tools' results, and of the model's own turns. */
function collectTexts(value: JsonValue, texts: string[], depth: number): void {
  if (isText(value)) {
    if (value !== "") texts.push(value);
    return;
  }
  if (depth >= DEPTH_MAX) return;
  if (isList(value)) {
    for (const each of value) collectTexts(each, texts, depth + 1);
  } else if (isObject(value)) {
    for (const name of ["content", "text", "output", "arguments", "summary"]) {
      const inner = value[name];
      if (inner !== undefined) collectTexts(inner, texts, depth + 1);
    }
  }
}

function emptyText(name: string): LineFault {
  return new LineFault("invalid_contents", `${name} is an empty text; expected at least one character`);
}

function unsupported(message: string): LineFault {
  return new LineFault("unsupported_request", message);
}
