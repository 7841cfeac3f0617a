/**
 * The kinds of cost of some work, shown separately everywhere:
 *
 *   billed      what providers take: real usage, cache reads and writes, the tier that was served
 *   ambiguous   the most that attempts of unknown end may have cost besides: timed out, broken off, killed; and
 *               of answers without usable usage, beyond the estimate
 *   list        the real usage at the providers' list price
 *   usd         what a service charges its callers: list price times price factor; no provider bills this
 */
import { roundedUsd } from "./cost.ts";

/** In USD, finite and not negative. */
export interface Money {
  readonly listUsd: number;
  readonly usd: number;
  readonly billedUsd: number;
  readonly ambiguousUsd: number;
}

export const NO_MONEY: Money = { listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 };

/** From here on `toFixed` writes an exponent. */
const FIXED_MAX = 1e21;

/** An amount as all texts show it: `$12.34`, below 1 dollar with 4 decimals, below a cent with two significant digits. Never with an exponent. */
export function usdText(usd: number): string {
  if (usd === 0) return "$0.00";
  if (usd > 0 && usd < 0.01) return `$${usd.toFixed(Math.min(12, 1 - Math.floor(Math.log10(usd))))}`;
  if (usd >= FIXED_MAX && Number.isFinite(usd)) return `$${BigInt(usd)}.00`;
  return `$${usd.toFixed(usd < 1 ? 4 : 2)}`;
}

/** In what a cap says of itself; empty without any. */
export function doubtClause(ambiguousUsd: number): string {
  return ambiguousUsd > 0 ? ` (${usdText(ambiguousUsd)} of what is spent is in doubt)` : "";
}

/** To the nano-dollar, without what else is in it. */
export function roundedMoney({ listUsd, usd, billedUsd, ambiguousUsd }: Money): Money {
  return {
    listUsd: roundedUsd(listUsd),
    usd: roundedUsd(usd),
    billedUsd: roundedUsd(billedUsd),
    ambiguousUsd: roundedUsd(ambiguousUsd),
  };
}

/** Of a record from before billed amounts were kept: its list price was billed then. */
export function completeMoney(stored: Pick<Money, "listUsd" | "usd"> & Partial<Money>): Money {
  return { billedUsd: stored.listUsd, ambiguousUsd: 0, ...stored };
}

/** As it is shown in JSON. */
export interface MoneyBody {
  readonly billed_usd: number;
  readonly ambiguous_usd: number;
  readonly list_usd: number;
  readonly usd: number;
}

export function moneyBody({ listUsd, usd, billedUsd, ambiguousUsd }: Money): MoneyBody {
  return { billed_usd: billedUsd, ambiguous_usd: ambiguousUsd, list_usd: listUsd, usd };
}
