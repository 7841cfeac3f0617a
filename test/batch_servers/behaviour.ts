/** How a fake provider behaves: everything that a test may choose, for all wires. */
import { always, type Quantiles } from "./chance.ts";
import type { FakePrice } from "./ledger.ts";

/** What a call is for. `add` puts requests into a batch that was created empty. */
export type CallKind =
  | "upload"
  | "create"
  | "add"
  | "get"
  | "list"
  | "cancel"
  | "results"
  | "delete"
  | "find_file"
  | "realtime";

export interface Call {
  readonly kind: CallKind;
  /** How many calls of this kind arrived so far, this one included: from 1. */
  readonly nth: number;
  readonly nowMs: number;
  readonly key: string;
}

/**
 * What becomes of a call instead of its answer. `lost`: it takes effect, and its answer is lost. `lost_before`: it is lost before
 * it takes effect. `tornAfter`: the share of the answer after which the connection breaks. `status`: refused, without effect.
 */
export type CallFault =
  | "lost"
  | "lost_before"
  | "refused_connection"
  | { readonly tornAfter: number }
  | {
      readonly status: number;
      readonly code?: string;
      readonly message?: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** Faults of the nth calls of kinds: `nthCalls({ create: { 1: "lost" } })`. */
export function nthCalls(
  faults: Partial<Record<CallKind, Readonly<Record<number, CallFault>>>>,
): (call: Call) => CallFault | undefined {
  return ({ kind, nth }) => faults[kind]?.[nth];
}

/** What is wrong with one batch. */
export interface BatchFaults {
  /** It ends as failed when it is validated; with the line where the wire shows lines and it has one, from 0. */
  readonly fails?: { readonly code: string; readonly message: string; readonly line?: number };
  /** No request of it is ever finished. */
  readonly isStalled?: boolean;
  /** It ends without any file or result, whatever was done and billed. */
  readonly hasNoResults?: boolean;
  /** Every request fails with this status. */
  readonly allFailWith?: number;
  /** Share of the results that are left out, and that are in them twice. */
  readonly missingShare?: number;
  readonly repeatedShare?: number;
  /** Results under ids that were never submitted, and under none. */
  readonly unknownIds?: number;
  /** The last line of the results ends in its middle. */
  readonly isTorn?: boolean;
  /** The state that is shown for so long after its creation. */
  readonly stateAtFirst?: { readonly name: string; readonly forMs: number };
}

export interface RealtimeOptions {
  readonly times?: Quantiles;
  readonly flexTimes?: Quantiles;
  /** Share of flex requests that are refused for capacity. */
  readonly flexShedShare?: number;
  /** Requests a minute, of all tiers but batch; beyond it 429. */
  readonly requestsPerMinute?: number;
}

export interface FakeOptions {
  /** A whole number. */
  readonly seed: number;
  /** The provider's own Unix time in milliseconds; never goes back. */
  readonly nowMs: () => number;
  /** By model; default 1 USD a million input tokens and 4 USD a million output tokens. */
  readonly price?: (model: string) => FakePrice;
  /** What a tier costs of the list price, in thousandths; default 500. */
  readonly flexThousandths?: number;
  readonly batchThousandths?: number;
  readonly deferredThousandths?: number;
  /** Keys that are accepted; default all. */
  readonly keys?: ReadonlySet<string>;
  /** To which workspace a key belongs: keys of others do not see its batches. Default: each key is one. */
  readonly workspaceOf?: (key: string) => string;
  readonly realtime?: RealtimeOptions;
  /** Faults of calls. */
  readonly faults?: (call: Call) => CallFault | undefined;
  /** Faults of the nth batch that was created, from 1. */
  readonly batchFaults?: (nth: number) => BatchFaults | undefined;
  /** How long it takes until a batch runs. */
  readonly validatingMs?: number;
  /** How long a batch waits once it could run; drawn for each batch. Default none. */
  readonly waits?: Quantiles;
  /** When a request is finished, from the start of its batch; drawn for each request. */
  readonly times?: Quantiles;
  /** Share of the requests that are never finished. */
  readonly stalledShare?: number;
  /** From the last request to the end of the batch. */
  readonly finalizingMs?: number;
  /** From the request to cancel until it is cancelled. Requests that are finished by then are billed. */
  readonly cancelMs?: number;
  /** From creation until it expires, where the wire does not say it. */
  readonly windowMs?: number;
  /** From creation until the batch and its results are gone. */
  readonly keptMs?: number;
  /** From creation until a list shows the batch. */
  readonly listDelayMs?: number;
  /** The most that a page of a list has. */
  readonly pageMax?: number;
  /** Input tokens of all open batches of a model and workspace. */
  readonly enqueuedTokensMax?: number;
  /** How long a batch that failed holds its tokens. */
  readonly failedHoldMs?: number;
  /** Open batches of a workspace; more are refused with 429. */
  readonly openMax?: number;
  readonly itemsMax?: number;
  readonly bytesMax?: number;
  /** Results in the order of the requests; default shuffled. */
  readonly keepsOrder?: boolean;
  /** How long each call of the batch API takes. */
  readonly apiMs?: number;
}

export type Behaviour = { readonly [Name in keyof FakeOptions]-?: Exclude<FakeOptions[Name], undefined> };

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** The options with their defaults. */
export function behaviourOf(options: FakeOptions): Behaviour {
  return {
    price: () => ({ inputUsd: 1, outputUsd: 4 }),
    flexThousandths: 500,
    batchThousandths: 500,
    deferredThousandths: 500,
    keys: new Set(),
    workspaceOf: (key) => key,
    realtime: {},
    faults: () => undefined,
    batchFaults: () => undefined,
    validatingMs: 5_000,
    waits: always(0),
    times: { p50: 2 * MINUTE_MS, p90: 10 * MINUTE_MS, p99: 30 * MINUTE_MS },
    stalledShare: 0,
    finalizingMs: 10_000,
    cancelMs: 2 * MINUTE_MS,
    windowMs: DAY_MS,
    keptMs: 30 * DAY_MS,
    listDelayMs: 0,
    pageMax: 100,
    enqueuedTokensMax: Number.POSITIVE_INFINITY,
    failedHoldMs: 0,
    openMax: Number.POSITIVE_INFINITY,
    itemsMax: 50_000,
    bytesMax: 200 * 1024 * 1024,
    keepsOrder: false,
    apiMs: 20,
    ...options,
  };
}
