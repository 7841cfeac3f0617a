/**
 * Executions: accepted durably, run by `execution_runner.ts`, shown to their projects.
 *
 *   (none) -> pending -> completed     `run` gave an output
 *                     -> failed        an attempt failed for good, none was left, or one was ambiguous and may not be repeated
 *                     -> cancelled     asked for
 *                     -> expired       its sla was over first
 *
 * A pending one is queued, running or retrying; states only move forward, and the first end is the end. What is shown of a
 * pending one comes from memory, of a final one from the store.
 *
 * Hot: `submit` at 1,000 a second, each durable (bench/executions.ts).
 *
 * Limits: 100,000 pending of a project and 500,000 of all, 256 attempts at once, lists of 1,000 or 8 MiB.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { EVERY_PROJECT, type RecordStore, type StoredRecord } from "../../store/records.ts";
import type { Files } from "../../tasks/files.ts";
import { isId } from "../../tasks/ids.ts";
import type { Page, PageQuery } from "../../tasks/task_view.ts";
import type { Tasks } from "../../tasks/tasks.ts";
import { newId } from "../../work/new_id.ts";
import type { SatelliteResolver } from "../sdk/catalogue.ts";
import type { ExecutionCaller, ExecutionRequest, Executions, ExecutionView } from "../sdk/execution.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import type { SatelliteReference } from "../sdk/reference.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { SatelliteLogLine } from "./attempt_run.ts";
import { BottleneckDestinations, type Destinations } from "./destinations.ts";
import { OtherExecutions } from "./execute_other.ts";
import {
  EXECUTIONS,
  type ExecutionEnd,
  type ExecutionFacts,
  type ExecutionProgress,
  executionInserts,
  listedUnder,
  OPEN_EXECUTIONS,
  recordToOpen,
  recordToView,
} from "./execution_record.ts";
import { checkArguments, checkRequest, destinationOf } from "./execution_request.ts";
import { ExecutionRunner, type PendingExecution } from "./execution_runner.ts";
import { PendingCounts } from "./pending_counts.ts";

/** Each with a default. */
export interface ExecutionBounds {
  /** Pending executions of one project. Default 100,000. */
  readonly projectPending: number;
  /** Pending executions of all projects. Default 500,000. */
  readonly pending: number;
  /** Attempts at once. Default 256. */
  readonly places: number;
  /** How long a `run` has to end once it was told to. Default 5,000. */
  readonly graceMs: number;
  /** How long `close` waits. Default 10,000. */
  readonly closeMs: number;
}

/** What executions stand on, with their bounds. */
export interface ExecutionsOptions {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly resolver: SatelliteResolver;
  readonly secrets: Pick<Secrets, "reveal">;
  readonly http: GuardedHttp;
  readonly files: Files;
  readonly tasks: Tasks;
  /** Told of what ought not to happen. Its text may hold what a user sent. */
  readonly onFault?: ((error: unknown) => void) | undefined;
  /** Lines of satellites, without secrets. Default: nowhere. */
  readonly log?: ((line: SatelliteLogLine) => void) | undefined;
  readonly bounds?: Partial<ExecutionBounds> | undefined;
  /** Default: by bottleneck. */
  readonly destinations?: Destinations | undefined;
}

const BOUNDS: ExecutionBounds = {
  projectPending: 100_000,
  pending: 500_000,
  places: 256,
  graceMs: 5_000,
  closeMs: 10_000,
};
const OPEN_PAGE = 1_000;
const LIST_PAGE = 32;
const LIST_BYTES_MAX = 8 << 20;

const NOT_BEGUN: Omit<ExecutionProgress, "updatedWallMs"> = {
  attempts: 0,
  ambiguousAttempts: 0,
  isUnderWay: false,
  isRepeatable: false,
};

/** Goes on with what an earlier process has left pending. */
export async function openExecutions(options: ExecutionsOptions): Promise<Executions> {
  const executions = new StoredExecutions(options);
  await executions.start();
  return executions;
}

class StoredExecutions implements Executions {
  readonly #options: ExecutionsOptions;
  readonly #runner: ExecutionRunner;
  readonly #pending: PendingCounts;
  readonly #listeners = new Set<(execution: ExecutionView) => void>();
  #closing: Promise<void> | undefined;

