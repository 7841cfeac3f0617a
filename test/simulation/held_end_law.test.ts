/**
 * The law of ends under `finish`, by books of one lane and its neighbours.
 */
import { describe, expect, it } from "vitest";
import { isHeldEnd, type SentRequest } from "./held_end_law.ts";

interface Request {
  readonly what: string;
  readonly sentMs: number;
  readonly endMs: number;
  readonly model?: string;
  readonly run?: number;
  readonly process?: number;
  readonly retryAfterMs?: number;
  readonly mayWaitMs?: number;
}

/** Whether an item of `alpha:m1` may have ended at 100 s with a code, after these requests. */
function mayEnd(
  code: string,
  requests: readonly Request[],
  { waitMs, hasDied = false }: { readonly waitMs?: number; readonly hasDied?: boolean } = {},
): boolean {
  const served = requests.map(
    ({
      what,
      sentMs,
      endMs,
      model = "alpha:m1",
      run = 0,
      process = 1,
      retryAfterMs,
      mayWaitMs = 0,
    }): SentRequest => ({
      what,
      model,
      process,
      provider: model.slice(0, model.indexOf(":")),
      line: { run },
      atMs: sentMs,
      overAtMs: endMs,
      isDelivered: true,
      retryAfterMs,
      mayWaitMs,
    }),
  );
  const run = { index: 0, waitMs };
  const line = { model: "alpha:m1", provider: "alpha" };
  return isHeldEnd({ run, line, code, endMs: 100_000, served, hasDied });
}

const ACCEPTED: Request = { what: "answer", sentMs: 0, endMs: 10 };
const at = (what: string, sentMs: number, endMs: number, more: Partial<Request> = {}): Request => ({
  what,
  sentMs,
  endMs,
  ...more,
});

describe("the law of held ends", () => {
  it("allows the reason of the lane's last failure, not that of another lane of its provider", () => {
    const other = at("half_body", 40, 50, { model: "alpha:m2" });
    const requests = [ACCEPTED, at("rate_limited", 20, 30), other];
    expect(mayEnd("rate_limited", requests, { waitMs: 0 })).toBe(true);
    expect(mayEnd("connection_lost", requests, { waitMs: 0 })).toBe(false);
    expect(mayEnd("rate_limited", [ACCEPTED, other], { waitMs: 0 })).toBe(false);
  });

  it("allows no end after an answer to the lane, whenever the answered request was sent", () => {
    const failed = at("bad_gateway", 20, 30);
    expect(mayEnd("provider_error", [ACCEPTED, failed], { waitMs: 0 })).toBe(true);
    expect(mayEnd("provider_error", [ACCEPTED, failed, at("answer", 5, 60)], { waitMs: 0 })).toBe(false);
  });

  it("allows an end while the lane waits as a 429 asked it to, after answers to requests from before", () => {
    const refused = at("rate_limited", 20, 30, { retryAfterMs: 100_000 });
    const old = at("answer", 5, 60);
    expect(mayEnd("rate_limited", [ACCEPTED, refused, old], { waitMs: 0 })).toBe(true);
    expect(mayEnd("rate_limited", [ACCEPTED, refused, old], { waitMs: 99_940 })).toBe(true);
    expect(mayEnd("rate_limited", [ACCEPTED, refused, old], { waitMs: 99_941 })).toBe(false); // from the answer
    expect(mayEnd("rate_limited", [ACCEPTED, refused, at("answer", 31, 60)], { waitMs: 0 })).toBe(false);
    const short = at("rate_limited", 20, 30, { retryAfterMs: 29 });
    expect(mayEnd("rate_limited", [ACCEPTED, short, old], { waitMs: 0 })).toBe(false); // the wait was over
    const failed = at("bad_gateway", 10, 50);
    expect(mayEnd("provider_error", [ACCEPTED, refused, failed, old], { waitMs: 0 })).toBe(false);
  });

  it("counts the wait of a later 429 from that 429 when its request was sent after the wait before", () => {
    const first = at("rate_limited", 20, 30, { mayWaitMs: 900_000 });
    const second = at("rate_limited", 40, 70, { mayWaitMs: 900_000 });
    const requests = [ACCEPTED, first, second, at("answer", 50, 90)];
    expect(mayEnd("rate_limited", requests, { waitMs: 99_910 })).toBe(true);
    expect(mayEnd("rate_limited", requests, { waitMs: 99_911 })).toBe(false); // from the answer
    const early = at("rate_limited", 25, 70, { mayWaitMs: 900_000 });
    const late = [ACCEPTED, first, early, at("answer", 50, 90)];
    expect(mayEnd("rate_limited", late, { waitMs: 0 })).toBe(false);
    expect(mayEnd("rate_limited", [...requests, at("answer", 71, 95)], { waitMs: 0 })).toBe(false);
  });

  it("allows no end of a stopped account after an answer to a request that was sent after the stop", () => {
    const failed = at("quota", 20, 30);
    expect(mayEnd("quota_exceeded", [ACCEPTED, failed, at("slow_answer", 5, 60)], { waitMs: 0 })).toBe(true);
    expect(mayEnd("quota_exceeded", [ACCEPTED, failed, at("answer", 40, 60)], { waitMs: 0 })).toBe(false);
  });

  it("takes an accepted key for refused only from the third refusal in a row on", () => {
    const refusals = [at("key_refused", 20, 30), at("key_refused", 21, 31)];
    const late = at("slow_answer", 5, 60);
    expect(mayEnd("authentication_failed", [ACCEPTED, ...refusals, late], { waitMs: 0 })).toBe(false);
    const third = at("key_refused", 22, 32);
    expect(mayEnd("authentication_failed", [ACCEPTED, ...refusals, third, late], { waitMs: 0 })).toBe(true);
  });

  it("allows an end at once on all lanes of a provider whose key was never accepted", () => {
    const other = at("key_refused", 20, 99_990, { model: "alpha:m2" });
    expect(mayEnd("authentication_failed", [other])).toBe(true);
    expect(mayEnd("authentication_failed", [ACCEPTED, other])).toBe(false);
    expect(mayEnd("authentication_failed", [ACCEPTED, { ...other, process: 2 }], { hasDied: true })).toBe(
      true,
    );
  });

  it("counts the wait from the last answer of the lane or of the run", () => {
    const failed = at("bad_gateway", 20_000, 94_000);
    const [own, others] = [
      at("answer", 0, 95_001, { model: "beta:m1" }),
      at("answer", 0, 95_001, { model: "beta:m1", run: 1 }),
    ];
    expect(mayEnd("provider_error", [ACCEPTED, failed], { waitMs: 5_000 })).toBe(true);
    expect(mayEnd("provider_error", [ACCEPTED, failed, own], { waitMs: 5_000 })).toBe(false);
    expect(mayEnd("provider_error", [ACCEPTED, failed, others], { waitMs: 5_000 })).toBe(true);
    expect(mayEnd("provider_error", [ACCEPTED, failed])).toBe(false); // the default wait is half an hour
    expect(mayEnd("provider_error", [], { waitMs: 0 })).toBe(false);
  });
});
