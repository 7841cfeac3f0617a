/**
 * Requests a minute, counted by name: a key, or an address that calls without one.
 *
 *   level(t) = min(limit, level(t0) + (t - t0) x limit / 60 s);  a request takes 1
 *
 * Limits: 10,000 names; the one that was used the longest time ago is dropped first.
 */
import type { Clock } from "../../clock.ts";
import type { RequestAllowance, RequestLimits } from "./key_verifier.ts";

const NAMES_MAX = 10_000;
const MINUTE_MS = 60_000;

interface Bucket {
  level: number;
  atMs: number;
}

/** One limit for all names. Only in memory: a restart begins with full buckets. */
export class RequestBuckets implements RequestLimits {
  readonly #clock: Pick<Clock, "nowMs">;
  readonly #limit: number;
  /** The one used last is the last. */
  readonly #buckets = new Map<string, Bucket>();
  #lastName: string | undefined;

  /** `requestsPerMinute` is a whole number from 1. */
  constructor(clock: Pick<Clock, "nowMs">, requestsPerMinute: number) {
    this.#clock = clock;
    this.#limit = requestsPerMinute;
  }

  take(name: string): RequestAllowance {
    const limit = this.#limit;
    const nowMs = this.#clock.nowMs();
    const bucket = this.#bucket(name, nowMs);
    bucket.level = Math.min(limit, bucket.level + ((nowMs - bucket.atMs) * limit) / MINUTE_MS);
    bucket.atMs = nowMs;
    const isAllowed = bucket.level >= 1;
    if (isAllowed) bucket.level -= 1;
    return {
      isAllowed,
      limitPerMinute: limit,
      remaining: Math.floor(bucket.level),
      resetMs: ((limit - bucket.level) * MINUTE_MS) / limit,
      retryAfterMs: isAllowed ? 0 : ((1 - bucket.level) * MINUTE_MS) / limit,
    };
  }

  #bucket(name: string, nowMs: number): Bucket {
    const bucket = this.#buckets.get(name) ?? { level: this.#limit, atMs: nowMs };
    if (name === this.#lastName) return bucket;
    this.#lastName = name;
    this.#buckets.delete(name);
    this.#buckets.set(name, bucket);
    if (this.#buckets.size > NAMES_MAX) {
      const [oldest] = this.#buckets.keys();
      this.#buckets.delete(oldest as string); // it is not empty
    }
    return bucket;
  }
}

/** One name for an address: Node shows IPv4 on a dual socket as `::ffff:a.b.c.d`; IPv6 counts by its /64. */
export function addressName(address: string): string {
  const plain = address.startsWith("::ffff:") ? address.slice(7) : address;
  if (!plain.includes(":")) return plain;
  const [head = "", tail] = plain.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => "0");
  return `${[...left, ...(tail === undefined ? [] : zeros), ...right].slice(0, 4).join(":")}::/64`;
}
