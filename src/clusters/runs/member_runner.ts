/**
 * Runs one member: fills its references in, submits its execution (or those of its elements), and waits for the end.
 *
 *   values read -> submitted (or taken over from an earlier process) -> final -> outcome
 *
 * Fan-out: `concurrency` elements at once, in the order of the list; each is read at its turn and dropped when it is submitted.
 * All are run, also when some fail.
 *
 * Limits: 100,000 elements; a checkpoint after every 64 of them; 16 members of a run read their values at once.
 */

import { PerigeeError } from "../../errors.ts";
import type {
  ExecutionError,
  ExecutionRequest,
  ExecutionStatus,
  Executions,
  ExecutionView,
} from "../../satellites/sdk/execution.ts";
import type { Semaphore } from "../../semaphore.ts";
import type { Json } from "../../work/json.ts";
import { asObject, atMost, fill, type LookUp, ReferenceFault } from "../declaration/fill.ts";
import type { DeclaredMember } from "../declaration/shape.ts";
import { ElementStates } from "./element_states.ts";
import { elementsOf, withElement } from "./elements.ts";
import type { Finishes } from "./finishes.ts";
import type { Elements } from "./line_elements.ts";
import { executionIdOf, type MemberState, type StoredCluster } from "./run_record.ts";
import {
  refusalCode,
  refusalText,
  type Starting,
  startExecution,
  startedExecution,
} from "./start_execution.ts";
import { type RunFacts, VALUE_CHARS_MAX, valuesOf } from "./values.ts";

const ELEMENTS_MAX = 100_000;
const CHECKPOINT_ELEMENTS = 64;

/** How a run is ended before its time. */
export type Ending = "cancelled" | "expired";

export type FinalStatus = Exclude<ExecutionStatus, "pending">;

/** How a member has ended. */
export type MemberOutcome = Omit<MemberState, "finishedWallMs" | "status"> & {
  readonly status: FinalStatus;
};

/** The state of a fan-out meanwhile. */
export type MemberProgress = Pick<MemberState, "retries" | "error"> & {
  readonly fanOut: NonNullable<MemberState["fanOut"]>;
};

/** What members of one run have in common. */
export interface MembersRun {
  readonly cluster: StoredCluster;
  readonly facts: RunFacts;
  /** An earlier process may have submitted some already. */
  readonly isResumed: boolean;
  readonly ending: () => Ending | undefined;
}

/** How one execution has ended. */
interface Ended {
  readonly status: FinalStatus;
  readonly retries: number;
  readonly hasExecution: boolean;
  readonly startedWallMs?: number;
  readonly isCutOff: boolean;
  readonly error: ExecutionError | null;
}

/** One for a run; members run side by side. */
export class MemberRunner {
  readonly #run: MembersRun;
  readonly #starting: Starting;
  readonly #executions: Pick<Executions, "cancel">;
  readonly #finishes: Finishes;
  readonly #places: Semaphore;

  constructor(
    run: MembersRun,
    starting: Starting,
    executions: Pick<Executions, "cancel">,
    finishes: Finishes,
    places: Semaphore,
  ) {
    this.#run = run;
    this.#starting = starting;
    this.#executions = executions;
    this.#finishes = finishes;
    this.#places = places;
  }

