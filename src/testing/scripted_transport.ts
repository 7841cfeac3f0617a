/**
 * A wire that answers by a script, in virtual time, and keeps a ledger of all that was sent.
 *
 * It keeps the promises of `Transport`: the deadline covers everything, a signal ends a call at once, nothing rejects,
 * after `close` every call is answered `aborted`. A streamed request is in the ledger once all of it has arrived.
 */
import type { Clock } from "../clock.ts";
import { SharedSignals } from "../dispatch/shared_signals.ts";
import type {
  SendOptions,
  StreamOptions,
  StreamRequest,
  Transport,
  WireMethod,
  WireRequest,
  WireResult,
  WireStream,
} from "../dispatch/transport.ts";
import { Upload } from "../dispatch/upload.ts";
import { NO_USAGE, type Usage } from "../work/outcome.ts";
import { ScriptedCall } from "./scripted_call.ts";
import { ScriptedStream, type StreamScript, wholeOf } from "./scripted_stream.ts";

/** What becomes of one request: an answer after a while, or never one (the deadline ends it). */
export type Script =
  | { readonly kind: "answer"; readonly afterMs: number; readonly result: WireResult }
  | StreamScript
  | { readonly kind: "hang" };

/** What a script may go by. */
export interface ScriptContext {
  /** How many requests with the same method, origin, path and body arrived so far, this one included: from 1. */
  readonly attempt: number;
  readonly nowMs: number;
}

/** One request in the ledger. */
export interface LedgerEntry {
  readonly sentMs: number;
  readonly method: WireMethod;
  readonly origin: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The body as text. */
  readonly body: string;
  readonly attempt: number;
  /** What the script said, whether or not the caller waited for it: what a provider would bill. */
  readonly script: Script;
  /** What the caller got, of a streamed answer without its body; undefined while it waits or reads. */
  readonly result: WireResult | undefined;
  readonly settledMs: number | undefined;
}

type OpenLedgerEntry = { -readonly [Name in keyof LedgerEntry]: LedgerEntry[Name] };

/** `Transport` for simulations. */
export class ScriptedTransport implements Transport {
  readonly #clock: Clock;
  readonly #script: (request: WireRequest, context: ScriptContext) => Script;
  readonly #ledger: OpenLedgerEntry[] = [];
  readonly #attempts = new Map<string, number>();
  /** Ends each call in flight with `aborted`. */
  readonly #inFlight = new Set<() => void>();
  readonly #signals = new SharedSignals();
  #isClosed = false;

  constructor(clock: Clock, script: (request: WireRequest, context: ScriptContext) => Script) {
    this.#clock = clock;
    this.#script = script;
  }

  /** All requests in the order of their sending, over every restart. */
  get ledger(): readonly LedgerEntry[] {
    return this.#ledger;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  send(request: WireRequest, options: SendOptions): Promise<WireResult> {
    return new Promise((resolve) => {
      this.#run(request, options, {
        arrived: (script, call) => call.end(script.kind === "answer" ? script.result : wholeOf(script)),
        ended: resolve,
      });
    });
  }

  stream(request: StreamRequest, options: StreamOptions): Promise<WireStream> {
    return new Promise((resolve) => {
      let stream: ScriptedStream | undefined;
      this.#run(request, options, {
        arrived: (script, call) => {
          const isFailure = script.kind === "answer" && !script.result.ok;
          if (isFailure) return call.end(script.result);
          stream = new ScriptedStream(script, options.bytesMax, call);
          resolve(stream.head);
          stream.begin();
        },
        ended: (result) => {
          if (stream !== undefined) stream.ended(result);
          else if (!result.ok) resolve(result);
        },
      });
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const abort of [...this.#inFlight]) abort();
  }

  /** The machine died and a new process begins: what was in flight is cut, and `send` works again. The ledger stays. */
  restart(): void {
    for (const abort of [...this.#inFlight]) abort();
    this.#isClosed = false;
  }

  #run(request: StreamRequest, options: SendOptions, caller: Caller): void {
    const { body } = request;
    const upload = "chunks" in body ? new Upload(body) : undefined;
    const isAborted = options.signal?.aborted === true;
    if (this.#isClosed || isAborted) {
      upload?.end();
      const message = isAborted ? "aborted before it was sent" : "the transport is closed";
      caller.ended({ ok: false, failure: "aborted", message });
      return;
    }
    let entry: OpenLedgerEntry | undefined;
    const call = new ScriptedCall(this.#clock, options, (result) => {
      if (options.signal !== undefined) this.#signals.forget(options.signal, abort);
      this.#inFlight.delete(abort);
      upload?.end();
      if (entry !== undefined) Object.assign(entry, { result, settledMs: this.#clock.nowMs() });
      caller.ended(result);
    });
    const abort = (): void => call.end({ ok: false, failure: "aborted", message: "aborted in flight" });
    const enter = (whole: WireRequest): void => {
      entry = this.#enter(whole);
      const { script } = entry;
      if (script.kind === "hang") call.wait(Number.POSITIVE_INFINITY, () => undefined);
      else call.wait(script.afterMs, () => caller.arrived(script, call));
    };
    if (upload === undefined) enter(request as WireRequest);
    else call.read(upload, (bytes) => enter({ ...request, body: bytes }));
    if (options.signal !== undefined) this.#signals.follow(options.signal, abort);
    this.#inFlight.add(abort); // a script counts those beside its request
  }

  #enter(request: WireRequest): OpenLedgerEntry {
    const { method = "POST", origin, path, headers } = request;
    const body = new TextDecoder().decode(request.body);
    const name = `${method} ${origin} ${path} ${body}`;
    const attempt = (this.#attempts.get(name) ?? 0) + 1;
    this.#attempts.set(name, attempt);
    const nowMs = this.#clock.nowMs();
    const entry: OpenLedgerEntry = {
      sentMs: nowMs,
      method,
      origin,
      path,
      headers: { ...headers },
      body,
      attempt,
      script: this.#script(request, { attempt, nowMs }),
      result: undefined,
      settledMs: undefined,
    };
    this.#ledger.push(entry);
    return entry;
  }
}

/** What is done with the answer of the script, and with the end of the call. */
interface Caller {
  arrived(script: Exclude<Script, { readonly kind: "hang" }>, call: ScriptedCall): void;
  ended(result: WireResult): void;
}

/** A response of 200 with the body of OpenAI's chat completions. */
export function openaiAnswer(text: string, usage: Partial<Usage> = {}, model = "scripted"): WireResult {
  const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } = {
    ...NO_USAGE,
    ...usage,
  };
  return jsonAnswer(200, {
    id: "chatcmpl-scripted",
    object: "chat.completion",
    created: 0,
    model,
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
    usage: {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
      prompt_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: cacheWriteTokens },
      completion_tokens_details: { reasoning_tokens: reasoningTokens },
    },
  });
}

/** A response with OpenAI's error envelope. */
export function openaiError(
  status: number,
  error: { readonly message: string; readonly type?: string; readonly code?: string },
  headers: Readonly<Record<string, string>> = {},
): WireResult {
  return jsonAnswer(status, { error: { type: null, code: null, param: null, ...error } }, headers);
}

/** A response with any JSON body. */
export function jsonAnswer(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): WireResult {
  return {
    ok: true,
    status,
    headers: { "content-type": "application/json", ...headers },
    body: new TextEncoder().encode(JSON.stringify(body)),
  };
}
