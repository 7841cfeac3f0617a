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
import { RECORDED_CODES } from "../work/failure_numbers.ts";
import type { ModelRequest } from "../work/request.ts";
import { objectOf } from "./json.ts";
import { keepingKeys } from "./key_text.ts";
import type { Decoded, Encoded, Provider, ProviderSettings, WireHead } from "./provider.ts";
import { itemFailure } from "./refusals.ts";
import { keptWaitMs, refusalWaitMs } from "./retry_after.ts";

const HEADS_KEPT_MAX = 1_000;
const METHODS = ["head", "encode", "decode", "limits"] as const;
const CLASSES: ReadonlySet<unknown> = new Set(["refused", "ambiguous", "permanent"]);
const CODES: ReadonlySet<unknown> = new Set(RECORDED_CODES);
const SCOPES: ReadonlySet<unknown> = new Set(["item", "model", "provider"]);
const FINISHES: ReadonlySet<unknown> = new Set(["stop", "length", "tool_calls", "content_filter", "refusal"]);
const TEXTS = ["model", "requestId", "servedTier", "reasoning"] as const;
/** What Node sends as the value of a header. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

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
    const made = checkedHead(now(codec.head(model)), name);
    if (heads.size >= HEADS_KEPT_MAX) heads.clear();
    heads.set(model, made);
    return made;
  };
  const own: Provider = {
    settings,
    head,
    encode: (request, model, isCheckOnly) => {
      let method = "head";
      try {
        head(model);
        method = "encode";
        return checkedBody(now(codec.encode(request, model, isCheckOnly)));
      } catch (error) {
        return { ok: false, code: "invalid_config", message: faultOf(error, name, method) };
      }
    },
    decode: (answer) => {
      try {
        return checkedAnswer(now(codec.decode(answer)));
      } catch (error) {
        return itemFailure("ambiguous", "invalid_response", faultOf(error, name, "decode"));
      }
    },
    limits: (headers) => {
      try {
        return now(codec.limits(headers));
      } catch {
        return undefined; // as if the answer said nothing of limits: `decode` reports a codec that is broken
      }
    },
  };
  const { answerLocally } = codec;
  if (answerLocally === undefined) return keepingKeys(own, settings);
  return keepingKeys({ ...own, answerLocally: (body) => answered(() => now(answerLocally(body))) }, settings);
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

/** What a method of a codec returned, unless it is a promise: nobody waits for it, nor hears how it fails. */
function now<T>(value: T): T {
  if (!(value instanceof Promise)) return value;
  value.catch(() => undefined);
  throw new TypeError("it returned a promise; a codec is not async");
}

function checkedHead(head: WireHead, name: string): WireHead {
  const { origin, path, headers } = objectOf(head) ?? {};
  const url = typeof origin === "string" && URL.canParse(origin) ? new URL(origin) : undefined;
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  const isPath = typeof path === "string" && path.startsWith("/");
  const values = Object.entries(objectOf(headers) ?? { "": undefined });
  const odd = values.find(([, value]) => typeof value !== "string" || !HEADER_VALUE.test(value));
  if (!isHttp || url.origin !== origin || !isPath || odd !== undefined)
    throw new PerigeeError(
      "invalid_config",
      `provider ${name}: head must return { origin: "https://host", path: "/...", headers }${odd === undefined || odd[0] === "" ? "" : `; the header ${odd[0]} is not a text without line ends`}`,
    );
  return { origin, path, headers: head.headers };
}

function checkedBody(encoded: Encoded): Encoded {
  const { ok, body, code, message, dropped } = objectOf(encoded) ?? {};
  if (ok === false && typeof message === "string" && CODES.has(code)) return encoded;
  if (ok === true && typeof body === "string")
    return Array.isArray(dropped) && dropped.every((name) => typeof name === "string")
      ? encoded
      : { ...(encoded as Extract<Encoded, { readonly ok: true }>), dropped: [] };
  throw new TypeError("it must return { ok: true, body, dropped } or { ok: false, code, message }");
}

function checkedAnswer(decoded: Decoded): Decoded {
  const found = objectOf(decoded) ?? {};
  const odd = TEXTS.find((member) => !["undefined", "string"].includes(typeof found[member]));
  if (odd !== undefined) throw new TypeError(`it returned ${odd} that is not a text`);
  if (found["class"] === "success") {
    if (typeof found["text"] === "string" && FINISHES.has(found["finish"])) return decoded;
    throw new TypeError("a success must have text and finish, one of the known ones");
  }
  const { code, message, scope, retryAfterMs } = found;
  const isWhole = CODES.has(code) && typeof message === "string" && SCOPES.has(scope);
  if (!CLASSES.has(found["class"]) || !isWhole)
    throw new TypeError(
      `it must return a success, or a known class (${[...CLASSES].join(", ")}) with code, message and scope`,
    );
  if (retryAfterMs === undefined) return decoded;
  const { retryAfterMs: _asked, ...rest } = decoded as Exclude<Decoded, { readonly class: "success" }>;
  const waitMs = keptWaitMs(typeof retryAfterMs === "number" ? retryAfterMs : undefined);
  const keptMs = rest.class === "refused" ? refusalWaitMs(waitMs) : waitMs;
  return keptMs === undefined ? rest : { ...rest, retryAfterMs: keptMs };
}

function faultOf(error: unknown, name: string, method: string): string {
  const said = error instanceof Error ? `${error.name}: ${error.message}` : "a value that is not an error";
  return `${method} of the codec of provider "${name}" failed: ${said.slice(0, 200)}`;
}
