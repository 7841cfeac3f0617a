/**
 * The config of `send-email`: through which server or provider messages go.
 *
 *   smtp       tls (from the first byte) | starttls (refused without) | opportunistic (TLS where offered, unverified) | none
 *   ses, sendgrid, mailgun, postmark, resend: over their HTTP APIs
 *
 * A password is sent only over verified TLS: with `opportunistic` and `none` it is refused.
 */
import { isIP } from "node:net";
import { z } from "../../../schema.ts";
import type { Schema } from "../../sdk/satellite.ts";
import { holdsSecret, IS_SECRET, timeoutField, tokenField, urlField } from "../exchange/receiver_fields.ts";
import { configuredMailboxField, type MailboxInput } from "./mail_address.ts";

/** Of mail servers; operators may open others. */
export const SMTP_PORTS: readonly number[] = [25, 465, 587, 2525];
const ATTACHMENT_BYTES = 10 * 1024 * 1024;
const ATTACHMENT_BYTES_MAX = 25 * 1024 * 1024;
const SMTP_TIMEOUT_MS = 60_000;
const SMTP_TIMEOUT_MS_MAX = 300_000;
const NAME = /^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;
/** Sends the message as HTTP calls do: their own default differs from that of a conversation in SMTP. */
const DEFAULT_BASES = {
  sendgrid: "https://api.sendgrid.com",
  mailgun: "https://api.mailgun.net",
  postmark: "https://api.postmarkapp.com",
  resend: "https://api.resend.com",
} as const;

interface SharedConfig {
  readonly from?: MailboxInput | undefined;
  readonly reply_to?: MailboxInput | undefined;
  readonly attachment_bytes_max: number;
  readonly repeat_ambiguous: boolean;
  readonly timeout_ms: number;
}

export interface SmtpConfig extends SharedConfig {
  readonly provider: "smtp";
  readonly host: string;
  readonly port: number;
  readonly security?: "tls" | "starttls" | "opportunistic" | "none" | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly helo?: string | undefined;
  readonly ca?: string | undefined;
  readonly dkim?:
    | { readonly domain: string; readonly selector: string; readonly private_key: string }
    | undefined;
}

export interface SesConfig extends SharedConfig {
  readonly provider: "ses";
  readonly region: string;
  readonly access_key_id: string;
  readonly secret_access_key: string;
  readonly session_token?: string | undefined;
  readonly configuration_set?: string | undefined;
  readonly base_url?: string | undefined;
}

export interface TokenConfig extends SharedConfig {
  readonly provider: "sendgrid" | "resend";
  readonly api_key: string;
  readonly base_url: string;
}

export interface MailgunConfig extends SharedConfig {
  readonly provider: "mailgun";
  readonly api_key: string;
  readonly domain: string;
  readonly base_url: string;
}

export interface PostmarkConfig extends SharedConfig {
  readonly provider: "postmark";
  readonly server_token: string;
  readonly message_stream?: string | undefined;
  readonly base_url: string;
}

export type MailConfig = SmtpConfig | SesConfig | TokenConfig | MailgunConfig | PostmarkConfig;

const shared = {
  from: configuredMailboxField("Who sends, when the input does not say.").optional(),
  reply_to: configuredMailboxField("Where answers go, when the input does not say.").optional(),
  attachment_bytes_max: z
    .number()
    .int()
    .min(0)
    .max(ATTACHMENT_BYTES_MAX)
    .default(ATTACHMENT_BYTES)
    .describe("Bytes of all attachments together, before they are encoded."),
  repeat_ambiguous: z
    .boolean()
    .default(false)
    .describe("Send again when it is not known whether a message was taken; receivers may get it twice."),
};

function textField(description: string, lengthMax = 1_024): z.ZodString {
  return z
    .string()
    .min(1)
    .max(lengthMax)
    .refine((text) => !text.includes("\0"), "must have no NUL")
    .describe(description);
}

function domainField(description: string): z.ZodString {
  return z
    .string()
    .min(1)
    .max(253)
    .refine((text) => holdsSecret(text) || NAME.test(text), "must be a name such as mail.example.org")
    .describe(description);
}

