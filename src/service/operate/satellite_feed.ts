/**
 * What the operator page shows of satellites: executions and runs of clusters of a project, without their texts.
 *
 * Limits: 20 executions that belong to no cluster, out of the newest 100; 8 clusters, of each at most 200 members. A cluster
 * that is final is read once.
 */
import type { Clusters, ClusterView, MemberView } from "../../clusters/cluster.ts";
import type { Executions, ExecutionView } from "../../satellites/sdk/execution.ts";

const EXECUTIONS_SHOWN = 20;
const EXECUTIONS_READ = 100;
const CLUSTERS_SHOWN = 8;
const MEMBERS_SHOWN = 200;
/** Final clusters kept, of all projects. */
const KEPT_MAX = 256;

/** One for a process; may be called concurrently. */
export class SatelliteFeed {
  readonly #executions: Pick<Executions, "list">;
  readonly #clusters: Pick<Clusters, "list" | "cluster">;
  /** What is shown of final clusters, by id; the oldest entry is dropped first. */
  readonly #final = new Map<string, Record<string, unknown>>();

  constructor(executions: Pick<Executions, "list">, clusters: Pick<Clusters, "list" | "cluster">) {
    this.#executions = executions;
    this.#clusters = clusters;
  }

  /** Rejects as the store does. */
  async snapshot(project: string): Promise<Record<string, unknown>> {
    const [recent, runs] = await Promise.all([
      this.#executions.list(project, { limit: EXECUTIONS_READ, isBrief: true }),
      this.#clusters.list(project, { limit: CLUSTERS_SHOWN }),
    ]);
    const whole: Record<string, unknown>[] = [];
    for (const run of runs.items) whole.push(await this.#withMembers(project, run));
    return {
      executions: recent.items
        .filter(({ member }) => member === undefined)
        .slice(0, EXECUTIONS_SHOWN)
        .map(executionBody),
      clusters: whole,
    };
  }

  async #withMembers(project: string, run: ClusterView): Promise<Record<string, unknown>> {
    const kept = this.#final.get(run.id);
    if (kept !== undefined) return kept;
    const whole = await this.#clusters.cluster(project, run.id);
    const told = clusterBody(whole);
    if (whole.status === "pending") return told;
    this.#final.set(run.id, told);
    const [oldest] = this.#final.keys();
    if (this.#final.size > KEPT_MAX && oldest !== undefined) this.#final.delete(oldest);
    return told;
  }
}

function executionBody(execution: ExecutionView): Record<string, unknown> {
  const { satellite, progress } = execution;
  return {
    execution_id: execution.id,
    namespace: satellite.namespace,
    satellite: satellite.name,
    status: execution.status,
    phase: execution.phase ?? null,
    progress: progress ?? null,
    created_at: execution.createdWallMs,
    updated_at: execution.updatedWallMs,
    deadline_at: execution.deadlineWallMs,
    retries: execution.retries,
    error_code: execution.error?.code ?? null,
  };
}

function clusterBody(cluster: ClusterView): Record<string, unknown> {
  return {
    cluster_id: cluster.id,
    status: cluster.status,
    created_at: cluster.createdWallMs,
    updated_at: cluster.updatedWallMs,
    deadline_at: cluster.deadlineWallMs,
    error_code: cluster.error?.code ?? null,
    members: cluster.members.slice(0, MEMBERS_SHOWN).map(memberBody),
    member_count: cluster.members.length,
  };
}

function memberBody(member: MemberView): Record<string, unknown> {
  return {
    identifier: member.identifier,
    name: member.name,
    uses: member.uses,
    needs: member.needs,
    status: member.status,
    started_at: member.startedWallMs ?? null,
    finished_at: member.finishedWallMs ?? null,
    retries: member.retries,
    counts: member.counts ?? null,
    error_code: member.error?.code ?? null,
  };
}
