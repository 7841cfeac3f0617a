/**
 * The options of an engine that a configuration file may hold too, as their user writes them.
 */
import type { FactorRate, RateCard } from "../../price/factor.ts";
import type { PriceOverrides } from "../../price/overrides.ts";
import type { PriceSheet } from "../../price/price_sheet.ts";
import type { LaneChoices, LanePolicy } from "../../queue/lane_choice.ts";
import type { LanePriors } from "../../queue/lane_priors.ts";
import type { FamilySettings } from "../../queue/lanes.ts";
import type { LimitSettings, RampSettings } from "../../work/limits.ts";
import type { BatchOptions, DeferredOptions } from "./batch_options.ts";
import type { AnswerCacheTerms } from "./cache_terms.ts";
import type { OwnProvider } from "./own_providers.ts";
import type { SaleOptions } from "./sale_terms.ts";

/** What a configuration file may hold, and what `createEngine` takes besides `dataDir` and seams. */
export interface ConfigOptions {
  /**
   * By provider name; a name that is not known needs a `baseUrl` and is an OpenAI-compatible server unless `protocol` says
   * otherwise. In code a provider may also be a function that answers one item, or a codec (`Provider` of `perigee/providers`).
   */
  readonly providers?: Readonly<Record<string, ProviderOptions | OwnProvider>>;
  /** By provider name (all its models together) or `<provider>:<family>` (one family, in addition). */
  readonly limits?: Readonly<Record<string, LimitSettings>>;
  /** Provider, then model (or a prefix with `*`), to the name of the family whose limits it shares. */
  readonly families?: FamilySettings;
  /**
   * Names for several models, `<provider>:<model>` each: an item that names one as its model is answered by the first of the list
   * that can. A name holds no colon and is not like a provider's.
   */
  readonly models?: Readonly<Record<string, readonly string[]>>;
  /** Prices in USD per million tokens by `<provider>:<model>`, `*` allowed at the end. */
  readonly prices?: PriceOverrides | PriceSheet;
  /** A cap for all runs of the engine together, kept in its data folder by its name. */
  readonly cap?: { readonly name: string; readonly usd: number };
  readonly rateCard?: { readonly standard?: Partial<FactorRate>; readonly models?: RateCard["models"] };
  /** Only for the service: share of the expected cost that its prices are above it at least, 0 to 10. Default 0. */
  readonly margin?: number;
  /** Only for the service: prices may be below the expected cost and `margin`. Default false. */
  readonly sellBelowCost?: boolean;
  /** Only for the service: share of the charged price that an item gets back which missed its deadline, 0 to 1. Default 0. */
  readonly refunds?: { readonly missedSla?: number };
  /**
   * Only for the service: the cache of answers that its callers may ask for, and how old an answer may be at most. Default: none, and
   * such calls are refused.
   */
  readonly cache?: AnswerCacheTerms;
  /**
   * What to do with settings that a model or its provider does not take, for all providers that do not say it themselves:
   * `drop` leaves all of them out with a warning, `refuse` fails the item. Default: what only shapes sampling is left out,
   * all else fails the item.
   */
  readonly unsupportedConfig?: "drop" | "refuse";
  /** `at_most_once` never repeats a request that may have been answered. Default `at_least_once`. */
  readonly delivery?: "at_least_once" | "at_most_once";
  /**
   * A request that hangs is not given up: a second one is sent beside it, and the first complete answer counts. Both
   * count against limits and caps. Not with `at_most_once`. Default false.
   */
  readonly hedge?: boolean;
  /** Requests in flight per provider at most. Default 512; sending starts at 64 and grows while nothing objects. */
  readonly maxInFlight?: number;
  /** Worker threads that count tokens. Default: one less than the processors, 1 to 4. */
  readonly threads?: number;
  /** How long work that was accepted waits for a full disk. Default: `waitMs`, or 1,800,000 without it; a service waits for ever. */
  readonly diskWaitMs?: number;
  /** How long a run waits for an outage, limits or an account stop that hold all that is left of it. Default 1,800,000, and 120,000 where an account has no money or quota. */
  readonly waitMs?: number;
  /** One request at most, where its provider has no `timeoutMs`. Default 600,000. */
  readonly attemptMsMax?: number;
  /** Which lanes may be used, and what is assumed of them. Default: work with an sla goes to the cheapest that still meets it. */
  readonly lanes?: LaneConfig;
  /** How prompt caches of providers are used for prefixes that items share. Default: wherever it is cheaper. */
  readonly prefixes?: PrefixOptions;
  /** How the price weighs against the time before a deadline. Default `cheapest`. */
  readonly policy?: LanePolicy;
  /** Share of answers in realtime whose time is kept before a deadline, 0.5 to 0.9999. Default 0.99. */
  readonly minOnTime?: number;
  /** What single projects may, by name. */
  readonly projects?: Readonly<Record<string, ProjectTerms>>;
  /** Only for the service: finished tasks and files are deleted after so many days, 1 to 3,650. Default 30. */
  readonly retentionDays?: number;
  /** Only for the service: how much accepted work may wait. */
  readonly backlog?: BacklogBounds;
  /** Only for the service: how many requests it takes, and how large. */
  readonly requests?: RequestBounds;
  /** Only for the service: what perigee's satellites may use. */
  readonly satellites?: SatelliteTerms;
  /** Only for the service: CIDRs of own networks that webhooks may reach. Default: `PERIGEE_EGRESS_ALLOW`, or none. */
  readonly egressAllow?: readonly string[];
  /** Only for the service: ports that webhooks may use, beside 80, 443 and 8443. */
  readonly egressPorts?: readonly number[];
  /** Only for `perigee serve` and `openFleetWorker`: the fleet that the process is a worker of. Default: none. */
  readonly fleet?: FleetTerms;
}

