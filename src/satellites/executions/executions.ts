/**
 * Executions: jobs (`jobs/job_queue.ts`) whose function is a satellite, shown to their projects.
 *
 * What is shown of a pending one is read from memory, of a final one from the store.
 *
 * Hot: `submit` at 1,000 a second, each durable (bench/jobs/executions.ts).
 *
 * Limits: 100,000 pending of a project and 500,000 of all, 256 attempts at once, lists of 1,000 or 8 MiB.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { BottleneckDestinations, type Destinations } from "../../jobs/destinations.ts";
import type { JobEnd } from "../../jobs/job.ts";
import { JobLog, type StoredJob } from "../../jobs/job_log.ts";
import { moveRecordedJobs } from "../../jobs/job_migration.ts";
import { acceptedJob, JobQueue } from "../../jobs/job_queue.ts";
import { WORK_KINDS } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { RecordStore } from "../../store/records.ts";
import type { Files } from "../../tasks/files/files.ts";
import { isId } from "../../tasks/shapes/ids.ts";
import type { Page, PageQuery } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import { newId } from "../../work/new_id.ts";
import type { SatelliteResolver } from "../sdk/catalogue.ts";
import type { ExecutionCaller, ExecutionRequest, Executions, ExecutionView } from "../sdk/execution.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import type { SatelliteReference } from "../sdk/reference.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { Lookups } from "./attempt_prepare.ts";
import type { RunContext, SatelliteLogLine } from "./attempt_run.ts";
import { OtherExecutions } from "./execute_other.ts";
import { type ExecutionFacts, endView, listedUnder, pendingView } from "./execution_record.ts";
import { checkArguments, checkRequest, destinationOf } from "./execution_request.ts";
import { ExecutionSender } from "./execution_sender.ts";
import { RECORDED_EXECUTIONS } from "./recorded_executions.ts";

/** Each with a default. */
export interface ExecutionBounds {
  /** Pending executions of one project. Default 100,000. */
  readonly projectPending: number;
  /** Pending executions of all projects. Default 500,000. */
  readonly pending: number;
  /** Attempts at once. Default 256. */
  readonly places: number;
  /** How long a `run` has to end once it was aborted. Default 5,000. */
  readonly graceMs: number;
  /** How long `close` waits. Default 10,000. */
  readonly closeMs: number;
}

/** What executions use, with their bounds. */
export interface ExecutionsOptions {
  readonly clock: Clock;
  /** Keeps executions. */
  readonly workLog: WorkLog;
  /** Executions of earlier versions are moved from here. */
  readonly store: RecordStore;
  readonly resolver: SatelliteResolver;
  readonly secrets: Pick<Secrets, "reveal">;
  readonly http: GuardedHttp;
  readonly files: Files;
  readonly tasks: Tasks;
  /** Receives what ought not to happen. Its text may hold what a user sent. */
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

/** The executions of a process. */
export interface OpenedExecutions extends Executions {
  /** Begins no further attempt, also of what is submitted from now on; those under way continue. */
  stop(): void;
}

/** Continues what an earlier process has left pending. */
export async function openExecutions(options: ExecutionsOptions): Promise<OpenedExecutions> {
  const { clock, workLog, store, resolver, secrets, http, files, tasks } = options;
  const { log = () => undefined, onFault, destinations = new BottleneckDestinations() } = options;
  const bounds = { ...BOUNDS, ...options.bounds };
  const context = { clock, http, files, tasks, log, graceMs: bounds.graceMs };
  const executions = new StoredExecutions(context, { resolver, secrets }, workLog, destinations, {
    ...bounds,
    onFault,
  });
  await executions.start(store);
  return executions;
}

type FaultListener = ((error: unknown) => void) | undefined;

class StoredExecutions implements OpenedExecutions {
  readonly #clock: Clock;
  readonly #resolver: SatelliteResolver;
  readonly #onFault: FaultListener;
  readonly #sender: ExecutionSender;
  readonly #jobs: JobLog<ExecutionFacts>;
  readonly #queue: JobQueue<ExecutionFacts>;
  readonly #listeners = new Set<(execution: ExecutionView) => void>();
  #closing: Promise<void> | undefined;

