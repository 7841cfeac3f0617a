/**
 * Configuration: options in code, a JSON file with the same names, and the environment, made into one checked whole.
 *
 * What wins: options in code, then the configuration file (the caller merges it into the options), then
 * `PERIGEE_*` variables, then the ecosystem's own (`OPENAI_API_KEY`, ...), then the defaults of each provider.
 */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { PerigeeError } from "../errors.ts";
import { type FactorRate, RATE_CARD, type RateCard } from "../price/factor.ts";
import type { PriceOverrides } from "../price/overrides.ts";
import { isModelPattern } from "../price/pattern.ts";
import type { ProviderSettings } from "../providers/provider.ts";
import { defaultSettings, KNOWN_PROVIDERS } from "../providers/registry.ts";
import type { FamilySettings } from "../schedule/lanes.ts";
import type { LimitSettings } from "../work/limits.ts";

const positive = z.number().int().min(1);
const limitSettings = z.strictObject({
  requestsPerMinute: positive.optional(),
  tokensPerMinute: positive.optional(),
  inputTokensPerMinute: positive.optional(),
  outputTokensPerMinute: positive.optional(),
  concurrency: positive.optional(),
});
const providerOptions = z.strictObject({
  protocol: z.enum(["openai", "anthropic", "gemini"]).optional(),
  baseUrl: z.url().optional(),
  key: z.string().min(1).optional(),
  apiVersion: z.string().min(1).optional(),
  defaultMaxOutputTokens: positive.optional(),
  unsupportedConfig: z.enum(["drop", "refuse"]).optional(),
  headers: z.record(z.string().regex(/^[a-z0-9-]+$/), z.string()).optional(),
});
const usd = z.number().min(0);
const factorRate = z.strictObject({
  floor: z.number().min(0.3).max(1),
  laneDiscount: z.number().min(0).max(0.7),
  laneFullMinutes: z.number().positive(),
  laneHalfMinutes: z.number().positive(),
  poolDiscount: z.number().min(0).max(0.7),
  poolFullMinutes: z.number().positive(),
  poolHalfMinutes: z.number().positive(),
  volumeFullTokens: z.number().positive(),
  volumeHalfTokens: z.number().positive(),
});
const fileOptions = z.strictObject({
  providers: z.record(z.string().regex(/^[a-z0-9][a-z0-9_-]*$/), providerOptions).optional(),
  limits: z.record(z.string(), limitSettings).optional(),
  families: z.record(z.string(), z.record(z.string(), z.string().min(1))).optional(),
  prices: z
    .record(
      z.string().refine(isModelPattern),
      z.strictObject({
        inputUsdPerMillion: usd,
        outputUsdPerMillion: usd,
        cachedUsdPerMillion: usd.optional(),
        cacheWriteUsdPerMillion: usd.optional(),
        asOf: z.string().optional(),
      }),
    )
    .optional(),
  rateCard: z
    .strictObject({
      standard: factorRate.partial().optional(),
      models: z.record(z.string(), factorRate.partial()).optional(),
    })
    .optional(),
  delivery: z.enum(["at_least_once", "at_most_once"]).optional(),
  maxInFlight: positive.max(65_536).optional(),
  threads: positive.max(64).optional(),
  diskWaitMs: z.number().min(0).optional(),
  pauseWaitMs: z.number().min(0).optional(),
  attemptMsMax: positive.optional(),
});

/** What a configuration file may hold, and what `createEngine` takes besides `dataDir` and seams. */
export interface ConfigOptions {
  /** By provider name; a name that is not known needs a `baseUrl` and is an OpenAI-compatible server unless `protocol` says otherwise. */
  readonly providers?: Readonly<Record<string, ProviderOptions>>;
  /** By provider name (all its models together) or `<provider>:<family>` (one family, in addition). */
  readonly limits?: Readonly<Record<string, LimitSettings>>;
  /** Provider, then model (or a prefix with `*`), to the name of the family whose limits it shares. */
  readonly families?: FamilySettings;
  /** Prices in USD per million tokens by `<provider>:<model>`, `*` allowed at the end. */
  readonly prices?: PriceOverrides;
  readonly rateCard?: { readonly standard?: Partial<FactorRate>; readonly models?: RateCard["models"] };
  /** `at_most_once` never repeats a request that may have been answered. Default `at_least_once`. */
  readonly delivery?: "at_least_once" | "at_most_once";
  /** Requests in flight per provider at most. Default 512; sending starts at 64 and grows while nothing objects. */
  readonly maxInFlight?: number;
  /** Worker threads that count tokens. Default: one less than the processors, 1 to 4. */
  readonly threads?: number;
  /** How long a full disk is waited for. Default 60,000. */
  readonly diskWaitMs?: number;
  /** How long a run without sla waits for an account stop to end. Default 900,000. */
  readonly pauseWaitMs?: number;
  /** One request at most. Default 600,000. */
  readonly attemptMsMax?: number;
}

/** One provider's options. */
export interface ProviderOptions {
  readonly protocol?: "openai" | "anthropic" | "gemini";
  readonly baseUrl?: string;
  readonly key?: string;
  readonly apiVersion?: string;
  readonly defaultMaxOutputTokens?: number;
  readonly unsupportedConfig?: "drop" | "refuse";
  readonly headers?: Readonly<Record<string, string>>;
}

