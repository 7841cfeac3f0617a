/**
 * One run of a cluster in this process: starts members as soon as what they wait for has ended, until all have ended.
 *
 *   member   waiting -> pending -> completed | failed | cancelled | expired
 *                    -> skipped          its `if` said no, or what it needs has no output
 *                    -> cancelled | expired     the run was ended first
 *   run      pending -> its end, when every member has ended
 *
 * A member's end is durable before those that wait for it begin, so the run continues after a crash between any two steps: what has
 * ended is known, and what was submitted has an id that is derived again.
 *
 * `if: success` (the default) needs all that it waits for completed; `failure` needs one of them failed, expired, cancelled, or skipped
 * because of one of these; `always` needs them ended.
 */

import type { Clock, Timer } from "../../clock.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import type {
  ExecutionError,
  ExecutionStatus,
  Executions,
  ExecutionView,
} from "../../satellites/sdk/execution.ts";
import { Semaphore } from "../../semaphore.ts";
import type { RecordChange, RecordStore } from "../../store/records.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { JsonObject } from "../../work/json.ts";
import type { CheckedDeclaration } from "../declaration/check.ts";
import type { DeclaredMember } from "../declaration/shape.ts";
import { Finishes } from "./finishes.ts";
import {
  type Ending,
  endedBy,
  type MemberOutcome,
  type MemberProgress,
  MemberRunner,
} from "./member_runner.ts";
import {
  clusterToRecord,
  type MemberState,
  memberToRecord,
  OPEN,
  type StoredCluster,
  WAITING,
} from "./run_record.ts";

/** After a disk without space. */
const AGAIN_MS = 5_000;
/** Members of a run that read their values at once. */
const READING_MAX = 16;

/** What all runs of a process share. */
export interface ClusterRunOptions {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly executions: Executions;
  readonly files: Pick<Files, "read" | "hold">;
  /** Called when something shown has changed. */
  readonly onChanged: () => void;
  /** Receives faults of perigee; the next process continues the run. */
  readonly onFault: (error: unknown) => void;
}

/** Where a run begins, or continues. */
export interface RunStart {
  readonly cluster: StoredCluster;
  readonly checked: CheckedDeclaration;
  readonly input: JsonObject;
  /** By identifier, as stored; empty for a new one. */
  readonly states: ReadonlyMap<string, MemberState>;
  readonly isResumed: boolean;
}

/** At most one for a run in all processes: the store's owner sees to that. */
export class ClusterRun {
  readonly checked: CheckedDeclaration;
  /** Resolves when the end is durable, or the process closes. */
  readonly ended: Promise<void>;
  readonly #options: ClusterRunOptions;
  #cluster: StoredCluster;
  readonly #runner: MemberRunner;
  readonly #finishes = new Finishes();
  readonly #stopping = new AbortController();
  readonly #states = new Map<string, MemberState>();
  /** Of fan-outs at work, by identifier. */
  readonly #standings = new Map<string, () => MemberProgress>();
  /** Who waits for a member. */
  readonly #dependants = new Map<string, string[]>();
  /** How many that it waits for have not ended, by identifier of waiting members. */
  readonly #missing = new Map<string, number>();
  readonly #members: ReadonlyMap<string, DeclaredMember>;
  #unended: number;
  #ending: Ending | undefined;
  #isClosed = false;
  #deadline: Timer | undefined;
  #resolveEnded: () => void = () => undefined;