function apiShared(base: string): {
  readonly base_url: z.ZodDefault<z.ZodString>;
  readonly timeout_ms: z.ZodDefault<z.ZodNumber>;
} {
  return { base_url: urlField("Another region or a relay.").default(base), timeout_ms: timeoutField() };
}

const smtp = z
  .strictObject({
    provider: z.literal("smtp"),
    host: z
      .string()
      .min(1)
      .max(253)
      .refine((text) => holdsSecret(text) || NAME.test(text) || isIP(text) !== 0, "must be a host name")
      .describe("The mail server."),
    port: z
      .number()
      .int()
      .min(1)
      .max(65_535)
      .default(587)
      .describe("25, 465, 587, 2525, or one the operator opened."),
    security: z
      .enum(["tls", "starttls", "opportunistic", "none"])
      .optional()
      .describe("Default: tls at port 465, starttls elsewhere."),
    username: textField("To sign in with.").optional(),
    password: textField("To sign in with, such as secret://smtp-password.").meta(IS_SECRET).optional(),
    helo: domainField("What to say in EHLO. Default: the domain of the sender.").optional(),
    ca: textField("A certificate authority of your own, as PEM.", 65_536).optional(),
    dkim: z
      .strictObject({
        domain: domainField("The d= of the signature."),
        selector: domainField("The s= of the signature."),
        private_key: textField("RSA or Ed25519 key as PEM, such as secret://dkim-key.", 16_384).meta(
          IS_SECRET,
        ),
      })
      .optional()
      .describe("Signs messages (RFC 6376)."),
    ...shared,
    timeout_ms: z
      .number()
      .int()
      .min(1_000)
      .max(SMTP_TIMEOUT_MS_MAX)
      .default(SMTP_TIMEOUT_MS)
      .describe("Milliseconds that the server may be silent."),
  })
  .superRefine(({ username, password, security }, context) => {
    if ((username === undefined) !== (password === undefined))
      context.addIssue({
        code: "custom",
        path: ["password"],
        message: "username and password must be set together",
      });
    if (username !== undefined && (security === "none" || security === "opportunistic"))
      context.addIssue({
        code: "custom",
        path: ["security"],
        message: "must be tls or starttls where there is a password",
      });
  });

const ses = z.strictObject({
  provider: z.literal("ses"),
  region: z
    .string()
    .regex(/^[a-z]{2}(-[a-z]{1,16}){1,3}-\d{1,2}$/, "must be a region such as eu-central-1")
    .describe("Such as eu-central-1."),
  access_key_id: tokenField("Of a user who may ses:SendEmail."),
  secret_access_key: tokenField("Such as secret://ses-key."),
  session_token: tokenField("With temporary credentials.").optional(),
  configuration_set: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "must be letters, digits, _ and -")
    .optional()
    .describe("A configuration set of SES."),
  base_url: urlField("Default: https://email.<region>.amazonaws.com").optional(),
  timeout_ms: timeoutField(),
  ...shared,
});

const sendgrid = z.strictObject({
  provider: z.literal("sendgrid"),
  api_key: tokenField("Such as secret://sendgrid."),
  ...apiShared(DEFAULT_BASES.sendgrid),
  ...shared,
});

const mailgun = z.strictObject({
  provider: z.literal("mailgun"),
  api_key: tokenField("Such as secret://mailgun."),
  domain: domainField("The domain that sends."),
  ...apiShared(DEFAULT_BASES.mailgun),
  ...shared,
});

const postmark = z.strictObject({
  provider: z.literal("postmark"),
  server_token: tokenField("Such as secret://postmark."),
  message_stream: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/, "must be lower case letters, digits and -")
    .optional()
    .describe("Default: outbound."),
  ...apiShared(DEFAULT_BASES.postmark),
  ...shared,
});

const resend = z.strictObject({
  provider: z.literal("resend"),
  api_key: tokenField("Such as secret://resend."),
  ...apiShared(DEFAULT_BASES.resend),
  ...shared,
});

export const mailConfig: Schema<MailConfig> = z.discriminatedUnion("provider", [
  smtp,
  ses,
  sendgrid,
  mailgun,
  postmark,
  resend,
]);
