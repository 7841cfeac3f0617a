/**
 * Alerts for Slack: an incoming webhook, or `chat.postMessage` with a bot's token.
 *
 * Text of an alert is data: `&`, `<` and `>` are escaped, so that `<!channel>` and `<@U1>` mention nobody and `<https:...>` is
 * no link, and `verbatim` and `link_names: false` keep Slack from finding mentions by itself.
 *
 * Sources, 2026-11-21: docs.slack.dev/messaging/sending-messages-using-incoming-webhooks,
 * docs.slack.dev/reference/methods/chat.postMessage, docs.slack.dev/reference/block-kit/blocks/section-block (3,000 characters
 * of text, 10 fields of 2,000), docs.slack.dev/messaging/formatting-message-text (escaping).
 * Both answer errors as a word: the webhook as its body, the method as `error` within a 200.
 */
import { objectOf, parseJson, stringOf } from "../../../providers/json.ts";
import type { SatelliteFailure } from "../../sdk/satellite_error.ts";
import { cutText } from "../exchange/cut_text.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import { type Alert, colorOf, jsonPost, labelOf } from "./alert.ts";

const SECTION_MAX = 3_000;
const FIELD_MAX = 2_000;
const FIELDS_MAX = 10;
const FALLBACK_MAX = 300;
const LINK_TEXT_MAX = 200;

/** `url` is that of the incoming webhook. */
export function slackWebhook(alert: Alert, { url }: { readonly url: string }): Outgoing {
  return jsonPost(url, message(alert));
}

export interface SlackApi {
  readonly base_url: string;
  readonly token: string;
  readonly channel: string;
}

/** As a bot; Slack answers 200 with `ok: false` where it refuses. */
export function slackMessage(alert: Alert, { base_url, token, channel }: SlackApi): Outgoing {
  return jsonPost(
    `${baseOf(base_url)}/chat.postMessage`,
    { channel, ...message(alert), parse: "none" },
    { "content-type": "application/json; charset=utf-8", authorization: `Bearer ${token}` },
  );
}

const REFUSED: readonly string[] = ["ratelimited", "rate_limited", "service_unavailable"];
const AMBIGUOUS: readonly string[] = ["internal_error", "fatal_error", "request_timeout"];

/** What a 200 of `chat.postMessage` says: undefined when the message was posted. */
export function slackRefusal(
  body: Uint8Array,
): { readonly reason: string; readonly failure: SatelliteFailure } | undefined {
  const answer = objectOf(parseJson(body));
  if (answer?.["ok"] === true) return undefined;
  const reason = stringOf(answer?.["error"]) ?? "unreadable_answer";
  if (REFUSED.includes(reason)) return { reason, failure: "refused" };
  const isUnknown = answer === undefined || AMBIGUOUS.includes(reason);
  return { reason, failure: isUnknown ? "ambiguous" : "permanent" };
}

function message(alert: Alert): object {
  const { title, message: text, source, details, links } = alert;
  const head = `${labelOf(alert)}: ${title}`;
  const shown = details.slice(0, FIELDS_MAX).map(([name, value]) => {
    const label = `*${cutText(name, 200, escaped)}*\n`;
    return markdown(label + cutText(value, FIELD_MAX - label.length, escaped));
  });
  const blocks = [
    section(`*${cutText(head, SECTION_MAX - 2, escaped)}*`),
    ...(text === "" ? [] : [section(cutText(text, SECTION_MAX, escaped))]),
    ...(shown.length === 0 ? [] : [{ type: "section", fields: shown }]),
    ...links.map((link) => section(linkText(link))),
    { type: "context", elements: [markdown(cutText(`${source} · ${alert.time}`, FIELD_MAX, escaped))] },
  ];
  return {
    text: cutText(head, FALLBACK_MAX, escaped),
    link_names: false,
    unfurl_links: false,
    attachments: [{ color: `#${colorOf(alert).toString(16).padStart(6, "0")}`, blocks }],
  };
}

function section(text: string): object {
  return { type: "section", text: markdown(text) };
}

function markdown(text: string): object {
  return { type: "mrkdwn", text, verbatim: true };
}

/** URLs are already parsed, with `<` and `>` percent-encoded. A bar would end one, and half of one is another address. */
function linkText({ url, text }: Alert["links"][number]): string {
  const target = url.replaceAll("|", "%7C").replaceAll("&", "&amp;");
  const shown = cutText(text, LINK_TEXT_MAX, escaped);
  return target.length > SECTION_MAX - LINK_TEXT_MAX - 3 ? shown : `<${target}|${shown}>`;
}

function escaped(character: string): string {
  if (character === "&") return "&amp;";
  if (character === "<") return "&lt;";
  return character === ">" ? "&gt;" : character;
}
