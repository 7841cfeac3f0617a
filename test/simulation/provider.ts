/**
 * The providers of a simulation: what each request is answered with, and the book of what they did and would bill.
 */
import type { WireRequest, WireResult } from "../../src/dispatch/transport.ts";
import { jsonAnswer, type Script, type ScriptContext } from "../../src/testing/index.ts";
import { drawFate, FLEX_FACTOR, type FlexFate } from "./flex_tier.ts";
import {
  INPUT_USD,
  OUTPUT_USD,
  pick,
  type SimulatedLine,
  type Window,
  type WindowKind,
  type Workload,
} from "./workload.ts";

/** One request as the provider saw it: the ledger that every law is checked against. */
export interface Served {
  readonly atMs: number;
  readonly provider: string;
  readonly model: string;
  readonly line: SimulatedLine;
  /** What was done with it: a fault, an ending, the kind of a window, or what the cheaper tier does. */
  readonly what: string;
  /** Whether it asked for the cheaper tier. */
  readonly isInTier: boolean;
  /** What its provider takes for it of the list price. */
  readonly priceFactor: number;
  /** The work was done: tokens are billed. */
  readonly isBilled: boolean;
  /** The answer says how many tokens it took. */
  readonly tellsUsage: boolean;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The most that it may cost, by the provider's own count and the limit of its output. */
  readonly worstUsd: number;
  /** Milliseconds of the wait that the answer asks for; undefined where that cannot be read. */
  readonly retryAfterMs: number | undefined;
  /** What a Retry-After may be taken for that is a date, when the caller's calendar has jumped. */
  readonly mayWaitMs: number;
  /** Which process sent it, from 1. */
  readonly process: number;
  /** Which call of its run sent it, from 1; set when it is sent. */
  call: number;
  /** Set when the caller, alive, got the result. */
  isDelivered: boolean;
  /** Set when its caller no longer waited for what it would have been answered with. */
  isCut: boolean;
  /** Set when nothing more will come of it. */
  isOver: boolean;
  overAtMs: number | undefined;
}

/** What ends an item when it arrives. */
export const FINAL: ReadonlySet<string> = new Set([
  "answer",
  "slow_answer",
  "cut_answer",
  "filtered",
  "bad_request",
  "too_long",
  "late_in_tier",
]);

/** Whether a request ended its item: its caller, alive, received a final answer. */
export function isFinal({ what, isDelivered }: Pick<Served, "what" | "isDelivered">): boolean {
  return FINAL.has(what) && isDelivered;
}

/** Of the cheaper tier, whatever the line comes to. */
const TIER_ENDS: ReadonlySet<string> = new Set(["shed_in_tier", "error_in_tier", "unknown_in_tier"]);
/** In the cheaper tier they mean that it has no capacity. */
const NO_CAPACITY: ReadonlySet<string> = new Set(["shed_in_tier", "unavailable", "overloaded", "swamped"]);
/** They arrive when the tier, and not the item, may be to blame. */
const PERHAPS_TIER: ReadonlySet<string> = new Set(["unknown_in_tier", "bad_request_in_tier"]);

/** Refused by the cheaper tier for want of capacity: no attempt. */
export function isShed({ isInTier, isCut, what }: Pick<Served, "isInTier" | "isCut" | "what">): boolean {
  return isInTier && !isCut && NO_CAPACITY.has(what);
}

/** Its failure is the cheaper tier's, not the item's: it had no capacity, did not answer in time, or is perhaps not known to the model. */
export function isOfTier(served: Served): boolean {
  const { isInTier, isCut, what } = served;
  return isInTier && (isCut || isShed(served) || what === "gateway_timeout" || PERHAPS_TIER.has(what));
}

/** What a window does says nothing of the item. */
const WINDOWS: ReadonlySet<string> = new Set<WindowKind>([
  "quota",
  "key_refused",
  "swamped",
  "down",
  "throttled",
  "bad_gateway",
  "reset",
  "dead",
]);

const RATE_LIMITED: ReadonlySet<string> = new Set(["rate_limited", "throttled", "unavailable"]);
const DATE_WAIT_MS = 15 * 60_000;
/** Later than a request in realtime is waited for. */
const LATE_MS = 100_000;

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
export function answerOf(id: number): string {
  return `answer to ${id}: «${(id * 2654435761) >>> 0}»`;
}

/** USD that its provider bills for a request. */
export function usdOf(served: Served): number {
  return listUsdOf(served) * served.priceFactor;
}

