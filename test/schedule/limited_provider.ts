/**
 * A provider made of numbers, with one limit of any kind, that counts as providers do: a request when it arrives, input
 * tokens when it arrives, output tokens when the answer leaves, places while it is at work.
 */
import type { LearntLimits } from "../../src/work/limits.ts";

/** What a limit counts. */
export type Counted = "requests" | "input" | "output" | "both" | "concurrency";

export interface LimitedProviderOptions {
  readonly kind: "sliding" | "fixed" | "bucket";
  readonly counted: Counted;
  /** Units a minute, or places. */
  readonly limit: number;
  /** Units that a bucket holds; the limit. */
  readonly capacity?: number;
  /** Where a fixed window begins; 0. */
  readonly offsetMs?: number;
  /** False: it counts and refuses nothing; true. */
  readonly isEnforced?: boolean;
  /** Answers tell the limit and what remains of it. */
  readonly hasHeaders?: boolean;
  /** From then on the limit is half. */
  readonly halvedAtMs?: number;
}

export interface ProviderRequest {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

const WINDOW_MS = 60_000;

export class LimitedProvider {
  readonly #options: LimitedProviderOptions;
  /** Sliding: what was used, in order. */
  readonly #log: { readonly atMs: number; readonly units: number }[] = [];
  #logStart = 0;
  #used = 0;
  #window = Number.NEGATIVE_INFINITY;
  /** Bucket: what is in it, below 0 while answers took more. */
  #level: number;
  #levelAtMs = 0;
  #atWork = 0;

  constructor(options: LimitedProviderOptions) {
    this.#options = options;
    this.#level = options.capacity ?? options.limit;
  }

  limit(nowMs: number): number {
    const { limit, halvedAtMs = Number.POSITIVE_INFINITY } = this.#options;
    return nowMs >= halvedAtMs ? limit / 2 : limit;
  }

  /** Whether a request is taken; if so, `ended` must follow. */
  arrives(nowMs: number, request: ProviderRequest): boolean {
    const { counted } = this.#options;
    if (counted === "concurrency") {
      if (this.#atWork >= this.limit(nowMs)) return false;
    } else {
      const atOnce = counted === "requests" ? 1 : counted === "output" ? 0 : request.inputTokens;
      if (!this.#hasRoom(nowMs, atOnce)) return false;
      this.#use(nowMs, atOnce);
    }
    this.#atWork += 1;
    return true;
  }

  /** Its answer leaves. */
  ended(nowMs: number, request: ProviderRequest): void {
    this.#atWork -= 1;
    if (this.#options.counted === "output" || this.#options.counted === "both")
      this.#use(nowMs, request.outputTokens);
  }

  /** Somebody else on the same account uses so many units, if there is room. */
  foreign(nowMs: number, units: number): boolean {
    if (!this.#hasRoom(nowMs, units)) return false;
    this.#use(nowMs, units);
    return true;
  }

  /** What an answer tells. */
  headers(nowMs: number): LearntLimits | undefined {
    const { counted, hasHeaders } = this.#options;
    if (hasHeaders !== true) return undefined;
    const limit = this.limit(nowMs);
    const remaining = Math.max(0, Math.floor(limit - this.#usedAt(nowMs)));
    switch (counted) {
      case "requests":
        return { requestsPerMinute: limit, remainingRequests: remaining };
      case "both":
        return { tokensPerMinute: limit, remainingTokens: remaining };
      case "input":
        return { inputTokensPerMinute: limit };
      case "output":
        return { outputTokensPerMinute: limit };
      case "concurrency":
        return undefined;
    }
  }

  #hasRoom(nowMs: number, units: number): boolean {
    const used = this.#usedAt(nowMs);
    if (this.#options.isEnforced === false) return true;
    if (this.#options.kind === "bucket") return this.#level >= Math.max(units, 1e-9);
    return used + units <= this.limit(nowMs) && used < this.limit(nowMs);
  }

  #use(nowMs: number, units: number): void {
    this.#usedAt(nowMs);
    this.#used += units;
    this.#level -= units;
    if (this.#options.kind === "sliding" && units > 0) this.#log.push({ atMs: nowMs, units });
  }

  #usedAt(nowMs: number): number {
    const { kind, limit, capacity = limit, offsetMs = 0 } = this.#options;
    switch (kind) {
      case "sliding":
        for (let one = this.#log[this.#logStart]; one !== undefined && one.atMs <= nowMs - WINDOW_MS; ) {
          this.#used -= one.units;
          this.#logStart += 1;
          one = this.#log[this.#logStart];
        }
        return this.#used;
      case "fixed": {
        const window = Math.floor((nowMs - offsetMs) / WINDOW_MS);
        if (window !== this.#window) this.#used = 0;
        this.#window = window;
        return this.#used;
      }
      case "bucket": {
        const scale = this.limit(nowMs) / limit;
        const earned = ((nowMs - this.#levelAtMs) * this.limit(nowMs)) / WINDOW_MS;
        this.#level = Math.min(capacity * scale, this.#level + earned);
        this.#levelAtMs = nowMs;
        return this.limit(nowMs) - this.#level;
      }
    }
  }
}
