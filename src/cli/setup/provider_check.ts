/**
 * Whether one provider can be worked with: a GET of its list of models, which costs nothing, through the engine's own transport
 * (proxies, bounds, time-outs) with the address and headers that its codec sends.
 *
 *   openai (and compatible)  GET <base>/models        https://platform.openai.com/docs/api-reference/models/list
 *   anthropic                GET <base>/v1/models     https://docs.claude.com/en/api/models-list
 *   gemini                   GET <base>/v1beta/models https://ai.google.dev/api/models#method:-models.list
 *
 * A server without such a list (404, 405) is reachable; only a request to a model proves more. Limits: 10 s, 8 MiB.
 */
import type { Clock } from "../../clock.ts";
import { type Transport, WireError } from "../../dispatch/transport.ts";
import type { HeaderBag, Provider } from "../../providers/provider.ts";
import { isObject } from "../../work/json.ts";
import type { LearntLimits } from "../../work/limits.ts";
import { count } from "../numbers.ts";

const TIMEOUT_MS = 10_000;
const BYTES_MAX = 8 * 1024 ** 2;
/** The Date header has whole seconds, and an answer takes some. */
const SKEW_MS_MAX = 5_000;
const ANY_MODEL = "any";
const CALL = /\/(?:chat\/completions|messages|models\/any:generateContent)(?=\?|$)/;

/** `fails`: something that is configured does not work. `note`: it may work. */
export type CheckState = "ok" | "note" | "fails";

/** What was found out about one thing. */
export interface Check {
  readonly name: string;
  readonly state: CheckState;
  readonly text: string;
  /** What to do; absent when there is nothing to do. */
  readonly todo?: string;
  /** Facts for programs, with names as JSON has them. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

/** A provider, and where its key comes from. */
export interface CheckedProvider {
  readonly provider: Provider;
  /** The variable of its key, or where else it is from; undefined without a key. */
  readonly keyFrom: string | undefined;
  /** The variable that a key is usually in. */
  readonly keyVariable: string;
}

/** How a provider answered. */
export interface ProviderAnswer {
  readonly check: Check;
  /** Names of its models; empty where it did not list them. */
  readonly models: readonly string[];
}

/** Never rejects. */
export async function checkProvider(
  checked: CheckedProvider,
  transport: Pick<Transport, "stream">,
  clock: Pick<Clock, "nowMs" | "wallMs">,
): Promise<ProviderAnswer> {
  const { provider, keyFrom } = checked;
  const { origin, path, headers } = provider.head(ANY_MODEL);
  const { "content-type": _type, ...plain } = headers;
  const startedMs = clock.nowMs();
  const list = { method: "GET", origin, path: path.replace(CALL, "/models"), headers: plain } as const;
  const answer = await answerTo(list, transport);
  const tookMs = Math.round(clock.nowMs() - startedMs);
  const name = provider.settings.name;
  const where = { address: origin, key_from: keyFrom ?? null };
  if (!answer.ok) {
    const check = { name, state: "fails", text: `${origin} cannot be reached: ${answer.message}` } as const;
    return { check: { ...check, todo: lostTodo(answer.failure), facts: where }, models: [] };
  }
  const models = namesIn(answer.body);
  const facts = { ...where, status: answer.status, took_ms: tookMs, models: models.length };
  const notes = [limitsText(provider.limits(answer.headers)), skewText(answer.headers, clock.wallMs())];
  const said = meaningOf(answer.status, models.length, checked);
  const key = keyFrom === undefined ? "no key" : `key of ${keyFrom}`;
  const text = [`${said.text} (${origin}, ${count(tookMs)} ms, ${key})`, ...notes].filter(Boolean).join("; ");
  const { todo } = said;
  return { check: { name, state: said.state, text, facts, ...(todo === undefined ? {} : { todo }) }, models };
}

type Answer =
  | { readonly ok: true; readonly status: number; readonly headers: HeaderBag; readonly body: Uint8Array }
  | { readonly ok: false; readonly failure: WireError["failure"]; readonly message: string };

async function answerTo(
  request: Omit<Parameters<Transport["stream"]>[0], "body">,
  transport: Pick<Transport, "stream">,
): Promise<Answer> {
  const stream = await transport.stream(
    { ...request, body: new Uint8Array() },
    { timeoutMs: TIMEOUT_MS, bytesMax: BYTES_MAX },
  );
  if (!stream.ok) return stream;
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of stream.chunks) chunks.push(chunk);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    return { ok: false, failure: error.failure, message: error.message };
  }
  return { ok: true, status: stream.status, headers: stream.headers, body: Buffer.concat(chunks) };
}

