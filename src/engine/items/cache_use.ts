/**
 * What one attempt has to do with the provider's prompt cache.
 */
import type { CacheUsage } from "../../queue/prefixes/prefix_states.ts";
import type { Shard } from "../../shard/shard.ts";

/** What may wait for the first answer with its prefix. */
export interface HeldWork {
  readonly shard: Pick<Shard, "group" | "model">;
  /** Monotonic. */
  readonly deadlineMs: number;
  /** How long it takes; absent for a single item. */
  readonly needMs?: number;
}

/** Of an attempt that uses the cache, or writes to it. */
export interface CacheUse {
  /** The request that asks for it. */
  body(body: Uint8Array): Uint8Array;
  /** The attempt was answered; `usage` is undefined where the provider did not say. */
  answered(usage: CacheUsage | undefined): void;
  /** The attempt has ended, or was not sent. */
  freed(): void;
}
