/**
 * A satellite that runs another one: the other is an execution of its own, found again by an id that follows from the first.
 *
 *   asked for -> submitted (or found, when an earlier attempt had done so) -> final -> its output, or its failure
 *        \-> refused: not of this project, too deep, no satellite of that name
 *
 * Only satellites of the project's own namespace may do so (interface 2.11): others would use what is only the project's. What
 * they pass on names no secrets; a configured satellite has those that it needs.
 *
 * Who waits holds no place, so that those who are waited for find one. Limits: 4 deep, 1,000 that wait at once, 250 of one
 * project.
 */
import { PerigeeError } from "../../errors.ts";
import { derivedId } from "../../work/derived_id.ts";
import type { JsonObject } from "../../work/json.ts";
import type { Executions, ExecutionView } from "../sdk/execution.ts";
import { parseReference } from "../sdk/reference.ts";
import type { OtherExecution } from "../sdk/satellite.ts";
import { SatelliteError } from "../sdk/satellite_error.ts";
import { untilFinal } from "../sdk/until_final.ts";
import type { ExecutionFacts } from "./execution_record.ts";

const DEPTH_MAX = 4;
const WAITING_MAX = 1_000;
const PROJECT_WAITING_MAX = 250;
const BUSY_MS = 5_000;

type Facts = Pick<
  ExecutionFacts,
  "id" | "project" | "satellite" | "sla" | "deadlineWallMs" | "keyId" | "isBeta" | "parent"
>;

export interface ExecuteOptions {
  readonly signal: AbortSignal;
  /** It waits from now on. */
  readonly onWait: () => void;
}

/** One for a process. */
export class OtherExecutions {
  readonly #executions: Pick<Executions, "submit" | "execution" | "cancel" | "onFinished">;
  #waiting = 0;
  readonly #waitingOf = new Map<string, number>();

  constructor(executions: Pick<Executions, "submit" | "execution" | "cancel" | "onFinished">) {
    this.#executions = executions;
  }

  /**
   * The output of the other one. Throws `SatelliteError`: `permanent` with the other's code when it failed, and for what may not
   * be run; `refused` when too many wait. Aborting cancels the other one, but for a process that closes.
   */
  async execute(
    facts: Facts,
    name: string,
    wanted: OtherExecution,
    options: ExecuteOptions,
  ): Promise<JsonObject> {
    if (facts.satellite.namespace !== facts.project)
      throw refused("not_available", "only satellites of the project's own run others");
    if ((facts.parent?.depth ?? 0) >= DEPTH_MAX)
      throw refused("too_deep", `satellites run each other at most ${DEPTH_MAX} deep`);
    const { project } = facts;
    if (this.#waiting >= WAITING_MAX || (this.#waitingOf.get(project) ?? 0) >= PROJECT_WAITING_MAX)
      throw new SatelliteError("refused", "too_many", "too many satellites wait for others", {
        retryAfterMs: BUSY_MS,
      });
    const id = derivedId(facts.id, `execute ${name}`);
    this.#count(project, 1);
    try {
      await this.#submit(facts, id, wanted);
      return outputOf(await this.#final(project, id, options), wanted.satellite);
    } finally {
      this.#count(project, -1);
    }
  }

  #count(project: string, change: number): void {
    this.#waiting += change;
    const waiting = (this.#waitingOf.get(project) ?? 0) + change;
    if (waiting === 0) this.#waitingOf.delete(project);
    else this.#waitingOf.set(project, waiting);
  }

  async #submit(facts: Facts, id: string, { satellite, input, config = {} }: OtherExecution): Promise<void> {
    const reference = parseReference(satellite);
    if (reference === undefined)
      throw refused("not_found", "a satellite is named satellite/<namespace>/<name>");
    const { project, keyId, isBeta, sla, deadlineWallMs, parent } = facts;
    try {
      await this.#executions.submit(
        { project, keyId, isBeta },
        {
          ...{ id, satellite: reference, input, config, sla, deadlineWallMs, secretPaths: [] },
          parent: { executionId: facts.id, depth: (parent?.depth ?? 0) + 1 },
        },
      );
    } catch (error) {
      if (!(error instanceof PerigeeError)) throw error;
      const { code, message } = error;
      if (code === "conflict") return; // by an earlier attempt
      if (code === "too_many" || code === "disk_full")
        throw new SatelliteError("refused", code, message, { cause: error, retryAfterMs: BUSY_MS });
      if (code === "closed" || code === "store_failed") throw error;
      throw refused(code, message, error);
    }
  }

  #final(project: string, id: string, { signal, onWait }: ExecuteOptions): Promise<ExecutionView> {
    const executions = this.#executions;
    const other = {
      listen: (tell: (view: ExecutionView) => void) =>
        executions.onFinished((view) => {
          if (view.id === id) tell(view);
        }),
      look: async () => {
        const now = await executions.execution(project, id);
        return now.status === "pending" ? undefined : now;
      },
      cancel: () => executions.cancel(project, id),
    };
    return untilFinal(other, signal, onWait);
  }
}

function outputOf({ status, output, error }: ExecutionView, satellite: string): JsonObject {
  if (status === "completed" && output !== null) return output;
  throw refused(error?.code ?? status, `${satellite}: ${error?.message ?? status}`);
}

function refused(code: string, message: string, cause?: unknown): SatelliteError {
  return new SatelliteError("permanent", code, message, cause === undefined ? {} : { cause });
}
