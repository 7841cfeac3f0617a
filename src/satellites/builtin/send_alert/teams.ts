/**
 * Alerts for Microsoft Teams: an Adaptive Card to a webhook of the Workflows app ("When a Teams webhook request is received").
 *
 * Text of an alert is data: it is only in text runs, which know no Markdown, and mentions need entities, which this card does not have
 * of.
 *
 * Sources, 2026-11-21: learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using (Workflows take
 * Adaptive Cards only; a message of 28 KB), learn.microsoft.com/connectors/teams (the trigger answers 202),
 * adaptivecards.io/explorer/RichTextBlock.html (since version 1.2; text runs have no Markdown).
 */
import { cutText } from "../exchange/cut_text.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { type Alert, jsonPost, labelOf } from "./alert.ts";

const BYTES_MAX = 27 * 1024;
const TITLE_MAX = 500;
const MESSAGE_MAX = 12_000;
const DETAILS_MAX = 20;
const DETAIL_MAX = 1_000;
const ACTIONS_MAX = 5;

/** `url` is that of the workflow. Cut further until the message fits. */
export function teamsWorkflow(alert: Alert, { url }: { readonly url: string }): Outgoing {
  let request = jsonPost(url, message(alert, 1));
  for (let part = 0.5; Buffer.byteLength(request.body) > BYTES_MAX && part > 0.01; part /= 2)
    request = jsonPost(url, message(alert, part));
  return request;
}

/** `part` of each text's bound. */
function message(alert: Alert, part: number): object {
  const { title, message: text, details, source, time, links } = alert;
  const bound = (lengthMax: number): number => Math.max(16, Math.floor(lengthMax * part));
  const facts = details
    .slice(0, DETAILS_MAX)
    .map(([name, value]) =>
      rich(
        run(`${cutText(name, 100)}: `, { weight: "Bolder" }),
        run(cutText(value === "" ? "-" : value, bound(DETAIL_MAX))),
      ),
    );
  const head = cutText(`${labelOf(alert)}: ${title}`, bound(TITLE_MAX));
  const body = [
    rich(run(head, { weight: "Bolder", size: "Large", color: colorName(alert) })),
    ...(text === "" ? [] : [rich(run(cutText(text, bound(MESSAGE_MAX))))]),
    ...facts,
    rich(run(`${source} · ${time}`, { isSubtle: true, size: "Small" })),
  ];
  const actions = links
    .slice(0, part < 0.25 ? 0 : ACTIONS_MAX)
    .map((link) => ({ type: "Action.OpenUrl", title: cutText(link.text, 60), url: link.url }));
  const content = {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.2",
    msteams: { width: "Full" },
    body,
    ...(actions.length === 0 ? {} : { actions }),
  };
  const attachment = { contentType: "application/vnd.microsoft.card.adaptive", contentUrl: null, content };
  return { type: "message", attachments: [attachment] };
}

function rich(...inlines: readonly object[]): object {
  return { type: "RichTextBlock", inlines };
}

function run(text: string, style: object = {}): object {
  return { type: "TextRun", text, ...style };
}

const COLORS: Readonly<Record<Alert["severity"], string>> = {
  info: "Accent",
  warning: "Warning",
  error: "Attention",
  critical: "Attention",
};

function colorName({ action, severity }: Alert): string {
  return action === "resolve" ? "Good" : COLORS[severity];
}
