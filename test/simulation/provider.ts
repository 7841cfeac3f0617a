/**
 * The providers of a simulation: what each request is answered with, and the book of what they did and would bill.
 */
import type { WireRequest, WireResult } from "../../src/dispatch/transport.ts";
import { jsonAnswer, type Script, type ScriptContext } from "../../src/testing/index.ts";
import { type Fault, INPUT_USD, OUTPUT_USD, pick, type SimulatedLine, type Workload } from "./workload.ts";

/** One request as the provider saw it. */
export interface Served {
  readonly atMs: number;
  readonly provider: string;
  readonly line: number;
  /** What was done with it: a fault, an ending, or the kind of a window. */
  readonly what: string;
  /** The work was done: tokens are billed. */
  readonly isBilled: boolean;
  /** An answer with text was made, whether or not it arrived. */
  readonly isAnswered: boolean;
  /** The answer says how many tokens it took. */
  readonly tellsUsage: boolean;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Set when the caller, alive, got the result. */
  isDelivered: boolean;
  /** Set when nothing more will come of it. */
  isOver: boolean;
}

const RETRY_AFTER: readonly string[] = [
  "1",
  "2.5",
  "0",
  "-5",
  "NaN",
  "soon",
  "Thu, 01 Jan 2026 00:00:05 GMT",
  "Thu, 01 Jan 1970 00:00:00 GMT",
  "1, 2",
  "7",
];

/** The text that is right for a line. */
export function answerOf(line: number): string {
  return `answer to ${line}: «${(line * 2654435761) >>> 0}»`;
}

export class SimulatedProviders {
  readonly served: Served[] = [];
  /** Called at every request, before it is answered. */
  onSend: ((served: Served) => void) | undefined;
  readonly #workload: Workload;
  readonly #random: () => number;
  readonly #linesByNumber: ReadonlyMap<number, SimulatedLine>;
  readonly #attempts = new Map<number, number>();

  constructor(workload: Workload, random: () => number) {
    this.#workload = workload;
    this.#random = random;
    this.#linesByNumber = new Map(workload.lines.map((line) => [line.line, line]));
  }

  script(request: WireRequest, { nowMs }: ScriptContext): Script {
    const body = new TextDecoder().decode(request.body);
    const number = Number(/\[\[(\d+)\]\]/.exec(body)?.[1]);
    const line = this.#linesByNumber.get(number);
    if (line === undefined) throw new Error(`a request for no known line: ${body}`);
    const attempt = (this.#attempts.get(number) ?? 0) + 1;
    this.#attempts.set(number, attempt);
    const window = this.#workload.windows.find(
      (one) => one.provider === line.provider && one.fromMs <= nowMs && nowMs < one.untilMs,
    );
    const what = window?.kind ?? line.faults[attempt - 1] ?? line.ending;
    const maxTokens = Number(/"max_(?:completion_)?tokens":(\d+)/.exec(body)?.[1]);
    const inputTokens = Math.max(1, Math.floor(body.length / 40));
    const outputTokens = Math.min(maxTokens, 5 + (number % 13));
    const plan = this.#plan(what as Fault, line, { inputTokens, outputTokens });
    const served: Served = {
      atMs: nowMs,
      provider: line.provider,
      line: number,
      what,
      isBilled: plan.isBilled ?? false,
      isAnswered: plan.isAnswered ?? false,
      tellsUsage: plan.tellsUsage ?? false,
      inputTokens: plan.isBilled ? inputTokens : 0,
      outputTokens: plan.isBilled ? outputTokens : 0,
      isDelivered: false,
      isOver: false,
    };
    this.served.push(served);
    this.onSend?.(served);
    return plan.script;
  }

  /** USD that the providers would bill. */
  billedUsd(): number {
    return this.served.reduce(
      (sum, { inputTokens, outputTokens }) =>
        sum + (inputTokens * INPUT_USD + outputTokens * OUTPUT_USD) / 1e6,
      0,
    );
  }

