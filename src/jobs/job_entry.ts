/**
 * A pending job of this process, as its queue keeps it in memory.
 */
import type { Timer } from "../clock.ts";
import type { JobFacts, JobProgress, PendingJob } from "./job.ts";
import type { RunningAttempt } from "./job_attempt.ts";
import type { Waiting } from "./job_order.ts";

/** A class, so that all of them have one shape: there may be 500,000. */
export class JobEntry<F extends JobFacts> implements Waiting {
  /** Its number in the log; 0 while it is being accepted. */
  task = 0;
  readonly facts: F;
  readonly project: string;
  destination: JobFacts["destination"];
  /** Monotonic; Infinity without a deadline. */
  readonly deadlineMs: number;
  progress: JobProgress;
  phase: PendingJob["phase"] = "queued";
  deadline: Timer | undefined = undefined;
  retry: Timer | undefined = undefined;
  attempt: RunningAttempt | undefined = undefined;
  /** Attempts may have kept some. */
  hasNotes = false;
  /** Once its end is decided: settles when that is durable. */
  ending: Promise<void> | undefined = undefined;

  constructor(facts: F, progress: JobProgress, deadlineMs: number) {
    this.facts = facts;
    this.project = facts.project;
    this.destination = facts.destination;
    this.deadlineMs = deadlineMs;
    this.progress = progress;
  }
}
