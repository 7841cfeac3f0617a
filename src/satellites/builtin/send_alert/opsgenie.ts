/**
 * Alerts for Opsgenie: the Alert API, which Jira Service Management has taken over with its fields and its key.
 *
 * Opsgenie ends on 2027-04-05 (support.atlassian.com/opsgenie/docs/what-happens-when-opsgenie-is-turned-off): use
 * `jira_service_management` instead.
 *
 * Source, 2026-11-21: docs.opsgenie.com/docs/alert-api (202 once it is queued; message of 130 characters, alias 512, description
 * 15,000, source 100, 20 tags of 50, details of 8,000 together; P1 to P5; close and acknowledge by alias;
 * api.eu.opsgenie.com for accounts in the EU).
 */

import { cutText } from "../exchange/cut_text.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import { type Alert, jsonPost, type Severity } from "./alert.ts";

const MESSAGE_MAX = 130;
const DESCRIPTION_MAX = 15_000;
const SOURCE_MAX = 100;
const DETAIL_MAX = 1_000;
const DETAILS_MAX = 8_000;

const PRIORITIES: Readonly<Record<Severity, string>> = {
  critical: "P1",
  error: "P2",
  warning: "P3",
  info: "P5",
};

/** By id or by name. */
export interface Responder {
  readonly type: "team" | "user" | "escalation" | "schedule";
  readonly id?: string | undefined;
  readonly name?: string | undefined;
}

/** What both integrations of Atlassian take besides the alert. */
export interface AlertApi {
  readonly api_key: string;
  readonly tags: readonly string[];
  readonly responders: readonly Responder[];
}

/** `base_url` is https://api.opsgenie.com, that of the EU, or a proxy. */
export function opsgenieAlert(alert: Alert, config: AlertApi & { readonly base_url: string }): Outgoing {
  return alertRequest(`${baseOf(config.base_url)}/v2/alerts`, alert, config);
}

/** `alertsUrl` is where alerts are created; the others are below it. */
export function alertRequest(alertsUrl: string, alert: Alert, config: AlertApi): Outgoing {
  const { action, dedupKey, title, message, severity, details, links } = alert;
  const headers = { authorization: `GenieKey ${config.api_key}` };
  const source = cutText(alert.source, SOURCE_MAX);
  if (action !== "trigger") {
    const step = action === "resolve" ? "close" : "acknowledge";
    const url = `${alertsUrl}/${encodeURIComponent(dedupKey)}/${step}?identifierType=alias`;
    return jsonPost(url, { source, note: cutText(title, 1_000) }, headers);
  }
  const lines = [message, ...links.map(({ url, text }) => `${text}: ${url}`)].filter((line) => line !== "");
  const { tags, responders } = config;
  return jsonPost(
    alertsUrl,
    {
      message: cutText(title, MESSAGE_MAX),
      alias: dedupKey,
      ...(lines.length === 0 ? {} : { description: cutText(lines.join("\n"), DESCRIPTION_MAX) }),
      ...(responders.length === 0 ? {} : { responders }),
      ...(tags.length === 0 ? {} : { tags }),
      details: detailsWithin(details, DETAILS_MAX),
      source,
      priority: PRIORITIES[severity],
    },
    headers,
  );
}

function detailsWithin(details: Alert["details"], lengthMax: number): Readonly<Record<string, string>> {
  const kept: [string, string][] = [];
  let left = lengthMax;
  for (const [name, value] of details) {
    const text = cutText(value, DETAIL_MAX);
    left -= name.length + text.length;
    if (left < 0) break;
    kept.push([name, text]);
  }
  return Object.fromEntries(kept);
}
