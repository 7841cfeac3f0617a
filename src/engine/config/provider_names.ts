/**
 * The providers that a configuration names besides those that it configures, in limits, families, lanes, prices and the rate card:
 * one that is misspelt would do nothing.
 *
 *   near a configured name   refused; of a price sheet, which may cover providers that are not configured, noted
 *   any other name           of a provider that is not configured now: limits, families and lanes are noted, prices are not
 */
import { PerigeeError } from "../../errors.ts";
import { nearest } from "../../nearest.ts";
import type { PriceOverrides } from "../../price/overrides.ts";
import { unknownProviderMessage } from "../../work/unknown_provider.ts";
import type { ConfigOptions } from "./config_options.ts";

/** Notes of a sheet at most. */
const NOTES_MAX = 10;

type NamedOptions = Pick<ConfigOptions, "limits" | "families" | "lanes" | "rateCard">;

/**
 * Returns what has no effect, in words for the operator. Throws `invalid_config` for a name that is near one of `configured`.
 * `prices` are those of the configuration and of its sheets.
 */
export function checkProviderNames(
  { limits, families, lanes = {}, rateCard }: NamedOptions,
  prices: PriceOverrides,
  configured: ReadonlySet<string>,
): readonly string[] {
  const notes: string[] = [];
  const tables = {
    limits: Object.keys(limits ?? {}),
    families: Object.keys(families ?? {}),
    "lanes.allow": (lanes.allow ?? []).filter(isOfProvider),
    "lanes.deny": (lanes.deny ?? []).filter(isOfProvider),
  };
  for (const [member, keys] of Object.entries(tables)) {
    for (const key of keys) {
      const fault = faultOf(key, configured);
      if (fault === undefined) continue;
      if (fault.isNear) throw refusal(`${member}[${JSON.stringify(key)}]`, fault.message);
      notes.push(`${member}[${JSON.stringify(key)}] has no effect: ${fault.message}`);
    }
  }
  for (const key of Object.keys(rateCard?.models ?? {})) {
    const fault = faultOf(key, configured);
    if (fault?.isNear === true) throw refusal(`rateCard.models[${JSON.stringify(key)}]`, fault.message);
  }
  return [...notes, ...notesOfPrices(prices, configured)];
}

/** Of one provider, as against one of all. */
function isOfProvider(lane: string): boolean {
  return lane.includes(":");
}

function notesOfPrices(prices: PriceOverrides, configured: ReadonlySet<string>): string[] {
  const notes: string[] = [];
  for (const [key, { sheet }] of Object.entries(prices)) {
    const fault = faultOf(key, configured);
    if (fault?.isNear !== true) continue;
    if (sheet === undefined) throw refusal(`prices[${JSON.stringify(key)}]`, fault.message);
    notes.push(
      `the price of ${JSON.stringify(key)} in sheet ${sheet} prices no configured model: ${fault.message}`,
    );
  }
  if (notes.length <= NOTES_MAX) return notes;
  return [...notes.slice(0, NOTES_MAX), `${notes.length - NOTES_MAX} more prices are of such providers`];
}

interface NameFault {
  readonly message: string;
  /** Whether a configured provider was probably meant. */
  readonly isNear: boolean;
}

/** `key` is `<provider>`, `<provider>:<rest>`, or the beginning of one that ends in `*`. */
function faultOf(key: string, configured: ReadonlySet<string>): NameFault | undefined {
  const colon = key.indexOf(":");
  const isBegun = colon === -1 && key.endsWith("*");
  const name = isBegun ? key.slice(0, -1) : key.slice(0, colon === -1 ? undefined : colon);
  if (configured.has(name)) return undefined;
  if (isBegun && [...configured].some((each) => each.startsWith(name))) return undefined;
  return {
    message: unknownProviderMessage(name, configured),
    isNear: nearest(name, configured) !== undefined,
  };
}

function refusal(place: string, message: string): PerigeeError {
  return new PerigeeError("invalid_config", `${place}: ${message}`);
}
