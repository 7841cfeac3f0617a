/**
 * Fields that configs of receivers have in common: addresses, tokens, times.
 *
 * A text that names a secret (`secret://name`) passes every check here: the value is checked when it is filled in, right
 * before an attempt. Messages never repeat a value, which may be one.
 *
 * Limits: addresses of 2,048 characters, tokens and headers of 8,192, 64 headers, a request of 100 ms to 120 s (15 s by default).
 */
import { z } from "../../../schema.ts";

const URL_LENGTH_MAX = 2_048;
const TOKEN_LENGTH_MAX = 8_192;
const HEADERS_MAX = 64;
const TIMEOUT_MS_MIN = 100;
const TIMEOUT_MS_MAX = 120_000;

/** For one request, when nothing else is said. */
export const TIMEOUT_MS = 15_000;

export const HEADER_NAME: RegExp = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;

/** Set only by the sender. */
const FRAMING: readonly string[] = [
  "accept-encoding",
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** What a schema says of a credential: for those who read it, and so that references are expanded also where inputs have such a field. */
export const IS_SECRET: { readonly "x-secret": true } = { "x-secret": true };

/** Whether a secret is named in it: what it must look like is known when that is filled in. */
export function holdsSecret(text: string): boolean {
  return text.includes("secret://");
}

/** An http or https URL. */
export function urlField(description: string): z.ZodString {
  return z
    .string()
    .min(1)
    .max(URL_LENGTH_MAX)
    .refine((text) => holdsSecret(text) || isHttpUrl(text), "must be an http or https URL")
    .describe(description);
}

/** A text for a header: a token, a key, a password. */
export function tokenField(description: string): z.ZodString {
  return z
    .string()
    .min(1)
    .max(TOKEN_LENGTH_MAX)
    .refine((text) => isHeaderText(text), "must be printable ASCII, without line ends")
    .meta(IS_SECRET)
    .describe(description);
}

export const headerField: z.ZodString = z
  .string()
  .max(TOKEN_LENGTH_MAX)
  .refine(isHeaderText, "must be printable ASCII, without line ends");

/** Headers by name, without those that frame the message. */
export function headersField(description: string): z.ZodDefault<z.ZodRecord<z.ZodString, z.ZodString>> {
  return z
    .record(z.string().regex(HEADER_NAME, "must be the name of a header"), headerField.meta(IS_SECRET))
    .refine((all) => Object.keys(all).length <= HEADERS_MAX, `must be at most ${HEADERS_MAX} headers`)
    .refine(
      (all) => new Set(Object.keys(all).map((name) => name.toLowerCase())).size === Object.keys(all).length,
      "must name each header once",
    )
    .refine(
      (all) => Object.keys(all).every((name) => !FRAMING.includes(name.toLowerCase())),
      `must not hold ${FRAMING.join(", ")}`,
    )
    .default({})
    .describe(description);
}

/** Milliseconds, 100 to 120,000; default 15,000. */
export function timeoutField(): z.ZodDefault<z.ZodNumber> {
  return z
    .number()
    .int()
    .min(TIMEOUT_MS_MIN)
    .max(TIMEOUT_MS_MAX)
    .default(TIMEOUT_MS)
    .describe("Milliseconds from the start of a request to the last byte of its answer.");
}

/** What a header's value may hold here: no line end, no NUL, nothing outside ASCII. */
export function isHeaderText(text: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(text);
}

/** Only by its form; the egress guard checks the address. */
export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

/** Without what follows the path, and without a slash at its end: paths of an API are appended to it. */
export function baseOf(url: string): string {
  return url.replace(/\/+$/, "");
}
