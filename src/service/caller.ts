/**
 * Who calls: what a key that was accepted stands for.
 */

export type Scope =
  | "infer:read"
  | "infer:write"
  | "files:read"
  | "files:write"
  | "satellites:run"
  | "satellites:read"
  | "admin";

export interface Caller {
  readonly keyId: string;
  /** The project of the key: all that it sees. */
  readonly project: string;
  readonly scopes: ReadonlySet<Scope>;
  /** May run vendor satellites. */
  readonly isBeta: boolean;
}
