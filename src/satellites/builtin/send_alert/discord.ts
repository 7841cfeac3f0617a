/**
 * Alerts for Discord: one embed through a webhook.
 *
 * Text of an alert is data: `allowed_mentions` lets nothing mention anybody, and characters that mean something in Discord's
 * Markdown are escaped, `@` among them.
 *
 * Sources, 2026-11-21: docs.discord.com/developers/resources/webhook (execute webhook; `wait=true` answers with the message),
 * docs.discord.com/developers/resources/message (embed limits: title 256, description 4,096, 25 fields of 256 and 1,024, footer
 * 2,048, together 6,000 characters; allowed mentions).
 */
import { cutText } from "../exchange/cut_text.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { type Alert, colorOf, jsonPost, labelOf } from "./alert.ts";

const TITLE_MAX = 256;
const DESCRIPTION_MAX = 3_000;
const LINKS_MAX = 1_000;
const FIELDS_MAX = 25;
const NAME_MAX = 256;
const VALUE_MAX = 1_024;
const FOOTER_MAX = 256;
const TOGETHER_MAX = 6_000;

/** `url` is that of the webhook; its query is kept (`thread_id`). */
export function discordWebhook(alert: Alert, { url }: { readonly url: string }): Outgoing {
  const to = new URL(url);
  to.searchParams.set("wait", "true");
  const title = cutText(`${labelOf(alert)}: ${alert.title}`, TITLE_MAX, escaped);
  const links = linksWithin(alert, LINKS_MAX);
  const text = cutText(alert.message, DESCRIPTION_MAX, escaped);
  const description = [text, links].filter((part) => part !== "").join("\n\n");
  const footer = cutText(alert.source, FOOTER_MAX);
  const fields = fieldsWithin(alert, TOGETHER_MAX - title.length - description.length - footer.length);
  const embed = {
    title,
    ...(description === "" ? {} : { description }),
    color: colorOf(alert),
    timestamp: alert.time,
    fields,
    footer: { text: footer },
  };
  return jsonPost(to.href, { embeds: [embed], allowed_mentions: { parse: [] } });
}

function fieldsWithin({ details }: Alert, lengthMax: number): object[] {
  const fields: object[] = [];
  let left = lengthMax;
  for (const [name, value] of details.slice(0, FIELDS_MAX)) {
    const field = {
      name: cutText(name, NAME_MAX, escaped),
      value: cutText(value === "" ? "-" : value, VALUE_MAX, escaped),
      inline: true,
    };
    left -= field.name.length + field.value.length;
    if (left < 0) break;
    fields.push(field);
  }
  return fields;
}

/** Only whole links: half of one is another address. */
function linksWithin({ links }: Alert, lengthMax: number): string {
  let all = "";
  for (const link of links) {
    const next = linkText(link);
    if (all.length + next.length < lengthMax) all += `${all === "" ? "" : "\n"}${next}`;
  }
  return all;
}

function linkText({ url, text }: Alert["links"][number]): string {
  return `[${cutText(text, 200, escaped)}](${url.replaceAll("(", "%28").replaceAll(")", "%29")})`;
}

function escaped(character: string): string {
  return /[\\*_~`|<>[\]()#@]/.test(character) ? `\\${character}` : character;
}