  constructor(options: ExecutionsOptions) {
    this.#options = options;
    const bounds = { ...BOUNDS, ...options.bounds };
    this.#pending = new PendingCounts(bounds);
    const others = new OtherExecutions(this);
    this.#runner = new ExecutionRunner({
      ...options,
      execute: (facts, name, other, given) => others.execute(facts, name, other, given),
      destinations: options.destinations ?? new BottleneckDestinations(),
      placesMax: bounds.places,
      graceMs: bounds.graceMs,
      closeMs: bounds.closeMs,
      log: options.log ?? (() => undefined),
      onFault: (error) => this.#fault(error),
      onEnded: (facts, end) => this.#ended(facts, end),
    });
  }

  /** Reads them all first: what ends meanwhile is no place to read on from. */
  async start(): Promise<void> {
    const open: StoredRecord[] = [];
    for (let isWhole = false; !isWhole; ) {
      const last = open.at(-1);
      const place = last === undefined ? {} : { after: last.id };
      const query = { collection: OPEN_EXECUTIONS, limit: OPEN_PAGE, ...place };
      const records = await this.#options.store.records(EVERY_PROJECT, query);
      open.push(...records);
      isWhole = records.length < OPEN_PAGE;
    }
    for (const { facts, progress } of open.map(recordToOpen)) {
      this.#pending.count(facts.project, 1);
      this.#runner.add(facts, progress);
    }
  }

  async submit(caller: ExecutionCaller, request: ExecutionRequest): Promise<ExecutionView> {
    this.#assertOpen();
    const { store, clock, resolver } = this.#options;
    const { id = newId(), satellite, sla, member, parent } = request;
    if (!isId(id)) throw new PerigeeError("usage", "the id of an execution must be a UUID in small letters");
    const resolved = await resolver.resolve(caller, satellite);
    const { given, payload, slaMs } = checkRequest(request, resolved.satellite);
    const checked = await checkArguments(resolved, given);
    this.#assertOpen();
    const createdWallMs = clock.wallMs();
    const { project, keyId, isBeta } = caller;
    const facts: ExecutionFacts = {
      ...{ id, project, satellite, sla, createdWallMs, keyId, isBeta, member, parent },
      deadlineWallMs: Math.min(createdWallMs + slaMs, request.deadlineWallMs ?? Number.POSITIVE_INFINITY),
      destination: destinationOf(resolved, project, checked, given),
    };
    const progress = { ...NOT_BEGUN, updatedWallMs: createdWallMs };
    this.#pending.reserve(project);
    try {
      await store.change(executionInserts(facts, progress, payload));
    } catch (error) {
      this.#pending.count(project, -1);
      throw error;
    }
    const view = pendingView({ facts, progress, phase: "queued", shown: undefined });
    if (this.#closing === undefined) this.#runner.add(facts, progress);
    return view;
  }

  async execution(project: string, id: string): Promise<ExecutionView> {
    const pending = this.#runner.find(id);
    if (pending !== undefined && pending.facts.project === project) return pendingView(pending);
    const record = await this.#options.store.record(project, EXECUTIONS, id);
    if (record === undefined) throw notFound(id);
    return recordToView(record);
  }

  async list(
    project: string,
    query: PageQuery & { readonly satellite?: SatelliteReference; readonly isBrief?: boolean },
  ): Promise<Page<ExecutionView>> {
    const { after, limit, satellite, isBrief = false } = query;
    const parent = satellite === undefined ? {} : { parent: listedUnder(project, satellite) };
    if (after !== undefined) await this.#assertListed(project, after, parent.parent);
    const items: ExecutionView[] = [];
    let bytes = 0;
    for (let last = after; ; last = items.at(-1)?.id) {
      const wanted = Math.min(LIST_PAGE, limit + 1 - items.length);
      const place = last === undefined ? {} : { after: last };
      const records = await this.#options.store.records(project, {
        ...{ collection: EXECUTIONS, ...parent, ...place, limit: wanted },
        ...{ isNewestFirst: true, withoutPayloads: isBrief },
      });
      for (const record of records) {
        if (items.length === limit || (bytes > LIST_BYTES_MAX && items.length > 0))
          return { items, hasMore: true };
        const pending = this.#runner.find(record.id);
        items.push(pending === undefined ? recordToView(record) : pendingView(pending));
        bytes += pending === undefined ? (record.payload?.byteLength ?? 0) : 0;
      }
      if (records.length < wanted) return { items, hasMore: false };
    }
  }

  async cancel(project: string, id: string): Promise<ExecutionView> {
    this.#assertOpen();
    const view = await this.execution(project, id);
    if (view.status !== "pending") return view;
    await this.#runner.cancel(id);
    return this.execution(project, id);
  }

  onFinished(listener: (execution: ExecutionView) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  counts(): { readonly queued: number; readonly running: number } {
    const { running } = this.#runner;
    return { queued: Math.max(0, this.#pending.all - running), running };
  }

  close(): Promise<void> {
    this.#closing ??= this.#runner.close();
    return this.#closing;
  }

  #ended(facts: ExecutionFacts, { wallMs, ...end }: ExecutionEnd): void {
    this.#pending.count(facts.project, -1);
    const view: ExecutionView = { ...factsView(facts), ...end, updatedWallMs: wallMs };
    for (const listener of this.#listeners) {
      try {
        listener(view);
      } catch (error) {
        this.#fault(error);
      }
    }
  }

  async #assertListed(project: string, after: string, parent: string | undefined): Promise<void> {
    const record = await this.#options.store.record(project, EXECUTIONS, after);
    if (record === undefined || (parent !== undefined && record.parent !== parent))
      throw new PerigeeError("not_found", "no such execution", { details: { param: "after" } });
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new PerigeeError("closed", "executions are closed");
  }

  #fault(error: unknown): void {
    this.#options.onFault?.(error);
  }
}

function pendingView({ facts, progress, phase, shown }: PendingExecution): ExecutionView {
  const { held, nextWallMs: nextTryWallMs = progress.updatedWallMs } = progress;
  return {
    ...factsView(facts),
    status: "pending",
    phase,
    ...(shown === undefined ? {} : { progress: shown }),
    ...(held === undefined || phase !== "retrying" ? {} : { held: { ...held, nextTryWallMs } }),
    updatedWallMs: progress.updatedWallMs,
    output: null,
    error: null,
    retries: Math.max(0, progress.attempts - 1),
  };
}

function factsView({
  id,
  project,
  satellite,
  sla,
  createdWallMs,
  deadlineWallMs,
  member,
}: ExecutionFacts): Pick<
  ExecutionView,
  "id" | "project" | "satellite" | "sla" | "createdWallMs" | "deadlineWallMs" | "member"
> {
  const place = member === undefined ? {} : { member };
  return { id, project, satellite, sla, createdWallMs, deadlineWallMs, ...place };
}

function notFound(id: string): PerigeeError {
  return new PerigeeError("not_found", `no execution ${JSON.stringify(id.slice(0, 64))}`);
}