  /** Rejects when the process is closing, or the store has failed. */
  async single(member: DeclaredMember): Promise<MemberOutcome> {
    const { facts } = this.#run;
    const { isCutOff, ...ended } = await this.#ended(member, undefined, () =>
      this.#places.run(async () =>
        this.#request(member, await valuesOf(facts, [member.input, member.config]), undefined),
      ),
    );
    return { ...ended, isFailure: ended.status !== "completed", ...(isCutOff ? { isCutOff: true } : {}) };
  }

  /** `stored` is where an earlier process has left it. `checkpoint` resolves when it is durable. */
  async fanOut(
    member: DeclaredMember,
    stored: MemberProgress | undefined,
    checkpoint: (standing: MemberProgress) => Promise<void>,
    changed: (shown: () => MemberProgress) => void,
  ): Promise<MemberOutcome> {
    const { facts } = this.#run;
    const begun = await this.#tried(() =>
      this.#places.run(async () => ({
        elements: await boundedElements(facts, member),
        values: await valuesOf(facts, [member.input, member.config]),
      })),
    );
    if ("status" in begun) {
      const { isCutOff, ...ended } = begun;
      return { ...ended, isFailure: true, ...(isCutOff ? { isCutOff: true } : {}) };
    }
    const fanOut = new FanOut(begun.elements.length, stored, checkpoint, changed);
    await fanOut.begin();
    const { elements, values } = begun;
    const { ending, isResumed } = this.#run;
    const work = async (): Promise<void> => {
      for (;;) {
        // What an earlier process has submitted is found, also when the run is over.
        const index = ending() === undefined || isResumed ? fanOut.next() : undefined;
        if (index === undefined) return;
        const ended = await this.#ended(member, index, async () => {
          const item = await elements.item(index);
          return this.#request(member, withElement(values, item, index), index);
        });
        await fanOut.ended(index, ended);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(member.concurrency, elements.length) }, work));
    } catch (error) {
      fanOut.abandon();
      throw error;
    } finally {
      await elements.close?.();
    }
    return fanOut.outcome(ending());
  }

  /** Submits what `request` makes, or takes it over, and waits for its end. */
  #ended(
    member: DeclaredMember,
    index: number | undefined,
    request: () => Promise<ExecutionRequest & { readonly id: string }>,
  ): Promise<Ended> {
    const { cluster, isResumed, ending } = this.#run;
    const id = executionIdOf(cluster, member.identifier, index);
    return this.#tried(async () => {
      const finished = this.#finishes.wait(id);
      try {
        const known = isResumed ? await startedExecution(this.#starting, id) : undefined;
        const execution = known ?? (await startExecution(this.#starting, await request()));
        if (execution.status !== "pending") return this.#endOf(execution);
        // The run may have ended while it was being submitted.
        if (ending() === "cancelled") await this.#executions.cancel(cluster.project, id);
        return this.#endOf(await finished);
      } finally {
        this.#finishes.forget(id);
      }
    });
  }

  #endOf({ status, retries, error, deadlineWallMs, createdWallMs }: ExecutionView): Ended {
    const { cluster } = this.#run;
    const isCutOff = status === "expired" && deadlineWallMs >= cluster.deadlineWallMs;
    const startedWallMs = createdWallMs;
    return { status: status as FinalStatus, retries, hasExecution: true, startedWallMs, isCutOff, error }; // pending ones are not passed here
  }

  /** References that lead nowhere and refusals are failures of the member; so is the end of the run. */
  async #tried<T>(step: () => Promise<T>): Promise<T | Ended> {
    const none = { retries: 0, hasExecution: false };
    try {
      return await step();
    } catch (error) {
      const ending = this.#run.ending();
      if (ending !== undefined && error === this.#starting.signal.reason)
        return { ...none, ...endedBy(ending) };
      const code = error instanceof ReferenceFault ? "invalid_reference" : refusalCode(error);
      if (code === undefined) throw error;
      const message = error instanceof ReferenceFault ? error.message : refusalText(error);
      return { ...none, status: "failed", isCutOff: false, error: { code, message, retryable: false } };
    }
  }

  #request(
    member: DeclaredMember,
    values: LookUp,
    index: number | undefined,
  ): ExecutionRequest & { readonly id: string } {
    const { cluster } = this.#run;
    const { identifier, satellite } = member;
    const bounded = atMost(VALUE_CHARS_MAX, values);
    const input = fill(member.input, "/input", bounded);
    const config = fill(member.config, "/config", bounded);
    return {
      id: executionIdOf(cluster, identifier, index),
      satellite,
      input: asObject(input.value, "input"),
      config: asObject(config.value, "config"),
      sla: member.sla ?? cluster.sla,
      deadlineWallMs: cluster.deadlineWallMs,
      secretPaths: [...input.secretPaths, ...config.secretPaths],
      member: { clusterId: cluster.id, identifier, ...(index === undefined ? {} : { index }) },
    };
  }
}

