/**
 * The terms of a run for this call, and whether its input is the one that it began with.
 */

import { resolve } from "node:path";
import { PerigeeError } from "../../errors.ts";
import { volumeTokensOf } from "../../price/factor.ts";
import type { StoredTask } from "../../store/store.ts";
import type { EngineCore } from "../core.ts";
import type { Hold } from "../items/holds.ts";
import { isSameState, type OpenInput } from "./input.ts";
import { type CheckedKeys, checkKeys } from "./key_check.ts";
import { type AskedTerms, acceptedAt, withTerms } from "./run_terms.ts";
import type { TaskBody } from "./task_body.ts";
import { ownOutputPath } from "./task_files.ts";

/** What a call says of its input; see `RunOptions`. */
export interface AskedInput extends AskedTerms {
  readonly out?: string;
  readonly volumeTokens?: number;
  readonly update?: boolean;
  readonly prune?: boolean;
  readonly standIn?: Hold;
}

/** The task's terms, with the keys checked when this input has not been checked before. */
export async function checkedBody(
  { storage, measurer }: Pick<EngineCore, "storage" | "measurer">,
  input: OpenInput,
  options: AskedInput,
  task: StoredTask,
  before: TaskBody | undefined,
): Promise<{ readonly body: TaskBody; readonly checked?: CheckedKeys }> {
  const isKnown =
    before?.input !== undefined && input.identity !== undefined && isSameState(before.input, input.identity);
  const now = storage.clock.moment();
  if (before !== undefined && ((isKnown && !isPrunable(before, options)) || input.identity === undefined))
    return { body: before.status === "completed" ? before : withTerms(before, options, now) };
  const isTrusted = input.identity === undefined || options.standIn !== undefined;
  const checked = isTrusted ? undefined : await checkKeys(measurer, input);
  const keys = checked === undefined ? {} : keysOf(checked);
  const identity = input.identity === undefined ? {} : { input: input.identity };
  if (before !== undefined) {
    const isOther = before.inputChecksum !== checked?.inputChecksum || isPrunable(before, options);
    if (isOther && options.update === true && checked !== undefined)
      return { body: withTerms(before, options, now), checked };
    if (!isTrusted && before.inputChecksum !== checked?.inputChecksum) {
      throw otherInput(`${input.identity?.name} is not the file that this run began with`);
    }
    if (before.status === "completed") return { body: { ...before, ...identity } };
    return { body: { ...withTerms(before, options, now), ...identity, ...keys } };
  }
  const body: TaskBody = {
    version: 1,
    ...identity,
    ...keys,
    out: resolve(options.out ?? ownOutputPath(storage, task.id)),
    isOrdered: options.ordered === true,
    ...(options.format === undefined || options.format === "perigee" ? {} : { format: options.format }),
    ...(options.sla === undefined ? {} : { slaMinutes: options.sla }),
    ...acceptedAt(options.accepted ?? now),
    volumeTokens: options.volumeTokens ?? volumeTokensOf(input.identity?.sizeBytes),
    ...(options.model === undefined ? {} : { model: options.model }),
    status: "open",
  };
  return checked === undefined ? { body } : { body, checked };
}

function keysOf({ digests, ...keys }: CheckedKeys): Omit<CheckedKeys, "digests"> {
  return keys;
}

/** Throws `usage` for one that does nothing; `where` names the call. */
export function checkPrune({ update, prune }: AskedInput, where: string): void {
  if (prune !== true || update === true) return;
  throw new PerigeeError("usage", `${where}: prune works only with update: set update as well`);
}

/** Whether it has lines whose keys are no longer in the input, and is to lose them. */
export function isPrunable({ keptLines = 0 }: TaskBody, { update, prune }: AskedInput): boolean {
  return update === true && prune === true && keptLines > 0;
}

/** How a caller of the library answers an input that changed; a command has an option for it. */
export const CALL_WITH_UPDATE = "call run with update";

function otherInput(what: string): PerigeeError {
  return new PerigeeError(
    "input_changed",
    `${what}; put it back, ${CALL_WITH_UPDATE} to answer the new lines, or start over with another output`,
  );
}

/** Work that names itself and no output, and is followed step by step, is the engine's own: its input does not change. */
export function isUpdatable({
  id,
  out,
  onStep,
}: {
  readonly id?: string;
  readonly out?: string;
  readonly onStep?: unknown;
}): boolean {
  return id === undefined || out !== undefined || onStep === undefined;
}
