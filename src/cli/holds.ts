/**
 * What holds items, in words for a terminal: the reason, who said so, and when it is tried again.
 */
import type { Hold, HoldReason } from "../engine/holds.ts";
import { count, duration } from "./numbers.ts";

const WORDS: Readonly<Record<HoldReason, string>> = {
  outage: "is not available",
  rate_limited: "limits the rate",
  overloaded: "is overloaded",
  authentication: "does not accept the key",
  quota: "says that the account has no money or quota left",
  cap_reached: "the cap leaves too little money",
  price_unknown: "a cost cap needs a price",
  provider_missing: "a provider is not configured",
  key_missing: "a key is missing",
  model_unavailable: "does not offer the model to this key",
  disk_full: "the disk is full",
};

/** `outage: openai at https://api.openai.com does not answer: connection refused; next try in 5 s`. */
export function holdText(hold: Hold, nowWallMs: number): string {
  const who =
    hold.provider === undefined || hold.address === undefined ? "" : `${hold.provider} at ${hold.address} `;
  const inMs = hold.next_try === null ? undefined : Date.parse(hold.next_try) - nowWallMs;
  const next = inMs === undefined ? "" : inMs < 1_000 ? "; next try now" : `; next try in ${duration(inMs)}`;
  return `${hold.reason}: ${who}${WORDS[hold.reason]}: ${hold.message}${next}`;
}

/** Of items that are left when a command stops: a line for each hold. */
export function holdsReport(holds: readonly Hold[], nowWallMs: number): string {
  return holds
    .map((hold) => {
      const items = `${count(hold.items)} ${hold.items === 1 ? "item" : "items"}`;
      return `held  ${items}: ${holdText({ ...hold, next_try: null }, nowWallMs)}\n`;
    })
    .join("");
}
