/**
 * The config of `send-alert`: which receiver, where it is, and its credentials.
 *
 * Addresses of receivers that have one for everybody can be changed, for regions, proxies and tests.
 */
import { z } from "../../../schema.ts";
import type { Schema } from "../../sdk/satellite.ts";
import { holdsSecret, IS_SECRET, timeoutField, tokenField, urlField } from "../exchange/receiver_fields.ts";
import type { AlertApi } from "./opsgenie.ts";
import type { PagerDuty } from "./pagerduty.ts";
import type { SlackApi } from "./slack.ts";
import type { AlertWebhook } from "./webhook.ts";

interface Shared {
  readonly timeout_ms: number;
  readonly repeatable: boolean;
}

/** One receiver, with what its requests need. Secrets are filled in by now. */
export type AlertConfig = Shared &
  (
    | { readonly receiver: "slack" | "discord" | "teams"; readonly url: string }
    | ({ readonly receiver: "slack_api" } & SlackApi)
    | ({ readonly receiver: "pagerduty" } & PagerDuty)
    | ({ readonly receiver: "opsgenie" | "jira_service_management"; readonly base_url: string } & AlertApi)
    | ({ readonly receiver: "webhook" } & AlertWebhook)
  );

const shared = {
  timeout_ms: timeoutField(),
  repeatable: z
    .boolean()
    .default(true)
    .describe(
      "Whether an alert of which nobody knows whether it arrived is sent again. Receivers with a dedup key recognise repeats, chats show them twice.",
    ),
};

const alertApi = {
  api_key: tokenField("The key of an API integration."),
  tags: z.array(z.string().min(1).max(50)).max(20).default([]).describe("Tags of the alert."),
  responders: z
    .array(
      z.strictObject({
        type: z.enum(["team", "user", "escalation", "schedule"]).describe("What it is."),
        id: z.string().max(100).optional().describe("Its id."),
        name: z.string().max(100).optional().describe("Its name, of teams, escalations and schedules."),
      }),
    )
    .max(50)
    .default([])
    .describe("Who is notified, besides those that the integration's own rules name."),
};

export const alertConfig: Schema<AlertConfig> = z.discriminatedUnion("receiver", [
  z.strictObject({
    receiver: z.literal("slack").describe("Slack, by an incoming webhook."),
    url: urlField("The webhook's URL."),
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("slack_api").describe("Slack, by chat.postMessage."),
    token: tokenField("A bot's token with chat:write."),
    channel: z.string().min(1).max(100).describe("A channel's id, or its name."),
    base_url: urlField("Where the API is.").default("https://slack.com/api"),
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("discord").describe("Discord, by a webhook."),
    url: urlField("The webhook's URL; its query may have thread_id."),
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("teams").describe("Microsoft Teams, by a webhook of its Workflows app."),
    url: urlField("The workflow's URL."),
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("pagerduty").describe("PagerDuty, by Events API v2."),
    routing_key: tokenField("The integration key of a service or an orchestration."),
    base_url: urlField("https://events.eu.pagerduty.com in the EU.").default("https://events.pagerduty.com"),
    ...shared,
  }),
  z.strictObject({
    receiver: z
      .literal("opsgenie")
      .describe("Opsgenie, which ends on 2027-04-05: prefer jira_service_management."),
    base_url: urlField("https://api.eu.opsgenie.com in the EU.").default("https://api.opsgenie.com"),
    ...alertApi,
    ...shared,
  }),
  z.strictObject({
    receiver: z
      .literal("jira_service_management")
      .describe("Jira Service Management, by integration events."),
    base_url: urlField("Where the API is.").default("https://api.atlassian.com"),
    ...alertApi,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("webhook").describe("Your own receiver, which gets the alert as JSON."),
    url: urlField("Where to."),
    token: tokenField("Sent as Authorization: Bearer.").optional(),
    secret: z
      .string()
      .refine((text) => holdsSecret(text) || /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/.test(text), {
        message: "must be whsec_ and 24 to 64 bytes in base64",
      })
      .meta(IS_SECRET)
      .optional()
      .describe("Signs the request by Standard Webhooks; the id is that of the execution."),
    ...shared,
  }),
]);