/** How a process is a worker of a fleet on PostgreSQL. */
export interface FleetTerms {
  /** `postgres://user:password@host:port/database`; without a password, that of `PGPASSWORD` or `.pgpass`. */
  readonly store: string;
  /** Where the files of all workers are, such as `file:///shared/folder`. */
  readonly objects?: string | undefined;
  /** `all` (the default) answers callers and owns partitions, `api` only answers callers, `worker` only owns partitions. */
  readonly role?: "all" | "api" | "worker" | undefined;
  /** For people. Default: the name of the machine. */
  readonly name?: string | undefined;
  /** Where other workers reach it: an address of a private network. Default 127.0.0.1, and a free port. */
  readonly privateHost?: string | undefined;
  readonly privatePort?: number | undefined;
}

/** What an operator sets for perigee's satellites. Default: nothing. */
export interface SatelliteTerms {
  /** Whose model answers for each satellite of inference: its name to `<provider>:<name>`. */
  readonly models?: Readonly<Record<string, string>>;
  /** Folders of this machine that `get-files` and `move-file` may use, by the names that configs call them. */
  readonly roots?: Readonly<Record<string, string>>;
  /** Services of opendal that they may use, by name. */
  readonly opendal?: Readonly<
    Record<
      string,
      {
        readonly service: "azblob" | "gcs" | "webdav";
        readonly options: Readonly<Record<string, string>>;
      }
    >
  >;
  /** Ports of mail servers besides 25, 465, 587 and 2525. */
  readonly mailPorts?: readonly number[];
}

/** Work that is accepted and not final, above which the service refuses more with 429. */
export interface BacklogBounds {
  /** Items of one project. Default 1,000,000; a larger task is taken when nothing else of the project is open. */
  readonly projectItems?: number;
  /** Bytes of the lines that one project's open tasks brought with them. Default 100 GB. */
  readonly projectBytes?: number;
  /** Items of all projects. Default 10,000,000. */
  readonly items?: number;
  /** Bytes of all projects. Default 500 GB. */
  readonly bytes?: number;
}

/** What the service takes over HTTP; the defaults of the last two are also the most that they may be. */
export interface RequestBounds {
  /** Requests a minute of one key. Default 600,000. */
  readonly perMinute?: number;
  /** Requests a minute of one address without a valid key. Default 60. */
  readonly perMinuteWithoutKey?: number;
  /** Items in one POST. Default 1,000,000. */
  readonly items?: number;
  /** Bytes of one POST's body, from 1 MiB. Default 1 GiB. */
  readonly bodyBytes?: number;
}

/** What one project may. */
export interface ProjectTerms extends SaleOptions {
  /** Only for the service: USD that its accepted work may cost in one UTC month; default: no cap. */
  readonly maxCostUsd?: number;
  /** Which lanes its work may use, of those that `lanes` allows. */
  readonly lanes?: LaneChoices;
}

/**
 * Lanes by kind (`realtime`, `flex`, `slow`, `batch`, `deferred`, `offpeak`) or `<provider>:<kind>`. Realtime is always allowed: it
 * is what remains when a deadline is near.
 */
