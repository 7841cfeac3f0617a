/**
 * Configuration: options in code, a JSON file with the same names, and the environment, made into one checked whole.
 *
 * What wins: options in code, then the configuration file (the caller merges it into the options), then
 * `PERIGEE_*` variables, then the ecosystem's own (`OPENAI_API_KEY`, ...), then the defaults of each provider.
 */
import { readFile } from "node:fs/promises";
import { errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { placeOfFault, readDocument } from "../../jsonl/document.ts";
import { DEPTH_MAX } from "../../jsonl/record.ts";
import type { RampOptions } from "../../limits/limits.ts";
import { RATE_CARD, type RateCard } from "../../price/factor.ts";
import type { PriceOverrides } from "../../price/overrides.ts";
import { isPriceSheet, overridesOf, readPriceSheet } from "../../price/price_sheet.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import { defaultSettings, KNOWN_PROVIDERS, type KnownProvider } from "../../providers/registry.ts";
import type { FamilySettings } from "../../queue/lanes.ts";
import type { Offer } from "../../queue/offers.ts";
import type { LimitSettings, RampSettings } from "../../work/limits.ts";
import { providerCapitals } from "../../work/provider_capitals.ts";
import { type BatchConfig, batchConfig, vainBatches } from "./batch_options.ts";
import { type ResolvedCache, resolvedCache } from "./cache_terms.ts";
import type { ConfigOptions, ProviderOptions } from "./config_options.ts";
import { headerText, keyText } from "./header_texts.ts";
import { envPrefix, keysGiven, keyVariable } from "./key_places.ts";
import { type LaneSettings, laneSettings } from "./lane_rules.ts";
import { type ModelAliases, modelAliases } from "./model_aliases.ts";
import { isOwnProvider, type OwnProvider, ownSettings, withModulesBeside } from "./own_providers.ts";
import { type PrefixSettings, prefixSettings } from "./prefix_settings.ts";
import { checkProviderNames } from "./provider_names.ts";
import { offersBy, vainOffers } from "./provider_offers.ts";
import { type SaleTermsOf, saleTermsOf } from "./sale_terms.ts";
import { checkVariables, namesIn } from "./variables.ts";

export type { ConfigOptions, ProviderOptions } from "./config_options.ts";

/** All settled. */
export interface EngineConfig {
  readonly providers: readonly ProviderSettings[];
  readonly providerNames: ReadonlySet<string>;
  /** Those of them that are functions or codecs of the caller, by name. */
  readonly own: ReadonlyMap<string, OwnProvider>;
  /** Providers whose key is not set, with what to do about it. */
  readonly keysMissing: ReadonlyMap<string, string>;
  /** Providers that are sent requests without a key, and may want one; those that usually need one with a note on it. */
  readonly keysUnset: ReadonlyMap<string, string | undefined>;
  readonly limits: Readonly<Record<string, LimitSettings>>;
  /** By provider; absent where use may grow as fast as limits allow. */
  readonly ramps: Readonly<Record<string, RampOptions>>;
  readonly families: FamilySettings;
  readonly aliases: ModelAliases;
  readonly prices: PriceOverrides;
  /** Of all runs together. */
  readonly cap: ConfigOptions["cap"];
  /** That callers of the service may ask for. */
  readonly cache: ResolvedCache | undefined;
  readonly rateCard: RateCard;
  /** Of the service's projects. */
  readonly saleTermsOf: SaleTermsOf;
  readonly isAtMostOnce: boolean;
  /** Whether a second attempt is sent beside one that hangs. */
  readonly isHedged: boolean;
  readonly maxInFlight: number;
  readonly threads: number | undefined;
  readonly diskWaitMs: number;
  readonly waitMs: number | undefined;
  readonly attemptMsMax: number | undefined;
  /** Which lanes may be used, and what is assumed of them. */
  readonly lanes: LaneSettings;
  /** How prompt caches are used. */
  readonly prefixes: PrefixSettings;
  /** What is sold cheaper than realtime and may be used, by provider. */
  readonly offers: ReadonlyMap<string, readonly Offer[]>;
  readonly batches: BatchConfig;
  /** What of it has no effect, in words for the operator. */
  readonly notes: readonly string[];
}

/** OpenAI's rule of thumb for `slow_down` (platform.openai.com/docs/guides/error-codes), state 2026-11-20. */
const RAMP: RampSettings = { inputTokensPerMinute: 1_000_000, growth: 0.5, minutes: 15 };

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a configuration file. Throws `invalid_config` naming file, place, and what was expected. */
export async function readConfigFile(path: string): Promise<ConfigOptions> {
  const options = await checkOptions(await readJsonFile(path), path);
  if (options.providers === undefined) return options;
  return { ...options, providers: withModulesBeside(options.providers, path) };
}

/** Reads a file that is a price sheet. Throws `invalid_config` as `readConfigFile` does. */
export async function readPricesFile(path: string): Promise<PriceOverrides> {
  return overridesOf(readPriceSheet(await readJsonFile(path), path));
}

async function readJsonFile(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new PerigeeError("invalid_config", `${path} cannot be read: ${reasonOf(cause)}`, { cause });
  });
  const read = readDocument(text, DEPTH_MAX);
  switch (read.kind) {
    case "value":
      return read.value;
    case "not_json":
      throw new PerigeeError("invalid_config", `${path} is not JSON: ${placeOfFault(text)}`, {
        cause: read.cause,
      });
    case "too_deep":
      throw new PerigeeError("invalid_config", `${path} is nested deeper than ${DEPTH_MAX} levels`);
    case "repeated":
      throw new PerigeeError(
        "invalid_config",
        `${path} at ${read.member.path}: the name occurs twice in one object; keep one of them`,
      );
  }
}

