/**
 * The request of `call-webhook` from its config and input. Pure, but for the file, which is passed as bytes.
 *
 * Values are put in as the place asks for: percent-encoded in the address and in forms, as entities in XML and HTML, as
 * they are in other texts, and within JSON by its structure. A value that would be a dot segment of the path, or would end a
 * header, is refused.
 */
import type { JsonObject } from "../../../work/json.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { isHeaderText } from "../exchange/receiver_fields.ts";
import { isJsonType, type WebhookConfig } from "./config.ts";
import { fillJson, fillText, hasPlaceholder } from "./template.ts";

const WITH_INPUT: readonly string[] = ["POST", "PUT", "PATCH"];
const DOTS = /^(\.|%2e){1,2}$/i;

/** A file's bytes and media type. */
export interface FileBody {
  readonly bytes: Uint8Array;
  readonly mimeType: string;
}

/** Not signed yet. Throws `SatelliteError`, permanent: `missing_value`, `invalid_value`. */
export function webhookRequest(
  config: WebhookConfig,
  input: JsonObject,
  file: FileBody | undefined,
): Outgoing & { readonly method: string } {
  const { method } = config;
  const url = urlOf(config, input);
  const given = headersOf(config, input);
  const sent = bodyOf(config, input, file);
  if (sent === undefined) return { url, method, headers: given };
  const headers = given["content-type"] === undefined ? { ...given, "content-type": sent.type } : given;
  return { url, method, headers, body: sent.body };
}

/** The name of the file that is the body, with its templates filled in. */
export function fileOf({ body }: WebhookConfig, input: JsonObject): string | undefined {
  return body?.file_id === undefined ? undefined : fillText(body.file_id, input, asItIs);
}

function urlOf({ url, query }: WebhookConfig, input: JsonObject): string {
  const [whole = ""] = url.split("#", 1);
  const queryAt = whole.indexOf("?");
  const path = queryAt < 0 ? whole : whole.slice(0, queryAt);
  const filled = path
    .split("/")
    .map((segment) => {
      const text = fillText(segment, input, encodeURIComponent);
      if (hasPlaceholder(segment) && DOTS.test(text)) refuse("the path of the url");
      return text;
    })
    .join("/");
  const own = queryAt < 0 ? "" : fillText(whole.slice(queryAt + 1), input, encodeURIComponent);
  const more = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [String(value)]).map(
      (one) => `${encodeURIComponent(name)}=${encodeURIComponent(fillText(one, input, asItIs))}`,
    ),
  );
  const all = [own, ...more].filter((part) => part !== "").join("&");
  return all === "" ? filled : `${filled}?${all}`;
}

function headersOf({ headers }: WebhookConfig, input: JsonObject): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, template]) => {
      const value = fillText(template, input, asItIs);
      if (!isHeaderText(value)) refuse(`header ${name.toLowerCase()}`);
      return [name.toLowerCase(), value];
    }),
  );
}

interface Body {
  readonly body: Uint8Array | string;
  readonly type: string;
}

function bodyOf({ body, method }: WebhookConfig, input: JsonObject, file?: FileBody): Body | undefined {
  if (body === undefined) {
    return WITH_INPUT.includes(method) ? { body: JSON.stringify(input), type: JSON_TYPE } : undefined;
  }
  const { json, text, content_type: type } = body;
  if (json !== undefined) return { body: JSON.stringify(fillJson(json, input)), type: type ?? JSON_TYPE };
  if (text !== undefined) {
    const textType = type ?? "text/plain; charset=utf-8";
    return { body: fillText(text, input, escapeFor(textType)), type: textType };
  }
  return file === undefined ? undefined : { body: file.bytes, type: type ?? file.mimeType };
}

const JSON_TYPE = "application/json";

function escapeFor(type: string): (text: string) => string {
  if (isJsonType(type)) return (text) => JSON.stringify(text).slice(1, -1);
  if (/^application\/x-www-form-urlencoded/i.test(type)) return encodeURIComponent;
  return /^[^;]*(\/|\+)(xml|html)\b/i.test(type) || /^text\/html/i.test(type) ? asEntities : asItIs;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function asEntities(text: string): string {
  return text.replace(/[&<>"']/g, (one) => ENTITIES[one] ?? one);
}

function asItIs(text: string): string {
  return text;
}

function refuse(where: string): never {
  throw new SatelliteError("permanent", "invalid_value", `a value of the input must not be in ${where}`);
}