export interface LaneConfig extends LaneChoices {
  /** The same for single models, of those allowed here: by `<provider>:<model>`, `*` allowed at the end. */
  readonly models?: Readonly<Record<string, LaneChoices>>;
  /** Seconds between two polls of a batch, above 0. Default 30 to 300. */
  readonly pollSeconds?: { readonly min?: number; readonly max?: number };
  /** For how many seconds a batch is looked for that may have been created, above 0. Default 120. */
  readonly adoptSeconds?: number;
  /** Fewer items than this make no batch while more may follow, from 1. Default 100. */
  readonly minItems?: number;
  /**
   * How many seconds answers take, before it is measured: by kind (`flex`, `slow`, `batch`, `deferred`), or by `<provider>:<kind>`,
   * which wins. Positive, p50 <= p90 <= p99. Default: what others measured (queue/lane_priors.ts).
   */
  readonly priors?: LanePriors;
  /**
   * Public holidays in China, on which DeepSeek takes its lower price at all hours: days (`2027-02-05`) and spans with both ends
   * (`2027-02-05..2027-02-11`). They replace what is known of each year that they name: 2026, and of 2027 what the law names.
   */
  readonly offPeakDays?: readonly string[];
}

/** How shared prefixes are sent: see the guide on prompt caches. */
export interface PrefixOptions {
  /** Whether shared prefixes are sent one after another and asked to be cached. Default true. */
  readonly enabled?: boolean;
  /** Whether leading turns that items share are found, too: it takes some time for each long item. Default false. */
  readonly turns?: boolean;
  /** Tokens from which a prefix is cached, by `<provider>:<model>`, `*` allowed at the end, from 1. */
  readonly minTokens?: Readonly<Record<string, number>>;
  /** Seconds from its last use for which an automatic cache keeps a prefix, by the same names, above 0. Default 300. */
  readonly ttlSeconds?: Readonly<Record<string, number>>;
  /** Providers that take OpenAI's `prompt_cache_key`. Default: `openai`. */
  readonly cacheKeys?: readonly string[];
}

/** One provider's options. */
export interface ProviderOptions {
  /**
   * A module whose default export is the provider: a function that answers one item, or a codec. Relative to the configuration
   * file, in code to the working directory. With it only `timeoutMs`, `unsupportedConfig` and `ramp` may be set.
   */
  readonly module?: string;
  readonly protocol?: "openai" | "anthropic" | "gemini";
  readonly baseUrl?: string;
  /** Of `dashscope`: the base URL of its Batch Chat. Default: its own, while `baseUrl` is that of Beijing. */
  readonly batchChatUrl?: string;
  readonly key?: string;
  /**
   * Whether lines are held until it has a key. Default: for a known provider at its own base URL. At another base URL requests
   * without a key are sent, two before the first success, and a notice with the first names the variable if the provider
   * usually needs a key; false says that no key is wanted, and true holds.
   */
  readonly needsKey?: boolean;
  readonly apiVersion?: string;
  readonly defaultMaxOutputTokens?: number;
  /** Inputs that one request for embeddings may have, from 1: then each item is sent by itself. Default: by the provider. */
  readonly embeddingInputsMax?: number;
  /** Input tokens of one such request at most. Default: by the provider. */
  readonly embeddingTokensMax?: number;
  /** Bytes of a file that a line names, at most; up to 104,857,600. Default 20,971,520. Caps reserve for as much. */
  readonly mediaBytesMax?: number;
  /**
   * Of OpenAI's protocol: whether streamed requests ask for the usage by `stream_options: {"include_usage": true}`. Without the
   * usage what a stream took is estimated. Default: true, but for `mistral`, which sends it unasked.
   */
  readonly streamUsage?: boolean;
  readonly unsupportedConfig?: "drop" | "refuse";
  /** One request to it at most, from 1,000. Default: `attemptMsMax`. */
  readonly timeoutMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** What is known better of its batches than by default, and the wire of batches of an OpenAI-compatible server. */
  readonly batches?: BatchOptions;
  /** For `gemini`: what its deferred tier costs, without which nothing is deferred; and what is known better of it than by default. */
  readonly deferred?: DeferredOptions;
  /**
   * How fast the input tokens per minute of each of its model families may grow: above `inputTokensPerMinute` (default
   * 1,000,000) by at most the part `growth` (0.5) in so many `minutes` (15). False: as fast as limits allow. Default:
   * on for `openai` at its own base URL; elsewhere from the first refusal that says that use grew too fast.
   */
  readonly ramp?: Partial<RampSettings> | false;
}
