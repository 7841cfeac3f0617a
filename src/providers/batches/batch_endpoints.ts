/**
 * Which endpoint of batches the items of a kind go to, and where that is at OpenAI and its like.
 *
 * A batch has one endpoint, and each of its lines is one request. Items that share a request when they are sent at once have a line each,
 * so that the provider refuses an input alone, and nothing has to be taken apart.
 *
 * Paths: openai 6.49.0, `resources/batches.d.ts`.
 */
import type { EndpointKind } from "../../work/request.ts";
import type { BatchEndpoint, BatchWire } from "./batch_wire.ts";

/** Where the requests of a batch go. */
export const ENDPOINT_PATHS: Readonly<Record<BatchEndpoint, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  embeddings: "/v1/embeddings",
  completions: "/v1/completions",
  moderations: "/v1/moderations",
};

const ENDPOINTS: Readonly<Record<EndpointKind, BatchEndpoint>> = {
  response: "responses",
  embedding: "embeddings",
  completion: "completions",
  moderation: "moderations",
};
const KINDS: ReadonlyMap<BatchEndpoint, EndpointKind> = new Map(
  Object.entries(ENDPOINTS).map(([kind, endpoint]) => [endpoint, kind as EndpointKind]), // a key of the record above
);

/** The endpoint for items of a kind; undefined: chats. */
export function batchEndpointOf(kind: EndpointKind | undefined): BatchEndpoint {
  return kind === undefined ? "chat" : ENDPOINTS[kind];
}

/** The kind of the items of an endpoint; undefined: chats. */
export function kindOfBatch(endpoint: BatchEndpoint): EndpointKind | undefined {
  return KINDS.get(endpoint);
}

/** Whether batches of a wire have all these endpoints. */
export function servesAll(
  { traits }: Pick<BatchWire, "traits">,
  endpoints: readonly BatchEndpoint[],
): boolean {
  return endpoints.every((endpoint) => traits.endpoints.includes(endpoint));
}