/** Why the operating system refuses a file. */
function reasonOf(cause: unknown): string {
  const code = errorCodeOf(cause);
  switch (code) {
    case "ENOENT":
      return "no such file";
    case "EISDIR":
      return "it is a folder";
    case "EACCES":
    case "EPERM":
      return "permission denied";
    default:
      return code ?? "unknown reason";
  }
}

/**
 * Checks options given in code or read from a file. The schemas cost 80 ms and 14 MB to load, so nothing is loaded
 * when there is nothing to check. `otherNames` may be beside the options and are read elsewhere.
 */
export async function checkOptions(
  value: unknown,
  where: string,
  otherNames?: readonly string[],
): Promise<ConfigOptions> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (isObject && Object.keys(value).length === 0) return {};
  schemas ??= await import("./config_schema.ts");
  return schemas.parseOptions(value, where, otherNames);
}

/** Kept, because an `import` waits for the loader each time, which a clock that is moved by a test does not see. */
let schemas: typeof import("./config_schema.ts") | undefined;

/** Puts checked options, environment and defaults together. `modules` are the providers that were imported, by name. */
export function resolveConfig(
  options: ConfigOptions,
  env: Environment,
  modules: ReadonlyMap<string, OwnProvider> = new Map(),
): EngineConfig {
  const configured = [...KNOWN_PROVIDERS.keys(), ...Object.keys(options.providers ?? {})];
  checkVariables(env, configured);
  const names = new Set([...configured, ...namesIn(env)]);
  const prices = pricesOf(options);
  const checked = checkProviderNames(options, prices, names);
  const lanes = laneSettings(options);
  const { unsupportedConfig } = options;
  const common = unsupportedConfig === undefined ? {} : { unsupportedConfig };
  const own = new Map(modules);
  for (const [name, given] of Object.entries(options.providers ?? {}))
    if (isOwnProvider(given)) own.set(name, given);
  const providers = [...names].map((name) => {
    const given = { ...common, ...networked(options.providers?.[name]) };
    const code = own.get(name);
    if (code !== undefined) return ownSettings(name, code, besideCode(given));
    return given.module === undefined ? providerSettings(name, given, env) : unimported(name);
  });
  const keys = keysOf(providers, options);
  const limits = { ...options.limits };
  for (const name of names) {
    const fromEnv = envLimits(name, env);
    if (Object.keys(fromEnv).length > 0) limits[name] = { ...fromEnv, ...limits[name] };
  }
  const sending = sendingOf(options, env);
  const batches = batchConfig(providers, (name) => networked(options.providers?.[name]));
  return {
    providers,
    providerNames: names,
    own,
    keysMissing: keys.missing,
    keysUnset: keys.unset,
    limits,
    ramps: Object.fromEntries(
      providers.flatMap((settings) => {
        const ramp = rampOf(settings, networked(options.providers?.[settings.name]).ramp);
        return ramp === undefined ? [] : [[settings.name, ramp] as const];
      }),
    ),
    families: options.families ?? {},
    aliases: modelAliases(options.models, names),
    prices,
    cap: options.cap,
    cache: options.cache === undefined ? undefined : resolvedCache(options.cache),
    rateCard: {
      standard: { ...RATE_CARD.standard, ...options.rateCard?.standard },
      models: { ...RATE_CARD.models, ...options.rateCard?.models },
    },
    saleTermsOf: saleTermsOf(options, options.projects),
    ...sending,
    maxInFlight: options.maxInFlight ?? envNumber(env, "PERIGEE_MAX_INFLIGHT") ?? 512,
    threads: options.threads,
    diskWaitMs: options.diskWaitMs ?? options.waitMs ?? 1_800_000,
    waitMs: options.waitMs,
    attemptMsMax: options.attemptMsMax,
    lanes,
    prefixes: prefixSettings(options),
    offers: sending.isAtMostOnce ? new Map() : offersBy(providers, lanes), // a slow request could not be sent again
    batches,
    notes: [...checked, ...vainOffers(options, providers), ...vainBatches(batches, providers)],
  };
}

