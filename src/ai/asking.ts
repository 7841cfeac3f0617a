/**
 * Who answers calls: an engine in this process, or a service.
 */
import type { LibraryObject, LibraryTask } from "../engine/library.ts";
import type { FailureCode } from "../errors.ts";
import type { Item } from "../work/item.ts";
import { ModelCallError } from "./call_error.ts";
import type { CallNames } from "./call_names.ts";

/** The objects of a call, one for each of its items in their order, all with an answer. */
export interface AnsweredItems {
  readonly taskId: string;
  readonly objects: readonly LibraryObject[];
}

/** Port. */
export interface Asks {
  /** Of the calls of this process to it. */
  readonly names: CallNames;
  /**
   * Asks once for each name, however often it is called, in this process or later ones. Rejects with the reason of the signal at
   * once when that aborts, and sends nothing more of it then; with a `ModelCallError` when an item ends without an answer. The items of a call
   * have one sla; what of them was answered stays so when the call is made again.
   */
  ask(items: readonly Item[], name: string, signal: AbortSignal | undefined): Promise<AnsweredItems>;
}

/** The objects of a final task. Throws the error of the first one without an answer. */
export function answersIn({ taskId, objects }: LibraryTask): AnsweredItems {
  const index = objects.findIndex(({ status }) => status !== "completed");
  if (index < 0 && objects.length > 0) return { taskId, objects };
  const error = objects[index]?.error;
  if (error === undefined || error === null)
    throw new ModelCallError(`task ${taskId} ended without an answer`, { code: "internal_error", taskId });
  const { code, message, providerStatus } = error;
  const where = objects.length === 1 ? "" : `values[${index}]: `;
  throw new ModelCallError(`${where}${message}`, { code, statusCode: providerStatus, data: error, taskId });
}

/** The codes of the errors that a task has, each once: what is to run again of one that was found. */
export function errorCodesIn(objects: readonly LibraryObject[]): FailureCode[] {
  return [
    ...new Set(objects.flatMap(({ error }) => (error === undefined || error === null ? [] : [error.code]))),
  ];
}

/** Why a held object is not waited for; `message` is that of the hold, if it is known. */
export function heldError(taskId: string, { held }: LibraryObject, message?: string): ModelCallError {
  const whose = held?.provider === undefined ? "" : ` (provider "${held.provider}")`;
  const reason = held?.reason ?? "unknown";
  return new ModelCallError(message ?? `the call is held: ${reason}${whose}`, {
    code: held?.code ?? reason,
    statusCode: held?.providerStatus,
    data: held,
    taskId,
  });
}
