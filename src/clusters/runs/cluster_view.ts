/**
 * Runs as they are shown: heads, members, and outputs that are small enough to be shown.
 *
 * Limits: 4 MiB of outputs in one view, 100 elements of a fan-out; beyond that an output is null, and its execution has it.
 */
import { ifFound } from "../../errors.ts";
import type { Executions, ExecutionView } from "../../satellites/sdk/execution.ts";
import type { Json } from "../../work/json.ts";
import type { ClusterView, MemberView } from "../cluster.ts";
import type { CheckedDeclaration } from "../declaration/check.ts";
import type { DeclaredMember } from "../declaration/shape.ts";
import { executionIdOf, type MemberState, type StoredCluster } from "./run_record.ts";

const OUTPUT_CHARS_MAX = 4 * 1024 * 1024;
const ELEMENTS_SHOWN_MAX = 100;

/** What a run is shown from, whether it is at work or read from the store. */
export interface Shown {
  readonly cluster: StoredCluster;
  readonly checked: CheckedDeclaration;
  readonly stateOf: (identifier: string) => MemberState;
}

/** Without members. */
export function headView(cluster: StoredCluster): ClusterView {
  const { id, project, status, sla, createdWallMs, updatedWallMs, deadlineWallMs, name, error } = cluster;
  return {
    id,
    project,
    ...(name === null ? {} : { name }),
    status,
    sla,
    createdWallMs,
    updatedWallMs,
    deadlineWallMs,
    members: [],
    error,
  };
}

/** With members; their outputs are null. */
export function clusterView({ cluster, checked, stateOf }: Shown): ClusterView {
  const { members } = checked.declaration;
  const states = members.map(({ identifier }) => stateOf(identifier));
  const times = states.map(({ startedWallMs = 0, finishedWallMs = 0 }) =>
    Math.max(startedWallMs, finishedWallMs),
  );
  return {
    ...headView(cluster),
    updatedWallMs: Math.max(cluster.updatedWallMs, ...times),
    members: members.map((member, index) =>
      memberView(cluster, member, states[index] as MemberState, checked.needs.get(member.identifier) ?? []),
    ),
  };
}

function memberView(
  cluster: StoredCluster,
  { identifier, name, uses, each }: DeclaredMember,
  state: MemberState,
  needs: readonly string[],
): MemberView {
  const { status, startedWallMs, finishedWallMs, retries, fanOut, error, hasExecution } = state;
  return {
    identifier,
    name,
    uses,
    needs,
    status,
    ...(startedWallMs === undefined ? {} : { startedWallMs }),
    ...(finishedWallMs === undefined ? {} : { finishedWallMs }),
    retries,
    ...(hasExecution && each === undefined ? { executionId: executionIdOf(cluster, identifier) } : {}),
    ...(fanOut === undefined ? {} : { counts: fanOut.counts }),
    output: null,
    error,
  };
}

/** The same with outputs, and with retries of what is at work, read from executions. */
export async function withOutputs(
  view: ClusterView,
  executions: Pick<Executions, "execution">,
): Promise<ClusterView> {
  const reader = new OutputReader(view, executions);
  const members: MemberView[] = [];
  for (const member of view.members) members.push(await reader.filled(member));
  return { ...view, members };
}

class OutputReader {
  readonly #view: ClusterView;
  readonly #executions: Pick<Executions, "execution">;
  #charsLeft = OUTPUT_CHARS_MAX;

  constructor(view: ClusterView, executions: Pick<Executions, "execution">) {
    this.#view = view;
    this.#executions = executions;
  }

  async filled(member: MemberView): Promise<MemberView> {
    const { status, executionId, counts, identifier } = member;
    if (executionId !== undefined && (status === "pending" || status === "completed")) {
      const execution = await this.#execution(executionId);
      if (execution === undefined) return member;
      return { ...member, retries: execution.retries, output: this.#bounded(execution.output) };
    }
    const total = Object.values(counts ?? {}).reduce((sum, count) => sum + count, 0);
    if (counts === undefined || status === "pending" || total > ELEMENTS_SHOWN_MAX) return member;
    const outputs: Json[] = [];
    for (let index = 0; index < total; index += 1)
      outputs.push((await this.#execution(executionIdOf(this.#view, identifier, index)))?.output ?? null);
    return { ...member, output: this.#bounded(outputs) };
  }

  #bounded(output: Json): Json {
    if (output === null) return null;
    const { length } = JSON.stringify(output);
    if (length > this.#charsLeft) return null;
    this.#charsLeft -= length;
    return output;
  }

  #execution(id: string): Promise<ExecutionView | undefined> {
    return ifFound(this.#executions.execution(this.#view.project, id));
  }
}
