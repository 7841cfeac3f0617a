/**
 * Messages as the HTTP APIs of mail providers take them: pure, one function each.
 *
 *   ses       POST /v2/email/outbound-emails   docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html
 *   sendgrid  POST /v3/mail/send               twilio.com/docs/sendgrid/api-reference/mail-send/mail-send
 *   mailgun   POST /v3/{domain}/messages       documentation.mailgun.com/docs/mailgun/api-reference/openapi-final/tag/Messages
 *   postmark  POST /email                      postmarkapp.com/developer/api/email-api
 *   resend    POST /emails                     resend.com/docs/api-reference/emails/send-email
 *
 * Resend recognises repeats by an Idempotency-Key, for 24 hours; the others have nothing of the kind. A body that only attachments
 * make up is a blank, because all of them need a text.
 */
import type { Json, JsonObject } from "../../../work/json.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import type { MailConfig, MailgunConfig, PostmarkConfig, SesConfig, TokenConfig } from "./config.ts";
import type { Mailbox } from "./mail_address.ts";
import type { MailAttachment, MailMessage } from "./mail_message.ts";
import { signedByAws } from "./sigv4.ts";

/** Everything but SMTP. */
export type ProviderConfig = Exclude<MailConfig, { readonly provider: "smtp" }>;

/** A message whose attachments have been read. */
export interface LoadedMessage extends Omit<MailMessage, "attachments"> {
  readonly executionId: string;
  readonly attachments: readonly (MailAttachment & { readonly content: Uint8Array })[];
  /** As MIME; only for SES. */
  readonly mime: Uint8Array;
}

/** The base address of a provider's API, without a slash at its end. */
export function providerBase(config: ProviderConfig): string {
  if (config.provider !== "ses") return baseOf(config.base_url);
  return baseOf(config.base_url ?? `https://email.${config.region}.amazonaws.com`);
}

/** What to send for one message, attachments and all; nothing is sent here. */
export async function providerRequest(config: ProviderConfig, message: LoadedMessage): Promise<Outgoing> {
  switch (config.provider) {
    case "ses":
      return ses(config, message);
    case "sendgrid":
      return sendgrid(config, message);
    case "mailgun":
      return await mailgun(config, message);
    case "postmark":
      return postmark(config, message);
    case "resend":
      return resend(config, message);
  }
}

function ses(config: SesConfig, message: LoadedMessage): Outgoing {
  const url = `${providerBase(config)}/v2/email/outbound-emails`;
  const addresses = (list: readonly Mailbox[]): string[] => list.map(({ address }) => address);
  const body = JSON.stringify({
    Content: { Raw: { Data: base64(message.mime) } },
    Destination: {
      ToAddresses: addresses(message.to),
      CcAddresses: addresses(message.cc),
      BccAddresses: addresses(message.bcc),
    },
    ...(config.configuration_set === undefined ? {} : { ConfigurationSetName: config.configuration_set }),
  });
  const credentials = {
    accessKeyId: config.access_key_id,
    secretAccessKey: config.secret_access_key,
    sessionToken: config.session_token,
  };
  const headers = signedByAws(
    { method: "POST", url, headers: { "content-type": "application/json" }, body },
    credentials,
    { region: config.region, service: "ses", wallMs: message.wallMs },
  );
  return { url, headers, body };
}

function sendgrid(config: TokenConfig, message: LoadedMessage): Outgoing {
  const mailbox = ({ name, address }: Mailbox): JsonObject =>
    name === undefined ? { email: address } : { email: address, name };
  const lists = { to: message.to, cc: message.cc, bcc: message.bcc };
  const body: JsonObject = {
    personalizations: [
      Object.fromEntries(
        Object.entries(lists)
          .filter(([, list]) => list.length > 0)
          .map(([name, list]) => [name, list.map(mailbox)]),
      ),
    ],
    from: mailbox(message.from),
    ...(message.replyTo.length === 0 ? {} : { reply_to_list: message.replyTo.map(mailbox) }),
    subject: message.subject,
    content: bodies(message).map(([type, value]) => ({ type, value })),
    ...(message.attachments.length === 0
      ? {}
      : {
          attachments: message.attachments.map((one) => ({
            content: base64(one.content),
            type: one.contentType,
            filename: one.filename,
            ...(one.contentId === undefined
              ? { disposition: "attachment" }
              : { disposition: "inline", content_id: one.contentId }),
          })),
        }),
    headers: { ...message.headers, "Message-ID": message.messageId },
  };
  return json(`${providerBase(config)}/v3/mail/send`, body, { authorization: `Bearer ${config.api_key}` });
}