  constructor(options: ClusterRunOptions, { cluster, checked, input, states, isResumed }: RunStart) {
    this.#options = options;
    this.#cluster = cluster;
    this.checked = checked;
    const { members } = checked.declaration;
    this.#members = new Map(members.map((member) => [member.identifier, member]));
    for (const { identifier } of members) this.#states.set(identifier, states.get(identifier) ?? WAITING);
    this.#unended = members.filter(({ identifier }) => !isEnded(this.state(identifier))).length;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    const { clock, executions, files } = options;
    const facts = {
      ...{ cluster, input, executions, files },
      stateOf: (identifier: string) => this.state(identifier),
    };
    this.#runner = new MemberRunner(
      { cluster, facts, isResumed, ending: () => this.#ending },
      { clock, executions, caller: cluster.caller, signal: this.#stopping.signal },
      executions,
      this.#finishes,
      new Semaphore(READING_MAX),
    );
  }

  get cluster(): StoredCluster {
    return this.#cluster;
  }

  /** Its state now; of a fan-out with its counts so far. */
  state(identifier: string): MemberState {
    const state = this.#states.get(identifier) ?? WAITING;
    const standing = this.#standings.get(identifier);
    return standing === undefined ? state : { ...state, ...standing(), error: null };
  }

  start(): void {
    const { clock } = this.#options;
    for (const { identifier } of this.#members.values()) this.#join(identifier);
    const delayMs = this.#cluster.deadlineWallMs - clock.wallMs();
    if (this.#cluster.cancelledWallMs !== undefined) this.#stop("cancelled");
    else if (delayMs <= 0) this.#stop("expired");
    else this.#deadline = clock.timer(delayMs, () => this.#end("expired"), { keepsAlive: false });
    // Also of a run that is over: what an earlier process has submitted is found, and ends as it does.
    for (const [identifier, state] of this.#states)
      if (state.status === "pending") this.#begin(identifier, state);
    for (const [identifier, missing] of [...this.#missing]) if (missing === 0) this.#decide(identifier);
    if (this.#ending !== undefined) this.#cutOff(this.#ending);
    if (this.#unended === 0) void this.#guard(() => this.#finish());
  }

  /** From `Executions.onFinished`. */
  finished(execution: ExecutionView): void {
    this.#finishes.tell(execution);
  }

  /** Resolves when every member has ended, durably. */
  async cancel(): Promise<void> {
    if (this.#cluster.cancelledWallMs === undefined) {
      const cancelledWallMs = this.#options.clock.wallMs();
      this.#cluster = { ...this.#cluster, cancelledWallMs, updatedWallMs: cancelledWallMs };
      await this.#put([{ kind: "put", record: clusterToRecord(this.#cluster) }]);
      this.#end("cancelled");
    }
    const { project } = this.#cluster;
    await Promise.all(
      this.#finishes.ids.map((id) => this.#options.executions.cancel(project, id).catch(ignoreNotFound)),
    );
    await this.ended;
  }

  /** Releases everything; the next process continues. */
  close(): void {
    this.#isClosed = true;
    const closed = new PerigeeError("closed", "the process is closing");
    this.#deadline?.cancel();
    this.#stopping.abort(closed);
    this.#finishes.fail(closed);
    this.#resolveEnded();
  }

  /** Takes a member's place among those that wait. */
  #join(identifier: string): void {
    const needs = this.checked.needs.get(identifier) ?? [];
    if (this.state(identifier).status !== "waiting") return;
    for (const name of needs) {
      const dependants = this.#dependants.get(name) ?? [];
      dependants.push(identifier);
      this.#dependants.set(name, dependants);
    }
    this.#missing.set(identifier, needs.filter((name) => !isEnded(this.state(name))).length);
  }

  /** All that it waits for has ended. */
  #decide(identifier: string): void {
    if (!this.#missing.delete(identifier)) return;
    const { condition } = this.#member(identifier);
    const needed = (this.checked.needs.get(identifier) ?? []).map((name) => this.state(name));
    const hasFailure = needed.some(({ isFailure }) => isFailure);
    const isRun =
      condition === "always" ||
      (condition === "failure" ? hasFailure : needed.every(({ status }) => status === "completed"));
    if (isRun) this.#begin(identifier, WAITING);
    else {
      const state: MemberState = {
        ...WAITING,
        status: "skipped",
        isFailure: condition === "success" && hasFailure,
      };
      void this.#guard(() => this.#settle([[identifier, state]]));
    }
  }

  #begin(identifier: string, before: MemberState): void {
    const member = this.#member(identifier);
    const startedWallMs = before.startedWallMs ?? this.#options.clock.wallMs();
    this.#states.set(identifier, {
      ...before,
      status: "pending",
      hasExecution: member.each === undefined,
      startedWallMs,
    });
    this.#options.onChanged();
    void this.#guard(async () => {
      const outcome =
        member.each === undefined
          ? await this.#runner.single(member)
          : await this.#fanOut(member, before, startedWallMs);
      await this.#settle([[identifier, this.#endState(outcome, startedWallMs)]]);
    });
  }

  async #fanOut(member: DeclaredMember, before: MemberState, startedWallMs: number): Promise<MemberOutcome> {
    const { identifier } = member;
    const { fanOut, retries, error } = before;
    const checkpoint = (standing: MemberProgress): Promise<void> => {
      const state: MemberState = {
        ...before,
        status: "pending",
        hasExecution: true,
        startedWallMs,
        ...standing,
      };
      return this.#put([{ kind: "put", record: memberToRecord(this.#cluster, identifier, state) }]);
    };
    const changed = (shown: () => MemberProgress): void => {
      this.#standings.set(identifier, shown);
      this.#options.onChanged();
    };
    return this.#runner.fanOut(
      member,
      fanOut === undefined ? undefined : { fanOut, retries, error },
      checkpoint,
      changed,
    );
  }

