/**
 * Where `run` and `quote` of all outputs keep what was learnt about providers: one folder of the user.
 */
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { PerigeeError } from "../../errors.ts";

/** `--state` and `--no-learn`, as commander passes them. */
export interface StateArguments {
  readonly state?: string;
  /** False with `--no-learn`. */
  readonly learn?: boolean;
}

/**
 * The folder for what is learnt about providers; false to keep nothing. Throws `usage` if `--state` and `--no-learn` are both
 * set. A relative `XDG_STATE_HOME` is ignored, as the XDG Base Directory Specification requires.
 */
export function stateFolder(
  { state, learn }: StateArguments,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string | false {
  if (learn === false && state !== undefined)
    throw new PerigeeError("usage", "--state and --no-learn contradict each other: leave one of them out");
  if (learn === false) return false;
  if (state !== undefined) return state;
  const home = env["XDG_STATE_HOME"];
  const folder = home !== undefined && isAbsolute(home) ? home : join(homedir(), ".local", "state");
  return join(folder, "perigee");
}
