/**
 * What a provider takes of batches: how many are open, how many tokens they have in its queue, and whether it takes any at all.
 * Reserved when a batch is created, given back at every end.
 *
 *   limits as configured or known -> an overflow shows less: half of what was enqueued then, for some hours
 *   refused as too large -> half of its bytes, for some hours
 *   no batches at this address --> none are tried for some hours
 *
 * A batch that is alone goes, unless it overflowed before: only its provider knows its limits for sure.
 */
import type { Clock } from "../../clock.ts";
import type { RemoteWire } from "../../providers/batches/batch_wire.ts";
import { DeferredModels } from "../offers/deferred_models.ts";
import type { BatchReason } from "./batch_record.ts";
import type { OpenBatch } from "./open_batch.ts";

/** How long what was shown is believed: accounts and servers change. */
const BELIEVED_MS = 6 * 3_600_000;
/** After an overflow of what may be enqueued; a batch that failed may hold its tokens for a while. */
const OVERFLOW_WAIT_MS = 60_000;
const OVERFLOW_WAIT_MS_MAX = 1_800_000;
/** Of addresses without batches: the path does not exist, or takes another method; and of keys that have no right to them. */
const NO_BATCHES: ReadonlySet<number> = new Set([401, 403, 404, 405, 501]);
/** Of models without the deferred tier, or of a request that it does not take. */
const NO_TIER: ReadonlySet<number> = new Set([400, 404, 422]);

const NO_ROOM = "other batches have all that the provider takes at once";

/** What an overflow has shown of a model. */
interface Overflow {
  readonly message: string;
  readonly tokensMax: number;
  readonly waitMs: number;
  /** Monotonic. */
  readonly atMs: number;
}

/** Whether a batch may be created now, or for how many milliseconds it waits; `split`: never as large as it is. */
export type StockTurn = "go" | "split" | { readonly waitMs: number; readonly why: BatchReason };