  constructor(
    context: RunContext,
    lookups: Lookups,
    workLog: WorkLog,
    destinations: Destinations,
    { onFault, ...bounds }: ExecutionBounds & { readonly onFault: FaultListener },
  ) {
    const { clock } = context;
    this.#clock = clock;
    this.#resolver = lookups.resolver;
    this.#onFault = onFault;
    const { closeMs, places: placesMax, pending: pendingMax, projectPending } = bounds;
    this.#sender = new ExecutionSender(context, lookups, new OtherExecutions(this), {
      ended: (facts, end) => this.#ended(facts, end),
      fault: (error) => this.#fault(error),
    });
    const limits = { placesMax, pendingMax, groupPendingMax: projectPending, closeMs, storesIntents: true };
    this.#jobs = new JobLog(workLog, WORK_KINDS.execution, ({ project, satellite }) =>
      listedUnder(project, satellite),
    );
    this.#queue = new JobQueue({ clock, log: this.#jobs, sender: this.#sender, destinations, limits });
  }

  /** Executions of earlier versions are moved from `store`. */
  async start(store: RecordStore): Promise<void> {
    await moveRecordedJobs(store, this.#jobs, RECORDED_EXECUTIONS);
    await this.#queue.start();
  }

  async submit(caller: ExecutionCaller, request: ExecutionRequest): Promise<ExecutionView> {
    this.#assertOpen();
    const { id = newId(), satellite, sla, member, parent } = request;
    if (!isId(id))
      throw new PerigeeError("usage", "the id of an execution must be a UUID in lower-case letters");
    const resolved = await this.#resolver.resolve(caller, satellite);
    const { given, payload, slaMs } = checkRequest(request, resolved.satellite);
    const checked = await checkArguments(resolved, given);
    if (request.id !== undefined && (await this.#jobs.isTaken(id)))
      throw new PerigeeError("conflict", `another execution has the id ${id}`);
    this.#assertOpen();
    const createdWallMs = this.#clock.wallMs();
    const { project, keyId, isBeta } = caller;
    const facts: ExecutionFacts = {
      id,
      project,
      satellite,
      sla,
      createdWallMs,
      keyId,
      isBeta,
      member,
      parent,
      deadlineWallMs: Math.min(createdWallMs + slaMs, request.deadlineWallMs ?? Number.POSITIVE_INFINITY),
      destination: destinationOf(resolved, project, checked, given),
    };
    const first = checked.isWhole ? this.#sender.first(facts, resolved.satellite, checked.value) : undefined;
    return pendingView(await this.#queue.accept(facts, payload, first));
  }

  async execution(project: string, id: string): Promise<ExecutionView> {
    const pending = this.#queue.find(id);
    if (pending !== undefined && pending.facts.project === project) return pendingView(pending);
    const job = await this.#jobs.find(project, id);
    if (job === undefined) throw notFound(id);
    return this.#view(job);
  }

  async list(
    project: string,
    query: PageQuery & { readonly satellite?: SatelliteReference; readonly isBrief?: boolean },
  ): Promise<Page<ExecutionView>> {
    const { satellite, ...page } = query;
    const parent = satellite === undefined ? undefined : listedUnder(project, satellite);
    const { items, hasMore } = await this.#jobs.list(project, { ...page, parent });
    return { items: items.map((job) => this.#view(job)), hasMore };
  }

  async cancel(project: string, id: string): Promise<ExecutionView> {
    this.#assertOpen();
    const view = await this.execution(project, id);
    if (view.status !== "pending") return view;
    await this.#queue.cancel(id);
    return this.execution(project, id);
  }

  onFinished(listener: (execution: ExecutionView) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  counts(): { readonly queued: number; readonly running: number } {
    return this.#queue.counts;
  }

  stop(): void {
    this.#queue.stop();
  }

  close(): Promise<void> {
    this.#closing ??= this.#queue.close();
    return this.#closing;
  }

  #ended(facts: ExecutionFacts, end: JobEnd): void {
    if (this.#listeners.size === 0) return;
    const view = endView(facts, end);
    for (const listener of this.#listeners) {
      try {
        listener(view);
      } catch (error) {
        this.#fault(error);
      }
    }
  }

  /** A pending one as it is in memory. */
  #view({ facts, end }: StoredJob<ExecutionFacts>): ExecutionView {
    if (end !== undefined) return endView(facts, end);
    return pendingView(this.#queue.find(facts.id) ?? acceptedJob(facts));
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new PerigeeError("closed", "executions are closed");
  }

  #fault(error: unknown): void {
    this.#onFault?.(error);
  }
}

function notFound(id: string): PerigeeError {
  return new PerigeeError("not_found", `no execution ${JSON.stringify(id.slice(0, 64))}`);
}
