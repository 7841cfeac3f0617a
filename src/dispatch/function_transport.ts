/**
 * Provider functions as a wire: a request to the origin of a function is a call of it, all others go to the transport below.
 *
 *   call -> returns or throws in time ---> its answer, or its error, as JSON (providers/function.ts reads it)
 *        -> time is over, stop, close ---> its signal is aborted, and nobody waits for it any more
 *
 * Limits: an answer of 32 MiB as JSON. A function that blocks this thread blocks all of it; its answer still counts when it
 * returns, because what runs first after that is the answer and not the timer.
 */
import { Buffer } from "node:buffer";
import type { Clock, Timer } from "../clock.ts";
import type { calledWithBody } from "../providers/endpoints/function_embeddings.ts";
import type { ProviderFunction } from "../providers/function.ts";
import type { HeaderBag } from "../providers/provider.ts";
import { SharedSignals } from "./shared_signals.ts";
import type {
  FailedWire,
  SendOptions,
  StreamOptions,
  StreamRequest,
  Transport,
  WireFailure,
  WireRequest,
  WireResult,
  WireStream,
} from "./transport.ts";
import { Upload } from "./upload.ts";

const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
const NO_HEADERS: HeaderBag = {};
/** Headers of an error that refusals are read by. */
const ERROR_HEADERS = ["retry-after", "retry-after-ms", "x-should-retry"] as const;

/** Takes a body that its codec made. */
export type CalledFunction = ProviderFunction | ReturnType<typeof calledWithBody>;

/** `functions` are by their origins. */
export class FunctionTransport implements Transport {
  readonly #below: Transport;
  readonly #clock: Clock;
  readonly #functions: ReadonlyMap<string, CalledFunction>;
  readonly #signals = new SharedSignals();
  /** Ends each call under way with `aborted`. */
  readonly #calls = new Set<() => void>();
  #isClosed = false;

  constructor(below: Transport, clock: Clock, functions: ReadonlyMap<string, CalledFunction>) {
    this.#below = below;
    this.#clock = clock;
    this.#functions = functions;
  }

