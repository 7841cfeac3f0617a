/**
 * The input of `send-email`: one message.
 *
 * Everything that becomes a header is refused when it holds a line end or NUL, so that nothing can add a header, a recipient
 * or a part of its own.
 *
 * Limits: 50 recipients in all, 20 attachments, 32 own headers; a subject of 998 characters (RFC 5322, section 2.1.1), texts
 * of 512 Ki characters each.
 */
import { z } from "../../../schema.ts";
import type { Schema } from "../../sdk/satellite.ts";
import { isHeaderSafe, type MailboxInput, mailboxField } from "./mail_address.ts";

const RECIPIENTS_MAX = 50;
const ATTACHMENTS_MAX = 20;
const HEADERS_MAX = 32;
const LINE_LENGTH_MAX = 998;
const TEXT_LENGTH_MAX = 512 * 1024;
const FILENAME_LENGTH_MAX = 255;

/** Set from other fields, by the sender, or by those on the way. */
const RESERVED =
  /^(from|to|cc|bcc|sender|reply-to|subject|date|message-id|mime-version|content-.*|return-path|received.*|dkim-signature|domainkey-signature|arc-.*|authentication-results|resent-.*|x-pm-.*|x-sg-.*|x-mailgun-.*|x-ses-.*|x-smtpapi|x-msys-.*|x-mc-.*)$/i;

export interface AttachmentInput {
  readonly file_id: string;
  readonly filename?: string | undefined;
  readonly content_type?: string | undefined;
  readonly content_id?: string | undefined;
}

export interface MailInput {
  readonly from?: MailboxInput | undefined;
  readonly to?: MailboxInput | readonly MailboxInput[] | undefined;
  readonly cc?: MailboxInput | readonly MailboxInput[] | undefined;
  readonly bcc?: MailboxInput | readonly MailboxInput[] | undefined;
  readonly reply_to?: MailboxInput | readonly MailboxInput[] | undefined;
  readonly subject: string;
  readonly text?: string | undefined;
  readonly html?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly attachments?: readonly (string | AttachmentInput)[] | undefined;
}

/** One or many, as a list. */
export function listOf<T>(given: T | readonly T[] | undefined): readonly T[] {
  if (given === undefined) return [];
  return Array.isArray(given) ? (given as readonly T[]) : [given as T]; // a mailbox is not an array
}

function headerText(lengthMax: number): z.ZodString {
  return z.string().max(lengthMax).refine(isHeaderSafe, "must have no line end, NUL or control character");
}

function mailboxes(description: string): z.ZodType<MailboxInput | readonly MailboxInput[]> {
  const one = mailboxField("An address, with a name or without.");
  return z.union([one, z.array(one).max(RECIPIENTS_MAX)]).describe(description);
}

const headerName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9-]{0,75}$/, "must be letters, digits and -")
  .refine((name) => !RESERVED.test(name), "is set from other fields or on the way");

const attachment = z
  .looseObject({
    file_id: z.string().min(1).max(64).describe("A file of the project, as other satellites return it."),
    filename: headerText(FILENAME_LENGTH_MAX)
      .refine((name) => !/[/\\"]/.test(name), 'must have no slash, backslash or "')
      .optional()
      .describe("What the receiver sees. Default: the file's name."),
    content_type: z
      .string()
      .regex(/^[A-Za-z0-9!#$&^_.+-]{1,63}\/[A-Za-z0-9!#$&^_.+-]{1,63}$/, "must be type/subtype")
      .optional()
      .describe("Default: the file's."),
    content_id: z
      .string()
      .regex(/^[A-Za-z0-9._@-]{1,128}$/, "must be letters, digits, . _ @ -")
      .optional()
      .describe('Shows the file inside the HTML, as <img src="cid:...">.'),
  })
  .describe("A file; further fields, such as those of a listing, are left out of account.");

export const mailInput: Schema<MailInput> = z
  .strictObject({
    from: mailboxField("Who sends it. Default: from of the config.").optional(),
    to: mailboxes("Who gets it: one or many.").optional(),
    cc: mailboxes("Who gets a copy.").optional(),
    bcc: mailboxes("Who gets a copy that the others do not see.").optional(),
    reply_to: mailboxes("Where answers go. Default: reply_to of the config.").optional(),
    subject: headerText(LINE_LENGTH_MAX).describe("One line."),
    text: z.string().max(TEXT_LENGTH_MAX).optional().describe("The body as plain text."),
    html: z.string().max(TEXT_LENGTH_MAX).optional().describe("The body as HTML."),
    headers: z
      .record(headerName, headerText(LINE_LENGTH_MAX))
      .refine((headers) => Object.keys(headers).length <= HEADERS_MAX, `must be at most ${HEADERS_MAX}`)
      .optional()
      .describe("Further headers, such as List-Unsubscribe or X-Campaign."),
    attachments: z
      .array(z.union([z.string().min(1).max(64), attachment]))
      .max(ATTACHMENTS_MAX)
      .optional()
      .describe("Files of the project, by id or with a name and a type."),
  })
  .superRefine(({ to, cc, bcc, text, html, attachments }, context) => {
    const count = [to, cc, bcc].reduce((sum, list) => sum + listOf(list).length, 0);
    if (count === 0) context.addIssue({ code: "custom", path: ["to"], message: "must name a recipient" });
    if (count > RECIPIENTS_MAX)
      context.addIssue({
        code: "custom",
        path: ["to"],
        message: `must be at most ${RECIPIENTS_MAX} recipients with cc and bcc, got ${count}`,
      });
    if (text === undefined && html === undefined && attachments === undefined)
      context.addIssue({ code: "custom", path: ["text"], message: "must have text, html or attachments" });
  });
