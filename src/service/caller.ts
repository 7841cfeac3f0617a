/**
 * Who calls: what a key that was accepted stands for.
 */

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

export type Scope = (typeof SCOPES)[number];

export interface Caller {
  readonly keyId: string;
  /** The project of the key: all that it sees. */
  readonly project: string;
  readonly scopes: ReadonlySet<Scope>;
  /** May run vendor satellites. */
  readonly isBeta: boolean;
}
