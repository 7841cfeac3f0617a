/**
 * A codec that its user wrote, as the engine uses it: in its place among the providers, and unable to break a run.
 *
 *   thread        `laterEncoded`: the request as JSON, because functions do not cross threads
 *   main thread   `ownCodec`: the user's codec, whose exceptions and nonsense become failures of their item
 *
 * Limits: the head of a model is asked for once, and kept for 1,000 models. Numbers that a double cannot hold are rounded on
 * the way between the threads, except for a seed.
 */
import { PerigeeError } from "../errors.ts";
import type { JsonValue, ModelRequest } from "../work/request.ts";
import { objectOf } from "./json.ts";
import { keepingKeys } from "./key_text.ts";
import type { Decoded, Encoded, Provider, ProviderSettings, WireHead } from "./provider.ts";
import { itemFailure } from "./refusals.ts";

const HEADS_KEPT_MAX = 1_000;
const METHODS = ["head", "encode", "decode", "limits"] as const;
const CLASSES: ReadonlySet<unknown> = new Set(["success", "refused", "ambiguous", "permanent"]);
const SCOPES: ReadonlySet<unknown> = new Set(["item", "model", "provider"]);

/** Whether a value is meant as a codec: it has at least one of its methods. */
export function isCodec(value: unknown): value is Provider {
  const codec = objectOf(value);
  return codec !== undefined && METHODS.some((name) => typeof codec[name] === "function");
}

/** What a codec lacks, in words; undefined if it is complete. */
export function codecFault(codec: Provider): string | undefined {
  const missing = METHODS.find((name) => typeof codec[name] !== "function");
  if (missing !== undefined)
    return `a codec has ${METHODS.join(", ")} and settings; ${missing} is not a function`;
  return objectOf(codec.settings) === undefined ? "a codec has settings; they are missing" : undefined;
}

/** In a thread: requests are written down for the codec on the main thread, and nothing is decoded. */
export function laterEncoded(settings: ProviderSettings): Provider {
  const elsewhere = (): never => {
    throw new Error(`the codec of provider ${settings.name} is on the main thread`);
  };
  return {
    settings,
    head: elsewhere,
    encode: (request, model) => ({ ok: true, body: JSON.stringify({ request, model }), dropped: [] }),
    decode: elsewhere,
    limits: elsewhere,
  };
}

/** The request that `laterEncoded` wrote down. */
export function requestWritten(body: string): { readonly request: ModelRequest; readonly model: string } {
  return JSON.parse(body) as { request: ModelRequest; model: string }; // written by `laterEncoded`
}

/** The user's codec under the name that its provider has in this engine. */
export function ownCodec(codec: Provider, settings: ProviderSettings): Provider {
  const { name } = settings;
  const heads = new Map<string, WireHead>();
  const head = (model: string): WireHead => {
    const known = heads.get(model);
    if (known !== undefined) return known;
    const made = checkedHead(codec.head(model), name);
    if (heads.size >= HEADS_KEPT_MAX) heads.clear();
    heads.set(model, made);
    return made;
  };
  const own: Provider = {
    settings,
    head,
    encode: (request, model, isCheckOnly) => {
      try {
        head(model);
        return checkedBody(codec.encode(request, model, isCheckOnly), name);
      } catch (error) {
        return { ok: false, code: "invalid_config", message: faultOf(error, name, "encode") };
      }
    },
    decode: (answer) => {
      try {
        return checkedAnswer(codec.decode(answer), name);
      } catch (error) {
        return itemFailure("ambiguous", "invalid_response", faultOf(error, name, "decode"));
      }
    },
    limits: (headers) => {
      try {
        return codec.limits(headers);
      } catch {
        return undefined; // as if the answer said nothing of limits: `decode` reports a codec that is broken
      }
    },
  };
  const { answerLocally } = codec;
  if (answerLocally === undefined) return keepingKeys(own, settings);
  return keepingKeys({ ...own, answerLocally: (body) => answered(() => answerLocally(body)) }, settings);
}

function answered(answer: () => { readonly status: number; readonly body: Uint8Array }): {
  readonly status: number;
  readonly body: Uint8Array;
} {
  try {
    return answer();
  } catch {
    return { status: 500, body: Buffer.from("{}") };
  }
}

function checkedHead(head: WireHead, name: string): WireHead {
  const { origin, path, headers } = head;
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  if (!isHttp || url.origin !== origin || !path.startsWith("/") || objectOf(headers) === undefined)
    throw new PerigeeError(
      "invalid_config",
      `provider ${name}: head must return { origin: "https://host", path: "/...", headers }`,
    );
  return { origin, path, headers };
}

function checkedBody(encoded: Encoded, name: string): Encoded {
  if (encoded.ok === false && typeof encoded.message === "string") return encoded;
  if (encoded.ok === true && typeof encoded.body === "string")
    return Array.isArray(encoded.dropped) ? encoded : { ...encoded, dropped: [] };
  throw new TypeError(
    `encode of provider ${name} must return { ok, body, dropped } or { ok, code, message }`,
  );
}

function checkedAnswer(decoded: Decoded, name: string): Decoded {
  const found = objectOf(decoded as unknown as JsonValue);
  const isWhole =
    decoded.class === "success"
      ? typeof found?.["text"] === "string"
      : typeof found?.["code"] === "string" && SCOPES.has(found["scope"]);
  if (CLASSES.has(found?.["class"]) && isWhole) return decoded;
  throw new TypeError(`decode of provider ${name} returned no known class`);
}

function faultOf(error: unknown, name: string, method: string): string {
  const said = error instanceof Error ? `${error.name}: ${error.message}` : "a value that is not an error";
  return `${method} of the codec of provider "${name}" failed: ${said.slice(0, 200)}`;
}
