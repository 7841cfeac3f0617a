/**
 * What all codecs share on both ends of an exchange: finishing a body, and naming a success.
 *
 * A setting that cannot be sent is left out and named in `dropped`, or fails the item, as the settings' policy
 * `unsupportedConfig` says (`drop` unless told).
 */
import type { Usage } from "../work/outcome.ts";
import type { ModelRequest } from "../work/request.ts";
import { withDigits } from "./json.ts";
import type { Decoded, Encoded, ProviderSettings, WireAnswer } from "./provider.ts";

/** Where a seed with exact digits goes: last into the body (1), or last into the body's last member (2). */
interface SeedPlace {
  readonly name: string | undefined;
  readonly depth: 1 | 2;
}

/** The body as JSON, or the item's failure when something was dropped that may not be. */
export function encoded(
  body: object,
  request: ModelRequest,
  dropped: readonly string[],
  settings: ProviderSettings,
  seedPlace: SeedPlace,
  isCheckOnly = false,
): Encoded {
  if (dropped.length > 0 && settings.unsupportedConfig === "refuse") {
    const names = dropped.join(", ");
    return { ok: false, code: "invalid_config", message: `${settings.name} does not take ${names}` };
  }
  const { seed } = request.config;
  const hasDigits = typeof seed === "object" && seedPlace.name !== undefined;
  if (hasDigits && !/^-?(0|[1-9]\d*)$/.test(seed.digits)) {
    return { ok: false, code: "invalid_config", message: "seed: expected a whole number" };
  }
  const json = isCheckOnly ? "" : JSON.stringify(body); // most of the work
  if (isCheckOnly || !hasDigits) return { ok: true, body: json, dropped };
  return { ok: true, body: withDigits(json, seedPlace.name, seed.digits, seedPlace.depth), dropped };
}

/**
 * Why a request that is not sent as given cannot be put in other words; `undefined` when it can. Leaving out tools, or
 * the images of a message, would change what is asked.
 */
export function untranslatable(request: ModelRequest): string | undefined {
  const name = request.unknownFields.find(
    (field) =>
      field === "tools" ||
      field === "functions" ||
      (field === "messages" && request.openaiBody !== undefined),
  );
  if (name === "messages") return "messages: this provider is sent text only";
  if (name !== undefined) return `${name}: this provider is sent text only, without tools`;
  return request.turns.length === 0 ? "expected a user message, got none" : undefined;
}

/** A success. `tier` is what the provider says it served. */
export function success(
  text: string,
  finish: "stop" | "length",
  usage: Usage | undefined,
  tier: string | undefined,
): Decoded {
  if (tier === undefined) return { class: "success", text, finish, usage };
  return { class: "success", text, finish, usage, servedTier: tier };
}

/** Whether the answer says that it is a web page (a proxy's, a captcha's), whatever its bytes. */
export function isHtml(answer: WireAnswer): boolean {
  return answer.headers["content-type"]?.startsWith("text/html") === true;
}