/** The options of a provider that is not in code. */
function networked(given: ProviderOptions | OwnProvider | undefined): ProviderOptions {
  return given === undefined || isOwnProvider(given) ? {} : given;
}

/** Of a configuration that is checked and not used: nobody has imported its modules. */
function unimported(name: string): ProviderSettings {
  return { name, protocol: "function", baseUrl: "" };
}

/** What may be set beside a function or a codec. */
function besideCode({
  timeoutMs,
  unsupportedConfig,
}: ProviderOptions): Pick<ProviderSettings, "timeoutMs" | "unsupportedConfig"> {
  return {
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(unsupportedConfig === undefined ? {} : { unsupportedConfig }),
  };
}

/** A sheet may be left as it is in options that were not checked by a schema. */
function pricesOf({ prices = {} }: ConfigOptions): PriceOverrides {
  return isPriceSheet(prices) ? overridesOf(readPriceSheet(prices, "prices")) : prices;
}

function providerSettings(name: string, given: ProviderOptions, env: Environment): ProviderSettings {
  const known = KNOWN_PROVIDERS.get(name);
  const prefix = envPrefix(name);
  const baseUrl = given.baseUrl ?? env[`${prefix}_BASE_URL`] ?? firstOf(env, known?.baseUrlVariables);
  const settings = defaultSettings(name, baseUrl?.replace(/\/+$/, ""));
  if (settings === undefined) {
    throw new PerigeeError(
      "invalid_config",
      `providers.${name}: "${name}" is not a known provider, so it needs a baseUrl`,
    );
  }
  const place = `providers.${name}`;
  const key = keyText(keysGiven(name, given.key, env));
  const headers = { ...headersIn(env, known?.headerVariables), ...headersOf(given, place) };
  const batchChatUrl = given.batchChatUrl ?? env[`${prefix}_BATCH_CHAT_URL`];
  const { headers: _headers, baseUrl: _baseUrl, batchChatUrl: _batchChatUrl, key: _key, ...others } = given;
  const { ramp: _ramp, module: _module, needsKey: _needsKey, ...remote } = others;
  const { batches: _batches, deferred: _deferred, ...rest } = remote;
  return {
    ...settings,
    ...rest,
    ...(batchChatUrl === undefined || batchChatUrl === ""
      ? {}
      : { batchChatUrl: batchChatUrl.replace(/\/+$/, "") }),
    ...(key === undefined ? {} : { key }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
  };
}

function headersIn(
  env: Environment,
  variables: KnownProvider["headerVariables"] = {},
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).flatMap(([header, variable]) => {
      const value = env[variable];
      return value === undefined ? [] : [[header, headerText(value, variable)] as const];
    }),
  );
}

