/**
 * The shapes of webhooks over HTTP: as schemas for checks and for the description, and as bodies of answers.
 */
import { z } from "../../schema.ts";
import { pageFields } from "../shapes/list_page.ts";
import { timestamp, timestampOrNull } from "../shapes/timestamp.ts";
import type { Delivery } from "./delivery_record.ts";
import { type Endpoint, EVENT_TYPES, type EventType } from "./webhook_records.ts";

const url = z.string().min(1).max(2_048).describe("A public http or https address, at port 80, 443 or 8443.");
const events = z
  .array(z.enum(EVENT_TYPES))
  .min(1)
  .max(EVENT_TYPES.length)
  .describe("The events that are sent. Default: all.");
const description = z.string().max(256);

interface NewWebhook {
  readonly url: string;
  readonly events?: readonly EventType[] | undefined;
  readonly description?: string | undefined;
}

/** What is left out stays. */
export interface WebhookChange {
  readonly url?: string | undefined;
  readonly events?: readonly EventType[] | undefined;
  readonly description?: string | undefined;
  readonly status?: "enabled" | "disabled" | undefined;
}

export const newWebhook: z.ZodType<NewWebhook> = z
  .strictObject({ url, events: events.optional(), description: description.optional() })
  .meta({ id: "NewWebhook" });

export const webhookChange: z.ZodType<WebhookChange> = z
  .strictObject({
    url: url.optional(),
    events: events.optional(),
    description: description.optional(),
    status: z.enum(["enabled", "disabled"]).optional(),
  })
  .meta({ id: "WebhookChange" });

const webhookFields = {
  id: z.string(),
  url: z.string(),
  events: z.array(z.enum(EVENT_TYPES)),
  description: z.string(),
  status: z.enum(["enabled", "disabled"]),
  disabled_reason: z
    .enum(["manual", "gone", "failing"])
    .nullable()
    .describe("`gone`: it answered 410; `failing`: every attempt failed for five days."),
  created_at: z.iso.datetime(),
};
const webhook = z.object(webhookFields).meta({ id: "Webhook" });
const delivery = z
  .object({
    id: z.string(),
    message_id: z.string().describe("The header webhook-id, the same for all attempts."),
    type: z.enum([...EVENT_TYPES, "webhook.test"]),
    status: z.enum(["waiting", "delivered", "failed"]),
    attempts: z.number().int(),
    next_attempt_at: z.iso.datetime().nullable(),
    last_status: z.number().int().nullable(),
    last_error: z
      .enum(["blocked_destination", "not_sent", "lost", "timeout", "endpoint_disabled", "too_many_waiting"])
      .nullable()
      .describe("Why there was no status."),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "WebhookDelivery" });

/** Named schemas of answers. */
export const webhookAnswers: {
  readonly webhook: z.ZodType;
  readonly secret: z.ZodType;
  readonly webhooks: z.ZodType;
  readonly removed: z.ZodType;
  readonly delivery: z.ZodType;
  readonly deliveries: z.ZodType;
} = {
  webhook,
  secret: z
    .object({ ...webhookFields, secret: z.string().describe("Shown this once.") })
    .meta({ id: "WebhookWithSecret" }),
  webhooks: z.object({ webhooks: z.array(webhook), ...pageFields }).meta({ id: "WebhookList" }),
  removed: z.object({ id: z.string(), deleted: z.literal(true) }).meta({ id: "DeletedWebhook" }),
  delivery,
  deliveries: z.object({ deliveries: z.array(delivery), ...pageFields }).meta({ id: "WebhookDeliveryList" }),
};

/** Without its secret. */
export function webhookBody(endpoint: Endpoint): object {
  return {
    id: endpoint.id,
    url: endpoint.url,
    events: endpoint.events,
    description: endpoint.description,
    status: endpoint.disabled === null ? "enabled" : "disabled",
    disabled_reason: endpoint.disabled,
    created_at: timestamp(endpoint.createdWallMs),
  };
}

/** With its newest secret: for the answers to making and rotating. */
export function secretBody(endpoint: Endpoint): object {
  return { ...webhookBody(endpoint), secret: endpoint.secrets[0]?.text };
}

/** Without the message. */
export function deliveryBody(one: Delivery): object {
  return {
    id: one.id,
    message_id: one.messageId,
    type: one.type,
    status: one.status,
    attempts: one.attempts,
    next_attempt_at: timestampOrNull(one.nextWallMs),
    last_status: one.lastStatus ?? null,
    last_error: one.lastError ?? null,
    created_at: timestamp(one.createdWallMs),
  };
}
