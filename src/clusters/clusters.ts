/**
 * Runs of clusters of all projects: accepts them, continues those of an earlier process, and shows their state.
 *
 *   opening (what is not final continues) -> open -> closed
 *
 * Limits: 256 KiB of declaration, 1 MiB of input, 500 runs of a project that are not final.
 */
import type { Clock } from "../clock.ts";
import { PerigeeError } from "../errors.ts";
import type { SatelliteResolver } from "../satellites/sdk/catalogue.ts";
import type { ExecutionCaller, Executions } from "../satellites/sdk/execution.ts";
import { EVERY_PROJECT, type RecordStore, type StoredRecord } from "../store/records.ts";
import type { Files } from "../tasks/files/files.ts";
import { isId } from "../tasks/shapes/ids.ts";
import type { Page, PageQuery } from "../tasks/shapes/task_view.ts";
import type { JsonObject } from "../work/json.ts";
import { newId } from "../work/new_id.ts";
import { parseDurationMs } from "../work/sla.ts";
import type { ClusterIssue, ClusterRequest, Clusters, ClusterView } from "./cluster.ts";
import { type CheckedDeclaration, checkDeclaration, readChecked } from "./declaration/check.ts";
import { DECLARATION_BYTES_MAX } from "./declaration/declaration.ts";
import { Announcements } from "./runs/announcements.ts";
import { clusterView, headView, type Shown, withOutputs } from "./runs/cluster_view.ts";
import { ClusterRun } from "./runs/run.ts";
import {
  CLUSTERS,
  MEMBERS,
  type MemberState,
  newClusterChanges,
  OPEN,
  recordToCluster,
  recordToMember,
  recordToSource,
  SOURCES,
  type StoredCluster,
  WAITING,
} from "./runs/run_record.ts";

const INPUT_BYTES_MAX = 1024 * 1024;
const OPEN_RUNS_MAX = 500;
const PAGE = 1_000;

/** What runs use; all of it stays its owner's. */
export interface ClustersOptions {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly executions: Executions;
  readonly resolver: SatelliteResolver;
  /** For `each` over the lines of a file. */
  readonly files: Pick<Files, "read" | "hold">;
  /** Receives faults of perigee. */
  readonly onFault?: (error: unknown) => void;
}

/** Continues every run that is not final. */
export async function openClusters(options: ClustersOptions): Promise<Clusters> {
  const clusters = new ClusterRuns(options);
  await clusters.resume();
  return clusters;
}

class ClusterRuns implements Clusters {
  readonly #options: ClustersOptions;
  readonly #runs = new Map<string, ClusterRun>();
  readonly #announcements: Announcements;
  readonly #stopListening: () => void;
  #isClosed = false;

