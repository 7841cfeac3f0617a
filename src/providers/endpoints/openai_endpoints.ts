/**
 * The codecs of OpenAI's endpoints besides chat, for every server of its protocol.
 *
 *   embedding    POST {base}/embeddings
 *   response     POST {base}/responses
 *   completion   POST {base}/completions
 *   moderation   POST {base}/moderations
 *
 * Whether a server has an endpoint is not known here: one that does not have it answers 404, as for a model that it does not have.
 */
import { ENDPOINT_KINDS, type EndpointKind } from "../../work/request.ts";
import type { wireAddress } from "../address.ts";
import type { Encoded, Provider } from "../provider.ts";
import { endpointAnswer } from "./endpoint_answer.ts";
import { endpointBodies } from "./endpoint_body.ts";

const PATHS: Readonly<Record<EndpointKind, string>> = {
  embedding: "/embeddings",
  response: "/responses",
  completion: "/completions",
  moderation: "/moderations",
};

/** What the codecs of a server share. */
export interface EndpointServer extends Pick<Provider, "settings" | "limits"> {
  readonly address: ReturnType<typeof wireAddress>;
  /** Whether it is OpenAI's own. */
  readonly isOpenai: boolean;
}

/** The codec for each kind. */
export function openaiEndpoints(server: EndpointServer): (kind: EndpointKind) => Provider {
  const codecs = new Map(ENDPOINT_KINDS.map((kind) => [kind, codecOf(kind, server)]));
  return (kind) => codecs.get(kind) as Provider; // there is one for each kind
}

function codecOf(kind: EndpointKind, { settings, address, isOpenai, limits }: EndpointServer): Provider {
  const { origin, headers } = address;
  const head = { origin, path: `${address.path}${PATHS[kind]}${address.search}`, headers };
  const encodeBody = endpointBodies({ settings, isOpenai });
  return {
    settings,
    kind,
    head: () => head,
    encode: ({ endpoint }, model, isCheckOnly = false) =>
      endpoint?.kind === kind ? encodeBody(endpoint, model, isCheckOnly) : wrongEndpoint(kind),
    decode: (answer) => endpointAnswer(kind, answer, settings.name),
    limits,
  };
}

/** A request that is not for this codec; the engine sends none. */
export function wrongEndpoint(kind: EndpointKind): Encoded {
  return { ok: false, code: "unsupported_request", message: `expected a request of the kind ${kind}` };
}