  #endState(outcome: MemberOutcome, startedWallMs: number): MemberState {
    return {
      startedWallMs,
      ...outcome,
      finishedWallMs: Math.max(startedWallMs, this.#options.clock.wallMs()),
    };
  }

  /** Makes ends durable, then lets those go on that waited for them. */
  async #settle(ends: readonly (readonly [string, MemberState])[]): Promise<void> {
    await this.#put(
      ends.map(([identifier, state]) => ({
        kind: "put",
        record: memberToRecord(this.#cluster, identifier, state),
      })),
    );
    for (const [identifier, state] of ends) {
      this.#standings.delete(identifier);
      this.#states.set(identifier, state);
    }
    this.#unended -= ends.length;
    this.#options.onChanged();
    for (const [identifier] of ends) this.#release(identifier);
    if (this.#unended === 0) await this.#finish();
  }

  #release(identifier: string): void {
    for (const name of this.#dependants.get(identifier) ?? []) {
      const missing = this.#missing.get(name);
      if (missing === undefined) continue;
      this.#missing.set(name, missing - 1);
      if (missing === 1) this.#decide(name);
    }
  }

  /** Nothing begins any more. What waits ends now; what was submitted is cancelled by the caller, or expires by itself. */
  #end(ending: Ending): void {
    if (this.#stopping.signal.aborted) return;
    this.#stop(ending);
    this.#cutOff(ending);
  }

  #stop(ending: Ending): void {
    this.#ending = ending;
    this.#deadline?.cancel();
    this.#stopping.abort(new PerigeeError("interrupted", `the cluster is ${ending}`));
  }

  #cutOff(ending: Ending): void {
    const waiting = [...this.#missing.keys()];
    this.#missing.clear();
    if (waiting.length === 0) return;
    const { status, error } = endedBy(ending);
    const state: MemberState = { ...WAITING, status, isFailure: true, isCutOff: true, error };
    void this.#guard(() => this.#settle(waiting.map((identifier) => [identifier, state])));
  }

  async #finish(): Promise<void> {
    this.#deadline?.cancel();
    const { status, error } = this.#verdict();
    this.#cluster = { ...this.#cluster, status, error, updatedWallMs: this.#options.clock.wallMs() };
    await this.#put([
      { kind: "put", record: clusterToRecord(this.#cluster) },
      { kind: "delete", collection: OPEN, id: this.#cluster.id },
    ]);
    this.#options.onChanged();
    this.#resolveEnded();
  }

  #verdict(): { readonly status: ExecutionStatus; readonly error: ExecutionError | null } {
    const ends = [...this.#states].map(([identifier, state]) => ({ identifier, ...state }));
    const isCancelled =
      this.#cluster.cancelledWallMs !== undefined && ends.some(({ status }) => status === "cancelled");
    if (isCancelled)
      return { status: "cancelled", error: { code: "cancelled", message: "cancelled", retryable: true } };
    if (ends.some(({ status, isCutOff }) => status === "expired" && isCutOff === true))
      return {
        status: "expired",
        error: { code: "expired", message: "its sla was over first", retryable: true },
      };
    const first = ends.find(({ status, isFailure }) => isFailure && status !== "skipped");
    if (first === undefined) return { status: "completed", error: null };
    const { identifier, status, error } = first;
    const message = `${identifier} ${status}: ${error?.message ?? status}`;
    return {
      status: "failed",
      error: { code: error?.code ?? status, message, retryable: error?.retryable ?? false },
    };
  }

  async #put(changes: readonly RecordChange[]): Promise<void> {
    const { store, clock } = this.#options;
    for (;;) {
      if (this.#isClosed) throw new PerigeeError("closed", "the process is closing");
      try {
        await store.change(changes);
        return;
      } catch (error) {
        if (!hasCode(error, "disk_full")) throw error;
        await clock.sleep(AGAIN_MS);
      }
    }
  }

  /** Faults leave the run as it is stored: the next process continues. */
  async #guard(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (!this.#isClosed && !hasCode(error, "closed")) this.#options.onFault(error);
    }
  }

  #member(identifier: string): DeclaredMember {
    return this.#members.get(identifier) as DeclaredMember; // identifiers are those of the members themselves
  }
}

function isEnded({ status }: MemberState): boolean {
  return status !== "waiting" && status !== "pending";
}

function ignoreNotFound(error: unknown): void {
  if (!(error instanceof PerigeeError) || error.code !== "not_found") throw error;
}