async function mailgun(config: MailgunConfig, message: LoadedMessage): Promise<Outgoing> {
  const form = new FormData();
  form.append("from", shown(message.from));
  for (const [field, list] of [
    ["to", message.to],
    ["cc", message.cc],
    ["bcc", message.bcc],
  ] as const)
    for (const mailbox of list) form.append(field, shown(mailbox));
  form.append("subject", message.subject);
  for (const [type, text] of bodies(message)) form.append(type === "text/html" ? "html" : "text", text);
  if (message.replyTo.length > 0) form.append("h:Reply-To", message.replyTo.map(shown).join(", "));
  for (const [name, value] of Object.entries(message.headers)) form.append(`h:${name}`, value);
  form.append("h:Message-Id", message.messageId);
  for (const { content, contentType, contentId, filename } of message.attachments) {
    const blob = new Blob([Uint8Array.from(content)], { type: contentType });
    // An inline file is found by its name.
    form.append(contentId === undefined ? "attachment" : "inline", blob, contentId ?? filename);
  }
  const encoded = new Response(form);
  return {
    url: `${providerBase(config)}/v3/${config.domain}/messages`,
    headers: {
      "content-type": encoded.headers.get("content-type") ?? "",
      authorization: `Basic ${Buffer.from(`api:${config.api_key}`).toString("base64")}`,
    },
    body: new Uint8Array(await encoded.arrayBuffer()),
  };
}

function postmark(config: PostmarkConfig, message: LoadedMessage): Outgoing {
  const headers = { ...message.headers, "Message-ID": message.messageId, "X-PM-KeepID": "true" };
  const lists = { To: message.to, Cc: message.cc, Bcc: message.bcc, ReplyTo: message.replyTo };
  const body: JsonObject = {
    From: shown(message.from),
    ...Object.fromEntries(
      Object.entries(lists)
        .filter(([, list]) => list.length > 0)
        .map(([name, list]) => [name, list.map(shown).join(", ")]),
    ),
    Subject: message.subject,
    ...Object.fromEntries(
      bodies(message).map(([type, text]) => [type === "text/html" ? "HtmlBody" : "TextBody", text]),
    ),
    Headers: Object.entries(headers).map(([Name, Value]) => ({ Name, Value })),
    Attachments: message.attachments.map((one) => ({
      Name: one.filename,
      Content: base64(one.content),
      ContentType: one.contentType,
      ...(one.contentId === undefined ? {} : { ContentID: `cid:${one.contentId}` }),
    })),
    ...(config.message_stream === undefined ? {} : { MessageStream: config.message_stream }),
  };
  return json(`${providerBase(config)}/email`, body, {
    accept: "application/json",
    "x-postmark-server-token": config.server_token,
  });
}

function resend(config: TokenConfig, message: LoadedMessage): Outgoing {
  const lists = { cc: message.cc, bcc: message.bcc, reply_to: message.replyTo };
  const body: JsonObject = {
    from: shown(message.from),
    to: message.to.map(shown),
    ...Object.fromEntries(
      Object.entries(lists)
        .filter(([, list]) => list.length > 0)
        .map(([name, list]) => [name, list.map(shown)]),
    ),
    subject: message.subject,
    ...Object.fromEntries(
      bodies(message).map(([type, text]) => [type === "text/html" ? "html" : "text", text]),
    ),
    headers: { ...message.headers, "Message-ID": message.messageId },
    ...(message.attachments.length === 0
      ? {}
      : {
          attachments: message.attachments.map((one) => ({
            content: base64(one.content),
            filename: one.filename,
            content_type: one.contentType,
            ...(one.contentId === undefined ? {} : { content_id: one.contentId }),
          })),
        }),
  };
  return json(`${providerBase(config)}/emails`, body, {
    authorization: `Bearer ${config.api_key}`,
    "idempotency-key": message.executionId,
  });
}

function json(url: string, body: Json, headers: Readonly<Record<string, string>>): Outgoing {
  return { url, headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) };
}

/** Plain text first, as the least form of it (RFC 2046, section 5.1.4). */
function bodies({ text, html }: LoadedMessage): readonly (readonly ["text/plain" | "text/html", string])[] {
  const plain = text === undefined || text === "" ? [] : ([["text/plain", text]] as const);
  const rich = html === undefined || html === "" ? [] : ([["text/html", html]] as const);
  return plain.length + rich.length === 0 ? [["text/plain", " "]] : [...plain, ...rich];
}

/** As in a header, with the name in quotes, so that its characters have no special meaning. */
function shown({ name, address }: Mailbox): string {
  return name === undefined ? address : `"${name.replace(/["\\]/g, "\\$&")}" <${address}>`;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}
