/**
 * What holds items, in words for a terminal: the reason, who said so, and when it is tried again.
 */
import type { Hold, HoldReason } from "../../engine/items/holds.ts";
import { count, duration } from "../numbers.ts";

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
  key_changed: "batches were made with another key",
  model_unavailable: "does not offer the model to this key",
  disk_full: "the disk is full",
  file_damaged: "stored lines are damaged",
};

/** Whose words are a sentence without the provider. */
const OWN: ReadonlySet<HoldReason> = new Set([
  "cap_reached",
  "price_unknown",
  "provider_missing",
  "key_missing",
  "key_changed",
  "disk_full",
  "file_damaged",
]);

/** `outage: openai at https://api.openai.com is not available: connection refused; next try in 0:05`. */
export function holdText(hold: Hold, nowWallMs: number): string {
  return `${causeText(hold)}${nextText(hold, nowWallMs)}`;
}

function causeText(hold: Hold): string {
  const where = hold.address === undefined ? "" : ` at ${hold.address}`;
  const who = hold.provider === undefined || OWN.has(hold.reason) ? "" : `${hold.provider}${where} `;
  return `${hold.reason}: ${who}${WORDS[hold.reason]}: ${hold.message}`;
}

function nextText({ reason, next_try }: Hold, nowWallMs: number): string {
  if (next_try === null) return "";
  if (reason === "disk_full") return "; tried every second";
  return `; next try ${whenText(Date.parse(next_try) - nowWallMs)}`;
}

/** What to do about a key that is not accepted. `keyPlace`: where the key of a provider is set. */
export function keyAdvice(
  { provider = "the provider", address }: Pick<Hold, "provider" | "address">,
  keyPlace: (provider: string) => string,
): string {
  if (address === undefined) return `correct the key that the function of ${provider} uses`;
  return `set a key that ${provider} accepts (${keyPlace(provider)})`;
}

/** `now`, or `in 0:12`. */
export function whenText(inMs: number): string {
  return inMs < 500 ? "now" : `in ${duration(inMs)}`;
}

/** How many items a run is left with; the lines of a long file that it has not reached are in no hold. */
export function leftText(submitted: number, holds: readonly Pick<Hold, "items">[]): string {
  const left = `${count(submitted)} ${submitted === 1 ? "item" : "items"} left`;
  const beyond = submitted - holds.reduce((sum, { items }) => sum + items, 0);
  return holds.length === 0 || beyond <= 0 ? left : `${left}, ${count(beyond)} of them not reached`;
}

/** A line for each hold of the items that are left when a command stops. */
export function holdsReport(holds: readonly Hold[], nowWallMs: number): string {
  return holds
    .map((hold) => {
      const items = `${count(hold.items)} ${hold.items === 1 ? "item" : "items"}`;
      const waitMs = hold.next_try === null ? 0 : Date.parse(hold.next_try) - nowWallMs;
      const wait = waitMs < 500 ? "" : `; the next call sends nothing for ${duration(waitMs)}`;
      return `held  ${items}: ${causeText(hold)}${wait}\n`;
    })
    .join("");
}