/** All settled. */
export interface EngineConfig {
  readonly providers: readonly ProviderSettings[];
  readonly limits: Readonly<Record<string, LimitSettings>>;
  readonly families: FamilySettings;
  readonly prices: PriceOverrides;
  readonly rateCard: RateCard;
  readonly isAtMostOnce: boolean;
  readonly maxInFlight: number;
  readonly threads: number | undefined;
  readonly diskWaitMs: number;
  readonly pauseWaitMs: number;
  readonly attemptMsMax: number | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a configuration file. Throws `invalid_config` naming file, place, and what was expected. */
export async function readConfigFile(path: string): Promise<ConfigOptions> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    const why = cause instanceof SyntaxError ? "is not JSON" : "cannot be read";
    throw new PerigeeError("invalid_config", `${path} ${why}`, { cause });
  }
  return checkOptions(value, path);
}

/** Checks options given in code or read from a file. */
function checkOptions(value: unknown, where: string): ConfigOptions {
  const parsed = fileOptions.safeParse(value);
  if (parsed.success) return parsed.data as unknown as ConfigOptions; // the schema above states the same shape
  const issue = parsed.error.issues[0];
  const place = issue === undefined || issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
  throw new PerigeeError("invalid_config", `${where}${place}: ${issue?.message ?? "not a configuration"}`);
}

/** Puts options, environment and defaults together. */
export function resolveConfig(options: ConfigOptions, env: Environment): EngineConfig {
  const checked = checkOptions(options, "options");
  const names = new Set([
    ...KNOWN_PROVIDERS.keys(),
    ...Object.keys(checked.providers ?? {}),
    ...namesIn(env),
  ]);
  const providers = [...names].map((name) => providerSettings(name, checked.providers?.[name] ?? {}, env));
  const limits = { ...checked.limits };
  for (const name of names) {
    const fromEnv = envLimits(name, env);
    if (Object.keys(fromEnv).length > 0) limits[name] = { ...fromEnv, ...limits[name] };
  }
  return {
    providers,
    limits,
    families: checked.families ?? {},
    prices: checked.prices ?? {},
    rateCard: {
      standard: { ...RATE_CARD.standard, ...checked.rateCard?.standard },
      models: { ...RATE_CARD.models, ...checked.rateCard?.models },
    },
    isAtMostOnce: (checked.delivery ?? envDelivery(env)) === "at_most_once",
    maxInFlight: checked.maxInFlight ?? envNumber(env, "PERIGEE_MAX_INFLIGHT") ?? 512,
    threads: checked.threads,
    diskWaitMs: checked.diskWaitMs ?? 60_000,
    pauseWaitMs: checked.pauseWaitMs ?? 900_000,
    attemptMsMax: checked.attemptMsMax,
  };
}

function providerSettings(name: string, given: ProviderOptions, env: Environment): ProviderSettings {
  const known = KNOWN_PROVIDERS.get(name);
  const prefix = envPrefix(name);
  const baseUrl = given.baseUrl ?? env[`${prefix}_BASE_URL`] ?? firstOf(env, known?.baseUrlVariables);
  const settings = defaultSettings(name, baseUrl?.replace(/\/+$/, ""));
  if (settings === undefined) {
    throw new PerigeeError("invalid_config", `provider "${name}" is not known and has no baseUrl`);
  }
  const key = given.key ?? env[`${prefix}_KEY`] ?? firstOf(env, known?.keyVariables);
  const fromEnv = Object.entries(known?.headerVariables ?? {}).flatMap(([header, variable]) =>
    env[variable] === undefined ? [] : [[header, env[variable]] as const],
  );
  const headers = { ...Object.fromEntries(fromEnv), ...given.headers };
  const { headers: _headers, baseUrl: _baseUrl, key: _key, ...rest } = given;
  return {
    ...settings,
    ...rest,
    ...(key === undefined ? {} : { key }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
  };
}

/** Providers that only the environment knows: any name with a base URL. */
function namesIn(env: Environment): string[] {
  return Object.keys(env).flatMap((variable) => {
    const match = /^PERIGEE_PROVIDER_([A-Z0-9_]+)_BASE_URL$/.exec(variable);
    const name = match?.[1]?.toLowerCase();
    return name === undefined || env[variable] === "" ? [] : [name];
  });
}

function envLimits(name: string, env: Environment): LimitSettings {
  const prefix = `PERIGEE_LIMIT_${capitals(name)}`;
  const found = {
    requestsPerMinute: envNumber(env, `${prefix}_RPM`),
    tokensPerMinute: envNumber(env, `${prefix}_TPM`),
    concurrency: envNumber(env, `${prefix}_CONCURRENCY`),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
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

function envPrefix(name: string): string {
  return `PERIGEE_PROVIDER_${capitals(name)}`;
}

function capitals(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}

function firstOf(env: Environment, variables: readonly string[] | undefined): string | undefined {
  return variables?.map((variable) => env[variable]).find((value) => value !== undefined && value !== "");
}
