/**
 * Mail addresses: `a@b.example`, or with a name, `Ann <a@b.example>` (RFC 5322, without its comments, groups, quoted
 * local parts and routes).
 *
 * Read here and nowhere else, so that one text is one recipient for every later reader: lists within a text, line ends
 * and brackets are refused. Domains beyond ASCII become Punycode; local parts beyond ASCII need SMTPUTF8, which few receivers
 * have, and are refused.
 *
 * Limits: 64 characters before the @, 254 in all, 128 of a name (RFC 5321, section 4.5.3.1).
 */
import { domainToASCII } from "node:url";
import { z } from "../../../schema.ts";
import { holdsSecret } from "../exchange/receiver_fields.ts";

export interface Mailbox {
  readonly name?: string;
  readonly address: string;
}

/** A text, or an object. */
export type MailboxInput = string | { readonly name?: string | undefined; readonly address: string };

const ADDRESS_LENGTH_MAX = 254;
const LOCAL_LENGTH_MAX = 64;
const NAME_LENGTH_MAX = 128;
const LOCAL = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/;
const DOMAIN = /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** Text before an address in angle brackets, in quotes or not. */
const NAMED = /^(?:"([^"\\<>]*)"|([^"\\<>,;:@]*))\s*<([^<>\s]+)>$/;

const FAULT = 'must be one address, such as "a@example.org" or "Ann <a@example.org>"';

/** Undefined for an invalid address. */
export function parseMailbox(given: MailboxInput): Mailbox | undefined {
  if (typeof given !== "string") return mailboxOf(given.name ?? "", given.address);
  const text = given.trim();
  const [, quoted, plain, address] = NAMED.exec(text) ?? [];
  return address === undefined ? mailboxOf("", text) : mailboxOf(quoted ?? plain ?? "", address);
}

function mailboxOf(name: string, text: string): Mailbox | undefined {
  const at = text.lastIndexOf("@");
  const local = text.slice(0, at);
  const given = text.slice(at + 1);
  // The conversion would read a path or a port as the end of a domain.
  const domain = /[^\p{L}\p{N}\p{M}.-]/u.test(given) ? "" : domainToASCII(given);
  const address = `${local}@${domain}`;
  const isAddress =
    at > 0 &&
    local.length <= LOCAL_LENGTH_MAX &&
    LOCAL.test(local) &&
    DOMAIN.test(domain) &&
    address.length <= ADDRESS_LENGTH_MAX;
  if (!isAddress || !isHeaderSafe(name) || name.length > NAME_LENGTH_MAX) return undefined;
  const shown = name.trim();
  return shown === "" ? { address } : { name: shown, address };
}

/** Whether a header may have this text: no line end, no NUL, no other control character but a tab. */
export function isHeaderSafe(text: string): boolean {
  return !/(?!\t)[\p{Cc}\u2028\u2029]/u.test(text);
}

/** One mailbox of an input. */
export function mailboxField(description: string): z.ZodType<MailboxInput> {
  return mailbox.refine((given) => parseMailbox(given) !== undefined, FAULT).describe(description);
}

/** One of a config: what names a secret is checked when it is filled in. */
export function configuredMailboxField(description: string): z.ZodType<MailboxInput> {
  return mailbox
    .refine((given) => mayHoldSecret(given) || parseMailbox(given) !== undefined, FAULT)
    .describe(description);
}

const mailbox = z.union([
  z
    .string()
    .min(3)
    .max(NAME_LENGTH_MAX + ADDRESS_LENGTH_MAX + 5),
  z.strictObject({
    name: z.string().max(NAME_LENGTH_MAX).optional().describe("Shown instead of the address."),
    address: z.string().min(3).max(ADDRESS_LENGTH_MAX).describe("Such as a@example.org."),
  }),
]);

function mayHoldSecret(given: MailboxInput): boolean {
  return typeof given === "string" ? holdsSecret(given) : holdsSecret(given.address);
}
