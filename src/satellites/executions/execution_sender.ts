/**
 * The function of executions: an attempt calls `run` of the satellite once (`attempt_run.ts`), with the input, config and secrets
 * (`attempt_prepare.ts`).
 */
import { PerigeeError } from "../../errors.ts";
import type { JobEnd, JobSender, JobTexts, Prepared, ReadyJob } from "../../jobs/job.ts";
import { PendingCounts } from "../../jobs/pending_counts.ts";
import type { JsonObject } from "../../work/json.ts";
import type { Satellite, SatelliteArguments } from "../sdk/satellite.ts";
import { type Lookups, type PreparedAttempt, prepareAttempt, preparedAttempt } from "./attempt_prepare.ts";
import { AttemptRun, type RunContext } from "./attempt_run.ts";
import type { OtherExecutions } from "./execute_other.ts";
import { ExecutionNotes } from "./execution_notes.ts";
import { type ExecutionFacts, givenOf } from "./execution_record.ts";

/** As many requests of one project as a provider may have in flight. */
const WAITING = { groupPendingMax: 2_048, pendingMax: 4_096 };

/** The listeners of executions. */
export interface ExecutionListener {
  /** The end is durable. */
  readonly ended: (facts: ExecutionFacts, end: JobEnd) => void;
  readonly fault: (error: unknown) => void;
}

export class ExecutionSender implements JobSender<ExecutionFacts> {
  readonly #context: RunContext;
  readonly #lookups: Lookups;
  readonly #others: OtherExecutions;
  readonly #listener: ExecutionListener;
  /** Attempts that wait without a place. */
  readonly #waiting = new PendingCounts(WAITING);

  constructor(context: RunContext, lookups: Lookups, others: OtherExecutions, listener: ExecutionListener) {
    this.#context = context;
    this.#lookups = lookups;
    this.#others = others;
    this.#listener = listener;
  }

  groupOf({ project }: ExecutionFacts): string {
    return project;
  }

  async prepare(facts: ExecutionFacts, texts: JobTexts): Promise<Prepared> {
    const given = await texts.given();
    if (given === undefined)
      throw new PerigeeError("internal_error", `execution ${facts.id} has nothing to run with`);
    const made = await prepareAttempt(this.#lookups, facts, givenOf(given));
    return made.ok ? this.#ready(facts, made.prepared, await texts.notes()) : made;
  }

  /** The first attempt of an execution whose arguments have passed the schemas and name no secrets. */
  first(
    facts: ExecutionFacts,
    satellite: Satellite,
    given: SatelliteArguments<JsonObject, JsonObject>,
  ): ReadyJob {
    return this.#ready(facts, preparedAttempt(satellite, given, []), undefined);
  }

  ended(facts: ExecutionFacts, end: JobEnd): void {
    this.#listener.ended(facts, end);
  }

  fault(error: unknown): void {
    this.#listener.fault(error);
  }

  #ready(facts: ExecutionFacts, prepared: PreparedAttempt, before: Uint8Array | undefined): ReadyJob {
    return {
      ok: true,
      retries: prepared.retries,
      run: async (attempt) => {
        const notes = new ExecutionNotes(attempt, prepared.redaction, before);
        const execute = (name: string, other: Parameters<OtherExecutions["execute"]>[2]) =>
          this.#others.execute(facts, name, other, {
            signal: attempt.signal,
            onWait: () => attempt.releasePlace(),
          });
        let isWaiting = false;
        const releasePlace = (): void => {
          if (isWaiting || !this.#waiting.hasPlace(facts.project)) return;
          isWaiting = true;
          this.#waiting.count(facts.project, 1);
          attempt.releasePlace();
        };
        const options = { prepared, facts, attempt, notes, execute, releasePlace };
        try {
          return await new AttemptRun(this.#context, options).run();
        } finally {
          if (isWaiting) this.#waiting.count(facts.project, -1);
        }
      },
    };
  }
}
