/**
 * A codec that its user wrote, as the engine uses it: in its place among the providers, and unable to break a run.
 *
 *   thread        `laterEncoded`: the request as JSON, because functions do not cross threads
 *   main thread   `ownCodec`: the user's codec, whose exceptions and nonsense become failures of their item
 *
 * What a method returns is copied while it is checked: a getter that throws, or a value that changes, does so here and not in the engine.
 *
 * Limits: the head of a model is requested once, and kept for 1,000 models. Numbers that a double cannot hold are rounded on
 * the way between the threads, except for a seed.
 */
import { PerigeeError } from "../errors.ts";
import { RECORDED_CODES } from "../work/failure_numbers.ts";
import { jsonOf } from "../work/json.ts";
import type { LearntLimits } from "../work/limits.ts";
import type { AnswerMembers, Usage } from "../work/outcome.ts";
import type { ModelRequest } from "../work/request.ts";
import { objectOf, type Unchecked } from "./json.ts";
import { keepingKeys, withoutKeys } from "./key_text.ts";
import type { Decoded, Encoded, FurtherTurns, Provider, ProviderSettings, WireHead } from "./provider.ts";
import { itemFailure } from "./refusals.ts";
import { keptWaitMs, refusalWaitMs } from "./retry_after.ts";

const HEADS_KEPT_MAX = 1_000;
const METHODS = ["head", "encode", "decode", "limits"] as const;
const CLASSES: ReadonlySet<unknown> = new Set(["refused", "ambiguous", "permanent"]);
const CODES: ReadonlySet<unknown> = new Set(RECORDED_CODES);
const SCOPES: ReadonlySet<unknown> = new Set(["item", "model", "provider"]);
const FINISHES: ReadonlySet<unknown> = new Set(["stop", "length", "tool_calls", "content_filter", "refusal"]);
const TEXTS = ["model", "requestId", "servedTier", "reasoning"] as const;
const LIMITS = [
  "requestsPerMinute",
  "tokensPerMinute",
  "inputTokensPerMinute",
  "outputTokensPerMinute",
  "remainingRequests",
  "remainingTokens",
  "resetRequestsMs",
  "resetTokensMs",
] as const satisfies readonly (keyof LearntLimits)[];
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
        return checkedLimits(now(codec.limits(headers)));
      } catch {
        return undefined; // as if the answer said nothing of limits: `decode` reports a codec that is broken
      }
    },
  };
  const { answerLocally } = codec;
  const more = {
    ...(typeof codec.withTurns === "function"
      ? { withTurns: (body: string, turns: FurtherTurns) => now(codec.withTurns?.(body, turns)) as string } // what it is, is checked there
      : {}),
    ...(answerLocally === undefined
      ? {}
      : { answerLocally: (body: Uint8Array) => answered(() => now(answerLocally(body))) }),
  };
  return keepingKeys({ ...own, ...more }, settings);
}

function answered(answer: () => { readonly status: number; readonly body: Uint8Array }): {
  readonly status: number;
  readonly body: Uint8Array;
} {
  try {
    const { status, body } = answer();
    if (Number.isInteger(status) && body instanceof Uint8Array) return { status, body };
  } catch {
    // as if it had failed on its server
  }
  return { status: 500, body: Buffer.from("{}") };
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
  const values = Object.entries(objectOf(headers) ?? { "": undefined }) as [string, string][]; // checked below
  const odd = values.find(([, value]) => typeof value !== "string" || !HEADER_VALUE.test(value));
  if (!isHttp || url.origin !== origin || !isPath || odd !== undefined)
    throw new PerigeeError(
      "invalid_config",
      `provider ${name}: head must return { origin: "https://host", path: "/...", headers }${odd === undefined || odd[0] === "" ? "" : `; the header ${odd[0]} is not a text without line ends`}`,
    );
  return { origin, path, headers: Object.fromEntries(values) };
}

function checkedBody(encoded: Encoded): Encoded {
  const { ok, body, code, message, dropped, outputLimit } = objectOf(encoded) ?? {};
  if (ok === false && typeof message === "string" && CODES.has(code))
    return { ok, code: code as Extract<Encoded, { readonly ok: false }>["code"], message };
  if (ok === true && typeof body === "string") {
    const names = Array.isArray(dropped) ? [...dropped] : [];
    const made = { ok, body, dropped: names.every((name) => typeof name === "string") ? names : [] } as const;
    return typeof outputLimit === "number" ? { ...made, outputLimit } : made;
  }
  throw new TypeError("it must return { ok: true, body, dropped } or { ok: false, code, message }");
}

function checkedAnswer(decoded: Decoded): Decoded {
  const found: Unchecked = { ...objectOf(decoded) };
  const odd = TEXTS.find((member) => !["undefined", "string"].includes(typeof found[member]));
  if (odd !== undefined) throw new TypeError(`it returned ${odd} that is not a text`);
  const { usage, members } = found;
  const copy = {
    ...found,
    ...(objectOf(usage) === undefined ? { usage: undefined } : { usage: { ...(usage as Usage) } }),
    ...(members === undefined ? {} : { members: JSON.parse(jsonOf(members) ?? "{}") as AnswerMembers }),
  };
  if (found["class"] === "success") {
    if (typeof found["text"] === "string" && FINISHES.has(found["finish"])) return copy as Decoded; // checked so far
    throw new TypeError("a success must have text and finish, one of the known ones");
  }
  const { code, message, scope, retryAfterMs } = found;
  const isWhole = CODES.has(code) && typeof message === "string" && SCOPES.has(scope);
  if (!CLASSES.has(found["class"]) || !isWhole)
    throw new TypeError(
      `it must return a success, or a known class (${[...CLASSES].join(", ")}) with code, message and scope`,
    );
  const { retryAfterMs: _asked, ...rest } = copy as Exclude<Decoded, { readonly class: "success" }>; // checked so far
  if (retryAfterMs === undefined) return rest;
  const waitMs = typeof retryAfterMs === "number" ? retryAfterMs : undefined;
  const keptMs = rest.class === "refused" ? refusalWaitMs(waitMs) : keptWaitMs(waitMs);
  return keptMs === undefined ? rest : { ...rest, retryAfterMs: keptMs };
}

function checkedLimits(limits: unknown): LearntLimits | undefined {
  const found = objectOf(limits);
  if (found === undefined) return undefined;
  const told = LIMITS.map((name) => [name, found[name]] as const);
  return Object.fromEntries(told.filter(([, value]) => typeof value === "number" && value >= 0));
}

/** The error may be anybody's object: reading it may throw, too. */
function faultOf(error: unknown, name: string, method: string): string {
  let said = "a value that is not an error";
  try {
    if (error instanceof Error) said = withoutKeys(`${error.name}: ${error.message}`);
  } catch {
    said = "an error that cannot be read";
  }
  return `${method} of the codec of provider "${name}" failed: ${said.slice(0, 200)}`;
}