/** What a status says of a list of models. */
function meaningOf(
  status: number,
  models: number,
  { keyFrom, keyVariable }: CheckedProvider,
): Pick<Check, "state" | "text" | "todo"> {
  if (status >= 200 && status < 300)
    return models > 0
      ? { state: "ok", text: `it answers, and lists ${count(models)} ${models === 1 ? "model" : "models"}` }
      : { state: "note", text: `it answers ${status}, but lists no models`, todo: "check the base URL" };
  if (status === 401 || status === 403)
    return {
      state: "fails",
      text: `it refuses ${keyFrom === undefined ? "requests without a key" : "the key"} (${status})`,
      todo: keyFrom === undefined ? `set ${keyVariable}` : `set a key that it accepts in ${keyFrom}`,
    };
  if (status === 404 || status === 405)
    return {
      state: "note",
      text: `it answers, and has no list of models (${status})`,
      todo: "check the base URL, or ask a model: --send --model <provider>:<name>",
    };
  if (status === 402)
    return { state: "fails", text: "its account has no money (402)", todo: "add credit to the account" };
  if (status === 429)
    return { state: "note", text: "it limits the rate now (429)", todo: "wait a minute, or check the quota" };
  if (status >= 500)
    return {
      state: "fails",
      text: `it has a fault (${status})`,
      todo: "check its status page, and try later",
    };
  return { state: "fails", text: `it refuses the request (${status})`, todo: "check the base URL" };
}

function lostTodo(failure: WireError["failure"]): string {
  return failure === "not_sent"
    ? "check the base URL, the network, and HTTPS_PROXY and NO_PROXY"
    : "try again, or check what is between this machine and the provider";
}

/** Names of models in any of the three lists, and in a bare array. */
function namesIn(body: Uint8Array): readonly string[] {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(body).toString());
  } catch {
    return [];
  }
  const list = Array.isArray(value) ? value : isObject(value) ? (value["data"] ?? value["models"]) : [];
  if (!Array.isArray(list)) return [];
  return list.flatMap((each: unknown) => {
    const name = isObject(each) ? (each["id"] ?? each["name"]) : undefined;
    return typeof name === "string" ? [name.replace(/^models\//, "")] : [];
  });
}

/** `limits: 500 requests and 200,000 tokens a minute`; empty where no header says any. */
export function limitsText(limits: Partial<LearntLimits> | undefined): string {
  const parts = [
    [limits?.requestsPerMinute, "requests"],
    [limits?.tokensPerMinute, "tokens"],
    [limits?.inputTokensPerMinute, "input tokens"],
    [limits?.outputTokensPerMinute, "output tokens"],
  ] as const;
  const said = parts.flatMap(([value, what]) => (value === undefined ? [] : [`${count(value)} ${what}`]));
  return said.length === 0 ? "" : `limits: ${said.join(", ")} a minute`;
}

/** A wrong clock breaks deadlines over a restart, signatures, and the hours of prices. */
function skewText(headers: HeaderBag, wallMs: number): string {
  const theirs = Date.parse(headers["date"] ?? "");
  const skewMs = wallMs - theirs;
  if (!(Math.abs(skewMs) > SKEW_MS_MAX)) return "";
  const seconds = count(Math.abs(skewMs) / 1_000);
  return `this machine's clock is ${seconds} s ${skewMs > 0 ? "ahead of" : "behind"} it: set it (NTP)`;
}
