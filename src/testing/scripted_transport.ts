/**
 * A wire that answers by a script, in virtual time, and keeps a ledger of all that was sent.
 *
 * It keeps the promises of `Transport`: the deadline covers everything, a signal ends a call at once, nothing rejects,
 * after `close` every call is answered `aborted`.
 */
import type { Clock, Timer } from "../clock.ts";
import { SharedSignals } from "../dispatch/shared_signals.ts";
import type { SendOptions, Transport, WireRequest, WireResult } from "../dispatch/transport.ts";
import { NO_USAGE, type Usage } from "../work/outcome.ts";

/** What becomes of one request: an answer after a while, or never one (the deadline ends it). */
export type Script =
  | { readonly kind: "answer"; readonly afterMs: number; readonly result: WireResult }
  | { readonly kind: "hang" };

/** What a script may go by. */
export interface ScriptContext {
  /** How many requests with the same origin, path and body arrived so far, this one included: from 1. */
  readonly attempt: number;
  readonly nowMs: number;
}

/** One request in the ledger. */
export interface LedgerEntry {
  readonly sentMs: number;
  readonly origin: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The body as text. */
  readonly body: string;
  readonly attempt: number;
  /** What the script said, whether or not the caller waited for it: what a provider would bill. */
  readonly script: Script;
  /** What the caller got; undefined while it waits. */
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
    if (this.#isClosed) return Promise.resolve(failed("aborted", "the transport is closed"));
    if (options.signal?.aborted) return Promise.resolve(failed("aborted", "aborted before it was sent"));
    const entry = this.#enter(request);
    return new Promise((resolve) => {
      const { script } = entry;
      const abort = (): void => settle(failed("aborted", "aborted in flight"));
      const settle = (result: WireResult): void => {
        timer.cancel();
        if (options.signal !== undefined) this.#signals.forget(options.signal, abort);
        this.#inFlight.delete(abort);
        entry.result = result;
        entry.settledMs = this.#clock.nowMs();
        resolve(result);
      };
      let timer: Timer;
      const wait = (forMs: number, answerMs: number): void => {
        const isInTime = script.kind === "answer" && answerMs <= forMs;
        timer = isInTime
          ? this.#clock.timer(answerMs, () => settle(script.result))
          : this.#clock.timer(forMs, () => {
              const moreMs = options.moreMs?.() ?? 0;
              if (moreMs > 0) wait(moreMs, answerMs - forMs);
              else settle(failed("timeout", "no answer in time"));
            });
      };
      wait(options.timeoutMs, script.kind === "answer" ? script.afterMs : Number.POSITIVE_INFINITY);
      if (options.signal !== undefined) this.#signals.follow(options.signal, abort);
      this.#inFlight.add(abort);
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

  #enter(request: WireRequest): OpenLedgerEntry {
    const body = new TextDecoder().decode(request.body);
    const name = `${request.origin} ${request.path} ${body}`;
    const attempt = (this.#attempts.get(name) ?? 0) + 1;
    this.#attempts.set(name, attempt);
    const nowMs = this.#clock.nowMs();
    const entry: OpenLedgerEntry = {
      sentMs: nowMs,
      origin: request.origin,
      path: request.path,
      headers: { ...request.headers },
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

function failed(failure: "aborted" | "timeout", message: string): WireResult {
  return { ok: false, failure, message };
}
