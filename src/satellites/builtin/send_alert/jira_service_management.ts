/**
 * Alerts for Jira Service Management: its integration events, which keep the fields, limits and key of Opsgenie.
 *
 * Source, 2026-11-21: developer.atlassian.com/cloud/jira/service-desk-ops/rest/v1/api-group-integration-events (POST
 * /jsm/ops/integration/v2/alerts, `Authorization: GenieKey`, `identifierType=alias`).
 */
import type { Outgoing } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import type { Alert } from "./alert.ts";
import { type AlertApi, alertRequest } from "./opsgenie.ts";

/** `base_url` is https://api.atlassian.com, or a proxy. */
export function jiraServiceManagementAlert(
  alert: Alert,
  config: AlertApi & { readonly base_url: string },
): Outgoing {
  return alertRequest(`${baseOf(config.base_url)}/jsm/ops/integration/v2/alerts`, alert, config);
}
