/**
 * Alerts for PagerDuty: Events API v2, whose four severities are perigee's.
 *
 * Sources, 2026-11-21: developer.pagerduty.com/docs/events-api-v2/trigger-events (fields, `dedup_key` of 255 characters, `summary` of
 * 1,024), developer.pagerduty.com/docs/events-api-v2/overview (202 once it is queued, 400 for an invalid event, 429; events
 * of 512 KB; events.eu.pagerduty.com for accounts in the EU).
 */

import { cutText } from "../exchange/cut_text.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import { type Alert, jsonPost } from "./alert.ts";

const SUMMARY_MAX = 1_024;
const DETAIL_MAX = 2_000;

export interface PagerDuty {
  readonly base_url: string;
  readonly routing_key: string;
}

/** Acknowledging and resolving need no more than the key. */
export function pagerDutyEvent(alert: Alert, { base_url, routing_key }: PagerDuty): Outgoing {
  const { action, dedupKey, title, severity, source, time, message, details, links } = alert;
  const event = { routing_key, event_action: action, dedup_key: dedupKey };
  const url = `${baseOf(base_url)}/v2/enqueue`;
  if (action !== "trigger") return jsonPost(url, event);
  const custom = details.map(([name, value]) => [name, cutText(value, DETAIL_MAX)] as const);
  return jsonPost(url, {
    ...event,
    payload: {
      summary: cutText(title, SUMMARY_MAX),
      source,
      severity,
      timestamp: time,
      custom_details: { ...Object.fromEntries(custom), ...(message === "" ? {} : { message }) },
    },
    ...(links.length === 0 ? {} : { links: links.map(({ url: href, text }) => ({ href, text })) }),
    client: "perigee",
  });
}
