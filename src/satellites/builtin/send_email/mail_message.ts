/**
 * A message as it is sent: addresses read, files found, and an id that stays over all attempts.
 *
 *   Message-ID: <execution id @ domain of the sender>      so that receivers can recognise and drop repeats
 *
 * Attachments are opened when they are sent; checked before, so that a missing file fails before anything is sent.
 */
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { fileFault, fileView } from "../files/small_file.ts";
import type { MailConfig } from "./config.ts";
import { type AttachmentInput, listOf, type MailInput } from "./input.ts";
import { isHeaderSafe, type Mailbox, type MailboxInput, parseMailbox } from "./mail_address.ts";

export interface MailAttachment {
  readonly filename: string;
  readonly contentType: string;
  readonly contentId?: string;
  readonly bytes: number;
  /** From its beginning, each time. */
  open(): AsyncIterable<Uint8Array>;
}

export interface MailMessage {
  /** With its angle brackets. */
  readonly messageId: string;
  readonly wallMs: number;
  readonly from: Mailbox;
  readonly to: readonly Mailbox[];
  readonly cc: readonly Mailbox[];
  readonly bcc: readonly Mailbox[];
  readonly replyTo: readonly Mailbox[];
  readonly subject: string;
  readonly text: string | undefined;
  readonly html: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly attachments: readonly MailAttachment[];
}

/** A recipient who did not get it, and what was said about it. */
export interface Rejection {
  readonly address: string;
  /** Of the server, such as 550. */
  readonly status: number;
  readonly message: string;
}

/** The result of one attempt. */
export interface MailDelivery {
  readonly accepted: readonly string[];
  /** For good. */
  readonly rejected: readonly Rejection[];
  /** For now: to be tried again. */
  readonly deferred: readonly Rejection[];
  /** The server's answer, or the provider's id of the message. */
  readonly response: string;
}

type MailCall = SatelliteCall<MailInput, MailConfig>;

/** Throws `SatelliteError`, permanent: `no_sender`, `file_not_found`, `too_large`, `invalid_address`. */
export async function mailMessage(call: MailCall): Promise<MailMessage> {
  const { input, config, clock, executionId } = call;
  const sender = input.from ?? config.from;
  if (sender === undefined)
    throw new SatelliteError("permanent", "no_sender", "neither the input nor the config has a from");
  const from = mailboxOf(sender);
  const attachments = await Promise.all((input.attachments ?? []).map((one) => attachmentOf(call, one)));
  const bytes = attachments.reduce((sum, attachment) => sum + attachment.bytes, 0);
  if (bytes > config.attachment_bytes_max)
    throw new SatelliteError(
      "permanent",
      "too_large",
      `the attachments have ${bytes} bytes, and ${config.attachment_bytes_max} are taken`,
    );
  return {
    messageId: `<${executionId}@${from.address.slice(from.address.lastIndexOf("@") + 1)}>`,
    wallMs: clock.wallMs(),
    from,
    ...recipientLists(input),
    replyTo: listOf(input.reply_to ?? config.reply_to).map(mailboxOf),
    subject: input.subject,
    text: input.text,
    html: input.html,
    headers: input.headers ?? {},
    attachments,
  };
}

/** Addresses of all, each once. */
export function recipientsOf({ to, cc, bcc }: Pick<MailMessage, "to" | "cc" | "bcc">): readonly string[] {
  return [...to, ...cc, ...bcc].map(({ address }) => address);
}

/** An address that is in two lists stays only in the first: some providers refuse it otherwise. */
function recipientLists(input: MailInput): Pick<MailMessage, "to" | "cc" | "bcc"> {
  const seen = new Set<string>();
  const [to = [], cc = [], bcc = []] = [input.to, input.cc, input.bcc].map((list) =>
    listOf(list)
      .map(mailboxOf)
      .filter(({ address }) => {
        const key = address.toLowerCase();
        const isNew = !seen.has(key);
        seen.add(key);
        return isNew;
      }),
  );
  return { to, cc, bcc };
}

function mailboxOf(given: MailboxInput): Mailbox {
  const mailbox = parseMailbox(given);
  if (mailbox === undefined)
    throw new SatelliteError("permanent", "invalid_address", "an address does not have the form of one");
  return mailbox;
}

async function attachmentOf(call: MailCall, given: string | AttachmentInput): Promise<MailAttachment> {
  const { file_id, filename, content_type, content_id }: AttachmentInput =
    typeof given === "string" ? { file_id: given } : given;
  const { id, name, bytes, mimeType } = await fileView(call, file_id);
  return {
    filename: filename ?? safeName(name),
    contentType:
      content_type ??
      (/^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(mimeType) ? mimeType : "application/octet-stream"),
    ...(content_id === undefined ? {} : { contentId: content_id }),
    bytes,
    open: () => contentOf(call, id),
  };
}

/** A file that was deleted in between fails the attempt like a missing one. */
async function* contentOf({ files, project }: MailCall, id: string): AsyncGenerator<Uint8Array> {
  try {
    yield* files.read(project, id);
  } catch (error) {
    throw fileFault(error);
  }
}

/** Users choose the names of files. */
function safeName(name: string): string {
  return isHeaderSafe(name) ? name.replace(/["\\/]/g, "_") : "attachment";
}
