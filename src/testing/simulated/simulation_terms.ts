/**
 * What a simulation is told, and what it tells: the options and results of `simulate` of perigee/testing.
 */
import type { ConfigOptions } from "../../engine/config/config.ts";
import type { LibraryLine, LibraryRunOptions, LibrarySummary } from "../../engine/library.ts";
import type { PriorSeconds } from "../../queue/lane_priors.ts";
import type { Item, LineItem } from "../../work/item.ts";

/** A simulated run. */
export interface SimulationOptions {
  /** As for `createEngine`, or from `readConfigFile`. Keys are not needed. */
  readonly config?: ConfigOptions;
  /** How providers behave, by the name before the colon of a model. Default for each: answers after about a second, no limits. */
  readonly providers?: Readonly<Record<string, SimulatedProvider>>;
  /** The work: items, or the bytes of a file. */
  readonly items: readonly (Item | LineItem)[] | Iterable<Uint8Array>;
  /** As for `engine.run`: sla, cap, lanes, policy. The output is in memory. */
  readonly run?: Omit<LibraryRunOptions, "out">;
  /** Decides latencies, failures and jitter; the same seed has the same result. A whole number; default 1. */
  readonly seed?: number;
  /** Unix milliseconds at the start. Default 2026-01-01T00:00:00Z. */
  readonly wallMs?: number;
  /** Called with each event, in order. What it throws ends the simulation, and `simulate` rejects with it. */
  readonly check?: (event: SimulationEvent) => void;
}

/** How one provider behaves. */
export interface SimulatedProvider {
  /** Seconds until an answer in realtime. Default 0.8, 2, 6. */
  readonly latency?: PriorSeconds;
  /** Seconds until an answer in the flex tier. Default 2.8, 9.5, 60. */
  readonly flexLatency?: PriorSeconds;
  /** Share of requests in the flex tier that are refused with 429, 0 to 1. Default 0.05. */
  readonly flexShed?: number;
  /** Requests in any 60 seconds; more are refused with 429 and `retry-after`. Default: no limit. */
  readonly requestsPerMinute?: number;
  /** Input and output tokens in any 60 seconds, counted when a request arrives. Default: no limit. */
  readonly tokensPerMinute?: number;
  /** Output tokens of an answer, no more than the request's own limit. Default 64. */
  readonly outputTokens?: number;
  /** The text of the answer to a request, from its body. Default `ok`. */
  readonly answer?: (body: unknown) => string;
  /** The first that applies to a request decides. */
  readonly failures?: readonly SimulatedFailure[];
  /** Batches on OpenAI's wire. */
  readonly batch?: SimulatedBatch;
}

/** Requests in realtime and flex that fail. */
export interface SimulatedFailure {
  /**
   * `error`: an answer with `status`; `lost`: the connection ends after the request was processed, which is billed;
   * `not_sent`: no connection; `hang`: no answer, ever.
   */
  readonly kind: "error" | "lost" | "not_sent" | "hang";
  /** Of an `error`; default 500. */
  readonly status?: number;
  /** Of the requests within its time, 0 to 1. Default 1. */
  readonly share?: number;
  /** Seconds from the start of the simulation. Default: all the time. */
  readonly fromSeconds?: number;
  readonly toSeconds?: number;
}

/** How batches behave. */
export interface SimulatedBatch {
  /** Seconds until a batch ends; its requests are finished evenly until then. Default 156, 2,100, 21,960. */
  readonly latency?: PriorSeconds;
  /** Share of batches that stop half way and never end by themselves. Default 0. */
  readonly stuckShare?: number;
  /** Seconds that a cancel takes. Default 60. */
  readonly cancelSeconds?: number;
}

/** What happened. `atMs`: milliseconds from the start. */
export type SimulationEvent =
  | ({ readonly type: "request" } & SimulatedRequest)
  /** A batch was created, cancelled by perigee, or has ended. */
  | {
      readonly type: "batch";
      readonly atMs: number;
      readonly provider: string;
      readonly id: string;
      readonly state: "created" | "cancelling" | "ended";
      readonly items: number;
    }
  /** A line of the output is durable. */
  | { readonly type: "line"; readonly atMs: number; readonly line: LibraryLine };

/** One request as its provider saw it. */
export interface SimulatedRequest {
  readonly atMs: number;
  readonly provider: string;
  /** As the provider calls it. */
  readonly model: string;
  readonly lane: "realtime" | "flex" | "batch";
  /** `answered`: with 200; `limited`: 429 for a rate; `shed`: 429 of flex; else a failure. */
  readonly outcome: "answered" | "limited" | "shed" | SimulatedFailure["kind"];
  /** What the provider bills for; 0 where it bills nothing. */
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What a simulation ended with. */
export interface SimulationResult {
  readonly summary: LibrarySummary;
  /** The lines of the output, in its order. */
  readonly lines: readonly LibraryLine[];
  /** Every request, those in batches included, in order: the providers' own books. */
  readonly requests: readonly SimulatedRequest[];
  /** Virtual milliseconds from the start to the end of the run. */
  readonly elapsedMs: number;
  /** What the engine told its operator. */
  readonly notices: readonly string[];
}
