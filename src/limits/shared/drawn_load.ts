/**
 * What one process may spend of the four quotas of a lane, or of a provider, that several processes share (`drawn_units.ts`). A quota
 * without a limit is not drawn from.
 */
import type { TokenLoad } from "../../work/limits.ts";
import { DrawnUnits } from "./drawn_units.ts";
import type { BlockAsk, BlockGrant } from "./shared_window.ts";

export type DrawnQuota = "requests" | "tokens" | "inputTokens" | "outputTokens";

/** Units a minute of each quota; Infinity where nothing is limited. */
export type QuotaLimits = Readonly<Record<DrawnQuota, number>>;

/** The marks of what a request spent, one for each quota: `settle` and `move` need them. */
export type DrawnMarks = Readonly<Record<DrawnQuota, number>>;

/** Milliseconds between two draws where few processes share a quota, and the wait of a request that lacks units: the answer to a draw ends it sooner. */
export const DRAW_MS = 500;

const QUOTAS: readonly DrawnQuota[] = ["requests", "tokens", "inputTokens", "outputTokens"];

export class DrawnLoad {
  readonly #units: Readonly<Record<DrawnQuota, DrawnUnits>>;
  readonly #onLack: (isShort: boolean) => void;
  /** As of the last request that asked. */
  #limits: QuotaLimits | undefined;

  /** `holder`: this process, unique for its life. `onLack`: called when a request waits for a draw, as often as one does; `isShort`: one before its time would bring nothing. */
  constructor(holder: string, onLack: (isShort: boolean) => void) {
    const units = (): DrawnUnits => new DrawnUnits(holder);
    this.#units = { requests: units(), tokens: units(), inputTokens: units(), outputTokens: units() };
    this.#onLack = onLack;
  }

  /** Milliseconds until one more request may fit; 0 when it fits now. */
  requestWaitMs(nowMs: number, limits: QuotaLimits): number {
    this.#limits = limits;
    return this.#wait(nowMs, "requests", 1, limits) ? DRAW_MS : 0;
  }

  /** The same for the tokens of a request. */
  tokenWaitMs(nowMs: number, load: TokenLoad, limits: QuotaLimits): number {
    const amounts = amountsOf(load);
    let waits = false;
    for (const quota of QUOTAS)
      if (quota !== "requests" && this.#wait(nowMs, quota, amounts[quota], limits)) waits = true;
    return waits ? DRAW_MS : 0;
  }

  /** Spends one request and its tokens. */
  spend(load: TokenLoad): DrawnMarks {
    const amounts = amountsOf(load);
    return {
      requests: this.#units.requests.spend(amounts.requests),
      tokens: this.#units.tokens.spend(amounts.tokens),
      inputTokens: this.#units.inputTokens.spend(amounts.inputTokens),
      outputTokens: this.#units.outputTokens.spend(amounts.outputTokens),
    };
  }

  /** Replaces the tokens that were reserved by those actually used. */
  settle(marks: DrawnMarks, reserved: TokenLoad, actual: TokenLoad): void {
    const [before, after] = [amountsOf(reserved), amountsOf(actual)];
    for (const quota of QUOTAS) this.#units[quota].adjust(marks[quota], after[quota] - before[quota]);
  }

  /** Counts what a request spent from now on, because it is sent only now. */
  move(marks: DrawnMarks, load: TokenLoad): DrawnMarks {
    const amounts = amountsOf(load);
    return {
      requests: this.#units.requests.move(marks.requests, amounts.requests),
      tokens: this.#units.tokens.move(marks.tokens, amounts.tokens),
      inputTokens: this.#units.inputTokens.move(marks.inputTokens, amounts.inputTokens),
      outputTokens: this.#units.outputTokens.move(marks.outputTokens, amounts.outputTokens),
    };
  }

  /** How often to draw: as often as the quota with the most processes allows. */
  get drawMs(): number {
    return Math.max(DRAW_MS, ...QUOTAS.map((quota) => this.#units[quota].drawMs));
  }

  /** The asks of the next draw, for quotas that are limited and have something to ask or report. `drawMs`: until the one after it. */
  asks(nowMs: number, drawMs: number): [DrawnQuota, BlockAsk][] {
    const asks: [DrawnQuota, BlockAsk][] = [];
    const limits = this.#limits;
    if (limits === undefined) return asks;
    for (const quota of QUOTAS) {
      if (limits[quota] === Number.POSITIVE_INFINITY) {
        this.#units[quota].forget();
        continue;
      }
      const ask = this.#units[quota].ask(nowMs, limits[quota], drawMs);
      if (ask !== undefined) asks.push([quota, ask]);
    }
    return asks;
  }

  /** Takes the answer to a quota's ask. */
  answered(quota: DrawnQuota, grant: BlockGrant): void {
    this.#units[quota].answered(grant);
  }

  /** Units charged to all processes as of the last draw; 0 before the first. */
  charged(quota: DrawnQuota): number {
    return this.#units[quota].charged;
  }

  #wait(nowMs: number, quota: DrawnQuota, amount: number, limits: QuotaLimits): boolean {
    if (limits[quota] === Number.POSITIVE_INFINITY || this.#units[quota].has(nowMs, amount)) return false;
    this.#onLack(this.#units[quota].isShort);
    return true;
  }
}

function amountsOf({ inputTokens, outputTokens }: TokenLoad): Record<DrawnQuota, number> {
  return { requests: 1, tokens: inputTokens + outputTokens, inputTokens, outputTokens };
}
