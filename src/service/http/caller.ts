/**
 * Who calls: the project and rights of an accepted key.
 */
import type { ExecutionCaller } from "../../satellites/sdk/execution.ts";

/** What a key may do. `admin` includes nothing else: it is for what concerns the whole service. */
export const SCOPES = [
  "infer:read",
  "infer:write",
  "files:read",
  "files:write",
  "satellites:run",
  "satellites:read",
  "satellites:write",
  "secrets:write",
  "admin",
] as const;

/** One thing that a key may do. */
export type Scope = (typeof SCOPES)[number];

/** The caller of a request, as a `KeyVerifier` returns it. */
export interface Caller {
  readonly keyId: string;
  /** The project of the key: all that it sees. */
  readonly project: string;
  readonly scopes: ReadonlySet<Scope>;
  /** May run vendor satellites. */
  readonly isBeta: boolean;
}

/** Who asks for an execution or a cluster. */
export function executionCaller({ project, keyId, isBeta }: Caller): ExecutionCaller {
  return { project, keyId, isBeta };
}
