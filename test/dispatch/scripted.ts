/**
 * What the dispatcher's tests run on: virtual time, a transport and a codec that follow a script, an admission that
 * keeps a record.
 */
import { type Clock, type Moment, sleepOn, type Timer } from "../../src/clock.ts";
import {
  type AdmitAttempt,
  type AttemptResult,
  type Call,
  createDispatcher,
  type Dispatcher,
  type Made,
  type Patience,
} from "../../src/dispatch/dispatcher.ts";
import { RETRY_POLICY, type RetryPolicy } from "../../src/dispatch/retry.ts";
import type { Transport, WireRequest, WireResult } from "../../src/dispatch/transport.ts";
import type { Decoded, Provider } from "../../src/providers/provider.ts";
import type { Usage } from "../../src/work/outcome.ts";

/** Time that moves from timer to timer, as soon as nothing else can happen. */
class VirtualClock implements Clock {
  #nowMs = 0;
  #created = 0;
  readonly #timers = new Map<number, { readonly dueMs: number; readonly callback: () => void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return 1_795_000_000_000 + Math.floor(this.#nowMs);
  }

  moment(): Moment {
    return { wallMs: this.wallMs(), bootId: undefined, sinceBootMs: this.#nowMs };
  }

  timer(delayMs: number, callback: () => void): Timer {
    const id = this.#created;
    this.#created += 1;
    this.#timers.set(id, { dueMs: this.#nowMs + Math.max(0, delayMs), callback });
    return { cancel: () => void this.#timers.delete(id) };
  }

  soon(callback: () => void): void {
    setImmediate(callback);
  }

  sleep(delayMs: number, options?: { readonly signal?: AbortSignal | undefined }): Promise<void> {
    return sleepOn(this, delayMs, options?.signal);
  }

  random(): number {
    return 0.5;
  }

  /** Runs timers in order until the promise settles. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    void promise.then(
      () => {
        isSettled = true;
      },
      () => {
        isSettled = true;
      },
    );
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (isSettled) return promise;
      const next = [...this.#timers].sort((a, b) => a[1].dueMs - b[1].dueMs || a[0] - b[0])[0];
      if (next === undefined) throw new Error("nothing is due, and the promise waits");
      this.#timers.delete(next[0]);
      this.#nowMs = Math.max(this.#nowMs, next[1].dueMs);
      next[1].callback();
    }
  }
}

export const USAGE: Usage = {
  inputTokens: 10,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 5,
  reasoningTokens: 0,
  isEstimated: false,
};

export const SUCCESS: Decoded = { class: "success", text: "yes", finish: "stop", usage: USAGE };

/** A step of a script: what the codec says of the answer, or what the wire says instead of one. */
export type Step =
  | Decoded
  | (Extract<WireResult, { ok: false }> & { readonly afterMs?: number })
  | { readonly hang: true };

export const LOST = { ok: false, failure: "lost", message: "connection lost" } as const satisfies Step;
/** The transport was closed while the answer was awaited. */
export const CUT: Step = { ok: false, failure: "aborted", message: "the transport was closed" };
export const NOT_SENT: Step = { ok: false, failure: "not_sent", message: "no connection" };
/** Never answers: the transport ends it at its deadline. */
export const HANG: Step = { hang: true };

export function refused(more: Partial<Exclude<Decoded, { class: "success" }>> = {}): Decoded {
  return {
    class: "refused",
    code: "rate_limited",
    message: "slow down",
    scope: "item",
    isRateLimit: true,
    ...more,
  };
}

/** One dispatcher with everything around it scripted; the last step repeats. */
export class Stage {
  readonly clock = new VirtualClock();
  readonly sent: { readonly atMs: number; readonly timeoutMs: number; readonly request: WireRequest }[] = [];
  readonly admitted: (Made & { readonly atMs: number })[] = [];
  readonly told: AttemptResult[] = [];
  readonly dispatcher: Dispatcher;
  readonly #steps: readonly Step[];
  /** Whether a failure counts against the item. */
  isOwn: (result: AttemptResult) => boolean = () => true;
  /** Replaces what admission does. */
  onAdmit: () => Promise<void> = () => Promise.resolve();

  constructor(steps: readonly Step[], policy: Partial<RetryPolicy> = {}, patience?: Patience) {
    this.#steps = steps;
    const admission: AdmitAttempt = {
      admit: (_call, made) => {
        this.admitted.push({ ...made, atMs: this.clock.nowMs() });
        return this.onAdmit();
      },
      attempted: (_call, result) => {
        this.told.push(result);
        return this.isOwn(result);
      },
      begun: () => undefined,
    };
    this.dispatcher = createDispatcher({
      clock: this.clock,
      transport: this.#transport(),
      policy: { ...RETRY_POLICY, ...policy },
      admission,
      ...(patience === undefined ? {} : { patience }),
    });
  }

  call(more: Partial<Call> = {}): Call {
    return {
      provider: this.#provider(),
      head: {
        origin: "http://a.test",
        path: "/v1/chat/completions",
        headers: { authorization: "Bearer sk-secret" },
      },
      body: Buffer.from("{}"),
      inputTokens: 7,
      deadlineMs: Number.POSITIVE_INFINITY,
      attemptMsMax: 600_000,
      attempts: 0,
      uncounted: 0,
      ambiguousAttempts: 0,
      uncountedAmbiguous: 0,
      unusableAnswers: 0,
      ...more,
    };
  }

  run(call: Call = this.call()): ReturnType<Dispatcher["run"]> {
    return this.clock.until(this.dispatcher.run(call));
  }

  #transport(): Transport {
    return {
      send: async (request, { timeoutMs, moreMs }) => {
        const index = this.sent.length;
        this.sent.push({ atMs: this.clock.nowMs(), timeoutMs, request });
        const step = this.#steps[Math.min(index, this.#steps.length - 1)]!;
        if ("hang" in step) return this.#hang(timeoutMs, moreMs);
        if ("ok" in step) {
          await this.clock.sleep(step.afterMs ?? 0);
          return step;
        }
        return {
          ok: true,
          status: step.class === "success" ? 200 : 429,
          headers: {},
          body: Buffer.from(String(index)),
        };
      },
      stream: () => Promise.reject(new Error("not used")),
      close: () => Promise.resolve(),
    };
  }

  async #hang(timeoutMs: number, moreMs: () => number = () => 0): Promise<WireResult> {
    for (let forMs = timeoutMs; forMs > 0; forMs = moreMs()) await this.clock.sleep(forMs);
    return { ok: false, failure: "timeout", message: "no answer in time" };
  }

  #provider(): Provider {
    return {
      settings: { name: "acme", protocol: "openai", baseUrl: "http://a.test/v1" },
      head: () => ({ origin: "", path: "", headers: {} }),
      encode: () => ({ ok: true, body: "{}", dropped: [] }),
      decode: ({ body }) =>
        this.#steps[Math.min(Number(Buffer.from(body).toString()), this.#steps.length - 1)] as Decoded,
      limits: () => undefined,
    };
  }
}
