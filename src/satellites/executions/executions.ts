/**
 * Executions: jobs (`jobs/job_queue.ts`) whose function is a satellite, shown to their projects.
 *
 * What is shown of a pending one comes from memory, of a final one from the store.
 *
 * Hot: `submit` at 1,000 a second, each durable (bench/executions.ts).
 *
 * Limits: 100,000 pending of a project and 500,000 of all, 256 attempts at once, lists of 1,000 or 8 MiB.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { BottleneckDestinations, type Destinations } from "../../jobs/destinations.ts";
import type { JobEnd, JobProgress, PendingJob } from "../../jobs/job.ts";
import { JobQueue } from "../../jobs/job_queue.ts";
import { JobRecords } from "../../jobs/job_records.ts";
import type { RecordStore } from "../../store/records.ts";
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
import { OtherExecutions } from "./execute_other.ts";
import {
  EXECUTION_FORM,
  EXECUTIONS,
  type ExecutionFacts,
  endView,
  factsView,
  listedUnder,
  recordToView,
  retriesOf,
} from "./execution_record.ts";
import { checkArguments, checkRequest, destinationOf } from "./execution_request.ts";
import { ExecutionSender } from "./execution_sender.ts";

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
const LIST_PAGE = 32;
const LIST_BYTES_MAX = 8 << 20;

/** Goes on with what an earlier process has left pending. */
export async function openExecutions(options: ExecutionsOptions): Promise<Executions> {
  const executions = new StoredExecutions(options);
  await executions.start();
  return executions;
}

class StoredExecutions implements Executions {
  readonly #options: ExecutionsOptions;
  readonly #sender: ExecutionSender;
  readonly #queue: JobQueue<ExecutionFacts>;
  readonly #listeners = new Set<(execution: ExecutionView) => void>();
  #closing: Promise<void> | undefined;

  constructor(options: ExecutionsOptions) {
    this.#options = options;
    const { clock, store, resolver, secrets, http, files, tasks } = options;
    const { log = () => undefined, destinations = new BottleneckDestinations() } = options;
    const bounds = { ...BOUNDS, ...options.bounds };
    const { graceMs, closeMs, places: placesMax, pending: pendingMax, projectPending } = bounds;
    const context = { clock, http, files, tasks, log, graceMs };
    this.#sender = new ExecutionSender(context, { resolver, secrets }, new OtherExecutions(this), {
      ended: (facts, end) => this.#ended(facts, end),
      fault: (error) => this.#fault(error),
    });
    const limits = { placesMax, pendingMax, groupPendingMax: projectPending, closeMs, storesIntents: true };
    const jobs = new JobRecords(store, EXECUTION_FORM);
    this.#queue = new JobQueue({ clock, log: jobs, sender: this.#sender, destinations, limits });
  }

  start(): Promise<void> {
    return this.#queue.start();
  }

  async submit(caller: ExecutionCaller, request: ExecutionRequest): Promise<ExecutionView> {
    this.#assertOpen();
    const { clock, resolver } = this.#options;
    const { id = newId(), satellite, sla, member, parent } = request;
    if (!isId(id)) throw new PerigeeError("usage", "the id of an execution must be a UUID in small letters");
    const resolved = await resolver.resolve(caller, satellite);
    const { given, payload, slaMs } = checkRequest(request, resolved.satellite);
    const checked = await checkArguments(resolved, given);
    this.#assertOpen();
    const createdWallMs = clock.wallMs();
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
    const record = await this.#options.store.record(project, EXECUTIONS.shown, id);
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
        ...{ collection: EXECUTIONS.shown, ...parent, ...place, limit: wanted },
        ...{ isNewestFirst: true, withoutPayloads: isBrief },
      });
      for (const record of records) {
        if (items.length === limit || (bytes > LIST_BYTES_MAX && items.length > 0))
          return { items, hasMore: true };
        const pending = this.#queue.find(record.id);
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

  async #assertListed(project: string, after: string, parent: string | undefined): Promise<void> {
    const record = await this.#options.store.record(project, EXECUTIONS.shown, after);
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

function pendingView({ facts, progress, phase, shown }: PendingJob<ExecutionFacts>): ExecutionView {
  const held = phase === "retrying" ? holdOf(progress) : undefined;
  return {
    ...factsView(facts),
    status: "pending",
    phase,
    ...(shown === undefined ? {} : { progress: shown }),
    ...(held === undefined ? {} : { held }),
    updatedWallMs: progress.updatedWallMs,
    output: null,
    error: null,
    retries: retriesOf(progress.attempts),
  };
}

/** Undefined after an attempt that may have done something. */
function holdOf({ last, updatedWallMs, nextWallMs = updatedWallMs }: JobProgress): ExecutionView["held"] {
  if (last === undefined || last.failure === "ambiguous") return undefined;
  const { failure, code, message, sinceWallMs } = last;
  const refusal = code === "http_429" ? "rate_limited" : "overloaded";
  const reason = failure === "not_sent" ? "outage" : refusal;
  return { reason, code, message, sinceWallMs, nextTryWallMs: nextWallMs };
}

function notFound(id: string): PerigeeError {
  return new PerigeeError("not_found", `no execution ${JSON.stringify(id.slice(0, 64))}`);
}
