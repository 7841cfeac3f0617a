/**
 * The schema of the configuration. Loaded only when there is a configuration to check.
 */
import { PerigeeError } from "../../errors.ts";
import { isModelPattern } from "../../price/pattern.ts";
import { overridesOf, readPriceSheet } from "../../price/price_sheet.ts";
import { BATCH_ENDPOINTS } from "../../providers/batches/batch_wire.ts";
import { LANE_POLICIES, MIN_ON_TIME } from "../../queue/lane_choice.ts";
import { issuesOf, namedErrors, unknownName, z } from "../../schema.ts";
import { parseDurationMs } from "../../work/sla.ts";
import { CACHE_BYTES_MIN } from "./cache_terms.ts";
import type { ConfigOptions } from "./config_options.ts";
import { choicesSchema, laneSchema } from "./lane_schema.ts";

const positive = z.number().int().min(1);
const limitSettings = z.strictObject({
  requestsPerMinute: positive.optional(),
  tokensPerMinute: positive.optional(),
  inputTokensPerMinute: positive.optional(),
  outputTokensPerMinute: positive.optional(),
  concurrency: positive.optional(),
});
const ramp = z.strictObject({
  inputTokensPerMinute: positive.optional(),
  growth: z.number().positive().optional(),
  minutes: z.number().min(1).max(1_440).optional(),
});
const networked = [
  ...(["protocol", "baseUrl", "batchChatUrl", "key", "needsKey", "apiVersion"] as const),
  ...(["defaultMaxOutputTokens", "headers", "batches", "deferred"] as const),
  ...(["embeddingInputsMax", "embeddingTokensMax", "mediaBytesMax", "streamUsage"] as const),
];
const endpoints = z.enum(BATCH_ENDPOINTS);
const batchOptions = z.strictObject({
  wire: z.string().min(1).optional(),
  priceFactor: z.number().min(0).max(10).optional(),
  itemsMax: positive.optional(),
  bytesMax: positive.optional(),
  inputsMax: positive.optional(),
  openMax: positive.optional(),
  enqueuedTokensMax: positive.optional(),
  addBytesMax: positive.optional(),
  addItemsMax: positive.optional(),
  windowMs: positive.optional(),
  keptMs: positive.optional(),
  endpoints: z.array(endpoints).min(1).optional(),
  takes: z
    .strictObject({
      tools: z.boolean().optional(),
      images: z.boolean().optional(),
      schemas: z.boolean().optional(),
    })
    .optional(),
  completionWindow: z.string().min(1).optional(),
  firstLine: z.union([z.literal(0), z.literal(1)]).optional(),
  fileExpiryMs: z.number().int().min(0).optional(),
  inlineBytesMax: z.number().int().min(0).optional(),
  webhook: z
    .strictObject({
      uris: z.array(z.url()).min(1),
      userMetadata: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
  ticksPerUsd: positive.optional(),
});
const deferredOptions = z.strictObject({
  priceFactor: z.number().min(0).max(10),
  path: z
    .string()
    .regex(/^\/[^?#]*[^?#/]$/, "must be a path such as /v1beta/interactions")
    .optional(),
  openMax: positive.optional(),
  windowMs: positive.optional(),
});
const providerOptions = z
  .strictObject({
    module: z.string().min(1).optional(),
    protocol: z.enum(["openai", "anthropic", "gemini"]).optional(),
    baseUrl: z.url().optional(),
    batchChatUrl: z.url().optional(),
    key: z.string().min(1).optional(),
    needsKey: z.boolean().optional(),
    apiVersion: z.string().min(1).optional(),
    defaultMaxOutputTokens: positive.optional(),
    embeddingInputsMax: positive.optional(),
    embeddingTokensMax: positive.optional(),
    mediaBytesMax: positive.max(100 * 1024 ** 2).optional(),
    streamUsage: z.boolean().optional(),
    unsupportedConfig: z.enum(["drop", "refuse"]).optional(),
    timeoutMs: z.number().int().min(1_000).max(86_400_000).optional(),
    headers: z.record(z.string().regex(/^[a-z0-9-]+$/), z.string()).optional(),
    batches: batchOptions.optional(),
    deferred: deferredOptions.optional(),
    ramp: z.union([z.literal(false), ramp]).optional(),
  })
  .superRefine((given, context) => {
    const beside =
      given.module === undefined ? undefined : networked.find((name) => given[name] !== undefined);
    if (beside !== undefined)
      context.addIssue({
        code: "custom",
        path: [beside],
        message: "a provider with a module has no such option",
      });
  });
const usd = z.number().min(0);
const TTL_FAULT = "expected a duration such as 90m, 24h or 7d";
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
const sale = {
  margin: z.number().min(0).max(10).optional(),
  sellBelowCost: z.boolean().optional(),
  refunds: z.strictObject({ missedSla: z.number().min(0).max(1).optional() }).optional(),
};
const fileOptions = z.strictObject({
  providers: z.record(z.string().regex(/^[a-z0-9][a-z0-9_-]*$/), providerOptions).optional(),
  limits: z.record(z.string(), limitSettings).optional(),
  families: z.record(z.string(), z.record(z.string(), z.string().min(1))).optional(),
  models: z.record(z.string(), z.array(z.string())).optional(),
  prices: z
    .record(
      z.string().refine(isModelPattern),
      z.strictObject({
        inputUsdPerMillion: usd,
        outputUsdPerMillion: usd,
        cachedUsdPerMillion: usd.optional(),
        cacheWriteUsdPerMillion: usd.optional(),
        peakFactor: z.number().min(1).max(10).optional(),
        asOf: z.string().optional(),
        sheet: z.string().optional(),
      }),
    )
    .optional(),
  cap: z.strictObject({ name: z.string().regex(/^[\w.:-]{1,64}$/), usd }).optional(),
  rateCard: z
    .strictObject({
      standard: factorRate.partial().optional(),
      models: z.record(z.string(), factorRate.partial()).optional(),
    })
    .optional(),
  ...sale,
  cache: z
    .strictObject({
      dir: z.string().min(1),
      ttl: z
        .string()
        .refine((text) => (parseDurationMs(text) ?? 0) > 0, TTL_FAULT)
        .optional(),
      maxBytes: positive.min(CACHE_BYTES_MIN).optional(),
    })
    .optional(),
  unsupportedConfig: z.enum(["drop", "refuse"]).optional(),
  delivery: z.enum(["at_least_once", "at_most_once"]).optional(),
  hedge: z.boolean().optional(),
  maxInFlight: positive.max(65_536).optional(),
  threads: positive.max(64).optional(),
  diskWaitMs: z.number().min(0).optional(),
  waitMs: z.number().min(0).optional(),
  attemptMsMax: positive.optional(),
  lanes: laneSchema.optional(),
  prefixes: z
    .strictObject({
      enabled: z.boolean().optional(),
      turns: z.boolean().optional(),
      minTokens: z.record(z.string().refine(isModelPattern), positive).optional(),
      ttlSeconds: z.record(z.string().refine(isModelPattern), z.number().positive()).optional(),
      cacheKeys: z.array(z.string().min(1)).optional(),
    })
    .optional(),
  policy: z.enum(LANE_POLICIES).optional(),
  minOnTime: z.number().min(MIN_ON_TIME.least).max(MIN_ON_TIME.most).optional(),
  projects: z
    .record(
      z.string().min(1),
      z.strictObject({ maxCostUsd: usd.optional(), lanes: choicesSchema.optional(), ...sale }),
    )
    .optional(),
  retentionDays: z.number().min(1).max(3_650).optional(),
  backlog: z
    .strictObject({
      projectItems: positive.optional(),
      projectBytes: positive.optional(),
      items: positive.optional(),
      bytes: positive.optional(),
    })
    .optional(),
  requests: z
    .strictObject({
      perMinute: positive.optional(),
      perMinuteWithoutKey: positive.optional(),
      items: positive.max(1_000_000).optional(),
      bodyBytes: positive
        .min(1024 ** 2)
        .max(1024 ** 3)
        .optional(),
    })
    .optional(),
  satellites: z
    .strictObject({
      models: z.record(z.string(), z.string().regex(/^[^:]+:.+$/)).optional(),
      roots: z.record(z.string().min(1).max(63), z.string().min(1)).optional(),
      opendal: z
        .record(
          z.string().min(1).max(63),
          z.strictObject({
            service: z.enum(["azblob", "gcs", "webdav"]),
            options: z.record(z.string(), z.string()),
          }),
        )
        .optional(),
      mailPorts: z.array(positive.max(65_535)).max(100).optional(),
    })
    .optional(),
  egressAllow: z.array(z.string()).max(1_000).optional(),
  egressPorts: z.array(positive.max(65_535)).max(100).optional(),
  fleet: z
    .strictObject({
      store: z.string().min(1),
      objects: z.string().min(1).optional(),
      role: z.enum(["all", "api", "worker"]).optional(),
      name: z.string().min(1).max(63).optional(),
      privateHost: z.string().min(1).optional(),
      privatePort: z.number().int().min(0).max(65_535).optional(),
    })
    .optional(),
});

/** With a price sheet read into prices by model. */
function withoutSheet(value: unknown, where: string): unknown {
  if (typeof value !== "object" || value === null || !("prices" in value)) return value;
  const { prices } = value;
  if (typeof prices !== "object" || prices === null || !("version" in prices)) return value;
  return { ...value, prices: overridesOf(readPriceSheet(prices, `${where} at prices`)) };
}

/** Throws `invalid_config` naming the first place that is not as it must be. `otherNames` are read elsewhere. */
export function parseOptions(
  value: unknown,
  where: string,
  otherNames: readonly string[] = [],
): ConfigOptions {
  const parsed = fileOptions.safeParse(withoutSheet(value, where), namedErrors);
  if (parsed.success) return parsed.data as unknown as ConfigOptions; // the schema above states the same shape
  const issue = issuesOf(parsed.error)[0];
  const place = issue === undefined || issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
  const isTopName = issue?.code === "unrecognized_keys" && issue.path.length === 0;
  const message = isTopName
    ? unknownName(issue.keys[0] ?? "", [...Object.keys(fileOptions.shape), ...otherNames])
    : issue?.message;
  throw new PerigeeError("invalid_config", `${where}${place}: ${message ?? "not a configuration"}`);
}
