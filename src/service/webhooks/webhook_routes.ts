/**
 * Webhooks over HTTP: make, list, change, remove, rotate the secret, test, and show deliveries.
 *
 * A secret is in the answer that made it and in no other.
 */
import { PerigeeError } from "../../errors.ts";
import { namedErrors, z } from "../../schema.ts";
import type { ServiceContext } from "../context.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { bodyFault } from "../shapes/body_fault.ts";
import { idParameter } from "../shapes/infer_schema.ts";
import { afterId, pageOf } from "../shapes/list_page.ts";
import { EVENT_TYPES } from "./webhook_records.ts";
import {
  deliveryBody,
  newWebhook,
  secretBody,
  type WebhookChange,
  webhookAnswers,
  webhookBody,
  webhookChange,
} from "./webhook_schema.ts";
import type { Webhooks } from "./webhooks.ts";

const PATH = "/v0/webhooks";
const ONE = `${PATH}/:id`;
const SCOPE = { scope: "infer:write" } as const;
const TAGS = ["webhooks"];

interface ById {
  readonly Params: { readonly id: string };
}

interface Paged {
  readonly Querystring: { readonly after?: string; readonly limit: number };
}

/** An id of a delivery is longer than others. */
const pageQuery = z.strictObject({
  after: afterId(128),
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
});

/** /v0/webhooks. Another project's id is not found. */
export function registerWebhookRoutes(
  app: FastifyInstance,
  { webhooks }: Pick<ServiceContext, "webhooks">,
): void {
  registerMaking(app, webhooks);
  registerReading(app, webhooks);
  registerChanging(app, webhooks);
}

function registerMaking(app: FastifyInstance, { endpoints }: Webhooks): void {
  app.post<{ Body: z.infer<typeof newWebhook> }>(PATH, {
    config: { ...SCOPE, event: "webhook.created" },
    schema: {
      summary: "Make a webhook; the answer has its secret, once",
      tags: TAGS,
      body: newWebhook,
      response: { 200: webhookAnswers.secret },
    },
    handler: async (request) => {
      const { url, events = EVENT_TYPES, description = "" } = request.body;
      const settings = { url, events: [...new Set(events)], description };
      const endpoint = await endpoints.create(request.caller.project, settings);
      request.audited = { id: endpoint.id };
      return secretBody(endpoint);
    },
  });
  app.post<ById>(`${ONE}/rotate`, {
    config: { ...SCOPE, event: "webhook.rotated" },
    schema: {
      summary: "Make a new secret; the one before it signs for 24 hours more",
      tags: TAGS,
      params: idParameter,
      response: { 200: webhookAnswers.secret },
    },
    handler: async ({ caller, params }) => secretBody(await endpoints.rotate(caller.project, params.id)),
  });
}

function registerReading(app: FastifyInstance, { endpoints, deliveries }: Webhooks): void {
  app.get<Paged>(PATH, {
    config: { scope: "infer:read" },
    schema: {
      summary: "The webhooks of the project",
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: webhookAnswers.webhooks },
    },
    handler: async ({ caller, query: { after, limit } }) => {
      const all = await endpoints.list(caller.project);
      const index = after === undefined ? -1 : all.findIndex(({ id }) => id === after);
      if (after !== undefined && index < 0) throw new PerigeeError("not_found", "no such webhook");
      const items = all.slice(index + 1, index + 1 + limit);
      return {
        webhooks: items.map(webhookBody),
        ...pageOf(items, index + 1 + limit < all.length),
      };
    },
  });
  app.get<ById>(ONE, {
    config: { scope: "infer:read" },
    schema: {
      summary: "A webhook",
      tags: TAGS,
      params: idParameter,
      response: { 200: webhookAnswers.webhook },
    },
    handler: async ({ caller, params }) => webhookBody(await endpoints.get(caller.project, params.id)),
  });
  app.get<ById & Paged>(`${ONE}/deliveries`, {
    config: { scope: "infer:read" },
    schema: {
      summary: "What was sent to a webhook, with the results, newest first",
      tags: TAGS,
      params: idParameter,
      querystring: pageQuery,
      response: { 200: webhookAnswers.deliveries },
    },
    handler: async ({ caller, params, query }) => {
      await endpoints.get(caller.project, params.id);
      const { items, hasMore } = await deliveries.list(caller.project, params.id, query);
      return {
        deliveries: items.map(deliveryBody),
        ...pageOf(items, hasMore),
      };
    },
  });
}

function registerChanging(app: FastifyInstance, webhooks: Webhooks): void {
  const { endpoints, deliveries } = webhooks;
  app.patch<ById>(ONE, {
    config: { ...SCOPE, event: "webhook.changed" },
    // The owner is checked first: the handler checks the body.
    validatorCompiler: () => (data) => ({ value: data }),
    schema: {
      summary: "Change a webhook, or enable it again",
      tags: TAGS,
      params: idParameter,
      body: webhookChange,
      response: { 200: webhookAnswers.webhook },
    },
    handler: async ({ caller, params, body }) => {
      await endpoints.get(caller.project, params.id);
      const { status, url, events, description } = checkedChange(body);
      const changed = await endpoints.change(caller.project, params.id, {
        ...(url === undefined ? {} : { url }),
        ...(events === undefined ? {} : { events: [...new Set(events)] }),
        ...(description === undefined ? {} : { description }),
        ...(status === undefined ? {} : { isEnabled: status === "enabled" }),
      });
      return webhookBody(changed);
    },
  });
  app.delete<ById>(ONE, {
    config: { ...SCOPE, event: "webhook.deleted" },
    schema: {
      summary: "Remove a webhook with its deliveries",
      tags: TAGS,
      params: idParameter,
      response: { 200: webhookAnswers.removed },
    },
    handler: async ({ caller, params }) => {
      await deliveries.removeEndpoint(caller.project, params.id);
      return { id: params.id, deleted: true };
    },
  });
  app.post<ById>(`${ONE}/test`, {
    config: SCOPE,
    schema: {
      summary: "Send a test message once, and return the result",
      tags: TAGS,
      params: idParameter,
      response: { 200: webhookAnswers.delivery },
    },
    handler: async ({ caller, params }) => deliveryBody(await webhooks.test(caller.project, params.id)),
  });
}

function checkedChange(body: unknown): WebhookChange {
  const parsed = webhookChange.safeParse(body, namedErrors);
  if (parsed.success) return parsed.data;
  throw bodyFault(parsed.error);
}
