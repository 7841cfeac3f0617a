/**
 * The config of `call-webhook`: what request to make, with templates (`template.ts`) in its address, headers and body.
 *
 * Refused: CONNECT and TRACE; headers that frame the message or are set by the sender; templates in the origin of the
 * address, so that no input can send the headers of a config elsewhere; text in which values could break out of JSON.
 *
 * Limits: 64 headers of 8,192 characters, 64 query parameters.
 */
import { z } from "../../../schema.ts";
import type { Json } from "../../../work/json.ts";
import type { Schema } from "../../sdk/satellite.ts";
import {
  HEADER_NAME,
  headerField,
  headersField,
  holdsSecret,
  IS_SECRET,
  isHttpUrl,
  timeoutField,
} from "../exchange/receiver_fields.ts";
import { hasPlaceholder } from "./template.ts";

const PARAMETERS_MAX = 64;
const URL_LENGTH_MAX = 2_048;

const SIGNATURE: readonly string[] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/** Of an answer, unless others are named. */
const ANSWER_HEADERS: readonly string[] = ["content-type", "etag", "location", "x-request-id"];

const body = z
  .strictObject({
    json: z
      .json()
      .optional()
      .describe("Sent as JSON; a text that is one placeholder becomes its value with its type."),
    text: z.string().optional().describe("Sent as it is; values are escaped as the content type asks for."),
    file_id: z.string().min(1).optional().describe("A file of the project, of at most 4 MiB, sent as it is."),
    content_type: headerField
      .optional()
      .describe("Default: application/json, text/plain, or that of the file."),
  })
  .refine(
    ({ json, text, file_id }) => [json, text, file_id].filter((one) => one !== undefined).length === 1,
    "must have one of json, text and file_id",
  )
  .refine(
    ({ text, content_type = "" }) => text === undefined || !isJsonType(content_type) || !hasPlaceholder(text),
    {
      path: ["text"],
      message: "must have no templates when it is JSON, since values could break out of it: use json",
    },
  );

export interface WebhookConfig {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  /** One of the three. */
  readonly body?:
    | {
        readonly json?: Json | undefined;
        readonly text?: string | undefined;
        readonly file_id?: string | undefined;
        readonly content_type?: string | undefined;
      }
    | undefined;
  readonly secret?: string | undefined;
  readonly answer?: { readonly headers: readonly string[] } | undefined;
  readonly timeout_ms: number;
  readonly repeatable?: boolean | undefined;
}

export const webhookConfig: Schema<WebhookConfig> = z
  .strictObject({
    url: z
      .string()
      .min(1)
      .max(URL_LENGTH_MAX)
      .refine((text) => holdsSecret(text) || isTemplateUrl(text), {
        message: "must be an http or https URL, with templates only in its path and query",
      })
      .describe("The address; its path and query may have templates."),
    method: z
      .string()
      .regex(/^[A-Z][A-Z-]{0,31}$/, "must be a method in capitals")
      .refine((text) => text !== "CONNECT" && text !== "TRACE", "must be neither CONNECT nor TRACE")
      .default("POST")
      .describe("GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS or another one, but not CONNECT and TRACE."),
    headers: headersField("Headers by name; values may hold templates."),
    query: z
      .record(
        z.string().min(1),
        z.union([z.string(), z.number(), z.boolean(), z.array(z.string()).max(PARAMETERS_MAX)]),
      )
      .refine(
        (all) => Object.keys(all).length <= PARAMETERS_MAX,
        `must be at most ${PARAMETERS_MAX} parameters`,
      )
      .default({})
      .describe("Parameters appended to the query of the url; values may hold templates."),
    body: body.optional().describe("Default: the input as JSON for POST, PUT and PATCH, nothing for others."),
    secret: z
      .string()
      .refine((text) => holdsSecret(text) || isSigningSecret(text), {
        message: "must be whsec_ and 24 to 64 bytes in base64",
      })
      .meta(IS_SECRET)
      .optional()
      .describe(
        "Signs the request by Standard Webhooks; the id is that of the execution over all its attempts.",
      ),
    answer: z
      .strictObject({
        headers: z
          .array(z.string().regex(HEADER_NAME, "must be the name of a header"))
          .max(PARAMETERS_MAX)
          .default([...ANSWER_HEADERS])
          .describe("The headers that are kept."),
      })
      .optional()
      .describe("Keeps the answer in the output: these headers, and the first 64 KiB of its body."),
    timeout_ms: timeoutField(),
    repeatable: z
      .boolean()
      .optional()
      .describe(
        "Whether the request may be sent again when nobody knows whether it arrived. Default: yes when it is signed, or GET, HEAD, OPTIONS, PUT or DELETE.",
      ),
  })
  .refine(
    ({ secret, headers }) =>
      secret === undefined || Object.keys(headers).every((name) => !SIGNATURE.includes(name.toLowerCase())),
    { path: ["headers"], message: `must not hold ${SIGNATURE.join(", ")} when there is a secret` },
  )
  .refine(({ body: given, method }) => given === undefined || method !== "HEAD", {
    path: ["body"],
    message: "must be absent from HEAD",
  });

/** Of a header content-type: `application/json` and all that end in `+json`. */
export function isJsonType(contentType: string): boolean {
  return /^[^;]*[/+]json\s*(;|$)/i.test(contentType);
}

function isSigningSecret(text: string): boolean {
  const match = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text);
  const bytes = Buffer.from(match?.[1] ?? "", "base64").length;
  return bytes >= 24 && bytes <= 64;
}

/** Placeholders begin after the origin. */
function isTemplateUrl(text: string): boolean {
  const origin = /^https?:\/\/[^/?#]*/i.exec(text)?.[0];
  return origin !== undefined && !/[{}]/.test(origin) && isHttpUrl(origin);
}
