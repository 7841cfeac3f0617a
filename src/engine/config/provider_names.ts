/**
 * The providers that a configuration names besides those that it configures, in limits, families, lanes, prices and the rate
 * card: one that is misspelt would do nothing.
 *
 *   near a configured name   refused; of a price sheet, which may cover providers that are not configured, noted
 *   any other name           of a provider that is not configured now: limits, families and lanes are noted, prices are not
 */
import { PerigeeError } from "../../errors.ts";
import { nearest } from "../../nearest.ts";
import type { PriceOverrides } from "../../price/overrides.ts";
import { type LaneChoices, providerOfLane } from "../../queue/lane_choice.ts";
import { unknownProviderMessage } from "../../work/unknown_provider.ts";
import type { ConfigOptions } from "./config_options.ts";

/** Notes of a sheet at most. */
const NOTES_MAX = 10;

type NamedOptions = Pick<ConfigOptions, "limits" | "families" | "rateCard" | "lanes" | "projects">;

/**
 * Returns what has no effect, in words for the operator. Throws `invalid_config` for a name that is near one of `configured`.
 * `prices` are those of the configuration and of its sheets.
 */
export function checkProviderNames(
  options: NamedOptions,
  prices: PriceOverrides,
  configured: ReadonlySet<string>,
): readonly string[] {
  const { limits, families, rateCard } = options;
  const notes: string[] = [];
  const tables = Object.entries({ limits, families }).map(
    ([member, table]) => [member, Object.keys(table ?? {})] as const,
  );
  for (const [member, keys] of [...tables, ...laneNames(options)]) {
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

/** Names of lanes and models by the place where they are, without those of lanes of all providers. */
function laneNames({ lanes = {}, projects = {} }: NamedOptions): [place: string, names: string[]][] {
  const { models = {}, priors = {} } = lanes;
  const choices: [string, LaneChoices][] = [
    ["lanes", lanes],
    ...Object.entries(models).map(([key, each]): [string, LaneChoices] => [`lanes.models.${key}`, each]),
    ...Object.entries(projects).map(([key, each]): [string, LaneChoices] => [
      `projects.${key}.lanes`,
      each.lanes ?? {},
    ]),
  ];
  const isOfOne = (name: string): boolean => providerOfLane(name) !== undefined;
  return [
    ...choices.flatMap(([place, { allow = [], deny = [] }]): [string, string[]][] => [
      [`${place}.allow`, allow.filter(isOfOne)],
      [`${place}.deny`, deny.filter(isOfOne)],
    ]),
    ["lanes.models", Object.keys(models)],
    ["lanes.priors", Object.keys(priors).filter(isOfOne)],
  ];
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
