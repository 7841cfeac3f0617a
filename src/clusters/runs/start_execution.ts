/**
 * Submits the executions of members, each once: ids are derived, so one that exists already is taken over.
 *
 *   submit -> accepted | there already (looked up) | no place or space (again after a while) | refused
 */
import type { Clock } from "../../clock.ts";
import { ifFound, PerigeeError } from "../../errors.ts";
import type {
  ExecutionCaller,
  ExecutionRequest,
  Executions,
  ExecutionView,
} from "../../satellites/sdk/execution.ts";

/** After the runtime was full or the disk had no space: half to one and a half times as long. */
const AGAIN_MS = 1_000;

/** A refusal that is the member's failure: what it requests does not exist, is not allowed, or does not fit its satellite's schemas. */
const REFUSALS: Readonly<Record<string, string>> = {
  not_found: "satellite_not_found",
  forbidden: "forbidden",
  invalid_request: "invalid_input",
  usage: "invalid_input",
  too_large: "too_large",
};

export interface Starting {
  readonly clock: Clock;
  readonly executions: Pick<Executions, "submit" | "execution">;
  readonly caller: ExecutionCaller;
  /** Ends the waiting for space. */
  readonly signal: AbortSignal;
}

/** Throws refusals (`refusalCode`), the reason of the signal, and what the store throws. */
export async function startExecution(
  starting: Starting,
  request: ExecutionRequest & { readonly id: string },
): Promise<ExecutionView> {
  const { clock, executions, caller, signal } = starting;
  for (;;) {
    signal.throwIfAborted();
    try {
      return await executions.submit(caller, request);
    } catch (error) {
      const code = error instanceof PerigeeError ? error.code : undefined;
      if (code === "conflict") return await executions.execution(caller.project, request.id);
      if (code !== "too_many" && code !== "disk_full") throw error;
      await clock.sleep(AGAIN_MS * (0.5 + clock.random()), { signal });
    }
  }
}

/** Undefined when that id does not exist. */
export function startedExecution(
  { executions, caller }: Starting,
  id: string,
): Promise<ExecutionView | undefined> {
  return ifFound(executions.execution(caller.project, id));
}

/** The code of a member that was refused; undefined for errors that are not refusals. */
export function refusalCode(error: unknown): string | undefined {
  return error instanceof PerigeeError ? REFUSALS[error.code] : undefined;
}

/** What was wrong, with the first places. */
export function refusalText(error: unknown): string {
  if (!(error instanceof PerigeeError)) return "";
  const { issues } = error.details;
  if (!Array.isArray(issues)) return error.message;
  const [first] = issues as readonly { readonly path?: unknown; readonly message?: unknown }[]; // as `Executions` says
  if (first === undefined || error.message.includes(String(first.message))) return error.message;
  return `${error.message}: ${String(first.path)}: ${String(first.message)}`;
}