/** The same at list price. */
export function listUsdOf({ inputTokens, outputTokens }: Served): number {
  return (inputTokens * INPUT_USD + outputTokens * OUTPUT_USD) / 1e6;
}

/** A window that has opened. */
export interface OpenWindow {
  readonly window: Window;
  readonly fromMs: number;
  readonly untilMs: number;
}

export class SimulatedProviders {
  readonly served: Served[] = [];
  readonly servedOf = new Map<number, Served[]>();
  readonly #servedTo = new Map<string, Served[]>();
  /** Called at every request, before it is answered. */
  onSend: ((served: Served) => void) | undefined;
  /** Called when a process that lives has got the result of a request. */
  onDelivered: ((served: Served) => void) | undefined;
  /** Counted by the simulation. */
  process = 0;
  readonly windows: OpenWindow[] = [];
  readonly #workload: Workload;
  readonly #random: () => number;
  readonly #lines: ReadonlyMap<number, SimulatedLine>;
  readonly #sends = new Map<string, number>();

  constructor(workload: Workload, random: () => number) {
    this.#workload = workload;
    this.#random = random;
    this.#lines = new Map(workload.lines.map((line) => [line.id, line]));
  }

  script(request: WireRequest, { nowMs }: ScriptContext): Script {
    const body = new TextDecoder().decode(request.body);
    const id = Number(/\[\[(\d+)\]\]/.exec(body)?.[1]);
    const line = this.#lines.get(id);
    if (line === undefined) throw new Error(`a request for no known line: ${body}`);
    const before = this.servedOf.get(id) ?? [];
    const window = this.#windowAt(line.provider, nowMs);
    const tries = before.filter(({ what }) => !WINDOWS.has(what) && !TIER_ENDS.has(what)).length;
    const fate = this.#fateIn(body, line);
    const what = window?.kind ?? whatOf(fate, line.faults[tries] ?? line.ending);
    const maxTokens = Number(/"max_(?:completion_)?tokens":(\d+)/.exec(body)?.[1]);
    const inputTokens = Math.max(1, Math.floor(body.length / 40));
    const outputTokens = Math.min(maxTokens, 5 + (line.line % 13));
    const plan = this.#plan(what, line, { inputTokens, outputTokens }, fate);
    const served: Served = {
      atMs: nowMs,
      provider: line.provider,
      model: line.model,
      line,
      what,
      isInTier: fate !== undefined,
      priceFactor: fate?.is === "taken" && !fate.isOther ? FLEX_FACTOR : 1,
      isBilled: plan.isBilled ?? false,
      tellsUsage: plan.tellsUsage ?? false,
      inputTokens: plan.isBilled ? inputTokens : 0,
      outputTokens: plan.isBilled ? outputTokens : 0,
      worstUsd: (body.length * INPUT_USD + maxTokens * OUTPUT_USD) / 1e6,
      retryAfterMs: plan.retryAfterMs,
      mayWaitMs: this.#workload.features.has("wall_jump") && RATE_LIMITED.has(what) ? DATE_WAIT_MS : 0,
      process: this.process,
      call: 0,
      isDelivered: false,
      isCut: false,
      isOver: false,
      overAtMs: undefined,
    };
    this.served.push(served);
    this.servedOf.set(id, [...before, served]);
    const toModel = this.#servedTo.get(line.model);
    if (toModel === undefined) this.#servedTo.set(line.model, [served]);
    else toModel.push(served);
    this.onSend?.(served);
    return plan.script;
  }

  /** All requests to a model. */
  servedTo(model: string): readonly Served[] {
    return this.#servedTo.get(model) ?? [];
  }

  #windowAt(provider: string, nowMs: number): Window | undefined {
    const sends = this.#sends.get(provider) ?? 0;
    this.#sends.set(provider, sends + 1);
    for (const window of this.#workload.windows)
      if (window.provider === provider && window.afterSends === sends)
        this.windows.push({ window, fromMs: nowMs, untilMs: nowMs + window.lastsMs });
    return this.windows.find((one) => one.window.provider === provider && nowMs < one.untilMs)?.window;
  }

  /** Undefined for a request in realtime. */
  #fateIn(body: string, line: SimulatedLine): FlexFate | undefined {
    const { flex } = this.#workload;
    if (flex === undefined || !body.includes('"service_tier":"flex"')) return undefined;
    return drawFate(flex, line.model, this.#random);
  }

