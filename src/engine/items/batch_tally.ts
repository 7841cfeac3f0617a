/**
 * What this process did with batches, in sums by provider: for metrics. Providers are configured and outcomes are words of the code, so
 * the sums are few.
 */
import type { BatchEnd, BatchFailure } from "../../providers/batches/batch_wire.ts";

/** What a poll showed: a batch that is at work or has ended, or why there was no answer. */
export type PollOutcome = "running" | "ended" | BatchFailure["is"];
/** How a submission ended: as its batch did, without a batch, or with one that nobody waits for any more. */
export type SubmissionEnd = BatchEnd | "not_created" | "gone" | "rescued" | "lost";

/** One for an engine. */
export class BatchTally {
  /** By `<provider> <outcome>`. */
  readonly polls: Map<string, number> = new Map<string, number>();
  /** By `<provider> <end>`. A submission whose batch failed is made again, and counts again. */
  readonly ends: Map<string, number> = new Map<string, number>();
  /** Results that were read, by provider; those that were read again after a crash count twice. */
  readonly results: Map<string, number> = new Map<string, number>();

  polled(provider: string, outcome: PollOutcome): void {
    add(this.polls, `${provider} ${outcome}`, 1);
  }

  ended(provider: string, end: SubmissionEnd): void {
    add(this.ends, `${provider} ${end}`, 1);
  }

  collected(provider: string, results: number): void {
    add(this.results, provider, results);
  }
}

function add(sums: Map<string, number>, key: string, count: number): void {
  sums.set(key, (sums.get(key) ?? 0) + count);
}
