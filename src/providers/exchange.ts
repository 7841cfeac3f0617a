/**
 * What all codecs share on both ends of an exchange: finishing a body, and recognising web pages.
 */
import type { ModelRequest } from "../work/request.ts";
import { misspeltInMessages, misspeltMember } from "./chat_members.ts";
import type { Insert } from "./inserts.ts";
import { withDigits } from "./json.ts";
import type { Encoded, ProviderSettings, WireAnswer } from "./provider.ts";
import { refusalOfDropped, untranslated } from "./unsupported.ts";

const NONE: readonly never[] = [];

/** The place of a seed with exact digits: last in the body (1), or last in the body's last member (2). */
interface SeedPlace {
  readonly name: string | undefined;
  readonly depth: 1 | 2;
}

/** Whom a body is for. */
export interface RequestTarget {
  readonly settings: ProviderSettings;
  /** Without the provider's name. */
  readonly model: string;
  /** What the body has markers for. */
  readonly inserts?: readonly Insert[];
}

/** The body as JSON, or the item's failure when something was dropped that may not be. */
export function encoded(
  body: object,
  request: ModelRequest,
  dropped: readonly string[],
  { settings, model, inserts = NONE }: RequestTarget,
  seedPlace: SeedPlace,
  isCheckOnly = false,
): Encoded {
  const { dropped: left, leavesSchema } = leftOf(request, dropped);
  const refusal = refusalOfDropped(left, model, settings);
  if (refusal !== undefined) return refusal;
  const { seed } = request.config;
  const hasDigits = typeof seed === "object" && seedPlace.name !== undefined;
  if (hasDigits && !/^-?(0|[1-9]\d*)$/.test(seed.digits)) {
    return { ok: false, code: "invalid_config", message: "seed: expected a whole number" };
  }
  const json = isCheckOnly ? "" : JSON.stringify(body); // most of the work
  const isDone = isCheckOnly || !hasDigits;
  const text = isDone ? json : withDigits(json, seedPlace.name, seed.digits, seedPlace.depth);
  if (leavesSchema !== true && inserts.length === 0) return { ok: true, body: text, dropped: left }; // hot: spreading takes as long as all else
  const further = leavesSchema === true ? { leavesSchema } : {};
  return { ok: true, body: text, dropped: left, ...further, ...(inserts.length === 0 ? {} : { inserts }) };
}

/** An answer that is checked here may come from a provider that does not take its schema: leaving that out is not a dropped setting. */
export function leftOf(
  { isChecked }: ModelRequest,
  dropped: readonly string[],
): { readonly dropped: readonly string[]; readonly leavesSchema?: true } {
  if (isChecked !== true || !dropped.some((name) => FORMATS.has(name))) return { dropped };
  return { dropped: dropped.filter((name) => !FORMATS.has(name)), leavesSchema: true };
}

const FORMATS: ReadonlySet<string> = new Set(["response_schema", "response_mime_type"]);

/**
 * Returns why a request cannot be translated to the protocol of the provider `name`; otherwise the members that are left out,
 * to which the codec adds its own. What the neutral request cannot hold of messages is refused: leaving it out would change the question.
 */
export function translated(
  request: ModelRequest,
  name: string,
): { readonly dropped: string[] } | Extract<Encoded, { readonly ok: false }> {
  const read = inOtherWords(request, name);
  if ("ok" in read || request.turns.length > 0) return read;
  return unsupported("expected a user message, but there is none");
}

/** The same, also of a request without a user message. */
export function inOtherWords(
  request: ModelRequest,
  name: string,
): { readonly dropped: string[] } | Extract<Encoded, { readonly ok: false }> {
  const { unknownFields, openaiBody, config, unheld, leftOut = NONE } = request;
  if (config.responseSchema !== undefined && config.responseJsonSchema !== undefined)
    return invalid("response_schema and response_json_schema are the same field, set only one");
  if (unknownFields.length === 0 && unheld === undefined && leftOut === NONE) return { dropped: [] };
  const misspelt = misspeltInMessages(openaiBody?.["messages"], false);
  if (misspelt !== undefined) return invalid(misspelt);
  if (unheld !== undefined)
    return unsupported(unheld.includes(" ") ? unheld : `${unheld}: ${name} has no counterpart`);
  const others = untranslated(request);
  return withoutMisspelt([...new Set([...others, ...leftOut])], others);
}

function withoutMisspelt(
  dropped: readonly string[],
  members: readonly string[],
): { readonly dropped: string[] } | Extract<Encoded, { readonly ok: false }> {
  const misspelt = misspeltMember(members, false);
  if (misspelt !== undefined) return invalid(misspelt);
  return { dropped: [...dropped] };
}

function invalid(message: string): Extract<Encoded, { readonly ok: false }> {
  return { ok: false, code: "invalid_config", message };
}

function unsupported(message: string): Extract<Encoded, { readonly ok: false }> {
  return { ok: false, code: "unsupported_request", message };
}

/** Whether the answer says that it is a web page (a proxy's, a captcha's), for any bytes. */
export function isHtml(answer: WireAnswer): boolean {
  return answer.headers["content-type"]?.startsWith("text/html") === true;
}