  #plan(what: string, line: SimulatedLine, counts: Counts, fate: FlexFate | undefined): Plan {
    const isAnthropic = line.provider === "gamma";
    const moreMs = fate?.is === "taken" ? fate.moreMs : 0;
    const latencyMs = this.#workload.latencyMs * (0.5 + this.#random()) + moreMs;
    const tokens = fate?.is === "taken" ? { ...counts, tier: fate.isOther ? "default" : "flex" } : counts;
    const after = (result: WireResult, extra: Omit<Plan, "script"> = {}, afterMs = latencyMs): Plan => ({
      ...extra,
      script: { kind: "answer", afterMs, result },
    });
    const done = { isBilled: true } as const;
    const text = answerOf(line.id);
    switch (what) {
      case "answer":
        return after(success(isAnthropic, text, "stop", tokens), { ...done, tellsUsage: true });
      case "slow_answer":
        return after(
          success(isAnthropic, text, "stop", tokens),
          { ...done, tellsUsage: true },
          20_000 + moreMs,
        );
      case "cut_answer":
        return after(success(isAnthropic, text, "length", tokens), { ...done, tellsUsage: true });
      case "filtered":
        return after(success(isAnthropic, "", "filtered", tokens), { isBilled: true, tellsUsage: true });
      case "bad_request_in_tier":
      case "unknown_in_tier":
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
        return this.#rateLimited(isAnthropic, latencyMs);
      case "unavailable": {
        const wait = this.#random() < 0.5 ? this.#retryAfter() : undefined;
        const headers = wait === undefined ? {} : { "retry-after": wait };
        return after(refusal(isAnthropic, 503, "unavailable", "busy", headers), {
          retryAfterMs: readWait(wait),
        });
      }
      case "swamped":
      case "overloaded":
        return after(refusal(isAnthropic, 529, "overloaded_error", "busy"));
      case "throttled":
        return this.#rateLimited(isAnthropic, latencyMs);
      case "key_refused":
        return after(
          refusal(isAnthropic, 401, isAnthropic ? "authentication_error" : "invalid_api_key", "who are you"),
        );
      case "bad_gateway":
        return after({ ok: true, status: 502, headers: {}, body: bytes("") });
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
      case "shed_in_tier":
        return after(refusal(false, 429, "resource_unavailable", "no capacity"));
      case "error_in_tier":
      case "server_error":
        return after(refusal(isAnthropic, 500, "api_error", "oops"));
      case "gateway_timeout":
        return after({ ok: true, status: 504, headers: {}, body: bytes("") }, done);
      case "reset":
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
      case "dead":
      case "hang":
        return { script: { kind: "hang" } };
      case "too_late":
        return after(success(isAnthropic, text, "stop", tokens), done, LATE_MS);
      case "late_in_tier":
        return after(success(isAnthropic, text, "stop", tokens), { ...done, tellsUsage: true }, LATE_MS);
      case "too_large":
        return after({ ok: false, failure: "too_large", message: "over 32 MiB" }, done);
      default:
        throw new Error(`no plan for ${what}`);
    }
  }

  #rateLimited(isAnthropic: boolean, afterMs: number): Plan {
    const wait = this.#retryAfter();
    const code = isAnthropic ? "rate_limit_error" : "rate_limit_exceeded";
    const result = refusal(isAnthropic, 429, code, "slow", { "retry-after": wait });
    return { script: { kind: "answer", afterMs, result }, retryAfterMs: readWait(wait) };
  }

  #retryAfter(): string {
    return pick(this.#random, RETRY_AFTER);
  }
}

interface Counts {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What an answer says of its cost. */
interface Charge extends Counts {
  readonly tier?: string;
}

/** What becomes of a request for which its line's fault or ending would be next. */
function whatOf(fate: FlexFate | undefined, next: string): string {
  if (fate === undefined) return next;
  if (fate.is !== "taken") return `${fate.is}_in_tier`;
  if (next === "bad_request") return "bad_request_in_tier";
  return next === "too_late" ? "late_in_tier" : next; // the tier has minutes for it
}

interface Plan {
  readonly script: Script;
  readonly isBilled?: boolean;
  readonly tellsUsage?: boolean;
  readonly retryAfterMs?: number | undefined;
}

/** Seconds above 0; of all else nobody can say what is meant. */
function readWait(text: string | undefined): number | undefined {
  const ms = Number(text) * 1_000;
  return ms > 0 ? ms : undefined;
}

function success(
  isAnthropic: boolean,
  text: string,
  finish: "stop" | "length" | "filtered",
  charge: Charge,
): WireResult {
  const { inputTokens, outputTokens, tier } = charge;
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
    ...(tier === undefined ? {} : { service_tier: tier }),
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