  constructor(options: ClustersOptions) {
    this.#options = options;
    this.#announcements = new Announcements(options.clock);
    this.#stopListening = options.executions.onFinished((execution) => {
      const { member } = execution;
      if (member !== undefined) this.#runs.get(member.clusterId)?.finished(execution);
    });
  }

  async resume(): Promise<void> {
    const { store } = this.#options;
    for (let after: string | undefined; ; ) {
      const query = { collection: OPEN, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const records = await store.records(EVERY_PROJECT, query);
      for (const { id, project } of records) {
        const stored = await this.#stored(project, id);
        if (stored === undefined) continue;
        const { cluster, checked, states, input } = stored;
        this.#begin(new ClusterRun(this.#partsOf(id), { cluster, checked, input, states, isResumed: true }));
      }
      after = records.at(-1)?.id;
      if (records.length < PAGE) return;
    }
  }

  async check(
    caller: ExecutionCaller,
    declaration: string | JsonObject,
    input?: JsonObject,
  ): Promise<readonly ClusterIssue[]> {
    const { resolver } = this.#options;
    return (await checkDeclaration(declaration, { caller, resolver, input })).issues.list;
  }

  async submit(
    caller: ExecutionCaller,
    { id, declaration, input = {} }: ClusterRequest,
  ): Promise<ClusterView> {
    const { clock, store, resolver } = this.#options;
    this.#assertOpen();
    refuseLarge(declaration, input);
    if (id !== undefined && !isId(id))
      throw new PerigeeError("invalid_request", "an id must be a UUID in lower-case letters");
    const { issues, checked } = await checkDeclaration(declaration, { caller, resolver, input });
    if (checked === undefined) throw invalid(issues.list);
    this.#refuseMany(caller.project);
    const cluster = newCluster(id ?? newId(), caller, checked, clock.wallMs());
    await store.change(newClusterChanges(cluster, { declaration: checked.value, input }));
    this.#assertOpen(); // otherwise the next process begins it
    const run = new ClusterRun(this.#partsOf(cluster.id), {
      cluster,
      checked,
      input,
      states: new Map(),
      isResumed: false,
    });
    this.#begin(run);
    return clusterView(shownOf(run));
  }

  async cluster(project: string, id: string): Promise<ClusterView> {
    const run = this.#runs.get(id);
    if (run !== undefined && run.cluster.project === project)
      return withOutputs(clusterView(shownOf(run)), this.#options.executions);
    const stored = isId(id) && run === undefined ? await this.#stored(project, id) : undefined;
    if (stored === undefined) throw notFound(id);
    return withOutputs(clusterView(stored), this.#options.executions);
  }

  async list(project: string, { after, limit }: PageQuery): Promise<Page<ClusterView>> {
    const { store } = this.#options;
    const reading = store.records(project, {
      collection: CLUSTERS,
      limit: limit + 1,
      isNewestFirst: true,
      ...(after === undefined ? {} : { after }),
    });
    // In one turn: nothing is listed behind a record that is removed in between.
    const last = after === undefined ? undefined : store.record(project, CLUSTERS, after);
    const [records, found] = await Promise.all([reading, last]);
    if (after !== undefined && found === undefined) throw notFound(after);
    return {
      items: records.slice(0, limit).map((record) => headView(this.#newest(record))),
      hasMore: records.length > limit,
    };
  }

  async cancel(project: string, id: string): Promise<ClusterView> {
    const run = this.#runs.get(id);
    if (run !== undefined && run.cluster.project === project) await run.cancel();
    this.#assertOpen();
    return this.cluster(project, id);
  }

  onChanged(listener: (cluster: ClusterView) => void): () => void {
    return this.#announcements.listen(listener);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopListening();
    this.#announcements.close();
    for (const run of this.#runs.values()) run.close();
    this.#runs.clear();
  }

  #begin(run: ClusterRun): void {
    const { id } = run.cluster;
    this.#runs.set(id, run);
    void run.ended.then(() => {
      if (this.#isClosed) return;
      this.#announcements.tellNow(id, () => clusterView(shownOf(run)));
      this.#runs.delete(id);
    });
    run.start();
  }

  #partsOf(id: string): ConstructorParameters<typeof ClusterRun>[0] {
    const { onFault = () => undefined, ...parts } = this.#options;
    return {
      ...parts,
      onFault,
      onChanged: () =>
        this.#announcements.tell(id, () => {
          const run = this.#runs.get(id);
          return run === undefined ? undefined : clusterView(shownOf(run));
        }),
    };
  }

  /** Of a run at work its head is newer than the record. */
  #newest(record: StoredRecord): StoredCluster {
    return this.#runs.get(record.id)?.cluster ?? recordToCluster(record);
  }

  async #stored(project: string, id: string): Promise<StoredRun | undefined> {
    const { store } = this.#options;
    const head = await store.record(project, CLUSTERS, id);
    const source = await store.record(project, SOURCES, id);
    const read = source === undefined ? undefined : recordToSource(source);
    const checked = read === undefined ? undefined : readChecked(read.declaration);
    if (head === undefined || read === undefined || checked === undefined) return undefined;
    const members = await store.records(project, { collection: MEMBERS, parent: id, limit: PAGE });
    const states = new Map(members.map(recordToMember));
    const stateOf = (identifier: string): MemberState => states.get(identifier) ?? WAITING;
    return { cluster: recordToCluster(head), checked, states, stateOf, input: read.input };
  }

  #refuseMany(project: string): void {
    const open = [...this.#runs.values()].filter(({ cluster }) => cluster.project === project);
    if (open.length >= OPEN_RUNS_MAX)
      throw new PerigeeError(
        "too_many",
        `at most ${OPEN_RUNS_MAX} clusters of a project are at work at once`,
        {
          details: { retryAfterSeconds: 30 },
        },
      );
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new PerigeeError("closed", "the clusters are closed");
  }
}

/** A run as it was read back. */
interface StoredRun extends Shown {
  readonly states: ReadonlyMap<string, MemberState>;
  readonly input: JsonObject;
}

function shownOf(run: ClusterRun): Shown {
  return { cluster: run.cluster, checked: run.checked, stateOf: (identifier) => run.state(identifier) };
}

function newCluster(
  id: string,
  caller: ExecutionCaller,
  { declaration: { sla, name } }: CheckedDeclaration,
  wallMs: number,
): StoredCluster {
  return {
    id,
    project: caller.project,
    createdWallMs: wallMs,
    updatedWallMs: wallMs,
    deadlineWallMs: wallMs + (parseDurationMs(sla) ?? 0), // checked with the declaration
    sla,
    status: "pending",
    caller,
    name: name ?? null,
    error: null,
  };
}

function refuseLarge(declaration: string | JsonObject, input: JsonObject): void {
  if (typeof declaration === "string" && Buffer.byteLength(declaration) > DECLARATION_BYTES_MAX)
    throw new PerigeeError("too_large", `a declaration has at most ${DECLARATION_BYTES_MAX} bytes`);
  if (Buffer.byteLength(JSON.stringify(input)) > INPUT_BYTES_MAX)
    throw new PerigeeError("too_large", `the input of a cluster has at most ${INPUT_BYTES_MAX} bytes`);
}

function invalid(issues: readonly ClusterIssue[]): PerigeeError {
  const [first] = issues;
  const place = first?.line === undefined ? "" : `line ${first.line}, column ${first.column}: `;
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  return new PerigeeError("invalid_request", `${place}${first?.path}: ${first?.message}${more}`, {
    details: { issues, param: first?.path ?? "declaration" },
  });
}

function notFound(id: string): PerigeeError {
  return new PerigeeError("not_found", `no cluster ${JSON.stringify(id.slice(0, 64))}`);
}
