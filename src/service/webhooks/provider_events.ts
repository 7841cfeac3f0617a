/**
 * Events of providers: a hint that a batch may have ended, so that it is polled now. What the batch did is only believed when it is polled.
 *
 *   POST /v0/provider-events/<provider>           signed by Standard Webhooks: `batch.completed|failed|expired|cancelled` names its batch in
 *                                                 `data.id` (platform.openai.com/docs/guides/webhooks); other events change nothing
 *   POST /v0/provider-events/<provider>/<token>   for a provider whose signature is not known (Gemini): the token is the proof, the body is
 *                                                 not read, and all open batches of the provider are polled
 *
 * 204 for whatever is proven, also of unknown batches and repeated ids: polls are bounded for each batch (`lanes.pollSeconds.min`). 401
 * for everything else, which the audit log counts.
 *
 * Limit: 64 KiB of a body.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../clock.ts";
import { isSignedBy } from "../../egress/webhook_signature.ts";
import type { EventSecrets } from "../../engine/config/event_secrets.ts";
import type { EngineBatches } from "../../engine/shown/batch_status.ts";
import { PerigeeError } from "../../errors.ts";
import { z } from "../../schema.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance, FastifyRequest } from "../http/fastify.ts";

const PATH = "/v0/provider-events/:provider";
const BODY_BYTES_MAX = 64 * 1024;
const ENDS: ReadonlySet<unknown> = new Set(
  ["completed", "failed", "expired", "cancelled"].map((end) => `batch.${end}`),
);
/** One text for every reason: an answer that depended on it would say which providers are configured. */
const REFUSED = "the event has no valid signature or token of this provider";

const nameParameter = z.strictObject({ provider: z.string().max(64) });
const tokenParameter = z.strictObject({ provider: z.string().max(64), token: z.string().max(200) });

/** Checked by its signature or token, and by its reader: a provider may add what it likes. */
const UNCHECKED = {
  config: { isProvenByRequest: true },
  validatorCompiler: () => (data: unknown) => ({ value: data }),
};
const eventBody = z
  .looseObject({
    type: z.string().describe("Such as batch.completed; others than those of batches change nothing."),
    data: z.looseObject({ id: z.string().describe("The provider's id of the batch.") }),
  })
  .meta({ id: "ProviderEvent" });

/** What the routes need. */
export interface ProviderEvents {
  readonly clock: Pick<Clock, "wallMs">;
  readonly batches: Pick<EngineBatches, "list" | "pollNow">;
  /** By provider. */
  readonly secrets: ReadonlyMap<string, EventSecrets>;
}

/** Both routes; they need no API key. */
export function registerProviderEvents(app: FastifyInstance, events: ProviderEvents): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      "*",
      { parseAs: "buffer", bodyLimit: BODY_BYTES_MAX },
      (_request, body, done) => done(null, body),
    );
    const answers = { 204: z.null().describe("Taken."), ...failures(401, 413) };
    scope.post<{ Params: z.infer<typeof nameParameter> }>(PATH, {
      ...UNCHECKED,
      schema: {
        summary: "A signed event of a provider: its batch is polled now",
        tags: ["operation"],
        params: nameParameter,
        body: eventBody,
        response: answers,
      },
      handler: async (request, reply) => {
        takeSigned(request, request.params.provider, events);
        return reply.code(204).send();
      },
    });
    scope.post<{ Params: z.infer<typeof tokenParameter> }>(`${PATH}/:token`, {
      ...UNCHECKED,
      schema: {
        summary: "An event of a provider that signs none: its batches are polled now",
        tags: ["operation"],
        params: tokenParameter,
        body: z.unknown().describe("Not read."),
        response: answers,
      },
      handler: async ({ params }, reply) => {
        takeUnsigned(params, events);
        return reply.code(204).send();
      },
    });
  });
}

function takeSigned({ headers, body }: FastifyRequest, provider: string, events: ProviderEvents): void {
  const { clock, batches, secrets } = events;
  const text = textOf(body);
  const signed = {
    id: single(headers["webhook-id"]),
    timestamp: single(headers["webhook-timestamp"]),
    signature: single(headers["webhook-signature"]),
    body: text ?? "",
  };
  const own = secrets.get(provider)?.secrets ?? [];
  if (text === undefined || !isSignedBy(signed, own, clock.wallMs())) throw refused();
  const batchId = endedBatch(text);
  if (batchId !== undefined) batches.pollNow(provider, batchId);
}

function takeUnsigned(
  { provider, token }: z.infer<typeof tokenParameter>,
  { batches, secrets }: ProviderEvents,
): void {
  const own = secrets.get(provider)?.token;
  if (own === undefined || !timingSafeEqual(digest(own), digest(token))) throw refused();
  for (const batch of batches.list())
    if (batch.provider === provider && batch.id !== null) batches.pollNow(provider, batch.id);
}

/** Undefined for any other event. */
function endedBatch(text: string): string | undefined {
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { type, data } = (event ?? {}) as {
    readonly type?: unknown;
    readonly data?: { readonly id?: unknown };
  };
  const id = typeof data === "object" ? data?.id : undefined;
  return ENDS.has(type) && typeof id === "string" ? id : undefined;
}

/** Undefined for bytes that are not UTF-8; empty without a body. */
function textOf(body: unknown): string | undefined {
  if (!(body instanceof Uint8Array)) return "";
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return undefined;
  }
}

function single(header: string | readonly string[] | undefined): string {
  return typeof header === "string" ? header : "";
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function refused(): PerigeeError {
  return new PerigeeError("unauthenticated", REFUSED);
}