function headersOf({ headers = {} }: ProviderOptions, place: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, headerText(value, `${place}.headers.${name}`)]),
  );
}

/**
 * Providers whose lines wait for a key, with what to do about it; those that are sent requests without one and may want one, which
 * are all but known ones that need none, at their own base URL, with notes on those of them that usually need a key.
 */
function keysOf(
  providers: readonly ProviderSettings[],
  options: ConfigOptions,
): { readonly missing: Map<string, string>; readonly unset: Map<string, string | undefined> } {
  const missing = new Map<string, string>();
  const unset = new Map<string, string | undefined>();
  for (const { name, key, baseUrl, headers } of providers) {
    const known = KNOWN_PROVIDERS.get(name);
    const { needsKey } = networked(options.providers?.[name]);
    if (key !== undefined || needsKey === false) continue;
    const isUsual = known?.needsKey === true && headers === undefined;
    const isElsewhere = baseUrl !== known?.baseUrl;
    const variable = keyVariable(name);
    if (needsKey === true || (isUsual && !isElsewhere))
      missing.set(name, `provider "${name}" needs a key; set ${variable}`);
    else if (isElsewhere)
      unset.set(
        name,
        isUsual
          ? `provider "${name}" has no key, and requests to ${addressOf(baseUrl)} are sent without one: set ${variable}, or, if the server needs no key, providers.${name}.needsKey to false`
          : undefined,
      );
  }
  return { missing, unset };
}

/** Without path, and without a password in it. */
function addressOf(baseUrl: string): string {
  return URL.canParse(baseUrl) ? new URL(baseUrl).origin : "its base URL";
}

/** A server at another base URL has its own rules, under any name. */
function rampOf(
  { name, baseUrl }: ProviderSettings,
  given: ProviderOptions["ramp"],
): RampOptions | undefined {
  if (given === false) return undefined;
  const isOpenai = name === "openai" && baseUrl === KNOWN_PROVIDERS.get(name)?.baseUrl;
  return { ...RAMP, ...given, isAsked: given !== undefined || isOpenai };
}

function envLimits(name: string, env: Environment): LimitSettings {
  const prefix = `PERIGEE_LIMIT_${providerCapitals(name)}`;
  const found = {
    requestsPerMinute: envNumber(env, `${prefix}_RPM`),
    tokensPerMinute: envNumber(env, `${prefix}_TPM`),
    concurrency: envNumber(env, `${prefix}_CONCURRENCY`),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** The options of how often a request may be sent. Throws `invalid_config` if they contradict each other. */
function sendingOf(
  { delivery, hedge = false }: ConfigOptions,
  env: Environment,
): Pick<EngineConfig, "isAtMostOnce" | "isHedged"> {
  const isAtMostOnce = (delivery ?? envDelivery(env)) === "at_most_once";
  checkHedge(hedge, isAtMostOnce, "invalid_config");
  return { isAtMostOnce, isHedged: hedge };
}

/** Throws an error with `code` if requests may be hedged, but may be sent only once. */
export function checkHedge(isHedged: boolean, isAtMostOnce: boolean, code: "invalid_config" | "usage"): void {
  if (!isHedged || !isAtMostOnce) return;
  throw new PerigeeError(
    code,
    "hedge sends a second request while the first one is under way, and delivery is at_most_once: remove hedge, or set delivery to at_least_once",
  );
}

function envDelivery(env: Environment): string {
  const value = env["PERIGEE_DELIVERY"] ?? "at_least_once";
  if (value === "at_least_once" || value === "at_most_once") return value;
  throw new PerigeeError(
    "invalid_config",
    `PERIGEE_DELIVERY must be at_least_once or at_most_once, got "${value}"`,
  );
}

function envNumber(env: Environment, variable: string): number | undefined {
  const text = env[variable];
  if (text === undefined || text === "") return undefined;
  if (/^\d{1,9}$/.test(text) && Number(text) >= 1) return Number(text);
  throw new PerigeeError("invalid_config", `${variable} must be a whole number from 1, got "${text}"`);
}

function firstOf(env: Environment, variables: readonly string[] | undefined): string | undefined {
  return variables?.map((variable) => env[variable]).find((value) => value !== undefined && value !== "");
}
