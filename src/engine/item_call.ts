/**
 * One item on its way through a lane: what the dispatcher sends, and what the engine must give back afterwards.
 */
import type { Call } from "../dispatch/dispatcher.ts";
import type { Reservation } from "../price/budget.ts";
import type { Provider, WireHead } from "../providers/provider.ts";
import type { Permit } from "../schedule/limits.ts";
import type { Shard } from "../shard/shard.ts";
import type { TokenLoad } from "../work/limits.ts";
import type { Usage } from "../work/outcome.ts";
import { NOTHING_SPENT, type Spent } from "./journal.ts";
import type { RunState } from "./run_state.ts";

/** Hot path: one object per item. */
export class ItemCall implements Call {
  readonly run: RunState;
  readonly shard: Shard;
  readonly index: number;
  readonly provider: Provider;
  readonly head: WireHead;
  /** Tries of the item before this call. */
  readonly attempts: number;
  /** Requests before this call that met a stopped account: sent, but no tries. */
  readonly accountRefusals: number;
  readonly ambiguousAttempts: number;
  /** By those attempts. */
  readonly spent: Spent;
  /** Tokens reserved for it. */
  readonly expectedInputTokens: number;
  readonly expectedOutputTokens: number;
  /** The same, as limits take it. */
  readonly load: TokenLoad;
  /** What failed attempts of this call took; undefined before the first. */
  failed:
    | { readonly attempts: number; readonly ambiguousAttempts: number; readonly usage: Usage }
    | undefined;
  /** Its last intent became durable, and it will not be sent. */
  isUnsent = false;
  permit: Permit | undefined;
  reservation: Reservation | undefined;

  constructor(
    run: RunState,
    shard: Shard,
    index: number,
    wire: { readonly provider: Provider; readonly head: WireHead },
    expected: TokenLoad,
  ) {
    this.run = run;
    this.shard = shard;
    this.index = index;
    this.provider = wire.provider;
    this.head = wire.head;
    this.expectedInputTokens = expected.inputTokens;
    this.expectedOutputTokens = expected.outputTokens;
    this.load = expected;
    const made = run.made.size === 0 ? undefined : run.made.get(this.line);
    this.accountRefusals = made?.accountRefusals ?? 0;
    this.attempts = (made?.attempts ?? 0) - this.accountRefusals;
    this.ambiguousAttempts = made?.ambiguousAttempts ?? 0;
    this.spent = made?.spent ?? NOTHING_SPENT;
  }

  get line(): number {
    return this.shard.lines[this.index] as number;
  }

  get inputTokens(): number {
    return this.shard.inputTokens[this.index] as number;
  }

  get maxOutputTokens(): number {
    return this.shard.maxOutputTokens[this.index] as number;
  }

  get body(): Uint8Array {
    return this.shard.body(this.index);
  }

  /** The key as a JSON string literal. */
  get keyJson(): string {
    const bytes = this.shard.keyJson(this.index);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  }

  get model(): string {
    return this.shard.model;
  }

  /** Its line was cancelled by itself. */
  get isSkipped(): boolean {
    return this.run.skips(this.line);
  }

  get waitSignal(): AbortSignal {
    return this.run.left;
  }

  get deadlineMs(): number {
    return this.run.settings.deadlineMs;
  }
}
