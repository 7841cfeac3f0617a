/**
 * What a call says of its pilot; see `run_pilot.ts`.
 */
import { PerigeeError } from "../../errors.ts";
import type { PlannedQuote } from "../../price/planned_quote.ts";

/** Called with the quote of the rest after a pilot; the run continues unless it returns false. An error that it throws ends the run. */
export type PilotListener = (rest: PlannedQuote) => boolean | undefined | Promise<boolean | undefined>;

/** What a call says of its pilot. */
export interface PilotOptions {
  /** Items to be answered first, from 1. */
  readonly pilot?: number;
  readonly onPilot?: PilotListener;
}

/** Throws `usage` for a number of items that cannot be; `where` names the call. */
export function checkPilot(pilot: number | undefined, where: string): void {
  if (pilot === undefined || (Number.isSafeInteger(pilot) && pilot >= 1)) return;
  throw new PerigeeError("usage", `${where}: pilot must be a whole number of items from 1, got ${pilot}`);
}
