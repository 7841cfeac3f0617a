/**
 * Reads rate limits from response headers, per family. Sources: the providers' rate limit pages.
 *
 *   openai     x-ratelimit-{limit,remaining,reset}-{requests,tokens}; resets are Go durations until the bucket is FULL
 *   groq       the same names, but the requests trio is per DAY: left out, since our limits are per minute
 *   fireworks  x-ratelimit-limit-tokens-{prompt,generated}: tokens per second, returned here per minute
 *   anthropic  anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}; resets are
 *              RFC 3339 times, read against the response's own `date` so that our clock does not matter
 *   gemini     sends nothing on success
 *
 * Limits: values that are not whole, or a limit that is not above 0 (Azure sends -1 and 0), are ignored together with
 * what remains of them.
 *
 * Called once per response, at most 1 us (bench/parts/decode.ts).
 */
import type { LearntLimits } from "../work/limits.ts";
import type { HeaderBag } from "./provider.ts";
import { goDurationMs, httpDateMs, rfc3339Ms } from "./retry_after.ts";

type Writable = { -readonly [name in keyof LearntLimits]: LearntLimits[name] };

/** Limits in the headers of OpenAI and its family. `requestsPer`: the period of the requests trio. */
export function openaiLimits(headers: HeaderBag, requestsPer: "minute" | "day"): LearntLimits | undefined {
  const learnt: Writable = {};
  if (requestsPer === "minute") {
    const limit = whole(headers["x-ratelimit-limit-requests"]);
    if (limit !== 0 && limit !== NONSENSE) {
      if (limit !== undefined) learnt.requestsPerMinute = limit;
      put(learnt, "remainingRequests", whole(headers["x-ratelimit-remaining-requests"]));
      put(learnt, "resetRequestsMs", goDurationMs(headers["x-ratelimit-reset-requests"]));
    }
  }
  const tokens = whole(headers["x-ratelimit-limit-tokens"]);
  if (tokens !== 0 && tokens !== NONSENSE) {
    if (tokens !== undefined) learnt.tokensPerMinute = tokens;
    put(learnt, "remainingTokens", whole(headers["x-ratelimit-remaining-tokens"]));
    put(learnt, "resetTokensMs", goDurationMs(headers["x-ratelimit-reset-tokens"]));
  }
  const prompt = whole(headers["x-ratelimit-limit-tokens-prompt"]);
  if (prompt !== undefined && prompt > 0) learnt.inputTokensPerMinute = prompt * 60;
  const generated = whole(headers["x-ratelimit-limit-tokens-generated"]);
  if (generated !== undefined && generated > 0) learnt.outputTokensPerMinute = generated * 60;
  return told(learnt);
}

/** Limits in the headers of Anthropic. */
export function anthropicLimits(headers: HeaderBag): LearntLimits | undefined {
  const learnt: Writable = {};
  const date = headers["date"];
  const nowMs = date === undefined ? Number.NaN : httpDateMs(date);
  const requests = whole(headers["anthropic-ratelimit-requests-limit"]);
  if (requests !== 0 && requests !== NONSENSE) {
    if (requests !== undefined) learnt.requestsPerMinute = requests;
    put(learnt, "remainingRequests", whole(headers["anthropic-ratelimit-requests-remaining"]));
    put(learnt, "resetRequestsMs", until(headers["anthropic-ratelimit-requests-reset"], nowMs));
  }
  const tokens = whole(headers["anthropic-ratelimit-tokens-limit"]);
  if (tokens !== 0 && tokens !== NONSENSE) {
    if (tokens !== undefined) learnt.tokensPerMinute = tokens;
    put(learnt, "remainingTokens", whole(headers["anthropic-ratelimit-tokens-remaining"]));
    put(learnt, "resetTokensMs", until(headers["anthropic-ratelimit-tokens-reset"], nowMs));
  }
  const input = whole(headers["anthropic-ratelimit-input-tokens-limit"]);
  if (input !== undefined && input > 0) learnt.inputTokensPerMinute = input;
  const output = whole(headers["anthropic-ratelimit-output-tokens-limit"]);
  if (output !== undefined && output > 0) learnt.outputTokensPerMinute = output;
  return told(learnt);
}

/** A header that exists but is not a count. */
const NONSENSE = -1;

function whole(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (text.length === 0 || text.length > 15) return NONSENSE;
  let value = 0;
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) return NONSENSE;
    value = value * 10 + digit;
  }
  return value;
}

function put(learnt: Writable, name: keyof LearntLimits, value: number | undefined): void {
  if (value !== undefined && value !== NONSENSE) learnt[name] = value;
}

function until(text: string | undefined, nowMs: number): number | undefined {
  const atMs = rfc3339Ms(text);
  return atMs === undefined || Number.isNaN(nowMs) ? undefined : Math.max(0, atMs - nowMs);
}

function told(learnt: Writable): LearntLimits | undefined {
  for (const _ in learnt) return learnt;
  return undefined;
}