/** One for an engine. */
export class BatchStocks {
  readonly #clock: Clock;
  /** By model. */
  readonly #overflows = new Map<string, Overflow>();
  /** What a refusal has shown of the size of batches, by the names of providers. */
  readonly #bytes = new Map<string, { readonly bytesMax: number; readonly atMs: number }>();
  /** Monotonic: until when no batches are tried, by the names of providers. */
  readonly #refused = new Map<string, number>();
  readonly #tiers: DeferredModels;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#tiers = new DeferredModels(clock);
  }

  /** Whether a batch may be created beside those that are. `waitMs`: how long one waits that has no room. */
  turnOf(batch: OpenBatch, all: Iterable<OpenBatch>, waitMs: number): StockTurn {
    const { record, way } = batch.kept;
    const openMax = this.openMaxOf(way.wire, record.model);
    const overflow = this.#overflowOf(record.model, way.wire);
    const tokensMax = this.tokensMaxOf(way.wire, record.model);
    if (overflow !== undefined && record.items > 1 && record.inputTokens > overflow.tokensMax) return "split";
    const leftMs = overflow === undefined ? 0 : overflow.atMs + overflow.waitMs - this.#clock.nowMs();
    const why: BatchReason = { is: "full", message: overflow?.message ?? NO_ROOM };
    if (leftMs > 0) return { waitMs: leftMs, why };
    const { open, tokens } = beside(batch, all);
    const hasRoom = open === 0 || (open < openMax && record.inputTokens + tokens <= tokensMax);
    return hasRoom ? "go" : { waitMs, why };
  }

  /** Input tokens that all batches of a model may have at once, as far as is known; Infinity where nothing is. */
  tokensMaxOf(wire: RemoteWire, model: string): number {
    const { enqueuedTokensMax = Number.POSITIVE_INFINITY } = wire.limits;
    return Math.min(enqueuedTokensMax, this.#overflowOf(model, wire)?.tokensMax ?? Number.POSITIVE_INFINITY);
  }

  /** Batches that may be open for a model at once: few, until one of its deferred requests was taken. */
  openMaxOf({ kind, limits }: RemoteWire, model: string): number {
    const { openMax = Number.POSITIVE_INFINITY } = limits;
    return kind === "deferred" ? Math.min(openMax, this.#tiers.openMaxOf(model)) : openMax;
  }

  /** A provider has taken a batch. */
  taken({ kept: { record } }: OpenBatch): void {
    if (record.kind === "deferred") this.#tiers.taken(record.model);
  }

  /** A batch was refused because too many tokens were enqueued, with these words. */
  overflowed(batch: OpenBatch, all: Iterable<OpenBatch>, message: string): void {
    const { record } = batch.kept;
    const { tokens } = beside(batch, all);
    const { wire } = batch.kept.way;
    const before = this.#overflowOf(record.model, wire);
    const shownMax = Math.max(tokens, (tokens + record.inputTokens) / 2);
    this.#overflows.set(`${record.model} ${wire.kind ?? "batch"}`, {
      message,
      tokensMax: Math.min(before?.tokensMax ?? Number.POSITIVE_INFINITY, shownMax),
      waitMs: Math.min(OVERFLOW_WAIT_MS_MAX, 2 * (before?.waitMs ?? OVERFLOW_WAIT_MS / 2)),
      atMs: this.#clock.nowMs(),
    });
  }

  /** Bytes that a batch may have, as far as is known. */
  bytesMaxOf(wire: RemoteWire): number {
    const { limits } = wire;
    const shown = this.#bytes.get(placeOf(wire));
    const isOld = shown !== undefined && this.#clock.nowMs() - shown.atMs > BELIEVED_MS;
    return shown === undefined || isOld ? limits.bytesMax : Math.min(limits.bytesMax, shown.bytesMax);
  }

  /** A batch was refused because it was too large. */
  tooLarge({ kept: { record, way } }: OpenBatch): void {
    const bytesMax = Math.min(record.bytes, this.bytesMaxOf(way.wire)) / 2;
    this.#bytes.set(placeOf(way.wire), { bytesMax, atMs: this.#clock.nowMs() });
  }

  /** A batch was refused for good, with this status. Returns whether its provider is not asked again for some hours. */
  refused({ kept: { record, way } }: OpenBatch, status: number): boolean {
    const { wire } = way;
    if (wire.kind === "deferred" && NO_TIER.has(status)) return this.#tiers.refused(record.model);
    if (!NO_BATCHES.has(status)) return false;
    this.#refused.set(placeOf(wire), this.#clock.nowMs() + BELIEVED_MS);
    return true;
  }

  /** Whether no batches for a model are tried at a provider now. */
  isRefused(wire: RemoteWire, model: string): boolean {
    if (wire.kind === "deferred" && this.#tiers.isOff(model)) return true;
    return this.#clock.nowMs() < (this.#refused.get(placeOf(wire)) ?? Number.NEGATIVE_INFINITY);
  }

  #overflowOf(model: string, { kind = "batch" }: RemoteWire): Overflow | undefined {
    const overflow = this.#overflows.get(`${model} ${kind}`);
    const isOld = overflow !== undefined && this.#clock.nowMs() - overflow.atMs > BELIEVED_MS;
    return isOld ? undefined : overflow;
  }
}

/** What batches of a kind have in common at a provider. */
function placeOf({ settings, kind = "batch" }: RemoteWire): string {
  return `${settings.name} ${kind}`;
}

/** Other batches of the provider that are with it, and the tokens of those of the same model. */
function beside(
  batch: OpenBatch,
  all: Iterable<OpenBatch>,
): { readonly open: number; readonly tokens: number } {
  const { record, way } = batch.kept;
  let open = 0;
  let tokens = 0;
  for (const other of all) {
    const { record: held, way: otherWay } = other.kept;
    if (other === batch || placeOf(otherWay.wire) !== placeOf(way.wire)) continue;
    if (held.state === "spooled" || held.end !== undefined) continue;
    open += 1;
    if (held.model === record.model) tokens += held.inputTokens;
  }
  return { open, tokens };
}