  send(request: WireRequest, options: SendOptions): Promise<WireResult> {
    const call = this.#functions.get(request.origin);
    if (call === undefined) return this.#below.send(request, options);
    if (this.#isClosed || options.signal?.aborted === true)
      return Promise.resolve(failed("aborted", "stopped before the call"));
    return new Promise((resolve) => this.#call(call, request, options, resolve));
  }

  /** A function takes one request and returns its whole answer. */
  stream(request: StreamRequest, options: StreamOptions): Promise<WireStream> {
    if (!this.#functions.has(request.origin)) return this.#below.stream(request, options);
    if ("chunks" in request.body) new Upload(request.body).end();
    return Promise.resolve(failed("not_sent", "a function answers no streams"));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const abort of [...this.#calls]) abort();
    await this.#below.close();
  }

  #call(
    call: CalledFunction,
    request: WireRequest,
    { timeoutMs, moreMs, signal }: SendOptions,
    resolve: (result: WireResult) => void,
  ): void {
    const controller = new AbortController();
    let isSettled = false;
    const settle = (result: WireResult): void => {
      isSettled = true;
      timer.cancel();
      this.#calls.delete(abort);
      if (signal !== undefined) this.#signals.forget(signal, abort);
      resolve(result);
    };
    const end = (failure: WireFailure, message: string): void => {
      settle(failed(failure, message));
      controller.abort();
    };
    const abort = (): void => end("aborted", "stopped during the call");
    const startedMs = this.#clock.nowMs();
    const watch = (forMs: number): Timer =>
      this.#clock.timer(forMs, () => {
        const next = moreMs?.() ?? 0;
        if (next > 0) timer = watch(next);
        else end("timeout", `no answer within ${Math.round(this.#clock.nowMs() - startedMs)} ms`);
      });
    let timer = watch(timeoutMs);
    this.#calls.add(abort);
    if (signal !== undefined) this.#signals.follow(signal, abort);
    const { body } = request;
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    new Promise((answer) => answer(call(JSON.parse(text), { signal: controller.signal }))).then(
      (answer) => isSettled || settle(answered(answer)),
      (error: unknown) => isSettled || settle(thrown(error)),
    );
  }
}

function failed(failure: WireFailure, message: string): FailedWire {
  return { ok: false, failure, message };
}

function answered(answer: unknown): WireResult {
  const { text, fault = "" } = jsonOf(answer);
  if (text === undefined) {
    if (fault.includes("string length")) return tooLarge(); // longer than any text that V8 can make
    const body = Buffer.from(JSON.stringify({ unwritable: fault }));
    return { ok: true, status: 0, headers: NO_HEADERS, body };
  }
  if (text.length > ANSWER_BYTES_MAX) return tooLarge();
  const body = Buffer.from(text);
  return body.byteLength > ANSWER_BYTES_MAX
    ? tooLarge()
    : { ok: true, status: 200, headers: NO_HEADERS, body };
}

function tooLarge(): WireResult {
  return failed("too_large", `the answer has more than ${ANSWER_BYTES_MAX} bytes`);
}

/** `fault` for what is not data: a circle, a BigInt, thousands of levels. */
function jsonOf(answer: unknown): { readonly text?: string; readonly fault?: string } {
  try {
    return { text: JSON.stringify(answer) ?? "null" };
  } catch (error) {
    return { fault: wordsOf(error) };
  }
}

/** Reading an error may throw, too: it is anybody's object. */
function wordsOf(error: unknown): string {
  try {
    return textOf((error as Error).message) ?? "";
  } catch {
    return "";
  }
}

/** An error of a function, with what it is marked with. Reading it may throw, too: it is anybody's object. */
function thrown(error: unknown): WireResult {
  try {
    const facts = factsOf(error);
    const status = facts.status ?? 0; // not one of HTTP
    const { name, message, code, type, retryable, retryAfterMs, headers } = facts;
    const marks = { name, message, retryable, retryAfterMs, hasStatus: facts.status !== undefined };
    const body = Buffer.from(JSON.stringify({ error: { message, code, type }, thrown: marks }));
    return { ok: true, status, headers, body };
  } catch {
    const body = Buffer.from(JSON.stringify({ thrown: {} }));
    return { ok: true, status: 0, headers: NO_HEADERS, body };
  }
}

interface ErrorFacts {
  readonly status: number | undefined;
  readonly headers: HeaderBag;
  readonly name: string | undefined;
  readonly message: string | undefined;
  readonly code: string | undefined;
  readonly type: string | undefined;
  readonly retryable: boolean | undefined;
  readonly retryAfterMs: number | undefined;
}

function factsOf(error: unknown): ErrorFacts {
  const isObject = typeof error === "object" && error !== null;
  const facts = (isObject ? error : {}) as Readonly<Record<string, unknown>>; // read member by member
  const status = facts["status"] ?? facts["statusCode"];
  const isStatus = Number.isInteger(status) && (status as number) >= 400 && (status as number) <= 599;
  const { retryable, retryAfterMs } = facts;
  return {
    status: isStatus ? (status as number) : undefined,
    headers: headersOf(facts["headers"]),
    name: textOf(facts["name"]),
    message: textOf(isObject ? facts["message"] : error),
    code: textOf(facts["code"]),
    type: textOf(facts["type"]),
    retryable: typeof retryable === "boolean" ? retryable : undefined,
    retryAfterMs: typeof retryAfterMs === "number" ? retryAfterMs : undefined,
  };
}

/** The wait of an SDK's error; its headers are `Headers` or an object. */
function headersOf(value: unknown): HeaderBag {
  if (typeof value !== "object" || value === null) return NO_HEADERS;
  const { get } = value as { readonly get?: unknown };
  const read = (name: string): unknown =>
    typeof get === "function" ? get.call(value, name) : (value as Readonly<Record<string, unknown>>)[name];
  return Object.fromEntries(ERROR_HEADERS.map((name) => [name, textOf(read(name))]));
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value.slice(0, 4_000) : undefined;
}