  #plan(what: string, line: SimulatedLine, tokens: Tokens): Plan {
    const isAnthropic = line.provider === "gamma";
    const latencyMs = this.#workload.latencyMs * (0.5 + this.#random());
    const after = (result: WireResult, extra: Omit<Plan, "script"> = {}, afterMs = latencyMs): Plan => ({
      ...extra,
      script: { kind: "answer", afterMs, result },
    });
    const done = { isBilled: true, isAnswered: true } as const;
    const text = answerOf(line.line);
    switch (what) {
      case "answer":
        return after(success(isAnthropic, text, "stop", tokens), { ...done, tellsUsage: true });
      case "slow_answer":
        return after(success(isAnthropic, text, "stop", tokens), { ...done, tellsUsage: true }, 20_000);
      case "cut_answer":
        return after(success(isAnthropic, text, "length", tokens), { ...done, tellsUsage: true });
      case "filtered":
        return after(success(isAnthropic, "", "filtered", tokens), { isBilled: true, tellsUsage: true });
      case "bad_request":
        return after(refusal(isAnthropic, 400, "invalid_request_error", "no"));
      case "too_long":
        return after(
          refusal(
            isAnthropic,
            isAnthropic ? 413 : 400,
            isAnthropic ? "request_too_large" : "context_length_exceeded",
            "long",
          ),
        );
      case "rate_limited":
        return after(
          refusal(
            isAnthropic,
            429,
            isAnthropic ? "rate_limit_error" : "rate_limit_exceeded",
            "slow",
            this.#retryAfter(),
          ),
        );
      case "unavailable":
        return after(
          refusal(isAnthropic, 503, "unavailable", "busy", this.#random() < 0.5 ? this.#retryAfter() : {}),
        );
      case "overloaded":
        return after(refusal(isAnthropic, 529, "overloaded_error", "busy"));
      case "quota":
        return after(
          refusal(
            isAnthropic,
            isAnthropic ? 402 : 429,
            isAnthropic ? "billing_error" : "insufficient_quota",
            "pay",
          ),
        );
      case "down":
      case "not_sent":
        return after({ ok: false, failure: "not_sent", message: "connection refused" }, {}, 1);
      case "server_error":
        return after(refusal(isAnthropic, 500, "api_error", "oops"));
      case "gateway_timeout":
        return after({ ok: true, status: 504, headers: {}, body: bytes("") }, done);
      case "reset_before":
        return after({ ok: false, failure: "lost", message: "reset" });
      case "reset_after":
      case "half_body":
        return after({ ok: false, failure: "lost", message: "reset" }, done);
      case "html":
        return after(
          { ok: true, status: 200, headers: { "content-type": "text/html" }, body: bytes("<html>") },
          done,
        );
      case "error_inside":
        return after(jsonAnswer(200, { error: { message: "inner", code: 500, type: "server_error" } }));
      case "no_choices":
        return after(jsonAnswer(200, { id: "x" }), done);
      case "empty":
        return after(success(isAnthropic, "", "stop", tokens), { isBilled: true, tellsUsage: true });
      case "hang":
        return { script: { kind: "hang" } };
      case "too_late":
        return after(success(isAnthropic, text, "stop", tokens), done, 100_000);
      case "too_large":
        return after({ ok: false, failure: "too_large", message: "over 32 MiB" }, done);
      default:
        throw new Error(`no plan for ${what}`);
    }
  }

  #retryAfter(): Record<string, string> {
    return { "retry-after": pick(this.#random, RETRY_AFTER) };
  }
}

interface Tokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

interface Plan {
  readonly script: Script;
  readonly isBilled?: boolean;
  readonly isAnswered?: boolean;
  readonly tellsUsage?: boolean;
}

function success(
  isAnthropic: boolean,
  text: string,
  finish: "stop" | "length" | "filtered",
  tokens: Tokens,
): WireResult {
  const { inputTokens, outputTokens } = tokens;
  if (isAnthropic) {
    const reason = { stop: "end_turn", length: "max_tokens", filtered: "refusal" }[finish];
    return jsonAnswer(200, {
      id: "msg",
      type: "message",
      role: "assistant",
      model: "m1",
      content: text === "" ? [] : [{ type: "text", text }],
      stop_reason: reason,
      usage: { input_tokens: inputTokens, output_tokens: outputTokens },
    });
  }
  const reason = { stop: "stop", length: "length", filtered: "content_filter" }[finish];
  return jsonAnswer(200, {
    id: "x",
    object: "chat.completion",
    model: "m1",
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: reason }],
    usage: {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
    },
  });
}

function refusal(
  isAnthropic: boolean,
  status: number,
  code: string,
  message: string,
  headers: Record<string, string> = {},
): WireResult {
  if (isAnthropic) return jsonAnswer(status, { type: "error", error: { type: code, message } }, headers);
  return jsonAnswer(status, { error: { message, type: code, code, param: null } }, headers);
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