/** How a member ends that the end of its run has kept from going on. */
export function endedBy(ending: Ending): Pick<Ended, "status" | "isCutOff" | "error"> {
  const message =
    ending === "cancelled" ? "its cluster was cancelled" : "the sla of its cluster was over first";
  return { status: ending, isCutOff: true, error: { code: ending, message, retryable: true } };
}

async function boundedElements(facts: RunFacts, { each }: DeclaredMember): Promise<Elements> {
  const elements = await elementsOf(facts, each as Json); // only members with `each` are fanned out
  if (elements.length <= ELEMENTS_MAX) return elements;
  throw new ReferenceFault(`each has at most ${ELEMENTS_MAX} elements, got ${elements.length}`);
}

/** The elements of one member: which is next, and how they have ended. */
class FanOut {
  readonly #total: number;
  readonly #isNew: boolean;
  readonly #states: ElementStates;
  readonly #checkpoint: (standing: MemberProgress) => Promise<void>;
  readonly #changed: (shown: () => MemberProgress) => void;
  #next: number;
  #sinceCheckpoint = 0;
  #isCutOff = false;
  /** Of the first that failed. */
  #error: ExecutionError | null;

  constructor(
    total: number,
    stored: MemberProgress | undefined,
    checkpoint: (standing: MemberProgress) => Promise<void>,
    changed: (shown: () => MemberProgress) => void,
  ) {
    if (stored !== undefined && stored.fanOut.total !== total)
      throw new PerigeeError("store_damaged", `a list of ${stored.fanOut.total} elements has ${total} now`);
    this.#total = total;
    this.#isNew = stored === undefined;
    this.#states = new ElementStates(stored?.fanOut ?? ElementStates.empty(total));
    this.#next = stored?.fanOut.endedBelow ?? 0;
    this.#error = stored?.error ?? null;
    this.#checkpoint = checkpoint;
    this.#changed = changed;
  }

  async begin(): Promise<void> {
    if (this.#isNew) await this.#checkpoint(this.#stored());
  }

  /** Undefined when all were taken. */
  next(): number | undefined {
    if (this.#next >= this.#total) return undefined;
    this.#next += 1;
    return this.#next - 1;
  }

  /** Returns no more elements. */
  abandon(): void {
    this.#next = this.#total;
  }

  async ended(index: number, { status, retries, error, isCutOff }: Ended): Promise<void> {
    this.#states.end(index, status, retries);
    this.#isCutOff ||= isCutOff;
    if (error !== null) this.#error ??= { ...error, message: `element ${index}: ${error.message}` };
    this.#changed(() => this.#shown());
    this.#sinceCheckpoint += 1;
    if (this.#sinceCheckpoint < CHECKPOINT_ELEMENTS) return;
    this.#sinceCheckpoint = 0;
    await this.#checkpoint(this.#stored());
  }

  outcome(ending: Ending | undefined): MemberOutcome {
    for (let index = this.next(); index !== undefined; index = this.next()) {
      const { status, error } = endedBy(ending ?? "cancelled");
      this.#states.end(index, status, 0);
      this.#error ??= error;
      this.#isCutOff = true;
    }
    const { fanOut, retries } = this.#shown();
    const { completed, failed, expired } = fanOut.counts;
    const bad = fanOut.total - completed;
    const status = bad === 0 ? "completed" : failed > 0 ? "failed" : expired > 0 ? "expired" : "cancelled";
    return {
      status,
      isFailure: bad > 0,
      ...(this.#isCutOff ? { isCutOff: true } : {}),
      hasExecution: true,
      retries,
      fanOut,
      error: bad === 0 ? null : summary(bad, fanOut.total, this.#error),
    };
  }

  #stored(): MemberProgress {
    const fanOut = this.#states.stored();
    return { fanOut, retries: fanOut.retries, error: this.#error };
  }

  #shown(): MemberProgress {
    const shown = this.#states.shown();
    return { fanOut: { ...shown, endedBelow: this.#total }, retries: shown.retries, error: this.#error };
  }
}

function summary(bad: number, total: number, first: ExecutionError | null): ExecutionError {
  const message = `${bad} of ${total} did not complete; ${first?.code ?? "unknown"}: ${first?.message ?? ""}`;
  return { code: "elements_failed", message, retryable: first?.retryable ?? false };
}
